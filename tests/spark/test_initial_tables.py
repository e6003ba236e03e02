"""A backfill that begins with tables given as DataFrames, such as those of a live application."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from backfill_kit import SETTINGS, Row, results_of, run_driver, write_history
from processor_api.serde import Serdes
from streams import Consumed, Materialized, SessionWindows, Stores, StreamsBuilder, TimeWindows
from streams.spark import (
    Backfill,
    History,
    HistorySchemaError,
    PartitionMismatchError,
    RunDirConflict,
    SparkBridgeError,
    UnsupportedForBackfill,
)

STORES = ("plain", "windows", "sessions")
ROWS = [Row(b"k%d" % (one % 7), b"v", 1_000 + 11 * one, partition=one % 7 % 2) for one in range(300)]


def counts(store: Any) -> Materialized[Any, Any]:
    if isinstance(store, str):
        return Materialized(name=store, key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    return Materialized(supplier=store, key_serde=Serdes.STRING, value_serde=Serdes.STRING)


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    events = builder.stream("events", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    grouped = events.group_by_key()
    grouped.count(materialized=counts("plain"))
    size = TimeWindows.of_size_with_no_grace(timedelta(milliseconds=500))
    grouped.windowed_by(size).count(materialized=counts("windows"))
    gap = SessionWindows.of_inactivity_gap_with_no_grace(timedelta(milliseconds=100))
    grouped.windowed_by(gap).count(materialized=counts("sessions"))
    events.to_table(materialized=counts(Stores.persistent_versioned_key_value_store("versions", 10_000)))
    return builder


def backfill(spark: Any, path: Path, rows: list[Row], **options: Any) -> Backfill:
    lake = path / f"lake-{len(rows)}-{rows[0].ts}"
    if not lake.exists():
        write_history(lake, rows)
    given: dict[str, Any] = {"application_id": "app", "config": SETTINGS, "outputs": "none", **options}
    return Backfill(spark, topology, {"events": History.parquet(spark, str(lake), partitions=2)}, **given)


def test_tables_are_a_beginning_like_the_history_that_made_them(spark: Any, tmp_path: Path) -> None:
    """Keys of windows and sessions are made again of their columns. Killed behind the tables, a run goes on."""
    first = backfill(spark, tmp_path, ROWS[:200], run_dir=tmp_path / "one").run()
    tables = {store: first.table(store, raw=True, expired_windows=True) for store in STORES}
    second = backfill(spark, tmp_path, ROWS[200:], run_dir=tmp_path / "two", initial_state=tables).run()
    expected = run_driver(topology, {"events": ROWS})
    found = results_of(second, [], STORES).tables
    assert found == {f"app-{store}-changelog": expected.tables[f"app-{store}-changelog"] for store in STORES}
    assert {path.parent.name for path in (tmp_path / "two" / "initial").glob("**/*.parquet")} == {"kind=state"}
    (tmp_path / "two" / "stage=0" / "_DONE.json").unlink()
    again = backfill(spark, tmp_path, ROWS[200:], run_dir=tmp_path / "two", initial_state=tables).run()
    assert results_of(again, [], STORES).tables == found
    with pytest.raises(RunDirConflict, match="other options: initial_state"):
        backfill(spark, tmp_path, ROWS[200:], run_dir=tmp_path / "two", initial_state={"plain": tables["plain"]}).run()
    moved = {"plain": tables["plain"].selectExpr("partition + 1 as partition", "key", "value", "timestamp")}
    with pytest.raises(PartitionMismatchError, match=r"in partition 2, and app-plain-changelog has 2"):
        backfill(spark, tmp_path, ROWS[200:], run_dir=tmp_path / "three", initial_state=moved).run()


@pytest.mark.parametrize(
    ("store", "columns", "error", "message"),
    [
        ("plane", "binary('k') key", SparkBridgeError, "no store 'plane' .*did you mean 'plain'"),
        ("plain", "binary('k') key", HistorySchemaError, "other columns than its table: .* has no column 'value'"),
        ("plain", "'k' key, binary('v') value, 1L timestamp, 0 partition", HistorySchemaError, "'key' .* is string"),
        (
            "windows", "binary('k') key, binary('v') value, 1L timestamp, 0 partition", HistorySchemaError,
            "no column 'window_start'",
        ),
        (
            "versions", "binary('k') key, binary('v') value, 1L timestamp, 0 partition", UnsupportedForBackfill,
            "give the result of an earlier backfill",
        ),
    ],
)  # fmt: skip
def test_a_dataframe_that_is_no_table_of_a_store_is_refused_by_the_plan(
    spark: Any, tmp_path: Path, store: str, columns: str, error: type[Exception], message: str
) -> None:
    df = spark.range(1).selectExpr(*columns.split(", "))
    with pytest.raises(error, match=message):
        backfill(spark, tmp_path, ROWS[:1], run_dir=tmp_path / "run", initial_state={store: df}).plan()
