"""The context for one processor alone: it does what the runtime's does, and keeps what the processor did."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.context import ProcessorContext
from processor_api.errors import ConfigError, StoreError, TopologyError
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import FixedKeyRecord, Record, RecordMetadata, TimestampType
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from streams.testing import CapturedForward, CapturedPunctuator, MockProcessorContext, TopologyTestDriver

TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
BUILDER = Stores.key_value_store_builder(
    Stores.persistent_key_value_store("counts"), Serdes.STRING, Serdes.LONG
).with_caching_enabled()


class Count(Processor[str, str, str, int]):
    """Counts by key; tells the counts of the interval by stream time, and commits at each tenth."""

    @classmethod
    def stores(cls) -> list[Any]:
        return [BUILDER]

    def init(self, context: ProcessorContext[str, int]) -> None:
        super().init(context)
        self.counts = context.get_state_store("counts")
        self.schedule = context.schedule(timedelta(seconds=10), PunctuationType.STREAM_TIME, self.tell, start_time=5)
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, lambda now: self.schedule.cancel())

    def process(self, record: Record[str, str]) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        if count % 10 == 0:
            self.context.commit()
            self.context.forward(Record(record.key, count, record.timestamp), "tenths")

    def tell(self, now_ms: int) -> None:
        with self.counts.all() as rows:
            for key, count in rows:
                self.context.forward(Record(key, count, now_ms))


def test_forwards_are_kept_with_their_child() -> None:
    """Those to all children count for each."""
    context = MockProcessorContext(stores=[BUILDER], children=["tenths", "others"])
    processor = Count()
    processor.init(context)
    for number in range(10):
        assert not context.committed
        processor.process(Record("k", "v", number))
    assert context.committed
    assert context.forwards == [CapturedForward(Record("k", 10, 9), "tenths")]
    context.punctuators[0].punctuate(50)
    assert context.forwarded() == [Record("k", 10, 9), Record("k", 10, 50)]
    assert context.forwarded("tenths") == [Record("k", 10, 9), Record("k", 10, 50)]
    assert context.forwarded("others") == [Record("k", 10, 50)]
    context.reset_forwards()
    context.reset_commit()
    assert (context.forwards, context.committed) == ([], False)


def test_punctuations_run_when_the_test_says_so() -> None:
    context = MockProcessorContext(stores=[BUILDER])
    Count().init(context)
    by_stream, by_wall_clock = context.punctuators
    assert (by_stream.interval_ms, by_stream.type, by_stream.start_time_ms) == (
        10_000, PunctuationType.STREAM_TIME, 5,
    )  # fmt: skip
    assert (by_wall_clock.interval_ms, by_wall_clock.start_time_ms) == (100, None)
    by_wall_clock.punctuate(100)
    assert by_stream.cancelled
    assert not by_wall_clock.cancelled
    with pytest.raises(ValueError, match="this punctuation was cancelled"):
        by_stream.punctuate(10_000)
    assert repr(by_stream) == "CapturedPunctuator(every 10000 ms by STREAM_TIME, cancelled)"


def test_a_punctuation_is_refused_as_by_the_runtime() -> None:
    context = MockProcessorContext()
    for interval, start, wrong in ((0, None, "interval"), (timedelta(0), None, "interval"), (1, -1, "start time")):
        with pytest.raises(ValueError, match=wrong):
            context.schedule(interval, PunctuationType.STREAM_TIME, print, start_time=start)
    assert context.punctuators == []


def test_a_forward_is_kept_as_it_was() -> None:
    """Also when the processor goes on changing the record or its headers."""

    class Reusing(FixedKeyProcessor[str, Any, Any]):
        def process(self, record: FixedKeyRecord[str, Any]) -> None:
            for number in range(2):
                record.headers.add("n", b"%d" % number)
                record.value = number
                self.context.forward(record)

    context = MockProcessorContext()
    processor = Reusing()
    processor.init(context)
    processor.process(FixedKeyRecord("k", None, 3))
    assert context.forwarded() == [
        FixedKeyRecord("k", 0, 3, [("n", b"0")]), FixedKeyRecord("k", 1, 3, [("n", b"0"), ("n", b"1")]),
    ]  # fmt: skip


def test_what_cannot_be_forwarded() -> None:
    context = MockProcessorContext(children=["one"])
    with pytest.raises(TopologyError, match="does not have child 'two'; its children are: one"):
        context.forward(Record("k", "v", 0), "two")
    with pytest.raises(TopologyError, match="does not have child 'two'"):
        context.forwarded("two")
    with pytest.raises(TypeError, match=r"must forward a Record or a FixedKeyRecord, got \('k', 'v'\)"):
        context.forward(("k", "v"))  # type: ignore[arg-type]
    assert context.forwards == []


def test_times_are_set_by_hand() -> None:
    context = MockProcessorContext()
    assert (context.current_stream_time_ms(), context.current_system_time_ms()) == (-1, 0)
    context.set_current_stream_time_ms(7)
    context.set_current_system_time_ms(datetime(1970, 1, 2, tzinfo=UTC))
    assert (context.current_stream_time_ms(), context.current_system_time_ms()) == (7, 86_400_000)


def test_the_record_in_work_is_set_by_hand() -> None:
    """``None`` at first, as in ``init``; in a punctuation there is no topic."""
    context = MockProcessorContext()
    assert context.record_metadata is None
    context.set_record_metadata("in", 3, 17, timestamp=99, headers=[("h", b"1")])
    assert context.record_metadata == RecordMetadata("in", 3, 17, TimestampType.CREATE_TIME, 99)
    context.clear_record_metadata()
    assert context.record_metadata == RecordMetadata(None, -1, -1)


def test_stores_are_those_of_the_runtime_in_memory() -> None:
    """Neither logged nor cached whatever their builder says; a supplier's are added from it."""
    context = MockProcessorContext(TEXT)
    context.add_stores_of(Count)
    timed = context.add_state_store(
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("timed"))
    )
    timed.put("k", ValueAndTimestamp("v", 4))
    counts = context.get_state_store("counts")
    assert not counts.persistent
    counts.put("b", 2)
    counts.put("a", 1)
    with counts.all() as rows:
        assert list(rows) == [("a", 1), ("b", 2)]
    with pytest.raises(StoreError, match="the long serde cannot write the value"):
        counts.put("a", "text")
    context.close()
    with pytest.raises(StoreError, match="store 'timed' is closed"):
        timed.get("k")


def test_many_rows_stay_readable() -> None:
    context = MockProcessorContext(stores=[BUILDER])
    counts = context.get_state_store("counts")
    for number in range(5000):
        counts.put(f"{number % 1000:04}", number)
    assert [count for _, count in counts.range("0000", "0004")] == [4000, 4001, 4002, 4003, 4004]


def test_a_store_of_the_test_s_own() -> None:
    class Fake:
        name = "fake"

    context = MockProcessorContext()
    fake = Fake()
    assert context.add_state_store(fake) is fake
    assert context.get_state_store("fake") is fake
    with pytest.raises(TopologyError, match="the context already has a store 'fake'"):
        context.add_state_store(fake)
    with pytest.raises(TopologyError, match=r"no store 'fakes' was added by add_state_store; did you mean 'fake'\?"):
        context.get_state_store("fakes")


def test_a_store_without_a_serde_is_told() -> None:
    supplier = Stores.in_memory_key_value_store("s")
    with pytest.raises(ConfigError, match=r"store 's' has no key serde .* default\.key\.serde"):
        MockProcessorContext(stores=[Stores.key_value_store_builder(supplier)])


def test_settings_and_place(tmp_path: Path) -> None:
    """As given; the state directory is a temporary one unless it is given."""
    context = MockProcessorContext({**TEXT, "application_id": "app", "commit.interval.ms": 7}, task_id=TaskId(1, 2))
    assert (context.application_id, context.task_id) == ("app", TaskId(1, 2))
    assert context.app_configs()["commit.interval.ms"] == 7
    assert (context.key_serde, context.value_serde) == (Serdes.STRING, Serdes.STRING)
    assert context.state_dir.is_dir()
    made = context.state_dir
    del context
    assert not made.exists()
    assert MockProcessorContext(state_dir=tmp_path).state_dir == tmp_path


def test_it_has_all_that_a_processor_s_context_has() -> None:
    """What the runtime's context gives to processors, this one gives too, and its names are those of the contract."""
    seen: list[Any] = []

    class Looking(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            seen.append(context)

        def process(self, record: Record[Any, Any]) -> None: ...

    topology = Topology().add_source("from", "in").add_processor("looking", Looking, "from")
    with TopologyTestDriver(topology, TEXT):
        public = {name for name in dir(seen[0]) if not name.startswith("_")}
        public.remove("bind_operator")  # for wrapped operators of the DSL, which run in a task only
    assert public <= set(dir(MockProcessorContext()))
    declared: ProcessorContext[Any, Any] = MockProcessorContext()
    handle = declared.schedule(1, PunctuationType.STREAM_TIME, print)
    handle.cancel()
    assert isinstance(handle, CapturedPunctuator)
