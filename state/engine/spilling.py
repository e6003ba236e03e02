"""An engine whose rows stay in memory until they are many, then go to a database.

For state that does not outlive its process: the test driver's, and that of a task that is run over history. Opening
RocksDB would be most of the time of a small test, and one write batch for each record most of the rest. A store
sees the same behaviour (`tests/state/test_engine.py` runs on it): byte order, snapshots of iterators, atomic batches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

from state.engine.memory import MemoryFamily
from state.engine.port import Checkpointing, Engine, Family, Snapshot
from state.engine.snapshot import DictSnapshot

ROWS_IN_MEMORY_BYTES = 64 << 20
"""Bytes of rows that are in memory, at most, unless something else is asked for."""

ROW_OVERHEAD_BYTES = 170
"""Bytes of a row in memory beside the bytes in it: two objects, and a place in a dictionary that has just grown."""

_UNKNOWN: Any = object()


class _Until(bytes):
    """The end of a range to delete, instead of a value."""


_Operation = tuple["SpillingFamily", bytes, bytes | None]


class _SpillingBatch:
    """A batch of operations in order; a value of ``None`` deletes."""

    __slots__ = ("deletes_ranges", "operations")

    def __init__(self) -> None:
        self.operations: list[_Operation] = []
        self.deletes_ranges = False

    def put(self, key: bytes, value: bytes, handle: SpillingFamily) -> None:
        self.operations.append((handle, key, value))

    def delete(self, key: bytes, handle: SpillingFamily) -> None:
        self.operations.append((handle, key, None))

    def delete_range(self, low: bytes, high: bytes, handle: SpillingFamily) -> None:
        self.operations.append((handle, low, _Until(high)))
        self.deletes_ranges = True


class SpillingFamily:
    """One ordered byte space in memory; once there is a database, ``waiting`` rows lie over the family in it. A waiting
    ``None`` hides a row."""

    def __init__(self, name: str, engine: SpillingEngine, lock: AbstractContextManager[Any]) -> None:
        self.name = name
        self.handle = self
        self.memory = MemoryFamily(name, lock)
        self.rows = self.memory.rows
        self.waiting: dict[bytes, bytes | None] = {}
        self.below: Family | None = None
        self.get = self._getter()
        self._engine = engine

    def _getter(self) -> Callable[[bytes], bytes | None]:
        from_memory, from_waiting = self.memory.get, self.waiting.get

        def get(key: bytes) -> bytes | None:
            if self.below is None:
                return from_memory(key)
            row: bytes | None = from_waiting(key, _UNKNOWN)
            return self.below.get(key) if row is _UNKNOWN else row

        return get

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        if self.below is not None:
            self._engine.spill()
            return self.below.range(low, high, reverse=reverse)
        self._engine.reads(self)
        return self.memory.range(low, high, reverse=reverse)

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        if self.below is not None:
            self._engine.spill()
            return self.below.seek(key)
        return self.memory.seek(key)

    def delete_in_memory(self, key: bytes, until: bytes | None) -> int:
        """Deletes a row, or the rows of a range; returns how many bytes more there are, a negative number."""
        if until is not None:
            gone = sum(_size(one, row) for one, row in self.memory.range(key, until))
            self.memory.delete_range(key, until)
            return -gone
        former = self.rows.pop(key, None)
        if former is None:
            return 0
        if self.memory.sorted is not None:
            self.memory.sorted.remove(key)
        return -_size(key, former)

    def approximate_count(self) -> int:
        if self.below is None:
            return self.memory.approximate_count()
        self._engine.spill()
        return self.below.approximate_count()

    def clear(self) -> None:
        self.memory.freeze()
        self.memory.rows.clear()
        self.memory.sorted = None
        self.waiting.clear()


class SpillingEngine:
    """An engine whose rows stay in memory until they are many, then go to RocksDB.

    :param open_below: opens the database for the rows that are too many for the memory; called at most once.
    :param most_bytes: the bytes of rows that may be in memory.
    :param is_filled: whether the database has rows already, so that it is opened at once.
    """

    persistent = True

    def __init__(
        self, open_below: Callable[[], Engine], most_bytes: int = ROWS_IN_MEMORY_BYTES, *, is_filled: bool = False
    ) -> None:
        self._open_below = open_below
        self._most_bytes = most_bytes
        self._bytes = 0
        self._below = open_below() if is_filled else None
        self._families: dict[str, SpillingFamily] = {}
        self._read: list[SpillingFamily] = []
        """The families of which ranges were opened since the last write."""
        self._lock = threading.RLock()
        self._snapshots: WeakSet[DictSnapshot] = WeakSet()

    @property
    def spilled(self) -> bool:
        """Whether there is a database."""
        return self._below is not None

    def family(self, name: str) -> SpillingFamily:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = SpillingFamily(name, self, self._lock)
            if self._below is not None:
                family.below = self._below.family(name)
        return family

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Returns a lock that is never waited for: the engine belongs to one thread."""
        return self._lock

    def snapshot(self, families: Collection[str]) -> Snapshot:
        """Returns a copy of what is in memory, or the database's snapshot once there is one."""
        if self._below is not None:
            self.spill()
            return self._below.snapshot(families)
        rows = {name: self._families[name].rows.copy() for name in families if name in self._families}
        snapshot = DictSnapshot(rows)
        self._snapshots.add(snapshot)
        return snapshot

    def holds(self, name: str) -> bool:
        family = self._families.get(name)
        if family is not None and (family.rows or any(row is not None for row in family.waiting.values())):
            return True
        return self._below is not None and self._below.holds(name)

    def batch(self) -> _SpillingBatch:
        return _SpillingBatch()

    def write(self, batch: _SpillingBatch) -> None:
        """Writes a batch; if the database cannot take the rows that are too many, the batch stays in memory like the
        rest."""
        if self._below is not None:
            self._write_behind(self._below, batch)
        else:
            if self._read:
                self._freeze()
            size = 0
            for family, key, value in batch.operations:
                if value is None or type(value) is not bytes:
                    size += family.delete_in_memory(key, value)
                    continue
                former = family.rows.get(key)
                if former is None:
                    size += len(key) + len(value) + ROW_OVERHEAD_BYTES
                    if family.memory.sorted is not None:
                        family.memory.sorted.add(key)
                else:
                    size += len(value) - len(former)
                family.rows[key] = value
            self._bytes += size
        if self._bytes > self._most_bytes:
            self.spill()

    load = write

    def reads(self, family: SpillingFamily) -> None:
        """Notes that a range of a family was opened, which shows its rows as they are now."""
        self._read.append(family)

    def _freeze(self) -> None:
        """Copies the rows that open ranges have not read yet, before rows change."""
        with self._lock:
            for family in self._read:
                family.memory.freeze()
        self._read.clear()

    def _write_behind(self, below: Engine, batch: _SpillingBatch) -> None:
        if batch.deletes_ranges:
            self.spill()
            _write_all(below, batch.operations)
            return
        for family, key, value in batch.operations:
            waiting = family.waiting
            if key in waiting:
                self._bytes -= _size(key, waiting[key])
            waiting[key] = value
            self._bytes += _size(key, value)

    def spill(self) -> None:
        """Writes what waits in memory to the database."""
        families = self._families.values()
        if self._below is None:
            below = self._open_below()
            _write_all(below, [(one, key, row) for one in families for key, row in one.memory.rows.items()])
            self._below = below
            for family in families:
                family.clear()
                family.below = below.family(family.name)
        elif waiting := [(one, key, row) for one in families for key, row in one.waiting.items()]:
            _write_all(self._below, waiting)
            for family in families:
                family.waiting.clear()
        self._bytes = 0

    def flush(self) -> None:
        """Does nothing: the rows end with the engine."""

    def save(self, directory: Path) -> None:
        """Writes all rows to the database, and its files to a directory, which must not exist.

        :raises StateError: if they cannot be written.
        """
        self.spill()
        assert self._below is not None
        save_files(self._below, directory)

    def clear(self, families: Collection[str]) -> None:
        with self._lock:
            for name in families:
                family = self._families.get(name)
                if family is not None:
                    family.clear()
        if self._below is not None:
            self._below.clear(families)

    def close(self) -> None:
        for snapshot in self._snapshots:
            snapshot.close()
        below, self._below = self._below, None
        for family in self._families.values():
            family.below = None
            family.clear()
        self._families.clear()
        if below is not None:
            below.close()


def save_files(database: Engine, directory: Path) -> None:
    """Writes the files of a database to a directory, which must not exist.

    :raises StateError: if they cannot be written.
    """
    database.flush()
    cast(Checkpointing, database).checkpoint(directory, ())()


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + len(value or b"") + ROW_OVERHEAD_BYTES


def _write_all(below: Engine, operations: Collection[_Operation]) -> None:
    batch = below.batch()
    for family, key, value in operations:
        handle = below.family(family.name).handle
        if value is None:
            batch.delete(key, handle)
        elif type(value) is _Until:
            batch.delete_range(key, bytes(value), handle)
        else:
            batch.put(key, value, handle)
    below.load(batch)
