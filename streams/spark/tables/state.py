"""Stores as DataFrames without Kafka: from state directories of workers, and from run directories of backfills."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from processor_api.stores.time_to_live import RECORD_TIME
from processor_api.topology.function import TopologyLike
from state.directory.inspect import applications_in, tasks_of
from state.offline.stores import StoredStore, scan, stores_in
from state.rocksdb.reader import DatabaseReader
from state.time_to_live.options import EXPIRY, EXPIRY_ROW
from state.versioned.history import VERSIONS
from state.windowed.segments import FACTS, FACTS_KEY
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.spark.errors import SparkBridgeError, UnsupportedStore
from streams.spark.rows.changelog_rows import table_of_rows
from streams.spark.rows.compaction import CHUNK
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.state_files import StateFiles, state_files, state_rows_of
from streams.spark.rows.store_layouts import load_topology, table_layout
from streams.spark.rows.table_layout import Entries, TableLayout, version_limit
from streams.spark.tables.known import remember
from streams.spark.tables.registration import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUN, DONE = "run.json", "_DONE.json"


@dataclass(frozen=True)
class StatePlan:
    """Everything that a task needs to read a store on disk; sent to the executors."""

    layout: TableLayout
    all_versions: bool
    expired: bool
    application_id: str


def read_state(
    spark: SparkSession,
    path: str | os.PathLike[str],
    topology: TopologyLike | str,
    store: str,
    *,
    config: StreamsConfig | Mapping[str, Any] | None = None,
    application_id: str | None = None,
    raw: bool = False,
    versions: str = "latest",
    expired_windows: bool = False,
) -> DataFrame:
    """Returns the table of a store that is on disk, without asking Kafka.

    The columns are those of `read_table`, without ``changelog_offset``.

    A state directory shows what was committed when a task of Spark opens it, also while its worker runs; plain stores
    have no timestamps there, so these are null. A run directory of a backfill shows the table after its last record.
    Driver and executors must see the path alike: on a cluster it is on a file system that they share.

    :param path: ``state.dir`` of a worker, the directory of one application in it, or ``run_dir`` of a backfill.
    :param config: settings of the application, for its default serdes.
    :param application_id: which one, where the state directory holds several.
    :raises StateDirectoryError: if there is no such state.
    :raises UnsupportedStore: if the topology or the directory has no such store.
    """
    register(spark)
    if versions not in ("latest", "all"):
        raise SparkBridgeError(f"versions is 'latest' or 'all', not {versions!r}", store=store)
    root = Path(path).absolute()
    run = _run_of(root)
    owner = application_id or (run["application_id"] if run else _owner(root))
    settings = _settings(config, owner)
    layout = replace(
        table_layout(settings, load_topology(topology, settings), store, raw=raw, on_disk=run is None), offsets=False
    )
    if run is not None:
        rows = state_rows_of(spark, _files(root, run, layout.topic), layout.topic)
        df = table_of_rows(rows, layout, all_versions=versions == "all", expired=expired_windows)
        return remember(df, versions=versions)
    paths = _tasks(root, owner, store)
    text = packed(StatePlan(layout, versions == "all", expired_windows, owner))
    tasks = spark.createDataFrame([(each,) for each in paths], "task string")
    spread = tasks.repartition(len(paths), "task")
    df = spread.mapInArrow(lambda batches: _read_tasks(text, str(root), batches), layout.schema)
    return remember(df, versions=versions)


def _settings(config: StreamsConfig | Mapping[str, Any] | None, owner: str) -> StreamsConfig:
    if isinstance(config, StreamsConfig):
        return config.model_copy(update={"application_id": owner})
    given = {name: value for name, value in (config or {}).items() if name not in ("application.id", "application_id")}
    if "bootstrap_servers" not in given:
        given.setdefault("bootstrap.servers", "none:9092")
    return StreamsConfig.of({**given, "application.id": owner})


def _run_of(root: Path) -> dict[str, Any] | None:
    """Returns what a run directory says of itself; ``None`` if it is none."""
    try:
        text = (root / RUN).read_text()
    except OSError:
        return None
    try:
        found: dict[str, Any] = json.loads(text)
        found["application_id"]
    except (ValueError, KeyError, TypeError) as error:
        raise SparkBridgeError(f"{root / RUN} cannot be read as that of a backfill: {error!r}; run it again") from error
    return found


def _files(root: Path, run: Mapping[str, Any], changelog: str) -> list[StateFiles]:
    """Returns the files of the stages that are complete with rows of a changelog.

    :raises SparkBridgeError: if a stage is missing.
    """
    stages = sorted(root.glob("stage=*"), key=lambda stage: int(stage.name.partition("=")[2]))
    wanted = run.get("stages", len(stages))
    found = []
    for number in range(wanted):
        stage = root / f"stage={number}"
        try:
            done = json.loads((stage / DONE).read_text())
        except OSError as error:
            raise SparkBridgeError(
                f"the backfill in {str(root)!r} is not complete, stage {number} is missing: run it again"
            ) from error
        if any(changelog in task["checksums"] for task in done["tasks"]):
            found += state_files(stage, done["tasks"])
    return found


def _owner(root: Path) -> str:
    found = applications_in(root)
    if len(found) != 1:
        names = ", ".join(sorted(found)) or "none"
        raise SparkBridgeError(
            f"{str(root)!r} holds the state of {len(found)} applications: {names}; give application_id"
        )
    return next(iter(found))


def _tasks(root: Path, owner: str, store: str) -> list[str]:
    """Returns the names of the tasks that have the store.

    :raises UnsupportedStore: if none has.
    """
    found, there = [], set()
    for task in tasks_of(root, owner):
        with DatabaseReader(task.database) as reader:
            names = {one.name for one in stores_in(reader, task)}
        there |= names
        if store in names:
            found.append(task.name)
    if not found:
        names_text = ", ".join(sorted(there)) or "none"
        raise UnsupportedStore(
            f"there is no store {store!r} on disk in {str(root)!r}, only: {names_text}; stores in memory are not there",
            store=store,
        )
    if all(name.startswith("global/") for name in found):
        return found[:1]  # each process has a whole copy
    return found


def _read_tasks(text: str, root: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs on the executors."""
    plan: StatePlan = unpacked(text)
    for batch in batches:
        for name in batch.column("task").to_pylist():
            (task,) = tasks_of(Path(root), plan.application_id, [name])
            with DatabaseReader(task.database) as reader:
                stores = {one.name: one for one in stores_in(reader, task)}
                if plan.layout.store in stores:
                    partition = -1 if task.task is None else task.task.partition
                    for entries in _entries(plan, reader, stores[plan.layout.store]):
                        yield plan.layout.batch(partition, entries)


def _entries(plan: StatePlan, reader: DatabaseReader, store: StoredStore) -> Iterator[Entries]:
    layout = plan.layout
    stream_time = _stream_time(reader, store, layout)
    limit = version_limit(layout.parameters, stream_time) if layout.form is ChangelogForm.VERSIONS else 0
    rows = iter(scan(reader, store))
    while chunk := list(islice(rows, CHUNK)):
        if layout.form is ChangelogForm.VERSIONS:
            chunk = [
                row for row in chunk
                if row.value is not None
                and (plan.all_versions or "valid_to" not in row.more)
                and (plan.expired or row.more.get("valid_to", limit) >= limit)
            ]  # fmt: skip
        names = {
            ChangelogForm.WINDOWS: ("window_start",),
            ChangelogForm.SESSIONS: ("session_start", "session_end"),
            ChangelogForm.VERSIONS: ("valid_from", "valid_to"),
        }
        times: dict[str, Any] = {
            name.replace("session_", "window_"): [row.more.get(name) for row in chunk]
            for name in names.get(layout.form, ())
        }
        if layout.form is ChangelogForm.WINDOWS:
            times["window_end"] = layout.ends(times["window_start"])
            if layout.duplicates:
                times["sequence"] = [row.more["sequence"] for row in chunk]
        nothing = [None] * len(chunk)
        entries = Entries(
            [row.key for row in chunk], [row.value for row in chunk], [row.timestamp for row in chunk], nothing,
            [row.headers for row in chunk] if layout.headers else None, times,
        )  # fmt: skip
        if layout.form is not ChangelogForm.VERSIONS and not plan.expired:
            entries = layout.without_expired(entries, stream_time)
        if len(entries):
            yield entries


def _stream_time(reader: DatabaseReader, store: StoredStore, layout: TableLayout) -> int:
    """Returns the stream time that a store of windows, sessions or versions, or one with a time to live by the
    timestamps of its values, has noted; -1 if it has none."""
    if layout.time_to_live_ms is not None:
        known = EXPIRY in store.suffixes
        times = reader.family(f"{store.name}.{EXPIRY}").get(RECORD_TIME.encode()) if known else None
        return -1 if times is None or len(times) != EXPIRY_ROW.size else int(EXPIRY_ROW.unpack(times)[0])
    for suffix in store.suffixes:
        family = reader.family(f"{store.name}.{suffix}")
        if layout.form.tail_bytes:
            facts = family.get(FACTS_KEY)
            if facts is not None and len(facts) == FACTS.size:
                return int(FACTS.unpack(facts)[0])
        elif suffix == VERSIONS and (noted := family.get(b"")) is not None:
            return int.from_bytes(noted[:8], "big", signed=True)
    return -1
