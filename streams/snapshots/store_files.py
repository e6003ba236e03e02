"""Snapshots of stores: files with the rows that a store has at an offset of its changelog (docs/formats.md).

A snapshot stands instead of the records up to its offset. It is made while its application is stopped, from rows that
were compared with the changelog, and belongs to one partition of one topic, by the topic's id. A compacted changelog
keeps the deletion of a key for ``delete.retention.ms`` only: a snapshot that is older could bring deleted keys back, so
it is not taken.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from processor_api.task_id import TopicPartition

MANIFEST = "snapshot.json"
VERSION = 1
LAYOUT = "1"
"""The version of the rows, that of a task's database (``streams.format``)."""
CLOCKS_MS = 3_600_000
"""Clocks of machines may differ by so much."""
CHUNK_BYTES = 1 << 20
_FILE_NAME = re.compile(r"[0-9]+\.sst")


class SnapshotError(Exception):
    """A snapshot cannot be read; the text says why."""


@dataclass(frozen=True)
class TableFile:
    """Names a file with the rows of one family."""

    name: str
    size: int
    digest: str
    """The BLAKE2b of its bytes, 32 of them, in hexadecimal."""

    @staticmethod
    def of(path: Path) -> TableFile:
        """Returns the description of a file that was written."""
        digest = blake2b(digest_size=32)
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
        return TableFile(path.name, path.stat().st_size, digest.hexdigest())


@dataclass(frozen=True, kw_only=True)
class StoreSnapshot:
    """Describes the snapshot of a store in one partition."""

    store: str
    topic: str
    """The changelog."""
    partition: int
    topic_id: str
    offset: int
    """The offset of the last record of the changelog that it holds."""
    rows: int
    """The number of records that it was made of."""
    made_ms: int
    """The time at which the end of the changelog was looked up, by the wall clock."""
    delete_retention_ms: int
    """The time for which the changelog keeps deletions."""
    files: Mapping[str, TableFile]
    """The files by the names of families; a family without rows has none."""
    version: int = VERSION
    layout: str = LAYOUT

    def to_json(self) -> str:
        """Returns the text of the manifest."""
        return json.dumps(asdict(self), indent=1, sort_keys=True)

    @staticmethod
    def read(path: Path) -> StoreSnapshot | None:
        """Returns the snapshot in a directory; ``None`` if there is none.

        :raises SnapshotError: if its manifest cannot be read, or is of another version.
        """
        try:
            found = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise SnapshotError(f"{path / MANIFEST} cannot be read: {error}") from error
        try:
            if (found["version"], found["layout"]) != (VERSION, LAYOUT):
                raise SnapshotError(
                    f"it has version {found['version']} with layout {found['layout']}, but this release reads version"
                    f" {VERSION} with layout {LAYOUT}"
                )
            files = {family: TableFile(**one) for family, one in found.pop("files").items()}
            made = StoreSnapshot(files=files, **found)
            numbers = [made.partition, made.offset, made.rows, made.made_ms, made.delete_retention_ms]
            numbers += [one.size for one in files.values()]
            if not all(type(one) is int for one in numbers):
                raise SnapshotError(f"{path / MANIFEST} is damaged: a number is missing")
            if not all(_FILE_NAME.fullmatch(one.name) for one in files.values()):
                raise SnapshotError(f"{path / MANIFEST} is damaged: it lists files that do not belong to a snapshot")
        except (KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"{path / MANIFEST} is damaged: {type(error).__name__}: {error}") from error
        return made

    def obstacle(
        self, store: str, place: TopicPartition, families: Collection[str], topic_id: str | None, ends: tuple[int, int],
        now_ms: int,
    ) -> str | None:  # fmt: skip
        """Returns why the snapshot cannot be taken for a store; ``None`` if it can.

        :param families: the families that hold the store's rows.
        :param topic_id: the id of the changelog; ``None`` if the cluster gives none.
        :param ends: the first offset of the changelog, and the one behind its last record.
        """
        if (self.store, self.topic, self.partition) != (store, *place):
            return f"it is of store {self.store!r} and {self.topic}-{self.partition}"
        if topic_id is None:
            return "the cluster does not report an id of the changelog, so it may be another topic of the same name"
        if self.topic_id != topic_id:
            return f"the changelog was deleted and made again: its id is {topic_id}, the snapshot's {self.topic_id}"
        if not ends[0] <= self.offset + 1 <= ends[1]:
            return f"its offset {self.offset} is outside of the changelog, which has {ends[0]} to {ends[1] - 1}"
        if unknown := sorted(self.files.keys() - set(families)):
            return f"the store now has another kind, without {unknown[0]!r}"
        if self.made_ms > now_ms + CLOCKS_MS:
            return (
                f"its age is unknown: it was written {self.made_ms - now_ms} ms after the time of this machine, so one"
                " of the two clocks is wrong"
            )
        if now_ms > self.made_ms + self.delete_retention_ms - CLOCKS_MS:
            return (
                f"it is too old: the changelog keeps deletions for {self.delete_retention_ms} ms (delete.retention.ms),"
                " so deleted keys might come back"
            )
        return None


def snapshot_path(root: Path, application_id: str, place: TopicPartition) -> Path:
    """Returns the directory of the snapshot of a changelog partition, whether there is one or not.

    :param root: that of all snapshots.
    """
    return root / application_id / f"{place.topic}-{place.partition}"


class SnapshotCopy:
    """Copies the files of a snapshot step by step, and compares them with its manifest.

    :param source: the directory of the snapshot.
    :param target: a directory that exists and is empty.
    """

    def __init__(self, source: Path, target: Path, files: Mapping[str, TableFile]) -> None:
        self.copied: dict[str, Path] = {}
        """The files that are complete, by family."""
        self.bytes = 0
        """The bytes that were copied."""
        self._source = source
        self._target = target
        self._left = list(files.items())
        self._digest = blake2b(digest_size=32)
        self._reader: int | None = None
        self._writer: int | None = None
        self._done = 0

    def step(self) -> bool:
        """Copies a chunk; returns whether all files are complete.

        :raises SnapshotError: if a file is not the one that was written.
        :raises OSError: if one cannot be read or written.
        """
        if not self._left:
            return True
        family, file = self._left[0]
        if self._reader is None or self._writer is None:
            self._open(file.name)
        assert self._reader is not None
        assert self._writer is not None
        chunk = os.read(self._reader, CHUNK_BYTES)
        if chunk:
            written = memoryview(chunk)
            while written:
                written = written[os.write(self._writer, written) :]
            self._digest.update(chunk)
            self._done += len(chunk)
            self.bytes += len(chunk)
            return False
        done, digest = self._done, self._digest.hexdigest()
        os.fsync(self._writer)
        self.close()
        if (done, digest) != (file.size, file.digest):
            raise SnapshotError(
                f"{self._source / file.name} is damaged: it has {done} bytes and checksum {digest[:16]}, but"
                f" {file.size} bytes with checksum {file.digest[:16]} were written"
            )
        self.copied[family] = self._target / file.name
        del self._left[0]
        return not self._left

    def _open(self, name: str) -> None:
        self._reader = os.open(self._source / name, os.O_RDONLY)
        self._writer = os.open(self._target / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        self._digest, self._done = blake2b(digest_size=32), 0

    def close(self) -> None:
        """Closes the files that are open; a second call does nothing."""
        opened, self._reader, self._writer = (self._reader, self._writer), None, None
        for one in opened:
            if one is not None:
                os.close(one)
