"""The engine in memory: a dictionary and a sorted list of its keys for each family.

The sorted list is built at the first range read and kept up from then on; a family that is only looked up never pays
for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice

from sortedcontainers import SortedList

__all__ = ["MemoryEngine"]


class _Batch:
    """Operations in order; a value of ``None`` deletes."""

    def __init__(self) -> None:
        self.operations: list[tuple[dict[bytes, bytes], bytes, bytes | None, MemoryFamily]] = []

    def put(self, key: bytes, value: bytes, handle: MemoryFamily) -> None:
        self.operations.append((handle.rows, key, value, handle))

    def delete(self, key: bytes, handle: MemoryFamily) -> None:
        self.operations.append((handle.rows, key, None, handle))


class MemoryFamily:
    """One ordered byte space in memory."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.handle = self
        self.rows: dict[bytes, bytes] = {}
        self.get = self.rows.get
        self.sorted: SortedList[bytes] | None = None

    def range(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        *,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[tuple[bytes, bytes]]:
        if low is not None and high is not None and low >= high:
            return iter(())
        keys = self._index().irange(low, high, inclusive=(True, False), reverse=reverse)
        rows = self.rows
        return iter([(key, rows[key]) for key in islice(keys, limit)])

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        found = next(self._index().irange(key), None)
        return None if found is None else (found, self.rows[found])

    def _index(self) -> SortedList[bytes]:
        if self.sorted is None:
            self.sorted = SortedList(self.rows)
        return self.sorted

    def approximate_count(self) -> int:
        return len(self.rows)


class MemoryEngine:
    """Everything is gone when it closes."""

    persistent = False

    def __init__(self) -> None:
        self._families: dict[str, MemoryFamily] = {}

    def family(self, name: str) -> MemoryFamily:
        return self._families.setdefault(name, MemoryFamily(name))

    def holds(self, name: str) -> bool:
        family = self._families.get(name)
        return family is not None and bool(family.rows)

    def batch(self) -> _Batch:
        return _Batch()

    def write(self, batch: _Batch) -> None:
        for rows, key, value, family in batch.operations:
            index = family.sorted
            if value is None:
                if rows.pop(key, None) is not None and index is not None:
                    index.remove(key)
            else:
                if index is not None and key not in rows:
                    index.add(key)
                rows[key] = value

    load = write

    def flush(self) -> None:
        """Nothing to flush."""

    def clear(self, families: Collection[str]) -> None:
        for name in families:
            family = self._families.get(name)
            if family is not None:
                family.rows.clear()
                family.sorted = None

    def close(self) -> None:
        self._families.clear()
