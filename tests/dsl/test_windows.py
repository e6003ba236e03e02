"""Aggregations in windows: against a recomputation from scratch, over a restart, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import (
    BufferConfig,
    EmitStrategy,
    KTable,
    Materialized,
    Produced,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    Windows,
)
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.time_to_live import TimeToLive
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from state.formats.windowed_serdes import WindowedSerdes
from streams.testing import TopologyTestDriver

S, L = Serdes.STRING, Serdes.LONG
CONFIG = {"default.key.serde": S, "default.value.serde": S}
NO_THROTTLE = {"__emit.interval.ms.kstreams.windowed.aggregation__": 0}
FINAL = EmitStrategy.on_window_close()
LONG = 1000
"""A retention behind which nothing of these inputs falls."""

Rows = dict[tuple[str, int, int], str]
records = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["x", "y", "z", None]), st.integers(0, 60)), max_size=25
)
"""Key, value and time: in any order, late, doubled, with nulls."""


def stored(**options: Any) -> Materialized[str, str]:
    return Materialized(name="t", key_serde=S, value_serde=S, **options)


def text(value: str | None) -> str:
    return "-" if value is None else value


def add(key: str, value: str | None, so_far: str) -> str:
    return "".join(sorted(so_far + text(value)))


def merge(key: str, one: str, other: str) -> str:
    return "".join(sorted(one + other))


def appended(windows: Any, *, final: bool = False, **options: Any) -> Topology:
    """Values in no order: the same for any order of the same records."""
    builder = StreamsBuilder()
    groups: Any = builder.stream("in").group_by_key().windowed_by(windows)
    groups = groups.emit_strategy(FINAL) if final else groups
    functions = (str, add, merge) if isinstance(windows, SessionWindows) else (str, add)
    table: KTable[Windowed[str], str] = groups.aggregate(*functions, materialized=stored(retention=LONG, **options))
    table.to_stream(lambda w, v: f"{w.key} {w.window.start} {w.window.end}").to("out")
    return builder.build()


def run(topology: Topology, given_records: list[Any], config: Any = CONFIG) -> list[tuple[tuple[str, int, int], Any]]:
    with TopologyTestDriver(topology, {**CONFIG, **config}) as driver:
        topic = driver.create_input_topic("in")
        for key, value, time in given_records:
            topic.pipe_input(key, value, timestamp=time)
        return [(parsed(key), value) for key, value in driver.create_output_topic("out").read_key_values()]


def parsed(text: str) -> tuple[str, int, int]:
    key, start, end = text.split(" ")
    return key, int(start), int(end)


def rows_of(results: list[tuple[tuple[str, int, int], Any]]) -> Rows:
    """What a reader of the results knows in the end."""
    rows = dict(results)
    return {key: value for key, value in rows.items() if value is not None}


# ----------------------------------------------------------------------------- models


def in_time(given_records: list[Any], accepts: Callable[[int, int], bool]) -> Iterator[tuple[str, str, int, int]]:
    """Records that are in time, with stream time as it was; ``accepts(time, stream_time)``."""
    stream_time = -1
    for key, value, time in given_records:
        stream_time = max(stream_time, time)
        if accepts(time, stream_time):
            yield key, value, time, stream_time


def time_model(windows: TimeWindows, given_records: list[Any]) -> Rows:
    rows: Rows = {}
    for key, value, time, stream_time in in_time(given_records, lambda *_: True):
        for start in range(0, time + 1, windows.advance_ms):
            end = start + windows.size_ms
            if time < end and end > stream_time - windows.grace_ms:
                rows[key, start, end] = add(key, value, rows.get((key, start, end), ""))
    return rows


def session_model(windows: SessionWindows, given_records: list[Any]) -> Rows:
    rows: Rows = {}
    gap = windows.gap_ms
    for key, value, time, stream_time in in_time(given_records, lambda *_: True):
        near = [row for row in rows if row[0] == key and row[2] >= time - gap and row[1] <= time + gap]
        start, end = min([time, *(row[1] for row in near)]), max([time, *(row[2] for row in near)])
        if end >= stream_time - windows.grace_ms - gap:
            new = add(key, value, "".join(rows[row] for row in near))
            for row in near:
                del rows[row]
            rows[key, start, end] = new
    return rows


def closed_sessions(windows: SessionWindows, given_records: list[Any]) -> Rows:
    """Each session as it was when it closed: one that closed may still be part of a later one."""
    sent: Rows = {}
    for number, (_, _, time) in enumerate(given_records):
        stream_time = max([time, *(earlier[2] for earlier in given_records[:number])])
        closed = stream_time - windows.grace_ms - windows.gap_ms
        for row, value in session_model(windows, given_records[:number]).items():
            if row[2] < closed:
                sent.setdefault(row, value)
    return sent


def sliding_model(windows: SlidingWindows, given_records: list[Any]) -> Rows:
    """All sets of records that are close in time: each window that ends with a record or starts behind one."""
    difference = windows.difference_ms
    known: dict[str, list[tuple[int, str]]] = {}
    for key, value, time, _ in in_time(given_records, lambda *_: True):
        if value is not None:
            known.setdefault(key, []).append((time, value))
    rows: Rows = {}
    for key, found in known.items():
        times = {time for time, _ in found}
        starts = {max(time - difference, 0) for time in times} | {time + 1 for time in times}
        for start in starts:
            inside = [value for time, value in found if start <= time <= start + difference]
            if inside:
                rows[key, start, start + difference] = "".join(sorted(inside))
    return rows


TIME = [
    TimeWindows.of_size_with_no_grace(10),
    TimeWindows.of_size_and_grace(10, 7),
    TimeWindows.of_size_and_grace(10, 7).advance_by(3),
]


@pytest.mark.parametrize("windows", TIME, ids=str)
@pytest.mark.parametrize("options", [{}, {"caching": False}, {"store_type": "memory"}], ids=str)
@given(given_records=records)
@settings(max_examples=25, deadline=None)
def test_time_windows_are_those_of_a_recomputation(
    windows: TimeWindows, options: Any, given_records: list[Any]
) -> None:
    assert rows_of(run(appended(windows, **options), given_records)) == time_model(windows, given_records)


@pytest.mark.parametrize("options", [{}, {"caching": False}, {"store_type": "memory"}], ids=str)
@given(given_records=records)
@settings(max_examples=40, deadline=None)
def test_sessions_are_those_of_a_recomputation(options: Any, given_records: list[Any]) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(4, 10)
    assert rows_of(run(appended(windows, **options), given_records)) == session_model(windows, given_records)


@pytest.mark.parametrize("options", [{}, {"caching": False}, {"store_type": "memory"}], ids=str)
@given(given_records=records)
@settings(max_examples=40, deadline=None)
def test_sliding_windows_are_those_of_a_recomputation(options: Any, given_records: list[Any]) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(5, 100)
    assert rows_of(run(appended(windows, **options), given_records)) == sliding_model(windows, given_records)


@pytest.mark.parametrize(
    ("windows", "model"),
    [
        (TimeWindows.of_size_and_grace(10, 7).advance_by(3), time_model),
        (SlidingWindows.of_time_difference_and_grace(5, 100), sliding_model),
        (SessionWindows.of_inactivity_gap_and_grace(4, 10), closed_sessions),
    ],
    ids=["time windows", "sliding windows", "sessions"],
)
@given(given_records=records)
@settings(max_examples=40, deadline=None)
def test_each_window_that_closes_is_sent_on_once(windows: Any, model: Any, given_records: list[Any]) -> None:
    """With a last record far ahead, which closes all of them; also when time jumps past the retention."""
    last = ("a", "end", 5_000)
    results = run(appended(windows, final=True), [*given_records, last], NO_THROTTLE)
    assert len({key for key, _ in results}) == len(results)
    expected = model(windows, [*given_records, last])
    assert dict(results) == {row: value for row, value in expected.items() if row[2] < 5_000}


@pytest.mark.parametrize("options", [{}, {"caching": False}], ids=str)
@given(given_records=records)
@settings(max_examples=40, deadline=None)
def test_a_suppression_sends_each_window_that_closes_on_once(options: Any, given_records: list[Any]) -> None:
    windows = TimeWindows.of_size_and_grace(10, 7).advance_by(3)
    builder = StreamsBuilder()
    groups: Any = builder.stream("in").group_by_key().windowed_by(windows)
    table = groups.aggregate(str, add, materialized=stored(retention=LONG, **options))
    final = table.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed"))
    final.to_stream(lambda w, v: f"{w.key} {w.window.start} {w.window.end}").to("out")
    with_end = [*given_records, ("a", "end", 5_000)]
    results = run(builder.build(), with_end)
    assert len({key for key, _ in results}) == len(results)
    assert dict(results) == {row: value for row, value in time_model(windows, with_end).items() if row[2] < 5_000}


@pytest.mark.parametrize(
    ("windows", "model"),
    [
        (TimeWindows.of_size_and_grace(10, 100).advance_by(3), time_model),
        (SlidingWindows.of_time_difference_and_grace(5, 100), sliding_model),
        (SessionWindows.of_inactivity_gap_and_grace(4, 100), session_model),
    ],
    ids=["time windows", "sliding windows", "sessions"],
)
@given(given_records=records, sides=st.lists(st.booleans(), min_size=25, max_size=25))
@settings(max_examples=30, deadline=None)
def test_streams_that_are_cogrouped_share_their_windows(
    windows: Any, model: Any, given_records: list[Any], sides: list[bool]
) -> None:
    """Whichever stream a record is of. Each stream has a stream time of its own, by which all records are in time
    here."""
    builder = StreamsBuilder()
    left, right = (builder.stream(topic).group_by_key() for topic in ("left", "right"))
    both: Any = left.cogroup(add).cogroup(right, add).windowed_by(windows)
    functions = (str, merge) if isinstance(windows, SessionWindows) else (str,)
    table = both.aggregate(*functions, materialized=stored(retention=LONG))
    table.to_stream(lambda w, v: f"{w.key} {w.window.start} {w.window.end}").to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topics = {side: driver.create_input_topic(name) for side, name in ((True, "left"), (False, "right"))}
        for (key, value, time), side in zip(given_records, sides, strict=False):
            topics[side].pipe_input(key, value, timestamp=time)
        results = [(parsed(key), value) for key, value in driver.create_output_topic("out").read_key_values()]
    assert rows_of(results) == model(windows, given_records)


# ----------------------------------------------------------------------------- the calls


def counts(windows: Any, given_records: list[Any]) -> list[tuple[Any, Any]]:
    builder = StreamsBuilder()
    grouped: Any = builder.stream("in").group_by_key().windowed_by(windows)
    grouped.count().to_stream(lambda w, v: f"{w.key} {w.window.start} {w.window.end}").to(
        "out", Produced(key_serde=S, value_serde=L)
    )
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        topic = driver.create_input_topic("in")
        for key, value, time in given_records:
            topic.pipe_input(key, value, timestamp=time)
        found = driver.create_output_topic("out", value_serde=L).read_key_values()
    return [(parsed(key), value) for key, value in found]


class Odd(Windows):
    """Windows of one ms, for odd times."""

    @property
    def size_ms(self) -> int:
        return 1

    @property
    def grace_ms(self) -> int:
        return 5

    def windows_for(self, timestamp: int) -> list[Window]:
        return [Window(timestamp, timestamp + 1)] if timestamp % 2 else []


def test_windows_of_the_users_own() -> None:
    given_records = [("a", "x", 1), ("a", "x", 2), ("a", "x", 1)]
    assert counts(Odd(), given_records) == [(("a", 1, 2), 1), (("a", 1, 2), 2)]


def test_durations_are_timedeltas_or_ms() -> None:
    assert TimeWindows.of_size_and_grace(timedelta(seconds=1), timedelta(seconds=2)) == TimeWindows.of_size_and_grace(
        1000, 2000
    )
    assert SlidingWindows.of_time_difference_with_no_grace(timedelta(seconds=1)).difference_ms == 1000
    assert SessionWindows.of_inactivity_gap_with_no_grace(timedelta(seconds=1)).gap_ms == 1000


def test_keys_have_the_default_serde_where_none_is_given() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(10)).count().to_stream().to("out")
    with TopologyTestDriver(builder.build(), {**CONFIG, "default.value.serde": L}) as driver:
        driver.create_input_topic("in").pipe_input("a", 1, timestamp=13)
        serde = WindowedSerdes.time_windowed_serde_from(S, 10)
        found = driver.create_output_topic("out", key_serde=serde, value_serde=L).read_key_values()
    assert found == [(Windowed("a", Window(10, 20)), 1)]


# ----------------------------------------------------------------------------- refusals


def grouped() -> Any:
    return StreamsBuilder().stream("in").group_by_key()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: TimeWindows.of_size_with_no_grace(0), "the size of windows must be at least 1 ms, got 0 ms"),
        (lambda: TimeWindows.of_size_and_grace(1, -1), "the grace period must be at least 0 ms, got -1 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(5).advance_by(6), "at most their size, 5 ms, got 6 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(5).advance_by(0), "the advance of windows must be at least 1 ms"),
        (lambda: SlidingWindows.of_time_difference_with_no_grace(-1), "time difference of sliding windows"),
        (lambda: SessionWindows.of_inactivity_gap_with_no_grace(-1), "inactivity gap of sessions"),
        (lambda: UnlimitedWindows.of().start_on(-1), "start of an unlimited window"),
        (lambda: grouped().windowed_by(10), "windowed_by needs TimeWindows, .* got 10"),
        (lambda: grouped().windowed_by(Odd()).emit_strategy(FINAL), "only, got Odd"),
        (lambda: grouped().windowed_by(UnlimitedWindows.of()).emit_strategy("late"), "emit_strategy needs .* 'late'"),
        (
            lambda: (
                grouped().windowed_by(TimeWindows.of_size_and_grace(10, 5)).count(materialized=stored(retention=14))
            ),
            "retention of store 't' is 14 ms, but its windows need at least 15 ms",
        ),
        (
            lambda: grouped().windowed_by(TIME[0]).count(materialized=stored(time_to_live=TimeToLive(5))),
            "give it retention= in its Materialized instead of a time to live",
        ),
        (lambda: grouped().windowed_by(TIME[0]).reduce(5), "reducer"),
        (lambda: grouped().windowed_by(TIME[0]).aggregate(str, 5), "aggregator"),
    ],
)
def test_refusals_name_the_thing_and_say_what_to_do(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(TopologyError, match=words):
        make()


def test_a_supplier_of_another_kind_is_refused() -> None:
    builder = StreamsBuilder()
    kept: Any = Materialized(supplier=Stores.in_memory_key_value_store("t"))
    builder.stream("in").group_by_key().windowed_by(TIME[0]).count(materialized=kept)
    with pytest.raises(TopologyError, match="a window store cannot be built from a key-value supplier"):
        builder.build()
