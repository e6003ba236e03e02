"""What a processor gets from its context, and what it is told when it asks for what is not there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dsl import Grouped, Materialized, StreamsBuilder
from processor_api.errors import ProcessingError, TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import FixedKeyRecord, Record, RecordMetadata, TimestampType
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.runtime.processing.context import forward_to

S = Serdes.STRING
PLACE = {"topic": "in", "partition": 0, "offset": 0, "task": "0_0", "node": "mine", "key": "k"}


class Scripted(Processor[Any, Any, Any, Any]):
    """Does what the test says."""

    def __init__(
        self,
        process: Callable[[Scripted, Record[Any, Any]], None] = lambda processor, record: None,
        init: Callable[[Scripted], None] = lambda processor: None,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._process, self._init, self._close = process, init, close

    def init(self, context: Any) -> None:
        super().init(context)
        self._init(self)

    def process(self, record: Record[Any, Any]) -> None:
        self._process(self, record)

    def close(self) -> None:
        self._close()


def scripted(*children: str, store: bool = False, **does: Any) -> Topology:
    """``in`` -> mine -> a sink for each child."""
    topology = Topology().add_source("source", "in").add_processor("mine", lambda: Scripted(**does), "source")
    for child in children:
        topology.add_sink(child, f"to-{child}", "mine")
    if store:
        builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), S, S)
        topology.add_state_store(builder, "mine")
    return topology


# -------------------------------------------------------------------------- forwarding


def test_a_record_goes_to_all_children_or_to_the_one_that_is_named(tmp_path: Path) -> None:
    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.forward(record.with_value("all"))
        processor.context.forward(record.with_value("one"), "b")

    with TaskKit(scripted("a", "b", "c", process=process), tmp_path) as kit:
        kit.pipe("in", b"k", b"v", 5)
        assert [value for _, value, _ in kit.sent("to-a")] == [b"all"]
        assert [value for _, value, _ in kit.sent("to-b")] == [b"all", b"one"]
        assert [value for _, value, _ in kit.sent("to-c")] == [b"all"]


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_children_are_called_in_order(count: int) -> None:
    """Whatever their number, with the same record."""
    called: list[tuple[int, Any]] = []

    def child(number: int) -> Callable[..., None]:
        return lambda *record: called.append((number, record))

    forward_to([child(i) for i in range(count)])("k", "v", 5, [("h", b"1")])
    assert called == [(i, ("k", "v", 5, [("h", b"1")])) for i in range(count)]


@pytest.mark.parametrize(("children", "known"), [((), "none"), (("a", "b"), "a, b")])
def test_an_unknown_child_is_named_with_those_there_are(children: tuple[str, ...], known: str, tmp_path: Path) -> None:
    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.forward(record, "z")

    with TaskKit(scripted(*children, process=process), tmp_path) as kit, pytest.raises(ProcessingError) as caught:
        kit.pipe("in", b"k", b"v", 5)
    assert f"node 'mine' does not have child 'z'; its children are: {known}" in str(caught.value)
    assert caught.value.place() == PLACE


def test_after_a_forward_the_context_is_that_of_the_record_again(tmp_path: Path) -> None:
    """Children see the timestamp and headers of what was forwarded (semantics 20): a store logs with them."""

    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        store = processor.context.get_state_store("store")
        store.put("before", "x")
        processor.context.forward(record.with_timestamp(99))
        store.put("after", "x")

    def inner(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.get_state_store("store").put("inside", "x")

    topology = scripted(store=True, process=process).add_processor("inner", lambda: Scripted(inner), "mine")
    topology.connect_processor_and_state_stores("inner", "store")
    with TaskKit(topology, tmp_path) as kit:
        kit.pipe("in", b"k", b"v", 5)
        kit.commit()
        times = {key: timestamp for key, _, timestamp in kit.sent("app-store-changelog")}
    assert times == {b"before": 5, b"inside": 99, b"after": 5}


def test_a_processor_with_a_fixed_key_gets_its_own_kind_of_record(tmp_path: Path) -> None:
    class Upper(FixedKeyProcessor[str, str, str]):
        def process(self, record: FixedKeyRecord[str, str]) -> None:
            assert type(record) is FixedKeyRecord
            self.context.forward(record.with_value(record.value.upper()))

    topology = (
        Topology().add_source("source", "in").add_processor("mine", Upper, "source").add_sink("out", "out", "mine")
    )
    with TaskKit(topology, tmp_path) as kit:
        kit.pipe("in", b"k", b"v", 5)
        assert kit.sent("out") == [(b"k", b"V", 5)]


def test_a_processor_with_a_fixed_key_cannot_forward_another(tmp_path: Path) -> None:
    class Renames(FixedKeyProcessor[str, str, str]):
        def process(self, record: FixedKeyRecord[str, str]) -> None:
            self.context.forward(Record("other", record.value, record.timestamp))  # type: ignore[arg-type]

    topology = (
        Topology().add_source("source", "in").add_processor("mine", Renames, "source").add_sink("out", "out", "mine")
    )
    with TaskKit(topology, tmp_path) as kit, pytest.raises(ProcessingError) as caught:
        kit.pipe("in", b"k", b"v", 5)
    assert "a FixedKeyProcessor must forward the record that it received" in str(caught.value)
    assert "to change the key, use a Processor" in str(caught.value)
    assert caught.value.place() == PLACE
    assert kit.sent("out") == []


# -------------------------------------------------------------------------- stores


def test_a_store_that_is_not_connected_is_named(tmp_path: Path) -> None:
    """At the first record, with its place, or in ``init``, with the node."""

    def ask(processor: Scripted, record: Any = None) -> None:
        processor.context.get_state_store("elsewhere")

    with TaskKit(scripted(process=ask), tmp_path / "1") as kit, pytest.raises(ProcessingError) as caught:
        kit.pipe("in", b"k", b"v", 5)
    assert "store 'elsewhere' is not connected to node 'mine'; connect it with add_state_store" in str(caught.value)
    assert caught.value.place() == PLACE
    with TaskKit(scripted(init=ask), tmp_path / "2", start=False) as kit, pytest.raises(TopologyError) as early:
        kit.task.start(kit.collector, {})
    assert early.value.place() == {"task": "0_0", "node": "mine", "store": "elsewhere"}


@pytest.mark.parametrize(("put", "part"), [((5, "v"), "key"), (("k", 5), "value")])
def test_what_a_store_cannot_hold_fails_at_the_put(put: tuple[Any, Any], part: str, tmp_path: Path) -> None:
    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.get_state_store("store").put(*put)

    with TaskKit(scripted(store=True, process=process), tmp_path) as kit:
        with pytest.raises(ProcessingError, match=f"store 'store': the string serde cannot write the {part}") as caught:
            kit.pipe("in", b"k", b"v", 5)
        assert caught.value.place() == PLACE
        assert list(kit.store("store").all()) == []


# -------------------------------------------------------------------------- metadata, time


def test_metadata_is_that_of_the_source_record(tmp_path: Path) -> None:
    """Absent in ``init``, without a topic in a punctuation (semantics 20)."""
    seen: list[RecordMetadata | None] = []

    def init(processor: Scripted) -> None:
        seen.append(processor.context.record_metadata)
        for kind in PunctuationType:
            processor.context.schedule(1000, kind, lambda now: seen.append(processor.context.record_metadata))

    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        seen.append(processor.context.record_metadata)

    with TaskKit(scripted(init=init, process=process), tmp_path) as kit:
        kit.clock.advance(1000)
        kit.task.punctuate_wall_clock()
        kit.pipe("in", b"k", b"v", 5)
    nothing = RecordMetadata(None, -1, -1)
    assert seen == [None, nothing, RecordMetadata("in", 0, 0, TimestampType.CREATE_TIME, 5), nothing]


def test_the_context_knows_its_application_and_its_time(tmp_path: Path) -> None:
    seen: list[Any] = []

    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        context = processor.context
        seen.append((context.application_id, context.task_id, context.state_dir, context.key_serde))
        seen.append((context.current_stream_time_ms(), context.current_system_time_ms()))
        seen.append(context.app_configs()["commit.interval.ms"])

    def init(processor: Scripted) -> None:
        seen.append(processor.context.current_stream_time_ms())

    with TaskKit(scripted(init=init, process=process), tmp_path, {"commit.interval.ms": 7}) as kit:
        kit.clock.advance(1234)
        kit.pipe("in", b"k", b"v", 50)
        kit.pipe("in", b"k", b"v", 40)
    assert seen[:2] == [-1, ("app", TaskId(0, 0), tmp_path / "0_0", S)]
    assert seen[2] == seen[5] == (50, 1234)
    assert seen[3] == 7


def test_a_commit_is_asked_for_until_it_was_done(tmp_path: Path) -> None:
    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.commit()

    with TaskKit(scripted(process=process), tmp_path) as kit:
        assert not kit.environment.users.commit_requested
        kit.pipe("in", b"k", b"v")
        assert kit.environment.users.commit_requested
        kit.commit()
        assert not kit.environment.users.commit_requested


# -------------------------------------------------------------------------- schedules


@pytest.mark.parametrize("interval", [0, -1, timedelta(0)])
def test_an_interval_below_a_millisecond_names_the_node(interval: Any, tmp_path: Path) -> None:
    """In ``init``, where it fails the start, and later, where it fails the record."""

    def schedule(processor: Scripted, record: Any = None) -> None:
        processor.context.schedule(interval, PunctuationType.STREAM_TIME, lambda now: None)

    says = "node 'mine': a punctuation's interval must be at least 1 ms"
    with TaskKit(scripted(init=schedule), tmp_path / "1", start=False) as kit:
        with pytest.raises(ProcessingError, match=says) as early:
            kit.task.start(kit.collector, {})
        assert early.value.place() == {"task": "0_0", "node": "mine"}
    with TaskKit(scripted(process=schedule), tmp_path / "2") as kit:
        with pytest.raises(ProcessingError, match=says) as caught:
            kit.pipe("in", b"k", b"v")
        assert caught.value.place() == PLACE


def test_an_interval_of_no_duration_is_refused(tmp_path: Path) -> None:
    def init(processor: Scripted) -> None:
        processor.context.schedule("1s", PunctuationType.STREAM_TIME, lambda now: None)  # type: ignore[arg-type]

    with TaskKit(scripted(init=init), tmp_path, start=False) as kit, pytest.raises(ProcessingError) as caught:
        kit.task.start(kit.collector, {})
    assert "interval must be a timedelta or integer milliseconds, got '1s'" in str(caught.value)


def test_a_punctuation_forwards_with_its_own_time(tmp_path: Path) -> None:
    """And an error in it has no source record to name."""

    def init(processor: Scripted) -> None:
        def punctuate(now: int) -> None:
            if now > 2000:
                raise ValueError("late")
            processor.context.get_state_store("store").put("k", "v")
            processor.context.forward(Record("p", "v", now + 1))

        processor.context.schedule(timedelta(seconds=1), PunctuationType.WALL_CLOCK_TIME, punctuate)

    with TaskKit(scripted("a", store=True, init=init), tmp_path) as kit:
        kit.clock.advance(1500)
        assert kit.task.punctuate_wall_clock()
        assert kit.task.commit_needed
        assert not kit.task.punctuate_wall_clock()
        kit.commit()
        assert kit.sent("to-a") == [(b"p", b"v", 1501)]
        assert kit.sent("app-store-changelog") == [(b"k", b"v", 1500)]
        kit.clock.advance(1000)
        with pytest.raises(ProcessingError, match="ValueError in a punctuation of node 'mine': late") as caught:
            kit.task.punctuate_wall_clock()
    assert caught.value.place() == {"task": "0_0", "node": "mine"}


# -------------------------------------------------------------------------- life


def test_an_init_that_fails_names_the_processor(tmp_path: Path) -> None:
    def init(processor: Scripted) -> None:
        raise OSError("no model file")

    with TaskKit(scripted(init=init), tmp_path, start=False) as kit, pytest.raises(ProcessingError) as caught:
        kit.task.start(kit.collector, {})
    assert "processor 'mine' could not be initialised: OSError: no model file" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


def test_a_processor_that_is_fed_by_an_operator_logs_with_the_time_of_its_record(tmp_path: Path) -> None:
    """An operator may have changed it: a count's result has the largest timestamp of the key's records."""

    def process(processor: Scripted, record: Record[Any, Any]) -> None:
        processor.context.get_state_store("store").put(record.key, "x")

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("store"), S, S))
    counts = builder.stream("in").group_by_key(Grouped(key_serde=S, value_serde=S))
    table = counts.count(materialized=Materialized(name="n", key_serde=S, value_serde=Serdes.LONG, caching=False))
    table.to_stream().process(lambda: Scripted(process), "store")
    with TaskKit(builder.build({}), tmp_path) as kit:
        for timestamp in (50, 40):
            kit.pipe("in", b"k", b"v", timestamp)
            kit.commit()
        assert [timestamp for _, _, timestamp in kit.sent("app-store-changelog")] == [50, 50]
