"""A disk that a test fills and empties, for databases of RocksDB; its errors are those of the system.

What is written while it is full goes to ``/dev/full``, which answers as a full disk does, to any user.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, cast

from processor_api.clock import Clock, SystemClock
from processor_api.errors import DiskFullError
from processor_api.stores.suppliers import ROCKSDB
from state.directory.errors import explained
from state.directory.file_lock import FileLock, FileLocks
from state.engine.passing_on import PassingEngine
from state.engine.port import Batch, Engine
from state.rocksdb.engine import RocksEngine
from streams.platform import Platform

__all__ = ["FillingDisk"]


class FillingDisk:
    """The disk of an application.

    :param breaks: whether a database that has met a full disk takes no more writes until it is opened again.
    """

    def __init__(self, *, breaks: bool = False) -> None:
        self.full = False
        self.breaks = breaks
        self.refused = 0
        """How many writes were refused."""
        self.opened = 0
        """How many databases were opened."""

    def platform(self, clock: Clock | None = None, *, locks: bool = False) -> Platform:
        """Returns the machine with this disk.

        :param locks: whether the files of locks are on it too, the first that an application writes.
        """
        return Platform(
            clock=clock or SystemClock(),
            engines={ROCKSDB: self._open},
            has_room=lambda _: not self.full,
            file_locks=cast(FileLocks, _Locks(self)) if locks else FileLock,
        )

    def _open(self, name: str, directory: Path, families: Sequence[str]) -> Engine:
        self.write(directory)
        self.opened += 1
        engine: Any = RocksEngine(directory / "rocksdb", families)
        return cast(Engine, _Engine(engine, self, directory))

    def write(self, where: Path, *, broken: bool = False) -> None:
        """Does nothing while there is room.

        :raises DiskFullError: if there is none, or what is written to is broken.
        """
        if self.full or broken:
            self.refused += 1
            with explained(where), open("/dev/full", "wb", buffering=0) as file:
                file.write(b"x")


class _Locks:
    """The locks of a state directory, whose files are on the disk."""

    def __init__(self, disk: FillingDisk) -> None:
        self._disk = disk

    def __getattr__(self, name: str) -> Any:
        return getattr(FileLock, name)

    def try_acquire(self, path: Path, *more: Any) -> Any:
        self._disk.write(path)
        return FileLock.try_acquire(path, *more)


class _Engine(PassingEngine):
    def __init__(self, engine: Engine, disk: FillingDisk, directory: Path) -> None:
        super().__init__(engine)
        self._disk = disk
        self._directory = directory
        self._broken = False

    def _check(self) -> None:
        try:
            self._disk.write(self._directory, broken=self._broken)
        except DiskFullError:
            self._broken = self._disk.breaks
            raise

    def write(self, batch: Batch) -> None:
        self._check()
        super().write(batch)

    def load(self, batch: Batch) -> None:
        self._check()
        super().load(batch)

    def flush(self) -> None:
        self._check()
        super().flush()

    def clear(self, families: Collection[str]) -> None:
        self._check()
        super().clear(families)
