"""Rules of windows that a recomputation of their rows does not show: timestamps, nulls, drops, and what comes first."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import (
    BufferConfig,
    EmitStrategy,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Windows,
)
from dsl.options import Materialized
from processor_api.handlers import Response
from processor_api.serde import Serdes
from processor_api.stores.windowed import Window
from state.formats.windowed_serdes import TimeWindowedSerde
from streams.testing import TopologyTestDriver

S = Serdes.STRING
SETTINGS = {"default.key.serde": S, "default.value.serde": S}

TUMBLING = TimeWindows.of_size_and_grace(10, 5)
HOPPING = TUMBLING.advance_by(5)
SLIDING = SlidingWindows.of_time_difference_and_grace(10, 5)
SESSIONS = SessionWindows.of_inactivity_gap_and_grace(10, 5)

Sent = list[tuple[str, str | None, int | None]]


def run(windows: Any, records: list[tuple[str | None, str | None, int]]) -> tuple[Sent, int]:
    """Returns the results, as ("start-end", value, timestamp), and how many records were dropped."""
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in").group_by_key().windowed_by(windows)
    functions: list[Any] = [str, lambda key, value, so_far: so_far + (value or "-")]
    if isinstance(windows, SessionWindows):
        functions.append(lambda key, one, other: one + other)
    table = grouped.aggregate(*functions, materialized=Materialized(name="rows", value_serde=S, caching=False))
    table.to_stream(lambda windowed, value: f"{windowed.window.start}-{windowed.window.end}").to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        for key, value, time in records:
            driver.create_input_topic("in").pipe_input(key, value, timestamp=time)
        found = driver.create_output_topic("out").read_records()
        dropped = int(driver.metrics()["dropped-records-total"])
    return [(record.key, record.value, record.timestamp) for record in found], dropped


def test_each_window_has_the_largest_timestamp_of_its_records() -> None:
    """Also when a late one comes last (semantics 15)."""
    results, _ = run(HOPPING, [("k", "a", 12), ("k", "b", 7)])
    assert results == [("5-15", "a", 12), ("10-20", "a", 12), ("0-10", "b", 7), ("5-15", "ab", 12)]


def test_a_session_has_its_end_as_timestamp_and_its_deletion_too() -> None:
    """Old sessions are deleted before the merged one comes (semantics 15, 48)."""
    results, _ = run(SESSIONS, [("k", "a", 20), ("k", "b", 31), ("k", "c", 25)])
    assert results == [
        ("20-20", "a", 20),
        ("31-31", "b", 31),
        ("20-20", None, 20),
        ("31-31", None, 31),
        ("20-31", "abc", 31),
    ]


def test_a_record_in_the_middle_of_a_session_deletes_it_too() -> None:
    """Unless the session begins and ends with the record (semantics 48)."""
    results, _ = run(SESSIONS, [("k", "a", 20), ("k", "b", 30), ("k", "c", 25), ("x", "a", 30), ("x", "b", 30)])
    assert results[-6:] == [
        ("20-20", None, 20),
        ("20-30", "ab", 30),
        ("20-30", None, 30),
        ("20-30", "abc", 30),
        ("30-30", "a", 30),
        ("30-30", "ab", 30),
    ]


@pytest.mark.parametrize(
    ("windows", "results", "dropped"),
    [
        (TUMBLING, [("10-20", "-", 15)], 1),
        (SESSIONS, [("15-15", "-", 15)], 1),
        (SLIDING, [], 2),
    ],
    ids=["time", "session", "sliding"],
)
def test_what_is_dropped_of_nulls(windows: Any, results: Sent, dropped: int) -> None:
    """A null key always; a null value only by sliding windows, others give it to the aggregator (semantics 23)."""
    assert run(windows, [(None, "a", 15), ("k", None, 15)]) == (results, dropped)


def test_each_window_that_a_record_misses_counts() -> None:
    """A window takes records until stream time reaches its end plus grace (semantics 44)."""
    ahead = ("x", "a", 24)
    for time, taken, dropped in ((12, ["10-20"], 1), (9, [], 2), (15, ["10-20", "15-25"], 0)):
        results, found = run(HOPPING, [ahead, ("k", "b", time)])
        assert ([window for window, value, _ in results if value == "b"], found) == (taken, dropped)
    assert run(TUMBLING, [("x", "a", 25), ("k", "b", 15)])[1] == 1


def test_a_sliding_window_is_closed_when_its_end_is_before_stream_time_minus_grace() -> None:
    """It is open at the very time, for its end belongs to it (semantics 46)."""
    for ahead, updated in ((40, True), (41, False)):
        results, dropped = run(SLIDING, [("k", "a", 35), ("x", "a", ahead), ("k", "b", 25)])
        assert (("25-35", "ab", 35) in results, dropped) == (updated, 1)


def test_a_session_is_open_for_the_gap_and_the_grace_period() -> None:
    """By its end after merging, which a record may have moved (semantics 48)."""
    assert run(SESSIONS, [("x", "a", 35), ("k", "b", 20)])[1] == 0
    assert run(SESSIONS, [("x", "a", 36), ("k", "b", 20)])[1] == 1
    results, dropped = run(SESSIONS, [("k", "a", 25), ("x", "a", 39), ("k", "b", 16)])
    assert (results[-1], dropped) == (("16-25", "ab", 25), 0)


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("engine", ["memory", "rocksdb"])
@pytest.mark.parametrize(
    "windows", [TUMBLING, HOPPING, SLIDING, SESSIONS], ids=["tumbling", "hopping", "sliding", "sessions"]
)
@pytest.mark.parametrize("final", [False, True])
def test_a_record_is_in_a_result_or_counted_as_dropped(final: bool, windows: Any, engine: str, caching: bool) -> None:
    """A store in memory forgot a session that was just in time, and its final result was neither sent nor counted."""
    for behind in range(30):
        builder = StreamsBuilder()
        grouped: Any = builder.stream("in").group_by_key().windowed_by(windows)
        if final:
            grouped = grouped.emit_strategy(EmitStrategy.on_window_close())
        stored: Materialized[str, int] = Materialized(name="n", store_type=engine, caching=caching)
        grouped.count(materialized=stored).to_stream(lambda windowed, _: windowed.key).map_values(str).to("out")
        with TopologyTestDriver(builder, SETTINGS) as driver:
            records = driver.create_input_topic("in")
            for key, time in (("x", 100), ("k", 100 - behind), ("x", 101), ("x", 500)):
                records.pipe_input(key, "v", timestamp=time)
            sent = sum(record.key == "k" for record in driver.create_output_topic("out").read_records())
            assert sent or driver.metrics()["dropped-records-total"], behind
            assert sent or behind > 5


class Days(Windows):
    """Days of 23, 24 and 25 hours in turn, by the thousand ms."""

    size_ms, grace_ms = 25, 0
    LENGTHS = (23, 24, 25)

    def windows_for(self, timestamp: int) -> list[Window]:
        start = timestamp // 72 * 72
        for length in self.LENGTHS:
            if timestamp < start + length:
                return [Window(start, start + length)]
            start += length
        raise AssertionError("three days are 72 hours")


def shown(windowed: Any) -> str:
    return f"{windowed.window.start}-{windowed.window.end}"


@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("suppressed", [False, True])
def test_windows_of_unequal_length_keep_their_bounds(suppressed: bool, caching: bool) -> None:
    """A cache, a suppression, the store and a topic gave each the length of the longest (a day with summer time)."""
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in").group_by_key().windowed_by(Days())
    table: Any = grouped.count(materialized=Materialized(name="n", caching=caching))
    if suppressed:
        table = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    table.to_stream().to("windowed", Produced(value_serde=Serdes.LONG))
    table.to_stream(lambda windowed, _: shown(windowed)).map_values(str).repartition().to("out")
    days = ["0-23", "23-47", "47-72", "72-95", "95-119"]
    with TopologyTestDriver(builder, SETTINGS) as driver:
        for time in (5, 30, 60, 80, 100):
            driver.create_input_topic("in").pipe_input("k", "v", timestamp=time)
        seen = [shown(key) for key, _ in driver.get_window_store("n").fetch_all(0, 200)]
        if suppressed:
            driver.create_input_topic("in").pipe_input("k", "v", timestamp=150)
        assert [record.key for record in driver.create_output_topic("out").read_records()] == days
        keys = TimeWindowedSerde(S, 25, window_end=Days().end_of)
        found = driver.create_output_topic("windowed", keys, Serdes.LONG).read_records()
        assert [shown(record.key) for record in found] == days
    assert seen == days[-len(seen) :]
    assert len(seen) >= 2


@pytest.mark.parametrize(
    ("windows", "fails_after", "kept"),
    [(HOPPING, "x", [(15, "x"), (20, "x")]), (SLIDING, "", [(10, "x")])],
    ids=["hopping", "sliding"],
)
def test_a_function_that_fails_in_one_window_ends_the_record(
    windows: Any, fails_after: str, kept: list[tuple[int, str]]
) -> None:
    """The windows behind that one do not get it, as in Kafka Streams, and the handler is asked once."""
    asked: list[str] = []

    def handler(context: Any, record: Any, error: Exception) -> Response:
        asked.append(str(error))
        return Response.resume()

    def add(key: str, value: str, so_far: str) -> str:
        if value == "y" and so_far == fails_after:
            raise ValueError("no y here")
        return so_far + value

    builder = StreamsBuilder()
    groups: Any = builder.stream("in").group_by_key().windowed_by(windows)
    groups.aggregate(str, add, materialized=Materialized(name="rows", value_serde=S, caching=False))
    with TopologyTestDriver(builder, {**SETTINGS, "processing.exception.handler": handler}) as driver:
        driver.create_input_topic("in").pipe_input("k", "x", timestamp=20)
        driver.create_input_topic("in").pipe_input("k", "y", timestamp=25)
        with driver.get_window_store("rows").fetch_range("k", 0, 100) as rows:
            assert [(start, value) for start, value in rows] == kept
        assert driver.metrics()["dropped-records-total"] == 1
    assert asked == ["no y here"]


def test_a_record_that_fails_closes_windows_all_the_same() -> None:
    """Final results come before the record is added (semantics 124)."""

    def add(key: str, value: str, so_far: str) -> str:
        if value == "y":
            raise ValueError("no y here")
        return so_far + value

    builder = StreamsBuilder()
    windows: Any = builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10))
    table = windows.emit_strategy(EmitStrategy.on_window_close()).aggregate(
        str, add, materialized=Materialized(name="rows", value_serde=S)
    )
    table.to_stream(lambda windowed, value: windowed.key).to("out")
    goes_on = {"processing.exception.handler": lambda context, record, error: Response.resume()}
    with TopologyTestDriver(builder, {**SETTINGS, **goes_on}) as driver:
        given, results = driver.create_input_topic("in"), driver.create_output_topic("out")
        given.pipe_input("k", "x", timestamp=5)
        given.pipe_input("k", "y", timestamp=12)
        assert results.read_key_values() == [("k", "x")]
        given.pipe_input("k", "z", timestamp=13)
        assert results.read_key_values() == []


def test_a_late_record_makes_no_windows_anew_that_its_time_had() -> None:
    """As in Kafka Streams: the window that ends with it tells so, and what the aggregator deleted stays away."""

    def add(key: str, value: str, so_far: str) -> str | None:
        return None if value == "end" else so_far + value

    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(10, 50)
    groups: Any = builder.stream("in").group_by_key().windowed_by(windows)
    table = groups.aggregate(str, add, materialized=Materialized(name="rows", value_serde=S, caching=False))
    table.to_stream(lambda windowed, value: f"{windowed.window.start}-{windowed.window.end}").to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        given = driver.create_input_topic("in")
        for value, time in (("x", 20), ("y", 25), ("end", 31)):
            given.pipe_input("k", value, timestamp=time)
        results = driver.create_output_topic("out")
        assert ("21-31", None) in [(one.key, one.value) for one in results.read_records()]
        given.pipe_input("k", "z", timestamp=25)
        assert [(one.key, one.value) for one in results.read_records()] == [("15-25", "xyz")]
