"""Nodes become functions: in which order they are made, initialised, called and closed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ConfigError, DeserializationError, ProcessingError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit

S = Serdes.STRING


class Telling(Processor[Any, Any, Any, Any]):
    """Tells what happens to it."""

    def __init__(self, name: str, told: list[str], fails: str = "") -> None:
        self.name, self.told, self.fails = name, told, fails

    def _tell(self, what: str) -> None:
        self.told.append(f"{what} {self.name}")
        if what == self.fails:
            raise ValueError(f"{what} of {self.name} failed")

    def init(self, context: Any) -> None:
        super().init(context)
        self._tell("init")

    def process(self, record: Record[Any, Any]) -> None:
        self._tell("process")
        self.context.forward(record)

    def close(self) -> None:
        self._tell("close")


def diamond(told: list[str], fails: dict[str, str] | None = None) -> Topology:
    """``in`` -> a -> (b, c) -> d"""
    fails = fails or {}
    topology = Topology().add_source("source", "in")
    for name, parents in (("a", ["source"]), ("b", ["a"]), ("c", ["a"]), ("d", ["b", "c"])):
        topology.add_processor(name, lambda name=name: Telling(name, told, fails.get(name, "")), *parents)  # type: ignore[misc]
    return topology


def test_parents_are_initialised_first_and_records_go_depth_first(tmp_path: Path) -> None:
    """Children in the order in which they were added."""
    told: list[str] = []
    with TaskKit(diamond(told), tmp_path) as kit:
        assert [each for each in told if each.startswith("init")] == ["init a", "init b", "init c", "init d"]
        told.clear()
        kit.pipe("in", b"k", b"v")
        assert told == ["process a", "process b", "process d", "process c", "process d"]
        told.clear()
        kit.task.close()
        assert sorted(told) == ["close a", "close b", "close c", "close d"]


def test_every_processor_is_closed_and_the_first_error_is_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With its node; the others are logged, as are all of a dirty close, which has an error already."""
    told: list[str] = []
    failed = {f"processor {name!r} could not be closed: ValueError: close of {name} failed" for name in "bc"}
    for dirty in (False, True):
        told.clear()
        caplog.clear()
        raised: set[str] = set()
        with TaskKit(diamond(told, {"b": "close", "c": "close"}), tmp_path / str(dirty)) as kit:
            if dirty:
                kit.task.close(dirty=True)
            else:
                with pytest.raises(ProcessingError, match="could not be closed") as caught:
                    kit.task.close()
                assert (caught.value.task, isinstance(caught.value.__cause__, ValueError)) == ("0_0", True)
                assert caught.value.node in ("b", "c")
                raised = {caught.value.message}
            assert sum(each.startswith("close") for each in told) == 4
            assert kit.task.stores.engines == {}
        logged = [vars(record)["error"].partition(" [")[0] for record in caplog.records]
        assert sorted([*raised, *logged]) == sorted(failed)


def test_a_failing_init_stops_the_start(tmp_path: Path) -> None:
    """What was made is closed with the task."""
    told: list[str] = []
    with TaskKit(diamond(told, {"b": "init"}), tmp_path, start=False) as kit:
        with pytest.raises(ProcessingError, match="processor 'b' could not be initialised") as caught:
            kit.task.start(kit.collector, {})
        assert (caught.value.node, caught.value.task) == ("b", "0_0")
        assert told == ["init a", "init b"]


def test_a_source_of_several_topics_has_one_chain(tmp_path: Path) -> None:
    """Each topic is read with the serdes bound to it."""
    bound: list[tuple[str, bool]] = []

    class Binding(Serde[str]):
        def bind(self, topic: str, *, is_key: bool) -> Serde[str]:
            bound.append((topic, is_key))
            return self

    serde = Binding(str.encode, bytes.decode)
    told: list[str] = []
    topology = Topology().add_source("source", "one", "two", key_serde=serde, value_serde=serde)
    topology.add_processor("a", lambda: Telling("a", told), "source").add_sink("out", "out", "a", value_serde=serde)
    with TaskKit(topology, tmp_path) as kit:
        assert sorted(bound) == [("one", False), ("one", True), ("out", False), ("two", False), ("two", True)]
        told.clear()
        kit.pipe("one", b"k", b"1", 1)
        kit.pipe("two", b"k", b"2", 2)
        assert told == ["process a", "process a"]
        assert [value for _, value, _ in kit.sent("out")] == [b"1", b"2"]


@pytest.mark.parametrize(
    ("topology", "says"),
    [
        (lambda: Topology().add_source("s", "in"), "source 's' has no key serde"),
        (lambda: Topology().add_source("s", "in", key_serde=S), "source 's' has no value serde"),
        (
            lambda: Topology().add_source("s", "in", key_serde=S, value_serde=S).add_sink("k", "out", "s"),
            "sink 'k' has no key serde",
        ),
    ],
)
def test_a_missing_serde_names_the_node(topology: Callable[[], Topology], says: str, tmp_path: Path) -> None:
    config = {"default.key.serde": None, "default.value.serde": None}
    with TaskKit(topology(), tmp_path, config, start=False) as kit, pytest.raises(ConfigError, match=says):
        kit.task.start(kit.collector, {})


def test_a_record_that_cannot_be_read_names_its_place(tmp_path: Path) -> None:
    topology = Topology().add_source("source", "in", value_serde=Serdes.LONG)
    with TaskKit(topology, tmp_path) as kit:
        kit.pipe("in", b"k", b"12345678")
        with pytest.raises(DeserializationError, match="long: expected 8 bytes, got 1") as caught:
            kit.pipe("in", b"k", b"1")
    assert caught.value.place() == {"topic": "in", "partition": 0, "offset": 1, "task": "0_0", "node": "source"}


def test_a_dynamic_sink_makes_each_topic_when_it_is_first_named(tmp_path: Path) -> None:
    """With the sink's serdes; internal names are the user's own business."""
    topology = Topology().add_source("source", "in")
    topology.add_sink("sink", lambda key, value, context: f"to-{value}-{context.offset}", "source")
    with TaskKit(topology, tmp_path) as kit:
        for value in (b"a", b"b"):
            kit.pipe("in", b"k", value, 7)
        assert kit.sent("to-a-0") == [(b"k", b"a", 7)]
        assert kit.sent("to-b-1") == [(b"k", b"b", 7)]


def late(fails: Callable[[], Any]) -> Callable[[], Any]:
    """A supplier that fails once the topology is built."""
    made: list[Any] = []

    def supply() -> Any:
        made.append(None)
        return Telling("p", []) if len(made) <= 2 else fails()

    return supply


def test_a_supplier_that_fails_says_where(tmp_path: Path) -> None:
    def fails() -> Any:
        raise KeyError("oops")

    topology = Topology().add_source("source", "in").add_processor("p", late(fails), "source")
    with pytest.raises(ProcessingError, match="the supplier of processor 'p' failed: KeyError: 'oops'") as caught:
        TaskKit(topology, tmp_path)
    assert (caught.value.node, caught.value.task) == ("p", "0_0")
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(TopologyError, match="the supplier of processor 'p' failed: KeyError: 'oops'") as at_build:
        Topology().add_source("source", "in").add_processor("p", fails, "source")
    assert at_build.value.node == "p"


def test_a_supplier_must_make_processors(tmp_path: Path) -> None:
    """Also the third time."""
    topology = Topology().add_source("source", "in").add_processor("p", late(lambda: None), "source")
    with pytest.raises(ProcessingError, match="processor 'p' made None, which is neither a Processor nor a FixedKey"):
        TaskKit(topology, tmp_path)


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_serde_that_cannot_be_bound_says_where(part: str, tmp_path: Path) -> None:
    class Unbindable(Serde[Any]):
        def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
            raise KeyError(topic)

    broken = Unbindable(bytes, bytes, name="broken")
    topology = Topology().add_source("source", "in", **{f"{part}_serde": broken})
    with pytest.raises(
        TopologyError, match=f"the {part} serde of source 'source' cannot be used for topic 'in'"
    ) as caught:
        TaskKit(topology, tmp_path)
    assert (caught.value.topic, caught.value.task) == ("in", "0_0")
