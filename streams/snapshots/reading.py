"""Finds the snapshot with which a task can begin, and copies it into the task's directory."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from processor_api.texts import error_text, kind_and_text
from streams.snapshots.manifest import Lacking, TaskSnapshot, files_of, folder_of, is_manifest
from streams.snapshots.objects import ObjectStore, sync_file, write_file
from streams.snapshots.store_files import SnapshotError, TableFile

log = logging.getLogger("streams.restore")


@dataclass(frozen=True)
class Copied:
    """Says what was copied."""

    snapshot: TaskSnapshot
    name: str
    """The name of its manifest."""


class SnapshotReading:
    """Reads the snapshots of one task."""

    def __init__(self, objects: ObjectStore, application_id: str, task: str) -> None:
        self._objects = objects
        self._application_id = application_id
        self._task = task
        self._folder = folder_of(application_id, task)
        self._stopped = False
        self.copied: Copied | None = None
        """The snapshot that :meth:`run` has copied."""
        self.bytes = 0
        """The bytes that were copied so far, also those of snapshots that are damaged; any thread may read it."""

    def stop(self) -> None:
        """Has the copy given up at its next chunk; any thread may call it."""
        self._stopped = True

    def is_stopped(self) -> bool:
        """Whether it is to be given up."""
        return self._stopped

    def run(self, lacking: Mapping[str, Lacking], now_ms: int, target: Path) -> None:
        """Copies the best snapshot, as :meth:`copy` does, on a thread of its own."""
        try:
            self.copied = self.copy(lacking, now_ms, target)
        except Exception as error:
            self.refuse(self._folder, kind_and_text(error))

    def copy(self, lacking: Mapping[str, Lacking], now_ms: int, target: Path) -> Copied | None:
        """Copies the snapshot that leaves least to be replayed; logs those that cannot be used, and why.

        :param target: a directory, which is made; the one that it is in is there.
        :returns: ``None`` if there is no snapshot that can be used, or the copy was given up.
        """
        for name, found in self._usable(lacking, now_ms):
            shutil.rmtree(target, ignore_errors=True)
            if self.is_stopped():
                return None
            try:
                target.mkdir()
                for file in found.files:
                    write_file(target / file.name, self._checked(file))
                for file in found.files:  # at last: a file system that was told to write one writes most of the others
                    sync_file(target / file.name)
            except (SnapshotError, OSError) as error:
                self.refuse(name, error_text(error))
                continue
            if self.is_stopped():
                return None
            return Copied(found, name)
        shutil.rmtree(target, ignore_errors=True)
        return None

    def _usable(self, lacking: Mapping[str, Lacking], now_ms: int) -> list[tuple[str, TaskSnapshot]]:
        """Returns the snapshots that can be used, the best one first."""
        usable: list[tuple[str, TaskSnapshot]] = []
        try:
            names = sorted(filter(is_manifest, self._objects.list(self._folder)), reverse=True)
        except OSError as error:
            self.refuse(self._folder, f"the directory cannot be read: {error_text(error)}")
            return []
        for name in names:
            try:
                found = TaskSnapshot.parse(b"".join(self._objects.read(f"{self._folder}/{name}")))
                if why := found.obstacle(self._application_id, self._task, lacking, now_ms):
                    raise SnapshotError(why)
            except FileNotFoundError:  # deleted meanwhile, since there are newer ones
                continue
            except (SnapshotError, OSError) as error:
                self.refuse(name, error_text(error))
                continue
            usable.append((name, found))
        return sorted(usable, key=lambda one: (one[1].offsets, one[1].made_ms), reverse=True)

    def _checked(self, file: TableFile) -> Iterator[bytes]:
        """Yields the content of a file, and fails at the end if it is not the one that was written."""
        digest, size = blake2b(digest_size=32), 0
        name = f"{files_of(self._folder)}/{file.digest}"
        try:
            for chunk in self._objects.read(name):
                if self.is_stopped():
                    return
                digest.update(chunk)
                size += len(chunk)
                self.bytes += len(chunk)
                yield chunk
        except FileNotFoundError as error:
            raise SnapshotError(f"its file {name} is missing") from error
        if (size, digest.hexdigest()) != (file.size, file.digest):
            raise SnapshotError(
                f"its file {name} is damaged: it has {size} bytes and the sum {digest.hexdigest()[:16]}, and"
                f" {file.size} bytes with the sum {file.digest[:16]} were written"
            )

    def refuse(self, name: str, why: str) -> None:
        """Logs that a snapshot is not taken."""
        log.warning(
            "a snapshot is not taken: %s; another one is looked for, else the changelog is replayed",
            why,
            extra={"task": self._task, "snapshot": name, "where": self._objects.describe()},
        )
