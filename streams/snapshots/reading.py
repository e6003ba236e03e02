"""Finds the snapshot with which a task can begin, and copies it into the task's directory."""

from __future__ import annotations

import logging
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from processor_api.errors import StateError, StreamsError
from processor_api.stores.suppliers import ROCKSDB
from processor_api.texts import error_text, kind_and_text
from state.engine.repair_hints import without_hint
from streams.snapshots.listing import ListedSnapshot, list_snapshots
from streams.snapshots.manifest import Lacking, TaskSnapshot, files_of, folder_of
from streams.snapshots.objects import ObjectStore, sync_file, write_file
from streams.snapshots.store_files import SnapshotError, TableFile
from streams.threads import SYSTEM_THREADS, Threads

log = logging.getLogger("streams.restore")

FILES_AT_ONCE = 4
"""Files of a task that are copied side by side."""


@dataclass(frozen=True)
class Copied:
    """Says what was copied."""

    snapshot: TaskSnapshot
    name: str
    """The name of its manifest."""
    not_after_ms: int
    """A time before which it was written."""


@dataclass
class CopyProgress:
    """Says how far the copy of a snapshot is."""

    name: str = ""
    """The name of its manifest; empty until one is chosen."""
    size: int = 0
    """The bytes of its files."""
    bytes: int = 0
    """The bytes of it that were copied so far."""
    moves: int = 0
    """A number that grows with all that comes, also of snapshots that are refused."""

    @property
    def is_complete(self) -> bool:
        """Whether all of it is here, to be synced to the disk or read."""
        return 0 < self.size <= self.bytes


class SnapshotReading:
    """Reads the snapshots of one task.

    :param engine: the name of the engine whose stores they have.
    :param lost: returns what changelogs have lost of a snapshot since it was made, as a sentence; ``None`` if nothing.
        It may raise StreamsError.
    :param threads: makes the threads that copy files side by side.
    """

    def __init__(
        self,
        objects: ObjectStore,
        application_id: str,
        task: str,
        engine: str = ROCKSDB,
        threads: Threads = SYSTEM_THREADS,
        lost: Callable[[TaskSnapshot], str | None] = lambda snapshot: None,
    ) -> None:
        self._lost = lost
        self._objects = objects
        self._application_id = application_id
        self._task = task
        self._threads = threads
        self._folder = folder_of(application_id, task, engine)
        self._stopped = False
        self._counting = threads.lock()
        self.copied: Copied | None = None
        """The snapshot that :meth:`run` has copied."""
        self.progress = CopyProgress()
        """How far it is; any thread may read it."""

    def stop(self) -> None:
        """Has the copy given up at its next chunk; any thread may call it."""
        self._stopped = True

    def is_stopped(self) -> bool:
        """Whether it is to be given up."""
        return self._stopped

    def run(
        self,
        lacking: Mapping[str, Lacking],
        now_ms: int,
        target: Path,
        prepare: Callable[[Path], None] | None = None,
    ) -> None:
        """Copies the best snapshot, as :meth:`copy` does, on a thread of its own."""
        try:
            self.copied = self.copy(lacking, now_ms, target, prepare)
        except Exception as error:
            self.refuse(self._folder, kind_and_text(error))

    def copy(
        self,
        lacking: Mapping[str, Lacking],
        now_ms: int,
        target: Path,
        prepare: Callable[[Path], None] | None = None,
    ) -> Copied | None:
        """Copies the snapshot that leaves least to be replayed; logs those that cannot be used, and why.

        :param target: a directory, which is made; the one that it is in is there.
        :param prepare: reads what was copied; the files last through a power loss only without it. A snapshot of which
            it raises StateError is refused.
        :returns: ``None`` if there is no snapshot that can be used, or the copy was given up.
        """
        for listed, found in self._usable(lacking, now_ms):
            name = listed.name
            shutil.rmtree(target, ignore_errors=True)
            if self.is_stopped():
                return None
            progress = self.progress
            progress.name, progress.size, progress.bytes = name, found.size, 0
            try:
                if (why := self._lost(found)) is not None:
                    raise SnapshotError(why)
                target.mkdir()
                self.fetch(found.files, target)
                if self.is_stopped():
                    return None
                if prepare is not None:
                    prepare(target)
                else:  # at last: a file system that was asked to write one writes most of the others
                    for file in found.files:
                        sync_file(target / file.name)
            except (SnapshotError, StreamsError, OSError) as error:
                if self.is_stopped():  # and the directory is gone
                    return None
                self.refuse(name, without_hint(error.message) if isinstance(error, StateError) else error_text(error))
                continue
            return None if self.is_stopped() else Copied(found, name, listed.not_after_ms)
        shutil.rmtree(target, ignore_errors=True)
        return None

    def fetch(self, files: Sequence[TableFile], target: Path) -> None:
        """Copies files of a snapshot side by side, the largest first; stops all of them when one fails.

        :raises SnapshotError: if one is missing or damaged.
        :raises OSError: if one cannot be read or written.
        """
        left = deque(sorted(files, key=lambda file: file.size, reverse=True))
        failures: list[Exception] = []

        def work() -> None:
            while left and not (failures or self.is_stopped()):
                try:
                    file = left.popleft()
                except IndexError:  # another thread was quicker
                    return
                try:
                    write_file(target / file.name, self._checked(file, failures))
                except Exception as error:
                    failures.append(error)

        helpers = [
            self._threads.thread(work, f"snapshot-copy-{self._task}-{number}")
            for number in range(1, min(FILES_AT_ONCE, len(files)))
        ]
        for helper in helpers:
            helper.start()
        work()
        for helper in helpers:
            helper.join()
        if failures:
            raise failures[0]

    def _usable(self, lacking: Mapping[str, Lacking], now_ms: int) -> list[tuple[ListedSnapshot, TaskSnapshot]]:
        """Returns the snapshots that can be used, the best one first."""
        try:
            listed = list_snapshots(self._objects, self._folder)
        except OSError as error:
            self.refuse(self._folder, f"the directory cannot be read: {error_text(error)}")
            return []
        usable: list[tuple[ListedSnapshot, TaskSnapshot]] = []
        for one in listed:
            found = one.snapshot
            if found is None:
                assert one.error is not None
                self.refuse(one.name, error_text(one.error))
            elif why := found.obstacle(self._application_id, self._task, lacking, now_ms, one.not_after_ms):
                self.refuse(one.name, why)
            else:
                usable.append((one, found))
        return sorted(usable, key=lambda pair: (pair[1].offsets, pair[0].number), reverse=True)

    def _checked(self, file: TableFile, failures: Sequence[Exception]) -> Iterator[bytes]:
        """Yields the content of a file, and fails at the end if it is not the one that was written; ends early if the
        copy is given up, or another file has failed."""
        digest, size = blake2b(digest_size=32), 0
        name = f"{files_of(self._folder)}/{file.digest}"
        try:
            for chunk in self._objects.read(name):
                if failures or self.is_stopped():
                    return
                digest.update(chunk)
                size += len(chunk)
                with self._counting:
                    self.progress.bytes += len(chunk)
                    self.progress.moves += 1
                yield chunk
        except FileNotFoundError as error:
            raise SnapshotError(f"its file {name} is missing") from error
        if (size, digest.hexdigest()) != (file.size, file.digest):
            raise SnapshotError(
                f"its file {name} is damaged: it has {size} bytes and checksum {digest.hexdigest()[:16]}, but"
                f" {file.size} bytes with checksum {file.digest[:16]} were written"
            )

    def refuse(self, name: str, why: str) -> None:
        """Logs that a snapshot is not taken."""
        log.warning(
            "a snapshot is not taken: %s; another one is looked for, else the changelog is replayed",
            why,
            extra={"task": self._task, "snapshot": name, "where": self._objects.describe()},
        )
