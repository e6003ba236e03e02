"""Writes the checkpoint of a task's database as a snapshot: files that are not there yet, then the manifest.

A table file never changes, so most of a snapshot is there from the one before. Two workers may write snapshots of one
task, where the former owner does not know yet that it lost the task: manifests have different names and files are named
by their content, so neither changes what the other has written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from processor_api.stores.suppliers import ROCKSDB
from processor_api.texts import error_text
from streams.snapshots.listing import ListedSnapshot, list_snapshots
from streams.snapshots.manifest import TaskSnapshot, files_of, folder_of, number_of
from streams.snapshots.objects import CHUNK_BYTES, ObjectInfo, ObjectStore
from streams.snapshots.store_files import SnapshotError, TableFile

TABLE_SUFFIX = ".sst"
KEPT = 2
"""The last snapshots of a task that are kept: one may be read while the next one is written. The one with the highest
offsets is kept too, because a former owner of the task may have written the last ones."""
FOREIGN_KEPT_S = 86_400.0
"""Snapshots that cannot be read, and those of former topics of the same names or of another cluster, are deleted when
they are this much older than the one that was just written, by the clock of the store."""
FAILURES = 3
"""After this many deletions that failed the others are left to the next time."""
ORPHANED_S = 86_400.0
"""Files without a manifest are deleted when they are this much older than the newest file: a writer may be at work."""


class GivenUp(Exception):
    """The snapshot was given up, since its worker closes."""


@dataclass(frozen=True)
class Written:
    """Says what writing a snapshot has done."""

    name: str
    """The name of the manifest."""
    size: int
    """The bytes of the snapshot."""
    new_size: int
    """The bytes of the files that were not there yet."""
    left: OSError | None = None
    """The error for which older snapshots or their files are still there, such as a right that is missing."""
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """The names of the manifests that are there and cannot be read, with the reasons."""


class SnapshotWriting:
    """Writes the snapshots of one task after each other.

    :param stopping: whether to give up; asked for each chunk.
    :param engine: the name of the engine whose stores they have.
    """

    def __init__(
        self,
        objects: ObjectStore,
        application_id: str,
        task: str,
        stopping: Callable[[], bool],
        engine: str = ROCKSDB,
    ) -> None:
        self._objects = objects
        self._folder = folder_of(application_id, task, engine)
        self._files = files_of(self._folder)
        self._stopping = stopping
        self._known: dict[tuple[str, int, int, int], TableFile] = {}
        """The table files of the last checkpoint, which never change: each is read once for its sum."""

    def write(self, described: TaskSnapshot, checkpoint: Path) -> Written:
        """Writes a snapshot, and deletes those that are no longer needed.

        :param described: the snapshot without its files.
        :param checkpoint: the directory of the files.
        :raises OSError: if the store or the checkpoint cannot be used; not if older snapshots cannot be deleted.
        :raises SnapshotError: if a file cannot be written as it is.
        :raises GivenUp: if it was given up.
        """
        paths = {path.name: path for path in sorted(checkpoint.iterdir())}
        known: dict[tuple[str, int, int, int], TableFile] = {}
        files: list[TableFile] = []
        for path in paths.values():
            key = _identity(path)
            file = self._known.get(key) or self._described(path)
            files.append(file)
            if path.suffix == TABLE_SUFFIX:
                known[key] = file
        self._known = known
        made = replace(described, files=files)
        new_size = self._send(made.files, paths)
        # The clocks of workers differ, so the order is that of the numbers: each writer continues from the highest one.
        highest = max((number_of(one) or 0 for one in self._objects.list(self._folder)), default=0)
        name = made.name(highest + 1)
        self._objects.write(f"{self._folder}/{name}", [made.to_json()])
        self._send(made.files, paths)  # what another writer's deletions have taken meanwhile
        try:
            listed = list_snapshots(self._objects, self._folder)
        except OSError as error:
            return Written(name, made.size, new_size, error)
        unreadable = {one.name: error_text(one.error) for one in listed if one.error is not None}
        return Written(name, made.size, new_size, self._delete_old(made, name, listed), unreadable)

    def _send(self, files: Iterable[TableFile], paths: dict[str, Path]) -> int:
        """Writes the files that are not there; returns their size."""
        there, sent = self._objects.list(self._files), 0
        for file in files:
            found = there.get(file.digest)
            if found is None or found.size != file.size:
                self._objects.write(f"{self._files}/{file.digest}", self._checked(paths[file.name], file))
                there[file.digest] = ObjectInfo(file.size, 0.0)
                sent += file.size
        return sent

    def _chunks(self, path: Path) -> Iterator[bytes]:
        with path.open("rb", buffering=0) as source:
            while chunk := source.read(CHUNK_BYTES):
                if self._stopping():
                    raise GivenUp
                yield chunk

    def _described(self, path: Path) -> TableFile:
        digest, size = blake2b(digest_size=32), 0
        for chunk in self._chunks(path):
            digest.update(chunk)
            size += len(chunk)
        return TableFile(path.name, size, digest.hexdigest())

    def _checked(self, path: Path, file: TableFile) -> Iterator[bytes]:
        """Yields a file's content, and fails at the end if it is not what was described."""
        digest = blake2b(digest_size=32)
        for chunk in self._chunks(path):
            digest.update(chunk)
            yield chunk
        if digest.hexdigest() != file.digest:
            raise SnapshotError(f"{path} has changed while it was read")

    def _delete_old(self, made: TaskSnapshot, name: str, listed: list[ListedSnapshot]) -> OSError | None:
        """Deletes older snapshots, then the files that no manifest names.

        A file that the worker of another manifest is about to name may be deleted; it looks for its files once more
        when its manifest is there. One that is wrong in spite of that is refused when it is read.

        :param name: the name of the manifest that was just written.
        :param listed: all that are there.
        :returns: the error for which something is still there.
        """
        same = [one for one in listed if one.snapshot is not None and _is_of_same_topics(one.snapshot, made)]
        same.sort(key=lambda one: (one.name == name, one.number), reverse=True)
        kept = {one.name for one in same[:KEPT]}
        kept |= {one.name for one in sorted(same, key=_offsets, reverse=True)[:1]}
        written_s = next((one.written_s for one in listed if one.name == name), 0.0)
        old: list[ListedSnapshot] = []
        named = {file.digest for file in made.files}
        for one in listed:
            is_foreign = one not in same
            if one.name not in kept and not (is_foreign and written_s - one.written_s <= FOREIGN_KEPT_S):
                old.append(one)
            else:
                named |= _digests(one)
        failures = self._delete(f"{self._folder}/{one.name}" for one in old)
        unknown = next((one.error for one in listed if isinstance(one.error, OSError) and one not in old), None)
        if failures or unknown is not None:  # it is not known which files a manifest names that is still there
            return failures[0] if failures else unknown
        try:
            return self._delete_files({digest for one in old for digest in _digests(one)}, named)
        except OSError as error:
            return error

    def _delete_files(self, former: set[str], named: set[str]) -> OSError | None:
        files = self._objects.list(self._files)
        newest_s = max((file.written_s for file in files.values()), default=0.0)
        failures = self._delete(
            f"{self._files}/{digest}"
            for digest, file in files.items()
            if digest not in named and (digest in former or file.written_s < newest_s - ORPHANED_S)
        )
        if failures:
            return failures[0]
        self._objects.remove_parts(self._files, newest_s - ORPHANED_S)
        return None

    def _delete(self, names: Iterable[str]) -> list[OSError]:
        """Deletes objects; returns the errors. One that cannot be deleted does not keep others from it."""
        failures: list[OSError] = []
        for name in names:
            try:
                self._objects.delete(name)
            except OSError as error:
                failures.append(error)
                if len(failures) >= FAILURES:
                    break
        return failures


def _digests(one: ListedSnapshot) -> set[str] | frozenset[str]:
    return one.digests if one.snapshot is None else {file.digest for file in one.snapshot.files}


def _offsets(one: ListedSnapshot) -> tuple[int, int]:
    return (-1 if one.snapshot is None else one.snapshot.offsets), one.number


def _identity(path: Path) -> tuple[str, int, int, int]:
    status = os.stat(path)
    return path.name, status.st_size, status.st_mtime_ns, status.st_ino


def _is_of_same_topics(one: TaskSnapshot, other: TaskSnapshot) -> bool:
    common = one.stores.keys() & other.stores.keys()
    return all(one.stores[name].topic_id == other.stores[name].topic_id for name in common)
