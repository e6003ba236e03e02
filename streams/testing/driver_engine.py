"""The test driver's engine of persistent stores: rows stay in memory until they are many, then go to RocksDB.

A driver's database lives as long as the driver, so nothing has to outlive the process, and most tests never fill a
page: opening RocksDB would be most of what they wait for, and one write batch for each record most of the rest. What a
store sees is the same (`tests/state/test_engine.py` runs on it): byte order, snapshots of iterators, atomic batches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from sortedcontainers import SortedList

from state.engine import Engine, Family

__all__ = ["ROWS_IN_MEMORY_BYTES", "DriverEngine"]

ROWS_IN_MEMORY_BYTES = 64 << 20
"""How much a driver's persistent stores hold in memory, about, before it goes to RocksDB."""

ROW_OVERHEAD_BYTES = 170
"""Of a row in memory beside the bytes in it: two objects and a place in the dictionary."""

_UNKNOWN: Any = object()


class _Batch:
    """Operations in order; a value of ``None`` deletes."""

    __slots__ = ("operations",)

    def __init__(self) -> None:
        self.operations: list[tuple[DriverFamily, bytes, bytes | None]] = []

    def put(self, key: bytes, value: bytes, handle: DriverFamily) -> None:
        self.operations.append((handle, key, value))

    def delete(self, key: bytes, handle: DriverFamily) -> None:
        self.operations.append((handle, key, None))


class DriverFamily:
    """One ordered byte space. ``rows`` lies over the family in RocksDB, if there is one; ``None`` hides a row of it."""

    def __init__(self, name: str, engine: DriverEngine) -> None:
        self.name = name
        self.handle = self
        self.rows: dict[bytes, bytes | None] = {}
        self.sorted: SortedList[bytes] | None = None
        self.below: Family | None = None
        self.get = self._getter()
        self._engine = engine

    def _getter(self) -> Callable[[bytes], bytes | None]:
        rows_get = self.rows.get

        def get(key: bytes) -> bytes | None:
            row: bytes | None = rows_get(key, _UNKNOWN)
            if row is _UNKNOWN:
                return None if self.below is None else self.below.get(key)
            return row

        return get

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        if self.below is not None:
            self._engine.spill()
            return self.below.range(low, high, reverse=reverse)
        if low is not None and high is not None and low >= high:
            return iter(())
        if self.sorted is None:
            self.sorted = SortedList(self.rows)
        keys = self.sorted.irange(low, high, inclusive=(True, False), reverse=reverse)
        rows: dict[bytes, Any] = self.rows
        return iter([(key, rows[key]) for key in keys])

    def approximate_count(self) -> int:
        if self.below is None:
            return len(self.rows)
        self._engine.spill()
        return self.below.approximate_count()


class DriverEngine:
    """See the module's text.

    :param open_below: opens the database that takes what is too much for the memory; called at most once.
    :param most_bytes: how much may wait in memory.
    """

    persistent = True

    def __init__(self, open_below: Callable[[], Engine], most_bytes: int = ROWS_IN_MEMORY_BYTES) -> None:
        self._open_below = open_below
        self._most_bytes = most_bytes
        self._bytes = 0
        self._below: Engine | None = None
        self._families: dict[str, DriverFamily] = {}

    @property
    def spilled(self) -> bool:
        """Whether there is a database."""
        return self._below is not None

    def family(self, name: str) -> DriverFamily:
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = DriverFamily(name, self)
            if self._below is not None:
                family.below = self._below.family(name)
        return family

    def batch(self) -> _Batch:
        return _Batch()

    def write(self, batch: _Batch) -> None:
        """See the port; if the database cannot take what is too much, the batch stays in memory like the rest."""
        size = 0
        keeps_deletions = self._below is not None
        for family, key, value in batch.operations:
            rows, index = family.rows, family.sorted
            if value is None:
                if keeps_deletions:
                    rows[key] = None
                elif rows.pop(key, None) is not None and index is not None:
                    index.remove(key)
                continue
            if key not in rows:
                size += len(key) + len(value) + ROW_OVERHEAD_BYTES
                if index is not None:
                    index.add(key)
            rows[key] = value
        self._bytes += size
        if self._bytes > self._most_bytes:
            self.spill()

    load = write

    def spill(self) -> None:
        """Writes what waits in memory to the database."""
        if self._below is None:
            below = self._below = self._open_below()
            for family in self._families.values():
                family.below = below.family(family.name)
                family.sorted = None
        else:
            below = self._below
        waiting = [family for family in self._families.values() if family.rows]
        if not waiting:
            return
        batch = below.batch()
        for family in waiting:
            handle = below.family(family.name).handle
            for key, value in family.rows.items():
                if value is None:
                    batch.delete(key, handle)
                else:
                    batch.put(key, value, handle)
        below.load(batch)
        for family in waiting:
            family.rows.clear()
        self._bytes = 0

    def flush(self) -> None:
        """Nothing outlives the driver."""

    def clear(self, families: Collection[str]) -> None:
        for name in families:
            family = self._families.get(name)
            if family is not None:
                family.rows.clear()
                family.sorted = None
        if self._below is not None:
            self._below.clear(families)

    def close(self) -> None:
        below, self._below = self._below, None
        for family in self._families.values():
            family.below = family.sorted = None
            family.rows.clear()
        self._families.clear()
        if below is not None:
            below.close()
