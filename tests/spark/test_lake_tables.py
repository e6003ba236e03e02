"""Tables of a lake as histories and as results, whose versions are a part of positions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from streams import StreamsBuilder
from streams.spark import Backfill, BackfillResult, History, Position, PositionError, SparkBridgeError


def counts() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("orders").group_by_key().count(materialized="counts")
    return builder


def rows(*offsets: int, with_offsets: bool = True) -> pa.Table:
    columns: dict[str, Any] = {
        "partition": pa.array([0] * len(offsets), pa.int32()),
        "key": pa.array([b"ann"] * len(offsets)),
        "value": pa.array([b"v"] * len(offsets)),
        "timestamp": pa.array([1_760_000_000_000 + one for one in offsets]),
    }
    if with_offsets:
        columns["offset"] = pa.array(offsets, pa.int64())
    return pa.table(columns)


def run(path: Path, history: History, earlier: BackfillResult | None = None, **options: Any) -> BackfillResult:
    backfill = Backfill(
        None, counts, {"orders": history}, application_id="shop", run_dir=path, partitions={"orders": 1},
        initial_state=earlier, engine="local[1]", **options,
    )  # fmt: skip
    return backfill.run()


def count(result: BackfillResult) -> int:
    return sum(row["value"] for row in result.table("counts").to_pylist())


def iceberg(path: Path) -> Any:
    path.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", schema=rows(0).schema)


def test_a_delta_table_is_read_at_a_version(tmp_path: Path) -> None:
    lake = str(tmp_path / "orders")
    for offsets in ((0, 1, 2), (3, 4)):
        write_deltalake(lake, rows(*offsets), mode="append")
    first = run(tmp_path / "1", History.delta(None, lake, version=0))
    assert count(first) == 3
    again = run(tmp_path / "again", History.delta(None, lake, version=0), first)
    assert count(again) == 3
    with pytest.raises(PositionError, match=r"3 offsets \(0 to 2\) would be processed twice"):
        run(tmp_path / "2", History.delta(None, lake), first)
    second = run(tmp_path / "2", History.delta(None, lake), first, overlaps="skip")
    assert count(second) == 5
    assert second.position.topics["orders"].batches[-1].source["snapshot"] == "1"


def test_an_iceberg_table_is_read_at_a_snapshot(tmp_path: Path) -> None:
    table = iceberg(tmp_path / "lake")
    for offsets in ((0, 1, 2), (3, 4)):
        table.append(rows(*offsets))
    first = run(tmp_path / "1", History.iceberg(None, table, snapshot=table.history()[0].snapshot_id))
    assert count(first) == 3
    second = run(tmp_path / "2", History.iceberg(None, table), first, overlaps="skip")
    assert count(second) == 5
    assert count(run(tmp_path / "again", History.iceberg(None, table), second)) == 5


def test_another_version_without_offsets_is_refused(tmp_path: Path) -> None:
    lake = str(tmp_path / "orders")
    for offsets in ((0, 1, 2), (3, 4)):
        write_deltalake(lake, rows(*offsets, with_offsets=False), mode="append")
    first = run(tmp_path / "1", History.delta(None, lake, version=0, offset=None))
    assert count(run(tmp_path / "again", History.delta(None, lake, version=0, offset=None), first)) == 3
    with pytest.raises(PositionError, match="at version 0, and the history of topic 'orders' is version 1 of it"):
        run(tmp_path / "2", History.delta(None, lake, offset=None), first)


def test_a_table_is_a_delta_table_and_an_iceberg_table_with_its_position(tmp_path: Path) -> None:
    result = run(tmp_path / "run", History(rows(0, 1, 2)))
    for version in (0, 1):
        assert result.write_delta("counts", tmp_path / "counts") == version
    written = DeltaTable(str(tmp_path / "counts"))
    assert [(row["key"], row["value"]) for row in written.to_pyarrow_table().to_pylist()] == [("ann", 3)]
    assert Position.from_json(written.history(1)[0]["streams.position"]) == result.position
    (tmp_path / "lake").mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.counts", schema=result.table("counts").schema)
    assert result.write_iceberg("counts", table) == table.current_snapshot().snapshot_id
    assert [(row["key"], row["value"]) for row in table.scan().to_arrow().to_pylist()] == [("ann", 3)]
    assert Position.from_json(table.current_snapshot().summary["streams.position"]) == result.position


def test_a_session_reads_a_table_too(spark: Any, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "orders"), rows(0, 1, 2))
    history = History.delta(spark, tmp_path / "orders")
    backfill = Backfill(
        spark, counts, {"orders": history}, application_id="shop", run_dir=tmp_path / "run", partitions={"orders": 1}
    )
    result = backfill.run()
    assert [row.value for row in result.table("counts").collect()] == [3]
    assert result.write_delta("counts", tmp_path / "counts") == 0


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SparkBridgeError, match="there is no Delta table in"):
        History.delta(None, tmp_path)
    write_deltalake(str(tmp_path / "orders"), rows(0))
    with pytest.raises(SparkBridgeError, match="cannot be read at version 7"):
        History.delta(None, tmp_path / "orders", version=7)
    table = iceberg(tmp_path / "lake")
    assert History.iceberg(None, table).df.num_rows == 0
    table.append(rows(0))
    with pytest.raises(SparkBridgeError, match=r"iceberg .*orders has no snapshot 5; the last ones are"):
        History.iceberg(None, table, snapshot=5)
    with pytest.raises(SparkBridgeError, match=r"cannot be loaded: .* Give CATALOG\.NAMESPACE\.TABLE"):
        History.iceberg(None, "none.shop.orders")
