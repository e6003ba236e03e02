"""Backfills without Spark: the same results and errors as in Spark, in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from backfill_kit import SETTINGS, Row, results_of, write_history
from processor_api.errors import ProcessingError
from processor_api.topology.partitioner import partition_for_key
from streams import Grouped, Materialized, Produced, Serdes, StreamsBuilder
from streams.spark import (
    Backfill,
    BackfillResult,
    History,
    MissingHistoryError,
    NaiveTimestampError,
    NullTimestampError,
    OffsetGapError,
    PartitionMismatchError,
    SparkBridgeError,
    StageFailed,
    TimestampRangeError,
)

TEXT = Serdes.STRING


def counts() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    grouped = builder.stream("events").group_by(lambda key, value: value, Grouped(key_serde=TEXT, value_serde=TEXT))
    table = grouped.count(materialized=Materialized(name="by-value", key_serde=TEXT, value_serde=Serdes.LONG))
    table.to_stream().to("out", Produced(key_serde=TEXT, value_serde=Serdes.LONG))
    return builder


def rows_of(count: int) -> list[Row]:
    return [Row(b"k%d" % (one % 7), b"v%d" % (one % 5), 1_000 + one, partition=one % 4) for one in range(count)]


def backfill(path: Path, history: History, engine: str = "local[1]", **options: Any) -> Backfill:
    given: dict[str, Any] = {"config": SETTINGS, "partitions": {"events": 4, "out": 2}, **options}
    topology = given.pop("topology", counts)
    return Backfill(
        None, topology, {"events": history}, application_id="app", run_dir=path / "run", engine=engine, **given
    )  # fmt: skip


def by_value(result: BackfillResult) -> dict[str, int]:
    return {row["key"]: row["value"] for row in result.table("by-value").to_pylist()}


def test_processes_give_what_this_process_gives(tmp_path: Path) -> None:
    path, found = write_history(tmp_path / "lake", rows_of(500)), []
    for engine in ("local[1]", "local[2]"):
        result = backfill(tmp_path / engine, History.parquet(None, path), engine).run()
        assert by_value(result) == {f"v{number}": 100 for number in range(5)}
        found.append(results_of(result, ["out"], ["by-value"]))
        loaded = BackfillResult.load(None, tmp_path / engine / "run", counts().build())
        assert loaded.position == result.position
    assert found[0] == found[1]


def test_the_order_of_rows_without_offsets_is_that_of_spark(spark: Any, tmp_path: Path) -> None:
    rows = [Row(b"k%d" % (one % 5), b"v%d" % (one % 3), 1_000 + (one * 37) % 499) for one in range(400)]
    path, found = write_history(tmp_path / "lake", rows, offsets=False), []
    for session, engine in ((spark, "spark"), (None, "local[1]")):
        history = History.parquet(session, path, offset=None, partitions=1)
        made = Backfill(
            session, counts, {"events": history}, application_id="app", run_dir=tmp_path / engine, engine=engine,
            partitions={"out": 2}, config=SETTINGS,
        )  # fmt: skip
        found.append(results_of(made.run(), ["out"], ["by-value"]))
    assert found[0] == found[1]


def sent_on() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde=Serdes.BYTES, value_serde=Serdes.BYTES)
    builder.stream("events").to("out")
    return builder


def test_nulls_of_equal_timestamps_come_first_as_in_spark(spark: Any, tmp_path: Path) -> None:
    """Rows without offsets and with the same time are told apart by their keys, values and headers."""
    parts = (None, b"", b"a")
    rows = [Row(key, value, 1_000, headers) for key in parts for value in parts for headers in (None, [("h", b"1")])]
    path, found = write_history(tmp_path / "lake", rows, offsets=False), []
    for session, engine in ((spark, "spark"), (None, "local[1]")):
        history = History.parquet(session, path, offset=None, partitions=1, headers="headers")
        made = Backfill(
            session, sent_on, {"events": history}, application_id="app", run_dir=tmp_path / engine, engine=engine,
            partitions={"out": 1}, config=SETTINGS,
        )  # fmt: skip
        found.append(results_of(made.run(), ["out"], []).outputs["out"])
    assert found[0] == found[1] == [(row.key, row.value, row.ts, tuple(row.headers or ())) for row in rows]


def test_values_get_their_bytes_partitions_and_times(tmp_path: Path) -> None:
    """Typed columns in a time zone; half past one is before the clocks of Berlin go forward."""
    count = 500
    times = pa.array([1_711_848_600_000 + 1_000 * one for one in range(count)], pa.timestamp("ms"))
    table = pa.table({
        "key": [f"key-{one % 50}" for one in range(count)],
        "value": [f"v{one % 7}" for one in range(count)],
        "timestamp": times,
    })  # fmt: skip
    history = History(table, partition=None, offset=None, encoded=False, time_zone="Europe/Berlin")
    result = backfill(tmp_path, history).run()
    assert by_value(result) == {f"v{value}": len(range(value, count, 7)) for value in range(7)}
    sent = result.output("app-by-value-repartition").to_pylist()
    assert {row["upstream"] for row in sent} == {partition_for_key(b"key-%d" % key, 4) for key in range(50)}
    assert min(row["timestamp"].timestamp() for row in sent) == 1_711_845_000


@pytest.mark.parametrize(
    ("unit", "given", "expected"),
    [("s", 5, 5_000), ("ms", 5, 5), ("us", 5_999, 5), ("us", 6_000, 6), ("ns", 5_999_999, 5), (None, 5, 5)],
)
def test_times_are_read_in_their_unit(tmp_path: Path, unit: str | None, given: int, expected: int) -> None:
    table = pa.table({"key": [b"a"], "value": [b"v"], "timestamp": [given], "partition": [0], "offset": [0]})
    history = History(table, time_unit=unit)
    result = backfill(tmp_path, history).run()
    assert result.position.topics["events"].partitions[0].time_ms == expected


def test_a_time_that_a_zone_does_not_have_is_refused(tmp_path: Path) -> None:
    times = pa.array([1_711_852_200_000], pa.timestamp("ms"))  # half past two on the day on which clocks go forward
    table = pa.table({"key": [b"a"], "value": [b"v"], "timestamp": times, "partition": [0], "offset": [0]})
    with pytest.raises(NaiveTimestampError, match="'timestamp' has a time that Europe/Berlin does not have"):
        backfill(tmp_path, History(table, time_zone="Europe/Berlin")).run()


GOOD = {"key": b"a", "value": b"v", "timestamp": 5, "partition": 0, "offset": 0}


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        ([{**GOOD, "partition": None}], PartitionMismatchError, "a row of the history has no partition"),
        ([{**GOOD, "partition": 4}], PartitionMismatchError, "is in partition 4, and its topic has 4"),
        ([{**GOOD, "timestamp": None}], NullTimestampError, "has no timestamp"),
        ([GOOD, GOOD], OffsetGapError, "two rows of the history have the same offset"),
        ([GOOD, {**GOOD, "offset": None}], OffsetGapError, "has no offset"),
        ([{**GOOD, "timestamp": 1_700_000_000}], TimestampRangeError, "seems to be seconds"),
    ],
)
@pytest.mark.parametrize("engine", ["local[1]", "local[2]"])
def test_rows_that_cannot_be_used_are_named(tmp_path: Path, rows: Any, error: Any, match: str, engine: str) -> None:
    schema = pa.schema([
        ("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("partition", pa.int32()),
        ("offset", pa.int64()),
    ])  # fmt: skip
    with pytest.raises(error, match=match):
        backfill(tmp_path, History(pa.Table.from_pylist(rows, schema)), engine).run()


def failing(flag: Path) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)

    def check(key: str, value: str) -> str:
        if key == "k3" and flag.exists():
            raise ValueError("not yet")
        with flag.with_suffix(".seen").open("a") as file:
            file.write(f"{key}\n")
        return value

    builder.stream("events").map_values_with_key(check).to("out")
    return builder


def test_tasks_that_were_done_are_kept(tmp_path: Path) -> None:
    rows = [
        Row(b"k%d" % partition, b"v", 1_000 + one, partition=partition) for partition in range(4) for one in range(9)
    ]
    history, flag = History.parquet(None, write_history(tmp_path / "lake", rows)), tmp_path / "broken"
    flag.touch()
    with pytest.raises(ProcessingError, match="not yet"):
        backfill(tmp_path, history, topology=lambda: failing(flag)).run()
    flag.unlink()
    result = backfill(tmp_path, history, topology=lambda: failing(flag)).run()
    seen = flag.with_suffix(".seen").read_text().split()
    assert {key: seen.count(key) for key in seen} == {f"k{number}": 9 for number in range(4)}
    assert result.output("out").num_rows == len(rows)


def dying() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde=TEXT, value_serde=TEXT)
    builder.stream("events").map_values(lambda value: os.kill(os.getpid(), signal.SIGKILL) or value).to("out")
    return builder


def test_a_process_that_dies_ends_the_backfill(tmp_path: Path) -> None:
    history = History.parquet(None, write_history(tmp_path / "lake", rows_of(40)))
    with pytest.raises(StageFailed, match="stage 0 of the backfill failed"):
        backfill(tmp_path, history, "local[2]", topology=dying).run()


def test_a_part_of_a_dataset_is_a_history_too(tmp_path: Path) -> None:
    for day in (1, 2):
        write_history(
            tmp_path / "lake" / f"day={day}", [row._replace(offset=100 * day + n) for n, row in enumerate(rows_of(20))]
        )
    history = History(ds.dataset(tmp_path / "lake", format="parquet", partitioning="hive"))
    assert sum(by_value(backfill(tmp_path, history).run()).values()) == 40


def test_a_dataframe_of_spark_is_refused(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("select binary('a') key, binary('v') value, 1L timestamp, 0 partition, 0L offset")
    with pytest.raises(SparkBridgeError, match="is a DataFrame of Spark: for engine='local' give"):
        backfill(tmp_path, History(frame)).run()
    with pytest.raises(MissingHistoryError):
        Backfill(None, counts, {}, application_id="app", run_dir=tmp_path / "none", engine="local").plan()


WITHOUT_SPARK = """
import sys, tempfile
sys.modules["pyspark"] = None
import pyarrow as pa
from streams import StreamsBuilder
from streams.spark import Backfill, History

def counts():
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("events").group_by_key().count(materialized="counts")
    return builder

times = pa.array([1, 2, 3], pa.timestamp("s", "UTC"))
table = pa.table({"key": ["a", "b", "a"], "value": ["v"] * 3, "timestamp": times})
history = History(table, partition=None, offset=None, encoded=False, partitions=2)
for engine in ("local[1]", "local[2]"):
    made = Backfill(None, counts, {"events": history}, application_id="shop", run_dir=tempfile.mkdtemp(), engine=engine)
    print(sorted((row["key"], row["value"]) for row in made.run().table("counts").to_pylist()))
"""


def test_a_program_without_spark_and_without_a_guard_runs(tmp_path: Path) -> None:
    """Worker processes do not import the program, which has no ``if __name__ == "__main__"``."""
    (tmp_path / "program.py").write_text(WITHOUT_SPARK)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == ["[('a', 2), ('b', 1)]"] * 2, done.stderr
