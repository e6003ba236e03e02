"""Input and output topics of the test driver: times, serdes, and what is left to read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from processor_api.errors import SerializationError
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology
from streams.testing import TestInputTopic, TestOutputTopic, TestRecord, TopologyTestDriver

START = datetime(2021, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    topology = Topology().add_source("from", "in").add_sink("to", "out", "from")
    settings = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
    with TopologyTestDriver(topology, settings, initial_wall_clock_time=1000) as driver:
        yield driver


@pytest.fixture
def out(driver: TopologyTestDriver) -> TestOutputTopic:
    return driver.create_output_topic("out")


def times(out: TestOutputTopic) -> list[int | None]:
    return [record.timestamp for record in out.read_records()]


@pytest.fixture
def source(driver: TopologyTestDriver) -> TestInputTopic:
    return driver.create_input_topic("in")


def test_records_without_a_timestamp_get_the_clock_s_at_the_start(driver: TopologyTestDriver, out: Any) -> None:
    """Also when the clock has moved since; a topic made later starts later."""
    first = driver.create_input_topic("in")
    driver.advance_wall_clock_time(500)
    first.pipe_input("k", "v")
    driver.create_input_topic("in").pipe_input("k", "v")
    assert times(out) == [1000, 1500]


def test_a_topic_s_time_advances_by_itself_and_by_hand(driver: TopologyTestDriver, out: TestOutputTopic) -> None:
    """A record with a timestamp of its own does not move it."""
    source = driver.create_input_topic("in", start_timestamp=START, auto_advance=timedelta(seconds=2))
    source.pipe_input("k", "v")
    source.pipe_input("k", "v", 7)
    source.pipe_value("v")
    source.advance_time(timedelta(milliseconds=5))
    source.pipe_record(TestRecord("k", "v"))
    source.pipe_record(TestRecord("k", "v", 9))
    assert times(out) == [START_MS, 7, START_MS + 2000, START_MS + 4005, 9]


def test_lists(source: TestInputTopic, out: TestOutputTopic) -> None:
    """From a start in steps, or by the topic's time, which a list with a start leaves alone."""
    source.pipe_key_values([("a", "1"), ("b", "2")], start_timestamp=START, advance=10)
    source.pipe_values(["3", None], start_timestamp=5, advance=timedelta(milliseconds=1))
    source.pipe_records([TestRecord("c", "4", 3, [("h", b"1")]), TestRecord("d", None)])
    source.pipe_key_values(iter([("e", "5")]))
    assert out.read_records() == [
        TestRecord("a", "1", START_MS),
        TestRecord("b", "2", START_MS + 10),
        TestRecord(None, "3", 5),
        TestRecord(None, None, 6),
        TestRecord("c", "4", 3, [("h", b"1")]),
        TestRecord("d", None, 1000),
        TestRecord("e", "5", 1000),
    ]


def test_times_that_make_no_sense_are_refused(driver: TopologyTestDriver, source: TestInputTopic) -> None:
    """Backwards, without a zone, of another type; nothing was piped."""
    with pytest.raises(ValueError, match="duration must not be negative, got -1 ms"):
        source.advance_time(-1)
    with pytest.raises(ValueError, match="auto_advance must not be negative"):
        driver.create_input_topic("in", auto_advance=timedelta(days=-1))
    with pytest.raises(ValueError, match="advance must not be negative"):
        source.pipe_values(["v"], start_timestamp=0, advance=-1)
    with pytest.raises(ValueError, match="advance needs start_timestamp"):
        source.pipe_values(["v"], advance=1)
    for bad in (datetime(2021, 1, 1), 1.5, "now", True):  # noqa: DTZ001 - that is the point
        with pytest.raises(TypeError, match="timestamp must be integer milliseconds or a datetime with a time zone"):
            source.pipe_input("k", "v", bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="start_timestamp must be"):
        driver.create_input_topic("in", start_timestamp=1.0)  # type: ignore[arg-type]
    assert driver.take_produced() == {}


def test_a_value_that_its_serde_cannot_write_is_not_piped(driver: TopologyTestDriver) -> None:
    with pytest.raises(SerializationError, match="long: 1180591620717411303424 is not an integer"):
        driver.create_input_topic("in", Serdes.STRING, Serdes.LONG).pipe_input("k", 1 << 70)
    assert driver.take_produced() == {}


def test_reading_one_by_one_and_all(source: TestInputTopic, driver: TopologyTestDriver, out: TestOutputTopic) -> None:
    """Whichever way, a record is read once; two readers of a topic share what is left."""
    source.pipe_key_values([("a", "1"), ("b", "2"), ("a", "3"), ("c", None), ("d", "4")])
    assert (out.queue_size, out.is_empty) == (5, False)
    assert out.read_value() == "1"
    assert driver.create_output_topic("out").read_key_value() == ("b", "2")
    assert out.read_record() == TestRecord("a", "3", 1000)
    assert out.read_key_values() == [("c", None), ("d", "4")]
    assert (out.read_records(), out.read_values(), out.read_key_values(), out.read_key_values_to_map()) == (
        [], [], [], {},
    )  # fmt: skip
    assert (out.queue_size, out.is_empty) == (0, True)


def test_a_map_has_the_last_value_of_each_key(source: TestInputTopic, out: TestOutputTopic) -> None:
    """A record without a key has no place in it, and then none was read."""
    source.pipe_key_values([("a", "1"), ("b", "2"), ("a", "3"), ("b", None)])
    assert out.read_key_values_to_map() == {"a": "3", "b": None}
    source.pipe_key_values([("a", "1"), (None, "2")])
    with pytest.raises(ValueError, match="topic 'out' has a record without a key"):
        out.read_key_values_to_map()
    assert out.queue_size == 2


def test_serdes_are_bound_to_the_topic(driver: TopologyTestDriver) -> None:
    """As the topology binds them, with what part of the record they are for."""
    bound: list[tuple[str, bool]] = []

    class Binding(Serde[Any]):
        def bind(self, topic: str, *, is_key: bool) -> Any:
            bound.append((topic, is_key))
            return self

    serde = Binding(str.encode, bytes.decode)
    driver.create_input_topic("in", serde, serde)
    driver.create_output_topic("out", serde, serde)
    assert bound == [("in", True), ("in", False), ("out", True), ("out", False)]


def test_a_record_compares_by_its_parts() -> None:
    record = TestRecord("k", "v", START, [("a", b"1"), ("a", b"2")])
    assert record == TestRecord("k", "v", START_MS, [("a", b"1"), ("a", b"2")])
    assert record != TestRecord("k", "v", START_MS)
    assert TestRecord("k", "v") == TestRecord("k", "v", None, [])
    assert TestRecord("k", "v") != ("k", "v")
    assert record.headers.last("a") == b"2"
    assert record.record_time == START
    assert TestRecord("k", "v").record_time is None
    assert repr(TestRecord("k", 1, 2, [("h", None)])) == (
        "TestRecord(key='k', value=1, timestamp=2, headers=[('h', None)])"
    )
    match record:
        case TestRecord(key, value, timestamp):
            assert (key, value, timestamp) == ("k", "v", START_MS)
    with pytest.raises(TypeError, match="unhashable"):
        hash(record)
