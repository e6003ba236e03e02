"""The rows of a store in a snapshot of its task, as records of its changelog up to an offset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.clock import SystemClock
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import ROCKSDB
from processor_api.texts import error_text
from state.directory.metadata import DATABASE
from state.registry.kinds import changelog_records_of, families_of
from streams.snapshots.cloud import open_objects
from streams.snapshots.reading import SnapshotReading
from streams.snapshots.store_files import SnapshotError, TableFile
from streams.spark.errors import OffsetRangeLost
from streams.spark.rows.compaction import CACHE_BYTES, CHUNK, TaskFolder

if TYPE_CHECKING:
    from streams.spark.rows.changelog_rows import Records

UNKNOWN = -1
"""The offset of a row of a snapshot in the changelog, which the snapshot does not know."""


@dataclass(frozen=True)
class SnapshotRows:
    """The rows of a store in a snapshot; sent to the executors, which read it where workers do.

    :param following: the offset of the first record of the changelog that is not in the snapshot.
    :param time_ms: the time of the table; no row may have a later timestamp.
    :param place: where the snapshots of all applications are, as in ``state.snapshot.dir``.
    """

    following: int
    time_ms: int
    place: Path | str
    application_id: str
    task: str
    name: str
    """That of the manifest."""
    files: Sequence[TableFile]
    builder: StoreBuilder[Any, Any]
    """The store, without its serdes."""

    def records(self, folder: TaskFolder) -> Iterator[Records]:
        """Yields the rows as records of the changelog.

        :raises OffsetRangeLost: if the snapshot is gone, or has a record of a later time.
        """
        from streams.runtime.engines.opener import Engines

        directory = folder.path / "snapshot"
        database = directory / DATABASE
        database.mkdir(parents=True)
        try:
            SnapshotReading(open_objects(self.place), self.application_id, self.task).fetch(self.files, database)
        except (SnapshotError, OSError) as error:
            raise OffsetRangeLost(
                f"the snapshot {self.name} of task {self.task} can no longer be read: {error_text(error)}. Read the"
                " table again; of the snapshots of a task the last ones are kept",
                store=self.builder.name,
            ) from error
        engine = Engines(SystemClock(), memory={"block_cache_bytes": CACHE_BYTES}).open(
            ROCKSDB, directory, families_of(self.builder)
        )
        try:
            records = changelog_records_of(self.builder, engine) or iter(())
            while chunk := list(islice(records, CHUNK)):
                keys, values, times, headers = zip(*chunk, strict=True)
                if max(times) > self.time_ms:
                    raise OffsetRangeLost(
                        f"the snapshot {self.name} of task {self.task} has a record of {max(times)}, later than the"
                        f" time {self.time_ms} of the table, before which it was written: with timestamps of the future"
                        " there are no tables as of a time",
                        store=self.builder.name,
                    )
                yield keys, values, times, [UNKNOWN] * len(keys), headers
        finally:
            engine.close()
