"""Records that a count takes together give what they give one by one: rows, outputs, times, positions and drops."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from backfill_kit import SETTINGS, Row, results_of, run_driver
from processor_api.errors import StreamsError
from processor_api.serde import Serde, Serdes
from streams import Consumed, Materialized, Processor, Produced, PunctuationType, Record, StreamsBuilder
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.task_runner import TaskRunner
from streams.serdes import json_serde
from streams.spark import Backfill, History
from streams.spark.executor.rows import HEADERS
from streams.spark.executor.stage_task import processed
from streams.spark.executor.task_input import CheckedRows

ALL_CACHES = 10 << 20
NOTHING_KEPT = RunnerOptions(kept_outputs=frozenset())


class Timed(Processor[Any, Any, Any, Any]):
    """Forwards the times of punctuations."""

    def init(self, context: Any) -> None:
        context.schedule(100, PunctuationType.STREAM_TIME, lambda now: context.forward(Record("now", now, now)))

    def process(self, record: Record[Any, Any]) -> None:
        """Forwards nothing."""


class Case(NamedTuple):
    """A count, and how it runs."""

    key: Serde[Any] = Serdes.STRING
    value: Serde[Any] = Serdes.BYTES
    cached: bool = False
    cache_bytes: int = ALL_CACHES
    below: type[Timed] | None = None
    written_as: Serde[Any] | None = Serdes.LONG
    options: RunnerOptions = NOTHING_KEPT

    def topology(self) -> StreamsBuilder:
        builder = StreamsBuilder()
        source = builder.stream("in", Consumed(key_serde=self.key, value_serde=self.value))
        kept: Any = Materialized(name="counts", caching=self.cached)
        changes = source.group_by_key().count(materialized=kept).to_stream()
        if self.below is not None:
            changes = changes.process(self.below)
        if self.written_as is not None:
            changes.to("out", Produced(key_serde=self.key, value_serde=self.written_as))
        return builder

    def runner(self) -> TaskRunner:
        config = {
            "application.id": "app",
            "bootstrap.servers": "unused:9092",
            "statestore.cache.max.bytes": self.cache_bytes,
            "deserialization.exception.handler": "LogAndContinueExceptionHandler",
        }
        return TaskRunner(self.topology, config, {"in": 1, "out": 1}, 0, 0, self.options)


JSON_KEYS = json_serde()
TAKEN = {
    "state only": Case(),
    "values that are read": Case(value=Serdes.LONG),
    "nothing below": Case(written_as=None, options=RunnerOptions()),
    "a cache": Case(cached=True, options=RunnerOptions()),
    "a cache and other keys": Case(key=JSON_KEYS, cached=True, options=RunnerOptions()),
    "other keys": Case(key=JSON_KEYS, written_as=None),
}
NOT_TAKEN = {
    "outputs that are kept": Case(options=RunnerOptions()),
    "a sink that may fail": Case(written_as=Serdes.STRING),
    "a sink with keys of another form": Case(key=JSON_KEYS),
    "punctuations": Case(cached=True, below=Timed, options=RunnerOptions()),
    "a cache without room": Case(cached=True, cache_bytes=200, options=RunnerOptions()),
}
CASES = {**TAKEN, **NOT_TAKEN}


def rows_of(records: Sequence[Row]) -> CheckedRows:
    offsets = np.cumsum([1 + (record.offset or 0) for record in records])
    headers = [[{"key": k, "value": v} for k, v in one.headers] if one.headers else None for one in records]
    columns = {
        "key": pa.array([one.key for one in records], pa.binary()),
        "value": pa.array([one.value for one in records], pa.binary()),
        "ts": pa.array([one.ts for one in records], pa.int64()),
        "headers": pa.array(headers, HEADERS),
    }
    return CheckedRows("in", pa.RecordBatch.from_pydict(columns), offsets)


def one_by_one(runner: TaskRunner, rows: CheckedRows) -> None:
    runner.feed(*rows.columns())
    runner.run()


def in_runs(runner: TaskRunner, rows: CheckedRows) -> None:
    for _ in processed(runner, [rows], least=1):
        pass


def results(case: Case, records: Sequence[Row], cuts: Sequence[int], process: Callable[..., None]) -> dict[str, Any]:
    """Returns all that there is to see of a task after some records, with a commit at each cut."""
    runner, rows = case.runner(), rows_of(records)
    places = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    try:
        for begin, end in pairwise(places):
            process(runner, rows.slice(begin, end))
            runner.commit()
        return {
            "outputs": runner.take(),
            "changelog": {topic: list(found) for topic, found in runner.changelog().items()},
            "positions": runner.positions(),
            "times": (runner.partition_times(), runner.stream_time),
            "records": (runner.processed_records, runner.dropped_records),
        }
    except StreamsError as error:
        return {"error": type(error), "text": str(error)}
    finally:
        runner.close()


KEYS = st.sampled_from([b"1", b"1.0", b"true", b'"a"', b"2", '"ä"'.encode()])
OTHER_KEYS = st.sampled_from([None, b"", b"\xff"])
VALUES = st.integers(0, 3).map(lambda number: struct.pack(">q", number))
OTHER_VALUES = st.sampled_from([None, b"", b"short"])
TIMES = st.integers(1, 1000)
HEADER_LISTS = st.just([("h", b"1")])


def mostly(strategy: Any, others: Any) -> Any:
    """Draws one of the others now and then."""
    return st.integers(0, 12).flatmap(lambda number: others if number == 0 else strategy)


@st.composite
def histories(draw: Any) -> list[Row]:
    """Draws records with times in no order; in about half of the histories all of them are plain."""
    if draw(st.booleans()):
        keys, values, times, headers = KEYS, VALUES, TIMES, st.none()
    else:
        keys, values = mostly(KEYS, OTHER_KEYS), mostly(VALUES, OTHER_VALUES)
        times, headers = mostly(TIMES, st.sampled_from([0, -1, -5])), mostly(st.none(), HEADER_LISTS)
    gaps = st.sampled_from([0, 0, 0, 3])
    record = st.builds(Row, key=keys, value=values, ts=times, headers=headers, offset=gaps)
    return draw(st.lists(record, min_size=1, max_size=30))


ONE = struct.pack(">q", 1)
LATE = [Row(b"1", ONE, 500), Row(b"2", ONE, 400), Row(b"1", ONE, 300), Row(b"2", ONE, 600), Row(b"1", ONE, 1)]


@pytest.mark.parametrize("name", CASES)
@given(records=histories(), cuts=st.lists(st.integers(1, 30), max_size=3))
@example(records=LATE, cuts=[2])
@example(records=[*LATE, Row(None, ONE, 9), Row(b"1", None, 9), *LATE], cuts=[])
@example(records=[*LATE, Row(b"1", ONE, -1), *LATE], cuts=[])
@example(records=[Row(b"1", ONE, 5), Row(b"1.0", ONE, 6), Row(b"true", ONE, 7)], cuts=[1])
@settings(max_examples=25, deadline=None)
def test_runs_give_what_records_give_one_by_one(name: str, records: list[Row], cuts: list[int]) -> None:
    case = CASES[name]
    assert results(case, records, cuts, in_runs) == results(case, records, cuts, one_by_one)


def run_columns(*records: Row) -> Any:
    [(_, columns)] = rows_of(records).runs(1)
    return columns


@pytest.mark.parametrize("name", CASES)
def test_which_counts_take_runs(name: str) -> None:
    runner = CASES[name].runner()
    assert runner.take_run("in", run_columns(*LATE)) is (name in TAKEN)
    assert runner.processed_records == (len(LATE) if name in TAKEN else 0)
    runner.close()


@pytest.mark.parametrize(
    "records",
    [[Row(b"\xff", ONE, 5)], [Row(b"a", b"short", 5)], [Row(b"a", ONE, 0)], [Row(b"a", ONE, -1)]],
    ids=["key", "value", "time 0", "no time"],
)
def test_a_run_with_a_record_that_needs_a_decision_changes_nothing(records: list[Row]) -> None:
    runner = Case(value=Serdes.LONG).runner()
    assert not runner.take_run("in", run_columns(Row(b"a", ONE, 900), *records))
    assert (runner.stream_time, runner.positions(), runner.stores["counts"].get("a")) == (-1, {}, None)
    runner.close()


def test_a_value_that_is_read_as_none_is_dropped() -> None:
    case, records = Case(value=json_serde()), [Row(b"a", b"1", 5), Row(b"a", b"null", 6), Row(b"b", b"2", 7)]
    found = results(case, records, [], in_runs)
    assert found == results(case, records, [], one_by_one)
    assert found["records"] == (3, 1)


# ---------------------------------------------------------------------- backfills


def counted() -> StreamsBuilder:
    builder = StreamsBuilder()
    source = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    source.group_by_key().count(materialized="counts")
    return builder


@pytest.mark.parametrize("seed", range(3))
def test_a_backfill_in_runs_gives_what_a_live_task_gives(tmp_path: Path, seed: int) -> None:
    """Records of two partitions in order, some of which come alone: they have no key, no value, or headers."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(12_000):
        alone = rng.integers(0, 4_000)
        rows.append(
            Row(
                None if alone == 0 else b"%d-%d" % (number % 2, rng.integers(0, 150)),
                None if alone == 1 else ONE,
                int(1_000 + number - rng.integers(0, 50)),
                [("h", b"1")] if alone == 2 else None,
                number % 2,
                number // 2,
            )
        )
    for partition in range(2):
        own = [row for row in rows if row.partition == partition]
        found = rows_of(own).rows.rename_columns(["key", "value", "timestamp", "headers"])
        table = pa.table({
            **dict(zip(found.schema.names, found.columns, strict=True)),
            "partition": pa.array([partition] * len(own), pa.int32()),
            "offset": pa.array([row.offset for row in own], pa.int64()),
        })  # fmt: skip
        pq.write_table(table, tmp_path / f"p{partition}.parquet")
    lake = History.parquet(None, str(tmp_path), headers="headers")
    result = Backfill(
        None, counted, {"in": lake}, application_id="app", config=SETTINGS, engine="local[1]",
        run_dir=tmp_path / "run", partitions={"in": 2},
    ).run()  # fmt: skip
    expected = dict[Any, Any]()
    for partition in range(2):
        own = [row for row in rows if row.partition == partition]
        expected |= run_driver(counted, {"in": own}).tables["app-counts-changelog"]
    assert len(expected) == 300
    assert results_of(result, [], ["counts"]).tables == {"app-counts-changelog": expected}
