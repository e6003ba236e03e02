"""Writes snapshots of stores, which workers take instead of replaying changelogs (formats: docs/formats.md)."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import cast
from uuid import uuid4

from processor_api.clock import Clock
from processor_api.stores.suppliers import ROCKSDB
from processor_api.task_id import TopicPartition
from processor_api.texts import error_text
from state.directory.own_files import sync_directory, write_own
from state.engine.port import Engine
from state.engine.spilling import SpillingEngine
from state.registry.kinds import families_held, families_of, restore_of
from streams.kafka.producing.zero_timestamps import as_written
from streams.snapshots.store_files import MANIFEST, StoreSnapshot, TableFile, snapshot_path
from streams.spark.errors import BootstrapVerificationError, SparkBridgeError
from streams.spark.handover.cluster import Cluster
from streams.spark.handover.finished_run import FinishedTask, RunRow
from streams.spark.handover.plan import PlannedChangelog
from streams.spark.handover.rows import Sum, live_rows
from streams.spark.rows.compaction import TaskFolder

LOAD_ROWS = 10_000
PART = ".part-"


class SnapshotWriter:
    """Writes the snapshots of one application.

    :param root: where the snapshots of all applications are, as in ``state.snapshot.dir`` of the workers.
    :raises SparkBridgeError: if it is not a directory that can be written.
    """

    def __init__(self, root: Path, cluster: Cluster, application_id: str, clock: Clock) -> None:
        self._root = root
        self._cluster = cluster
        self._application_id = application_id
        self._clock = clock
        self._own = root / application_id
        try:
            self._own.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> SparkBridgeError:
        return SparkBridgeError(
            f"snapshots cannot be written to {str(self._own)!r}: {error_text(error)}. Give a directory with room"
            " that this process can write to and all workers can read, or call bootstrap again without snapshot_dir"
        )

    def clear(self) -> None:
        """Removes what earlier calls have written for the application; nothing else.

        :raises SparkBridgeError: if it cannot be removed.
        """
        try:
            for path in self._own.iterdir():
                if path.name.startswith(PART) or (path / MANIFEST).is_file():
                    shutil.rmtree(path)
        except OSError as error:
            raise self._unwritable(error) from error

    def write(
        self, changelog: PlannedChangelog, tasks: Iterable[tuple[int, FinishedTask]], sums: Mapping[TopicPartition, Sum]
    ) -> tuple[int, str]:
        """Writes the snapshot of a store, one for each partition with rows.

        :param sums: of the rows that the changelog holds, as they were read from it.
        :returns: how many it wrote; and if it wrote none, why not.
        :raises BootstrapVerificationError: if the rows are not those of the changelog.
        :raises SparkBridgeError: if it cannot be written.
        """
        supplier, topic = changelog.builder.supplier, changelog.topic
        if supplier.engine != ROCKSDB:
            return 0, "its rows are not on RocksDB"
        topic_id = self._cluster.admin.topic_ids([topic]).get(topic)
        retention = self._cluster.admin.topic_settings([topic]).get(topic, {}).get("delete.retention.ms")
        if topic_id is None or retention is None:
            return 0, "the cluster shows no id of its changelog, or not its settings (the right DESCRIBE_CONFIGS)"
        made_ms = self._clock.time_ms()
        ends = self._cluster.ends(changelog.places())
        written = 0
        for partition, task in tasks:
            place = TopicPartition(topic, partition)
            if not sums[place].rows:
                continue
            described = StoreSnapshot(
                store=changelog.store, topic=topic, partition=partition, topic_id=topic_id, offset=ends[place] - 1,
                rows=sums[place].rows, made_ms=made_ms, delete_retention_ms=int(retention), files={},
            )  # fmt: skip
            try:
                self._write_one(changelog, place, live_rows(changelog, task)[0], described, sums[place])
            except OSError as error:
                raise self._unwritable(error) from error
            written += 1
        return written, ""

    def _write_one(
        self,
        changelog: PlannedChangelog,
        place: TopicPartition,
        rows: Iterator[RunRow],
        described: StoreSnapshot,
        wanted: Sum,
    ) -> None:
        part = self._own / f"{PART}{uuid4().hex}"
        part.mkdir()
        try:
            files, found = _write_files(changelog, rows, part)
            if found != wanted:
                raise BootstrapVerificationError(
                    f"the rows of store {changelog.store!r} in the run directory are not those of {place}: the run"
                    " directory was changed meanwhile. Run the backfill again",
                    store=changelog.store,
                    topic=place.topic,
                    partition=place.partition,
                )
            write_own(part / MANIFEST, replace(described, files=files).to_json())
            sync_directory(part)
            target = snapshot_path(self._root, self._application_id, place)
            shutil.rmtree(target, ignore_errors=True)
            part.rename(target)
            sync_directory(self._own)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _write_files(changelog: PlannedChangelog, rows: Iterator[RunRow], target: Path) -> tuple[dict[str, TableFile], Sum]:
    """Writes the rows that a worker would have after a restore of these; returns the files by family."""
    from state.rocksdb.options import SharedMemory
    from state.rocksdb.table_files import write_table_file

    with TaskFolder() as folder:
        families = families_of(changelog.builder)
        engine = cast(Engine, SpillingEngine(lambda: folder.open_engine(families)))
        try:
            found = _restore(changelog, rows, engine)
            memory, files = SharedMemory(), {}
            for number, family in enumerate(families_held(changelog.builder, engine)):
                path = target / f"{number}.sst"
                if write_table_file(path, engine.family(family).range(), memory):
                    files[family] = TableFile.of(path)
        finally:
            engine.close()
    return files, found


def _restore(changelog: PlannedChangelog, rows: Iterator[RunRow], engine: Engine) -> Sum:
    found, restore = Sum(), restore_of(changelog.builder, engine)
    while some := list(islice(rows, LOAD_ROWS)):
        for row in some:
            found.add(row.key, row.value, row.timestamp_ms, row.headers)
        _, keys, values, stamps, headers = zip(*some, strict=True)
        batch = engine.batch()
        times, given = as_written(stamps, headers)
        restore(batch, keys, values, times, given)
        engine.load(batch)
    return found
