"""Windows with any grace period against recomputations from scratch: late, doubled and null records, cached or not.

Aggregates are lists of the numbers of records, so each result tells which records it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import KTable, Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, UnlimitedWindows
from processor_api.serde import Serdes
from processor_api.stores.windowed import Windowed
from processor_api.topology.topology import Topology
from streams.testing import TopologyTestDriver

S = Serdes.STRING
CONFIG = {"default.key.serde": S, "default.value.serde": S}
RETENTION = 1000
"""Behind which nothing of these inputs falls."""
STORES: list[dict[str, Any]] = [{}, {"caching": False}, {"store_type": "memory"}]
GRACES = [0, 1, 4, 15]

Row = tuple[str, int, int]


class Given(NamedTuple):
    number: int
    left: bool
    key: str
    value: str | None
    time: int


Rows = dict[Row, list[Given]]


def _numbered(drawn: list[tuple[bool, str, str | None, int]]) -> list[Given]:
    return [Given(number, *each) for number, each in enumerate(drawn)]


records = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from(["x", "x", None]), st.integers(0, 40)), max_size=25
).map(_numbered)


def in_order(numbers: str) -> str:
    return ",".join(sorted(numbers.split(","), key=int))


def add(key: str, value: str | None, so_far: str) -> str:
    """The aggregate with a record: its value is its number, as a null cannot tell it."""
    one = "-1" if value is None else value
    return in_order(f"{so_far},{one}") if so_far else one


def merge(key: str, one: str, other: str) -> str:
    return in_order(",".join(filter(None, (one, other)))) if one or other else ""


def results(made: Topology, given_records: list[Given]) -> dict[Row, str]:
    """What a reader of the results knows in the end."""
    with TopologyTestDriver(made, CONFIG) as driver:
        topics = {side: driver.create_input_topic(name) for side, name in ((True, "left"), (False, "right"))}
        for record in given_records:
            value = None if record.value is None else str(record.number)
            topics[record.left].pipe_input(record.key, value, timestamp=record.time)
        found = driver.create_output_topic("out").read_key_values_to_map()
    rows = {}
    for text, value in found.items():
        key, start, end = text.split(" ")
        if value is not None:
            rows[key, int(start), int(end)] = value
    return rows


def topology(windows: Any, options: dict[str, Any], *, cogrouped: bool = True) -> Topology:
    """Two topics, cogrouped or merged."""
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    merges = (merge,) if isinstance(windows, SessionWindows) else ()
    retention = None if isinstance(windows, UnlimitedWindows) else RETENTION
    kept: Any = Materialized(name="t", key_serde=S, value_serde=S, retention=retention, **options)
    grouped: Any
    if cogrouped:
        grouped = left.group_by_key().cogroup(add).cogroup(right.group_by_key(), add).windowed_by(windows)
        table: KTable[Windowed[str], str] = grouped.aggregate(str, *merges, materialized=kept)
    else:
        grouped = left.merge(right).group_by_key().windowed_by(windows)
        table = grouped.aggregate(str, add, *merges, materialized=kept)
    table.to_stream(lambda w, v: f"{w.key} {w.window.start} {w.window.end}").to("out")
    return builder.build()


def timed(given_records: list[Given], *, cogrouped: bool) -> Iterator[tuple[Given, int]]:
    """Records with the stream time of the operator they come to: cogrouped streams have one each."""
    times = {True: -1, False: -1}
    for record in given_records:
        side = record.left or not cogrouped
        times[side] = max(times[side], record.time)
        yield record, times[side]


def told(rows: Rows) -> dict[Row, str]:
    return {
        row: ",".join(str(n) for n in sorted(-1 if one.value is None else one.number for one in found))
        for row, found in rows.items()
    }


# ---------------------------------------------------------------- time windows and sessions


def in_windows(windows: Any, given_records: list[Given], *, cogrouped: bool) -> Rows:
    rows: Rows = {}
    for record, stream_time in timed(given_records, cogrouped=cogrouped):
        for window in windows.windows_for(record.time):
            if window.end > stream_time - windows.grace_ms:
                rows.setdefault((record.key, window.start, window.end), []).append(record)
    return rows


def in_sessions(windows: SessionWindows, given_records: list[Given], *, cogrouped: bool) -> Rows:
    rows: Rows = {}
    for record, stream_time in timed(given_records, cogrouped=cogrouped):
        near = [
            (key, start, end)
            for key, start, end in rows
            if key == record.key and start <= record.time + windows.gap_ms and end >= record.time - windows.gap_ms
        ]
        start = min([record.time, *(row[1] for row in near)])
        end = max([record.time, *(row[2] for row in near)])
        if end >= stream_time - windows.grace_ms - windows.gap_ms:
            together = [one for row in near for one in rows.pop(row)]
            rows[record.key, start, end] = [*together, record]
    return rows


def unlimited(given_records: list[Given]) -> Rows:
    """One window for each key, from the 5th ms on."""
    rows: Rows = {}
    for record in given_records:
        if record.time >= 5:
            rows.setdefault((record.key, 5, 2**63 - 1), []).append(record)
    return rows


@pytest.mark.parametrize("options", STORES, ids=str)
@pytest.mark.parametrize("cogrouped", [True, False], ids=["cogrouped", "merged"])
@given(given_records=records, grace=st.sampled_from(GRACES), advance=st.sampled_from([3, 10]))
@settings(max_examples=20, deadline=None)
def test_time_windows(
    options: dict[str, Any], cogrouped: bool, given_records: list[Given], grace: int, advance: int
) -> None:
    windows = TimeWindows.of_size_and_grace(10, grace).advance_by(advance)
    found = results(topology(windows, options, cogrouped=cogrouped), given_records)
    assert found == told(in_windows(windows, given_records, cogrouped=cogrouped))


@pytest.mark.parametrize("options", STORES, ids=str)
@pytest.mark.parametrize("cogrouped", [True, False], ids=["cogrouped", "merged"])
@given(given_records=records, grace=st.sampled_from(GRACES), gap=st.sampled_from([0, 1, 4]))
@settings(max_examples=20, deadline=None)
def test_sessions(options: dict[str, Any], cogrouped: bool, given_records: list[Given], grace: int, gap: int) -> None:
    windows = SessionWindows.of_inactivity_gap_and_grace(gap, grace)
    found = results(topology(windows, options, cogrouped=cogrouped), given_records)
    assert found == told(in_sessions(windows, given_records, cogrouped=cogrouped))


@pytest.mark.parametrize("options", STORES, ids=str)
@given(given_records=records)
@settings(max_examples=10, deadline=None)
def test_unlimited_windows(options: dict[str, Any], given_records: list[Given]) -> None:
    found = results(topology(UnlimitedWindows.of().start_on(5), options), given_records)
    assert found == told(unlimited(given_records))


# ---------------------------------------------------------------- sliding windows


class Sliding(NamedTuple):
    """What the windows of some records must have and may have."""

    must: dict[Row, set[int]]
    may: dict[Row, set[int]]


def in_sliding_windows(windows: SlidingWindows, given_records: list[Given], *, cogrouped: bool) -> Sliding:
    """A record is prompt if it is in time for each window that has it, late if only for some of them.

    A window that a prompt record makes is there, with all prompt records of its span. A late record is in those of its
    windows that are made from one which was open for it; which they are depends on the windows around it, so that it
    may be in each one that was open when it came, and must be in none. A null value is dropped before it moves time.
    """
    difference = windows.difference_ms
    prompt: dict[str, list[Given]] = {}
    late: dict[str, list[tuple[Given, int]]] = {}
    for record, stream_time in timed([one for one in given_records if one.value], cogrouped=cogrouped):
        closed = stream_time - windows.grace_ms
        if record.time + difference < closed:
            continue
        if record.time >= closed:
            prompt.setdefault(record.key, []).append(record)
        else:
            late.setdefault(record.key, []).append((record, closed))
    must: dict[Row, set[int]] = {}
    may: dict[Row, set[int]] = {}
    for key in prompt.keys() | late.keys():
        sure, perhaps = prompt.get(key, []), late.get(key, [])
        for start in range(max(one.time for one in [*sure, *(each for each, _ in perhaps)]) + 2):
            row = key, start, start + difference
            inside = {one.number for one in sure if start <= one.time <= row[2]}
            made = any(start in (max(one.time - difference, 0), one.time + 1) for one in sure)
            if made and inside:
                must[row] = inside
            may[row] = inside | {
                one.number for one, closed in perhaps if start <= one.time <= row[2] and row[2] >= closed
            }
    return Sliding(must, may)


@pytest.mark.parametrize("options", STORES, ids=str)
@pytest.mark.parametrize("cogrouped", [True, False], ids=["cogrouped", "merged"])
@given(given_records=records, grace=st.sampled_from([*GRACES, 100]), difference=st.sampled_from([1, 5]))
@settings(max_examples=30, deadline=None)
def test_sliding_windows(
    options: dict[str, Any], cogrouped: bool, given_records: list[Given], grace: int, difference: int
) -> None:
    windows = SlidingWindows.of_time_difference_and_grace(difference, grace)
    made = topology(windows, options, cogrouped=cogrouped)
    found = {row: [int(number) for number in value.split(",")] for row, value in results(made, given_records).items()}
    wanted = in_sliding_windows(windows, given_records, cogrouped=cogrouped)
    for row, numbers in found.items():
        assert len(set(numbers)) == len(numbers), "no record is in a window twice"
        assert set(numbers) <= wanted.may.get(row, set()), row
    for row, must in wanted.must.items():
        assert must <= set(found.get(row, ())), row
    if grace == 100:
        assert {row: set(numbers) for row, numbers in found.items()} == wanted.must, "nothing is late"
