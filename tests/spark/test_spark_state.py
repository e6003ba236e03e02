"""Stores on disk as DataFrames: state directories of workers, and run directories."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateDirectoryError
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster
from spark_support.stores_app import SETTINGS, STORES, records, topology
from streams.spark import SparkBridgeError, UnsupportedStore, read_state
from streams.testing import RawRecord, TopologyTestDriver
from waiting import wait_until

COUNT = 60


@pytest.fixture(scope="module")
def produced() -> Iterator[dict[str, list[RawRecord]]]:
    """The records of the application's changelogs, by store."""
    with TopologyTestDriver(topology(), {**SETTINGS, "application.id": "app"}) as driver:
        source = driver.create_input_topic("input")
        for key, value, time, headers in records(1, COUNT):
            source.pipe_input(key, value, timestamp=time, headers=headers)
        found = driver.take_produced()
        yield {store: found[f"app-{store}-changelog"] for store in STORES}


@pytest.fixture(scope="module")
def run_dir(produced: dict[str, list[RawRecord]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a backfill of the same records."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = tmp_path_factory.mktemp("run")
    rows = []
    for store, found in produced.items():
        latest: dict[Any, RawRecord] = {}
        for each in found:
            place = (each.key, each.timestamp) if store == "versioned" else each.key
            latest.pop(place, None)
            latest[place] = each
        rows += [
            {"topic": f"app-{store}-changelog", "partition": 0, "seq": number, "key": each.key, "value": each.value,
             "ts": each.timestamp, "headers": [{"key": k, "value": v} for k, v in each.headers], "upstream": 0}
            for number, each in enumerate(latest.values()) if store == "versioned" or each.value is not None
        ]  # fmt: skip
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    schema = pa.schema([
        ("topic", pa.string()), ("partition", pa.int32()), ("seq", pa.int64()), ("key", pa.binary()),
        ("value", pa.binary()), ("ts", pa.int64()), ("headers", headers), ("upstream", pa.int32()),
    ])  # fmt: skip
    files = root / "stage=0" / "kind=state"
    files.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, schema), files / "p0-a1.parquet")
    (root / "run.json").write_text(json.dumps({"application_id": "app", "stages": 1}))
    task = {"files": ["kind=state/p0-a1.parquet"], "checksums": {f"app-{store}-changelog": 0 for store in STORES}}
    (root / "stage=0" / "_DONE.json").write_text(json.dumps({"tasks": [task]}))
    return root


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of a worker that processed the same records."""
    directory = tmp_path_factory.mktemp("state")
    with Cluster(directory, topics={"input": 1}, one_state=True) as cluster:
        app = cluster.app(topology(), SETTINGS)
        for key, value, time, headers in records(1, COUNT):
            cluster.send(value, topic="input", key=key, timestamp=time, headers=headers)
        wait_until("all is processed", lambda: cluster.committed("input") == COUNT)
        assert app.close(CLOSE_TIMEOUT)
    return directory


def rows(df: Any, *, plain: bool) -> list[Any]:
    """The rows in order, without timestamps where the store has none on disk."""
    names = [name for name in df.columns if name != "partition" and not (plain and name == "timestamp")]
    return sorted((tuple(row) for row in df.select(*names).collect()), key=repr)


@pytest.mark.parametrize("store", STORES)
def test_state_and_run_directories_show_the_same_tables(spark: Any, state_dir: Path, run_dir: Path, store: str) -> None:
    """They come by two ways: rows of RocksDB, and records of changelogs."""
    plain = store not in ("timestamped", "headers", "expiring")
    options: dict[str, Any] = {"config": SETTINGS, "versions": "all"}
    of_state, of_run = (read_state(spark, path, topology, store, **options) for path in (state_dir, run_dir))
    assert of_state.dtypes == of_run.dtypes
    found = rows(of_state, plain=plain)
    assert found == rows(of_run, plain=plain)
    assert len(found) > 2
    if store == "versioned":
        latest = read_state(spark, state_dir, topology, store, config=SETTINGS)
        assert rows(latest, plain=True) == [row for row in found if row[2] is None]


def test_what_is_not_there_is_refused(spark: Any, state_dir: Path, run_dir: Path, tmp_path: Path) -> None:
    with pytest.raises(StateDirectoryError, match="does not exist"):
        read_state(spark, tmp_path / "none", topology, "plain", config=SETTINGS)
    with pytest.raises(SparkBridgeError, match="holds the state of 0 applications: none"):
        read_state(spark, tmp_path, topology, "plain", config=SETTINGS)
    with pytest.raises(UnsupportedStore, match="the topology has no store 'plane'; it has: doubles"):
        read_state(spark, state_dir, topology, "plane", config=SETTINGS)
    with pytest.raises(SparkBridgeError, match="versions is 'latest' or 'all', not 'every'"):
        read_state(spark, state_dir, topology, "plain", config=SETTINGS, versions="every")
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SparkBridgeError, match="cannot be read as that of a backfill"):
        read_state(spark, tmp_path, topology, "plain", config=SETTINGS)
    (tmp_path / "run.json").write_text('{"application_id": "app", "stages": 2}')
    with pytest.raises(SparkBridgeError, match="is not complete, stage 0 is missing: run it again"):
        read_state(spark, tmp_path, topology, "plain", config=SETTINGS)
