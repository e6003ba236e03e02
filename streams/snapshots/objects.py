"""The place where snapshots are: named objects, each written whole or not at all (`DirectoryObjects`)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol
from uuid import uuid4

from state.directory.own_files import sync_directory

CHUNK_BYTES = 1 << 20
MODE, DIRECTORY_MODE = 0o640, 0o750
PART = ".part-"
"""The beginning of the names of files that are being written."""


class ObjectInfo(NamedTuple):
    """Describes an object of a store."""

    size: int
    """The number of its bytes."""
    written_s: float
    """When it was written, by the clock of the store, in seconds since 1970."""


class ObjectStore(Protocol):
    """A store of objects by names, whose parts are divided by slashes. Any thread may call it, several at a time.

    All methods raise OSError where the store cannot be reached, has no room, or does not give the right.
    """

    def describe(self) -> str:
        """Returns where the objects are, for errors and logs."""
        ...

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        """Returns the objects whose names begin with the folder and have one more part, by that part."""
        ...

    def folders(self, folder: str) -> Sequence[str]:
        """Returns the next parts of the names of objects that begin with the folder and have two more parts at least;
        of a directory also those of empty directories."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """Yields the content of an object in chunks.

        :raises FileNotFoundError: if there is none of the name.
        """
        ...

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Writes an object in the place of another of the name, which is there whole until the new one is."""
        ...

    def delete(self, name: str) -> None:
        """Deletes an object; does nothing if there is none."""
        ...

    def remove_parts(self, folder: str, older_than_s: float) -> None:
        """Removes what writers that died have left in a folder.

        :param older_than_s: only what was written before that time, by the clock of the store.
        """
        ...


class DirectoryObjects:
    """The objects below a directory, each a file.

    :param root: the directory, which is made when the first object is written.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def describe(self) -> str:
        return str(self._root)

    def list(self, folder: str) -> dict[str, ObjectInfo]:
        found: dict[str, ObjectInfo] = {}
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    if entry.name.startswith(PART) or not entry.is_file(follow_symlinks=False):
                        continue
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:  # deleted by another worker meanwhile
                        continue
                    found[entry.name] = ObjectInfo(status.st_size, status.st_mtime)
        except FileNotFoundError:
            return {}
        return found

    def folders(self, folder: str) -> Sequence[str]:
        try:
            with os.scandir(self._root / folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> Iterator[bytes]:
        with (self._root / name).open("rb", buffering=0) as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        path = self._root / name
        path.parent.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        part = path.with_name(f"{PART}{uuid4().hex}")
        try:
            write_file(part, chunks)
            sync_file(part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
        sync_directory(path.parent)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def remove_parts(self, folder: str, older_than_s: float) -> None:
        for path in (self._root / folder).glob(f"{PART}*"):
            try:
                if path.stat().st_mtime < older_than_s:
                    path.unlink()
            except FileNotFoundError:  # its writer is done with it, or another worker has removed it
                continue


def write_file(path: Path, chunks: Iterable[bytes]) -> None:
    """Writes a new file, which may be in the memory of the system when this returns."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), MODE)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        for chunk in chunks:
            left = memoryview(chunk)
            while left:
                left = left[file.write(left) :]


def sync_file(path: Path) -> None:
    """Returns when a file is on the disk."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
