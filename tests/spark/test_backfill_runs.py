"""Backfills that are interrupted, resumed, or given what they cannot use."""

import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from backfill_kit import SETTINGS, Row, results_of, run_driver, write_history
from processor_api.errors import DeserializationError, ProcessingError, StreamsError
from processor_api.serde import Serdes
from processor_api.timestamps import log_and_skip_on_invalid_timestamp
from processor_api.topology.partitioner import partition_for_key
from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Record,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
)
from streams.runtime.runner.columns import UnsupportedContextError
from streams.spark.errors import (
    CopartitionError,
    CyclicTopologyError,
    HistorySchemaError,
    MissingHistoryError,
    NaiveTimestampError,
    NullTimestampError,
    OffsetGapError,
    PartitionMismatchError,
    RunDirConflict,
    SparkBridgeError,
    TimestampRangeError,
    TopologyNotPicklable,
    UnknownPartitionCount,
    UnsupportedForBackfill,
)
from streams.spark.executor.shipped_topology import ship
from streams.spark.executor.stage_job import JobInput, StageJob
from streams.spark.executor.stage_task import run_attempt

TEXTS = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
COUNTED = Produced(key_serde=Serdes.STRING, value_serde=Serdes.LONG)


def count_by_value() -> StreamsBuilder:
    """Counts by value behind a repartition topic."""
    return counting(str)


def counting(check: Callable[[str], str]) -> StreamsBuilder:
    """Counts by value.

    :param check: called with each value in the second subtopology.
    """
    builder = StreamsBuilder()
    grouped = builder.stream("events", TEXTS).group_by(
        lambda key, value: value, Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    )
    counts = Materialized(name="by-value", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    table = grouped.aggregate(lambda: 0, lambda key, value, total: total + bool(check(value)), materialized=counts)
    table.to_stream().to("out", COUNTED)
    return builder


def dies_first(value: str) -> str:
    """Kills the worker's process in the first attempt of a task, when it has done some work."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    dies_first.calls = getattr(dies_first, "calls", 0) + 1  # type: ignore[attr-defined]
    if context.attemptNumber() == 0 and dies_first.calls > 300:  # type: ignore[attr-defined]
        os.kill(os.getpid(), signal.SIGKILL)
    return value


def rows_of(count: int, partitions: int = 4, empty: int = 2) -> list[Row]:
    """Records in all partitions but one."""
    rows = []
    for number in range(count):
        partition = number % partitions
        if partition != empty:
            rows.append(Row(b"k%d" % (number % 97), b"v%d" % (number * number % 23), 1_000 + number, None, partition))
    return rows


def table_of(result: Any) -> dict[bytes, int]:
    return {bytes(row.key): int.from_bytes(row.value, "big") for row in result.changelog_rows("by-value").collect()}


def truth(rows: list[Row]) -> dict[bytes | None, int]:
    return dict(Counter(row.value for row in rows))


COLUMNS = ("partition", "offset", "encoded", "time_zone", "check_keys")


def backfill(spark: Any, tmp_path: Path, topology: Any, rows: list[Row] | None, **options: Any) -> Any:
    from streams.spark.backfill.history import History
    from streams.spark.backfill.run import Backfill

    columns = {name: options.pop(name) for name in COLUMNS if name in options}
    inputs = options.pop("inputs", None)
    if inputs is None:
        assert rows is not None
        lake = tmp_path / f"events-{len(rows)}"
        path = str(lake) if lake.exists() else write_history(lake, rows)  # another time makes it another history
        inputs = {"events": History.parquet(spark, path, **columns)}
    given = {"application_id": "app", "run_dir": tmp_path / "run", "config": SETTINGS, "partitions": {"events": 4}}
    return Backfill(spark, topology, inputs, **{**given, **options})


COUNTED_ROWS = rows_of(60)


@pytest.fixture(name="counted", scope="module")
def counted_fixture(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The result of a backfill that tests read."""
    return backfill(spark, tmp_path_factory.mktemp("counted"), count_by_value, COUNTED_ROWS).run()


# ---------------------------------------------------------------------- interruptions


def test_tasks_that_are_killed_are_run_again_and_leave_nothing(spark: Any, tmp_path: Path) -> None:
    rows = rows_of(4_000)
    result = backfill(spark, tmp_path, lambda: counting(dies_first), rows).run()
    assert table_of(result) == truth(rows)
    written = result.output("out")
    assert written.count() == written.dropDuplicates(["upstream", "seq"]).count() == len(rows)
    files = {
        path.relative_to(tmp_path / "run" / "stage=1").as_posix() for path in (tmp_path / "run/stage=1").rglob("*")
    }
    listed = {name for task in result.stages[1].tasks for name in task["files"]}
    assert {name for name in files if name.endswith(".parquet")} == listed
    assert not any("_attempts" in name for name in files)
    assert len(result.stages[0].tasks) == 4, "a task of an empty partition has its place in the list too"


def test_a_backfill_goes_on_behind_the_stages_that_were_complete(spark: Any, tmp_path: Path) -> None:
    rows, flag = rows_of(400), tmp_path / "broken"
    flag.touch()

    def check(value: str) -> str:
        if flag.exists():
            raise ValueError("the second subtopology does not work yet")
        return value

    first = backfill(spark, tmp_path, lambda: counting(check), rows)
    with pytest.raises(ProcessingError, match="the second subtopology does not work yet"):
        first.run()
    flag.unlink()
    stage = tmp_path / "run" / "stage=1"
    (stage / "kind=record").mkdir(parents=True)
    (stage / "kind=record" / "p0-a0.parquet").write_text("of a driver that was killed")
    result = backfill(spark, tmp_path, lambda: counting(check), rows).run()
    assert [report.resumed for report in result.stages] == [True, False]
    assert table_of(result) == truth(rows)
    again = backfill(spark, tmp_path, lambda: counting(check), rows).run()
    assert [report.resumed for report in again.stages] == [True, True]
    fresh = backfill(spark, tmp_path, lambda: counting(check), rows).run(resume=False)
    assert [report.resumed for report in fresh.stages] == [False, False]
    checksums = [[task["checksums"] for task in report.tasks] for report in result.stages]
    assert [[task["checksums"] for task in report.tasks] for report in fresh.stages] == checksums


def test_a_run_directory_serves_one_backfill(spark: Any, tmp_path: Path) -> None:
    from streams.spark.backfill.result import BackfillResult

    rows = rows_of(40)
    backfill(spark, tmp_path, count_by_value, rows, outputs="none").run()

    with pytest.raises(RunDirConflict, match='other options: outputs was "none", is "all"'):
        backfill(spark, tmp_path, count_by_value, rows).run()
    with pytest.raises(RunDirConflict, match="holds another backfill, with other topology"):
        backfill(spark, tmp_path, count_numbers, rows, outputs="none").run()
    with pytest.raises(RunDirConflict, match="with other inputs"):
        backfill(spark, tmp_path, count_by_value, rows, outputs="none", check_keys=True).run()
    loaded = BackfillResult.load(spark, tmp_path / "run", count_by_value().build())
    assert table_of(loaded) == truth(rows)
    with pytest.raises(SparkBridgeError, match="outputs='none'"):
        loaded.output("out")
    with pytest.raises(SparkBridgeError, match="no store 'by-valu'; did you mean 'by-value'"):
        loaded.table("by-valu")
    with pytest.raises(RunDirConflict, match="holds no backfill"):
        backfill(spark, tmp_path, count_by_value, rows, run_dir=tmp_path / f"events-{len(rows)}").run()
    with pytest.raises(RunDirConflict, match="not a directory of a file system"):
        backfill(spark, tmp_path, count_by_value, rows, run_dir="s3://bucket/run")


# ---------------------------------------------------------------------- histories


def test_a_history_of_values_gets_its_bytes_and_partitions_from_the_topology(spark: Any, tmp_path: Path) -> None:
    from streams.spark.backfill.history import History

    frame = spark.range(500).selectExpr(
        "concat('key-', id % 50) as key",
        "concat('v', id % 7) as value",
        "timestamp_ntz'2024-03-31 01:30:00' + make_dt_interval(0, 0, 0, id) as timestamp",
    )
    history = History(frame, partition=None, offset=None, encoded=False, time_zone="Europe/Berlin")
    result = backfill(spark, tmp_path, count_by_value, None, inputs={"events": history}).run()
    assert table_of(result) == {b"v%d" % value: len(range(value, 500, 7)) for value in range(7)}
    sent = result.output("app-by-value-repartition").selectExpr("*", "unix_millis(timestamp) as ms").collect()
    assert {row.upstream for row in sent} == {partition_for_key(b"key-%d" % key, 4) for key in range(50)}
    assert all(row.partition == partition_for_key(bytes(row.key), 4) for row in sent)
    assert min(row.ms for row in sent) == 1_711_845_000_000, "half past one is before the clocks of Berlin go forward"


def test_without_offsets_the_order_is_that_of_the_timestamps_in_any_zone(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"k%d" % (one % 5), b"v%d" % (one % 3), 1_000 + (one * 37) % 499) for one in range(400)]
    by_time = sorted(rows, key=lambda row: (row.ts, row.key, row.value))
    expected = run_driver(count_by_value, {"events": by_time})
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        options = {"offset": None, "partitions": {"events": 1, "out": 1}}
        result = backfill(spark, tmp_path, count_by_value, rows, **options).run()
        found = results_of(result, ["out"], ["by-value"])
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert found.outputs["out"] == expected.outputs["out"]
    assert found.tables["app-by-value-changelog"] == expected.tables["app-by-value-changelog"]


def negative_times() -> StreamsBuilder:
    builder = StreamsBuilder()
    source = Consumed(
        key_serde=Serdes.STRING, value_serde=Serdes.STRING, timestamp_extractor=log_and_skip_on_invalid_timestamp
    )
    builder.stream("events", source).to("out", Produced(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    return builder


def test_records_with_negative_times_go_to_the_extractor(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"a", b"1", 5), Row(b"a", b"2", -5), Row(b"a", None, 0)]
    result = backfill(spark, tmp_path, negative_times, rows, partitions={"events": 1}).run()
    written = result.output("out").orderBy("seq").collect()
    assert [(bytes(row.key), row.value and bytes(row.value)) for row in written] == [(b"a", b"1"), (b"a", None)]
    assert result.stages[0].dropped == 1
    strict = backfill(spark, tmp_path, count_by_value, rows, partitions={"events": 1}, run_dir=tmp_path / "strict")
    with pytest.raises(StreamsError, match="timestamp"):
        strict.run()


def count_numbers() -> StreamsBuilder:
    builder = StreamsBuilder()
    numbers = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    counts = Materialized(name="numbers", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    builder.stream("events", numbers).group_by_key().count(materialized=counts)
    return builder


def test_records_that_cannot_be_processed_are_dead_letters_if_asked_for(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"k", b"%08d" % 1, 1), Row(b"k", b"short", 2), Row(b"k", b"%08d" % 1, 3)]
    options = {"partitions": {"events": 1, "out": 1}}
    with pytest.raises(DeserializationError) as caught:
        backfill(spark, tmp_path, count_numbers, rows, **options, run_dir=tmp_path / "fails").run()
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("events", 0, 1)
    result = backfill(spark, tmp_path, count_numbers, rows, **options, on_error="dead_letter").run()
    assert [int.from_bytes(row.value, "big") for row in result.changelog_rows("numbers").collect()] == [2]
    (letter,) = result.dead_letters().collect()
    assert (bytes(letter.value), letter.partition) == (b"short", 0)
    assert ("__streams.errors.offset", b"1") in [(one["key"], bytes(one["value"])) for one in letter.headers]


BAD_ROWS: dict[str, tuple[list[Row], type[StreamsError], str]] = {
    "offset twice": (
        [Row(b"a", b"1", 1, None, 0, 7), Row(b"a", b"1", 2, None, 0, 7)], OffsetGapError, "same offset.*offset=7"
    ),
    "partition too large": ([Row(b"a", b"1", 1, None, 5)], PartitionMismatchError, "partition 5, and its topic has 4"),
    "partition below zero": ([Row(b"a", b"1", 1, None, -1)], PartitionMismatchError, "partition -1"),
    "no partition": ([Row(b"a", b"1", 1, None, None)], PartitionMismatchError, "no partition"),  # type: ignore[arg-type]
    "no timestamp": ([Row(b"a", b"1", None)], NullTimestampError, "no timestamp"),  # type: ignore[arg-type]
    "seconds": ([Row(b"a", b"1", 1), Row(b"a", b"1", 1_711_843_200)], TimestampRangeError, "1711843200.*be seconds"),
    "nanoseconds": ([Row(b"a", b"1", 1_711_843_200 * 10**9)], TimestampRangeError, "microseconds or nanoseconds"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_ROWS)
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, case: str) -> None:
    """In this process, as a task gets such rows from Spark."""
    rows, kind, message = BAD_ROWS[case]
    with pytest.raises(kind, match=message) as caught:
        run_attempt(stage_job(tmp_path), 0, 0, [batch_of(rows)])
    assert caught.value.topic == "events"


def stage_job(tmp_path: Path) -> StageJob:
    return StageJob(
        shipped=ship(count_by_value, "app", SETTINGS, dead_letters=False),
        stage=0,
        subtopologies=(0,),
        looped=(),
        inputs=(JobInput("events", 4, has_offsets=True, guesses_unit=True),),
        counts={"events": 4},
        written_counts={"app-by-value-repartition": 4},
        attempts=str(tmp_path / "attempts"),
    )


class AsksForTheTime(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context
        context.get_state_store("kept").put("begun", "yes")

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(str(self.context.current_system_time_ms())))


def by_the_time() -> Topology:
    text = Serdes.STRING
    topology = Topology().add_source("source", "events", key_serde=text, value_serde=text)
    topology.add_processor("asks", AsksForTheTime, "source")
    kept = Stores.key_value_store_builder(Stores.in_memory_key_value_store("kept"), text, text)
    topology.add_state_store(kept, "asks")
    return topology.add_sink("sink", "out", "asks", key_serde=text, value_serde=text)


def test_each_attempt_has_the_time_at_which_the_run_began(tmp_path: Path) -> None:
    """Also for a row that is put without a record."""
    job = replace(
        stage_job(tmp_path), started_ms=1_700_000_000_123,
        shipped=ship(by_the_time, "app", SETTINGS, dead_letters=False), written_counts={"out": 4},
    )  # fmt: skip
    for attempt in range(2):
        (report,) = run_attempt(job, 0, attempt, [batch_of([Row(b"a", b"1", 5, None, 0, 0)])])
        found = [pq.read_table(tmp_path / "attempts" / name).to_pylist() for name in sorted(report["files"])]
        assert [[(row["value"], row["ts"]) for row in rows] for rows in found] == [
            [(b"1700000000123", 5)], [(b"yes", 1_700_000_000_123)]
        ]  # fmt: skip


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    columns = {
        "q": pa.array([0] * len(rows), pa.int32()),
        "pid": pa.array([row.partition for row in rows], pa.int32()),
        "seq": pa.array([row.offset for row in rows], pa.int64()),
        "ts": pa.array([row.ts for row in rows], pa.int64()),
        "key": pa.array([row.key for row in rows], pa.binary()),
        "value": pa.array([row.value for row in rows], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_a_null_key_has_no_partition_to_compute(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PartitionMismatchError, match="null key"):
        backfill(spark, tmp_path, count_by_value, [Row(None, b"1", 1)], partition=None).run()


@pytest.mark.parametrize("encode", [False, True])
def test_a_key_in_another_partition_is_named_if_that_is_asked_for(encode: bool) -> None:
    """In this process, as a task gets such rows from Spark. Null keys may be anywhere."""
    from streams.spark.executor.prepared_history import Preparation, prepared
    from streams.spark.executor.task_errors import error_of

    shipped = ship(count_by_value, "app", SETTINGS, dead_letters=False)
    keys = [b"key-%d" % number for number in range(20)]
    rows = [Row(key, b"v", 1, None, partition_for_key(key, 4), 100 + place) for place, key in enumerate(keys)]
    rows.append(Row(None, b"v", 1, None, 3, 120))
    columns = batch_of(rows)
    if encode:
        columns = columns.set_column(4, "key", columns.column("key").cast(pa.string()))
        columns = columns.set_column(5, "value", columns.column("value").cast(pa.string()))
    job = Preparation(shipped, "events", 4, encode, place=False, check=True)
    (found,) = prepared(job)([columns])
    assert found.column("key").to_pylist() == [*keys, None]
    moved = columns.set_column(
        1, "pid", pa.array([(row.partition + (row.offset == 107)) % 4 for row in rows], pa.int32())
    )
    with pytest.raises(RuntimeError) as raised:
        list(prepared(job)([moved]))
    error = error_of(raised.value, "the history")
    assert type(error) is PartitionMismatchError
    assert (error.topic, error.offset) == ("events", 107)
    assert re.search(r"key b'key-7' is in partition \d, and Kafka's .* puts this key into \d of 4", str(error))


def test_an_error_that_is_not_ours_says_which_part_failed() -> None:
    from streams.spark.errors import StageFailed
    from streams.spark.executor.task_errors import MARK, error_of

    error = error_of(RuntimeError("Job aborted\njava.lang.OutOfMemoryError: heap\n  at x"), "stage 3 of the backfill")
    assert type(error) is StageFailed
    assert error.message == "stage 3 of the backfill failed: RuntimeError: java.lang.OutOfMemoryError: heap"
    cut = error_of(RuntimeError(MARK + '{"type": "NullTimestampError", "mess'), "stage 0")
    assert type(cut) is StageFailed
    assert "NullTimestampError" in str(cut)


def test_holes_between_offsets_are_counted(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"a", b"1", one, None, 0, 10 * one) for one in range(5)]
    result = backfill(spark, tmp_path, count_by_value, rows).run()
    assert result.stages[0].gaps == 4
    assert result.stages[0].tasks[0]["positions"] == {"events": 41}


# ---------------------------------------------------------------------- plans


def two_topics() -> StreamsBuilder:
    builder = StreamsBuilder()
    left, right = builder.table("left", TEXTS), builder.table("right", TEXTS)
    left.join(right, lambda one, other: one + other).to_stream().to("out", Produced(value_serde=Serdes.STRING))
    return builder


def extracted() -> StreamsBuilder:
    builder = StreamsBuilder()
    consumed = Consumed(
        key_serde=Serdes.STRING, value_serde=Serdes.STRING, timestamp_extractor=lambda record, before: 1
    )
    left, right = builder.table("left", consumed), builder.table("right", TEXTS)
    left.join(right, lambda one, other: one + other).to_stream().to("out", Produced(value_serde=Serdes.STRING))
    return builder


def fed_back() -> StreamsBuilder:
    builder = StreamsBuilder()
    both = builder.stream("events", TEXTS).merge(builder.stream("again", TEXTS))
    both.to("again", Produced(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    return builder


LOCK = threading.Lock()


PLANS: dict[str, tuple[Any, list[str], dict[str, Any], type[StreamsError], str]] = {
    "no history": (two_topics, ["left"], {"partitions": {"left": 1}}, MissingHistoryError, "reads 'right'"),
    "history of another topic": (
        count_by_value, ["events", "evnts"], {"partitions": {"events": 1, "evnts": 1}}, MissingHistoryError,
        "'evnts', which the topology does not read.*'events'",
    ),
    "unknown number of partitions": (count_by_value, ["events"], {"partitions": {}}, UnknownPartitionCount, "events"),
    "partitions that differ": (
        two_topics, ["left", "right"], {"partitions": {"left": 2, "right": 3}}, CopartitionError, "'left' has 2"
    ),
    "extractor with several inputs": (
        extracted, ["left", "right"], {"partitions": {"left": 2, "right": 2}}, UnsupportedForBackfill, "extractor"
    ),
    "cycle refused": (
        fed_back, ["events"], {"partitions": {"events": 1, "again": 1}, "on_cycle": "error"}, CyclicTopologyError,
        "'again'",
    ),
    "a lock": (
        lambda: LOCK, ["events"], {}, TopologyNotPicklable, "'LOCK' is a lock"
    ),
    "a topology itself": (count_by_value(), ["events"], {}, TopologyNotPicklable, "a function that makes"),
    "a wrong name": ("no_such_module:topology", ["events"], {}, SparkBridgeError, "no_such_module"),
    "a wrong option": (count_by_value, ["events"], {"order": "offsets"}, SparkBridgeError, "order='offsets'"),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANS)
def test_a_plan_that_cannot_work_is_refused_before_data_is_read(spark: Any, tmp_path: Path, case: str) -> None:
    from streams.spark.backfill.history import History

    topology, topics, options, kind, message = PLANS[case]
    unread = spark.range(1).selectExpr(
        "raise_error('read')::binary key", "null::binary value", "1L timestamp", "0 partition", "0L offset"
    )
    inputs = {topic: History(unread) for topic in topics}
    with pytest.raises(kind, match=message):
        backfill(spark, tmp_path, topology, None, inputs=inputs, **options).plan()
    assert not (tmp_path / "run").exists()


def test_a_plan_explains_its_stages(spark: Any, tmp_path: Path) -> None:
    plan = backfill(spark, tmp_path, count_by_value, rows_of(8)).plan()
    assert [stage.subtopologies for stage in plan.stages] == [(0,), (1,)]
    assert "reads app-by-value-repartition (stage 0, 4 partitions)" in plan.explain()
    assert "note: the history of topic 'events' has a column 'headers' that is not read" in plan.explain()


SCHEMAS: dict[str, tuple[str, dict[str, Any], type[StreamsError], str]] = {
    "column missing": ("binary('k') k, 1L timestamp", {}, HistorySchemaError, "no column 'key'.*it has"),
    "text in place of bytes": (
        "'k' key, binary('v') value, 1L timestamp, 0 partition, 0L offset", {}, HistorySchemaError, "encoded=False"
    ),
    "no time zone": (
        "binary('k') key, binary('v') value, timestamp_ntz'2024-01-01 00:00:00' timestamp, 0 partition, 0L offset", {},
        NaiveTimestampError, "time_zone",
    ),
    "a type that the serde does not write": (
        "7L key, 'v' value, 1L timestamp, 0 partition, 0L offset", {"encoded": False}, HistorySchemaError,
        "column 'key' of the history of topic 'events' is bigint, which the serde 'string'",
    ),
    "no offsets": (
        "binary('k') key, binary('v') value, 1L timestamp, 0 partition", {"offset": None, "order": "offset"},
        UnsupportedForBackfill, "order='offset' needs offsets",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEMAS)
def test_columns_that_do_not_fit_are_refused_by_the_plan(spark: Any, tmp_path: Path, case: str) -> None:
    from streams.spark.backfill.history import History

    columns, options, kind, message = SCHEMAS[case]
    own = {name: options[name] for name in COLUMNS if name in options}
    inputs = {"events": History(spark.range(1).selectExpr(*columns.split(", ")), **own)}
    rest = {name: value for name, value in options.items() if name not in own}
    with pytest.raises(kind, match=message):
        backfill(spark, tmp_path, count_by_value, None, inputs=inputs, **rest).plan()


def test_a_topic_that_a_subtopology_reads_again_goes_round_in_one_task(spark: Any, tmp_path: Path) -> None:
    """The stage ends because each record that goes round is dropped in the end."""

    def countdown() -> StreamsBuilder:
        builder = StreamsBuilder()
        numbers = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG)
        both = builder.stream("events", numbers).merge(builder.stream("again", numbers))
        less = both.filter(lambda key, value: value > 0).map_values(lambda value: value - 1)
        less.to("again", COUNTED)
        less.to("out", COUNTED)
        return builder

    rows = [Row(b"k%d" % one, (one % 3).to_bytes(8, "big"), 100 + one, None, one % 2) for one in range(12)]
    partitions = {"events": 2, "again": 3, "out": 2}
    result = backfill(spark, tmp_path, countdown, rows, partitions=partitions).run()
    expected = run_driver(countdown, {"events": [row._replace(partition=0) for row in rows]})
    found = results_of(result, ["out"], [])
    assert sorted(found.outputs["out"]) == sorted(expected.outputs["out"])


def test_files_of_a_run_directory_have_the_columns_that_are_documented(counted: Any) -> None:
    path = Path(counted.run_dir) / "stage=1" / counted.stages[1].tasks[0]["files"][-1]
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    assert pq.read_schema(path).types == [
        pa.string(), pa.int32(), pa.int64(), pa.binary(), pa.binary(), pa.int64(), header, pa.int32()
    ]  # fmt: skip


# ---------------------------------------------------------------------- one behind the other


def windowed_and_plain() -> StreamsBuilder:
    builder = StreamsBuilder()
    grouped = builder.stream("events", TEXTS).group_by_key()
    plain = Materialized(name="plain", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    windows = Materialized(name="windows", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    grouped.count(materialized=plain).to_stream().to("out", COUNTED)
    size = TimeWindows.of_size_and_grace(timedelta(milliseconds=50), timedelta(milliseconds=20))
    grouped.windowed_by(size).count(materialized=windows)
    return builder


def test_a_second_backfill_continues_where_the_first_one_ended(spark: Any, tmp_path: Path) -> None:
    """Records that are late for windows of the first part are late in the second one too."""
    rows = [Row(b"k%d" % (one % 7), b"v", 1_000 + one - (one * 7919 % 90)) for one in range(600)]
    expected = run_driver(windowed_and_plain, {"events": rows})
    options = {"partitions": {"events": 1, "out": 1}}
    first = backfill(spark, tmp_path, windowed_and_plain, rows[:400], run_dir=tmp_path / "one", **options).run()
    rest = [row._replace(offset=400 + place) for place, row in enumerate(rows[400:])]
    second = backfill(
        spark, tmp_path / "two", windowed_and_plain, rest, run_dir=tmp_path / "run", initial_state=first, **options
    ).run()
    found = results_of(second, ["out"], ["plain", "windows"])
    assert found.tables == {name: expected.tables[name] for name in found.tables}
    assert results_of(first, ["out"], []).outputs["out"] + found.outputs["out"] == expected.outputs["out"]
    assert second.table("plain").collect()
    with pytest.raises(CopartitionError, match="initial_state has 1 partitions"):
        backfill(spark, tmp_path / "three", windowed_and_plain, rest, initial_state=first).plan()


def closed_windows() -> StreamsBuilder:
    """Final counts of windows, summed up behind a repartition topic."""
    builder = StreamsBuilder()
    size = TimeWindows.of_size_and_grace(timedelta(milliseconds=50), timedelta(milliseconds=20))
    counts = Materialized(name="windows", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    windows = builder.stream("events", TEXTS).group_by_key().windowed_by(size).count(materialized=counts)
    final = windows.suppress(Suppressed.until_window_closes(BufferConfig.unbounded())).to_stream()
    grouped = final.group_by(lambda key, value: key.key, Grouped(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    sums = Materialized(name="sums", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    grouped.reduce(lambda one, other: one + other, materialized=sums)
    return builder


def test_what_waits_is_sent_on_at_the_end_if_asked_for(spark: Any, tmp_path: Path) -> None:
    """Also to the stages behind; such a result is none to go on with."""
    from streams.spark.handover.cut import Cut

    rows = [Row(b"k%d" % (one % 3), b"v", 1_000 + one, None, one % 2) for one in range(90)]
    options = {"partitions": {"events": 2}}
    result = backfill(spark, tmp_path, closed_windows, rows, flush_at_end=True, **options).run()
    found = {bytes(row.key): int.from_bytes(row.value, "big") for row in result.changelog_rows("sums").collect()}
    assert found == {b"k%d" % number: 30 for number in range(3)}
    more = {**options, "run_dir": tmp_path / "more"}
    with pytest.raises(UnsupportedForBackfill, match="initial_state is a result of flush_at_end"):
        backfill(spark, tmp_path, closed_windows, rows, initial_state=result, **more).plan()
    with pytest.raises(UnsupportedForBackfill, match="flush_at_end with a cut"):
        backfill(spark, tmp_path, closed_windows, rows, flush_at_end=True, cut=Cut({}), **more)
    with pytest.raises(RunDirConflict, match="flush_at_end was true, is false"):
        backfill(spark, tmp_path, closed_windows, rows, **options).run()


class TicksByWallClock(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(str(self.context.record_metadata.offset)))


def by_wall_clock() -> Topology:
    text = Serdes.STRING
    topology = Topology().add_source("source", "events", key_serde=text, value_serde=text)
    topology.add_processor("ticks", TicksByWallClock, "source")
    return topology.add_sink("sink", "out", "ticks", key_serde=text, value_serde=text)


def test_the_wall_clock_goes_with_the_records_if_asked_for(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"a", b"x", 1_000_000 + 30 * one) for one in range(11)]
    options = {"partitions": {"events": 1}}
    still = backfill(spark, tmp_path, by_wall_clock, rows, run_dir=tmp_path / "still", **options).run()
    assert still.output("out").count() == len(rows)
    moved = backfill(spark, tmp_path, by_wall_clock, rows, wall_clock="event-time", **options).run()
    ticks = [int(row.value) for row in moved.output("out").orderBy("seq").collect() if bytes(row.key) == b"tick"]
    assert ticks == [1_000_120, 1_000_210, 1_000_300]


def test_a_processor_that_asks_for_offsets_needs_a_history_with_them(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedContextError, match="offset"):
        backfill(spark, tmp_path, by_wall_clock, [Row(b"a", b"x", 1)], offset=None, partitions={"events": 1}).run()


def test_tables_are_columns_and_can_be_compared(counted: Any) -> None:
    table, wanted, rows = counted.table("by-value"), truth(COUNTED_ROWS), table_of(counted)
    assert {row.key.encode(): row.value for row in table.collect()} == wanted
    written = counted.output("out", key=Serdes.STRING, value=Serdes.LONG).collect()
    assert {(row.key, row.value) for row in written if row.value == rows[row.key.encode()]}
    assert max(row.value for row in written) == max(wanted.values())
    assert list(written[0].asDict()) == counted.output("out").columns
    live = table.selectExpr("partition", "key", "if(key = 'v0', value + 1, value) as value", "timestamp")
    (row,) = counted.diff("by-value", live.where("key <> 'v9999'")).collect()
    assert (row.key, row.difference, row.live.value - row.backfill.value) == ("v0", "different", 1)


# ---------------------------------------------------------------------- edges


def to_named_topic() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("events", TEXTS).to(
        lambda key, value, context: "events" if value == "again" else f"out-{value}",
        Produced(key_serde=Serdes.STRING, value_serde=Serdes.STRING),
    )
    return builder


def test_a_topic_named_by_a_function_is_an_output_unless_it_is_read_again(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"a", b"x", 1), Row(b"a", b"y", 2), Row(b"a", b"x", 3)]
    result = backfill(spark, tmp_path, to_named_topic, rows, partitions={"events": 1}).run()
    assert [row.partition for row in result.output("out-x").collect()] == [None, None]
    assert result.output("out-y").count() == 1
    options = {"partitions": {"events": 1}, "run_dir": tmp_path / "again"}
    with pytest.raises(UnsupportedForBackfill, match="which the topology reads again"):
        backfill(spark, tmp_path, to_named_topic, [*rows, Row(b"a", b"again", 4)], **options).run()


def test_a_history_without_records_gives_empty_tables(spark: Any, tmp_path: Path) -> None:
    result = backfill(spark, tmp_path, count_by_value, []).run()
    assert table_of(result) == {}
    assert result.output("out").count() == 0
    assert result.table("by-value").collect() == []
    assert [task["positions"] for task in result.stages[0].tasks] == [{}] * 4
