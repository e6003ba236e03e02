"""The base of the engines' snapshots: a range is read in pieces, each on its own.

Nothing is held between two pieces, so that an engine can write, and close, while ranges are open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Protocol

from sortedcontainers import SortedList

from processor_api.errors import StateError
from state.engine.port import Family

READ_FIRST = 16
"""Rows of the first piece: the first rows of a long range cost no more than those of a short one."""
READ_AT_ONCE = 256
"""Rows of the largest."""

Row = tuple[bytes, bytes]


def closed(name: str) -> StateError:
    """The error of a read after the end of a snapshot."""
    return StateError(f"the snapshot of {name!r} is closed, or its engine is")


class Pieces(Protocol):
    """The source of a snapshot's rows."""

    def one(self, name: str, key: bytes) -> bytes | None: ...

    def read(
        self, name: str, low: bytes | None, high: bytes | None, count: int, *, reverse: bool
    ) -> tuple[list[Row], bytes | None]:
        """Rows with ``low <= key < high``, about ``count`` of them; and the bound from which to continue, which is the
        new ``low``, or ``high`` in reverse; ``None`` at the end."""
        ...

    def count(self, name: str) -> int: ...


class SnapshotFamily:
    """One family of a snapshot: a :class:`state.engine.port.Family` that cannot be written."""

    def __init__(self, name: str, pieces: Pieces) -> None:
        self.name = name
        self.get: Callable[[bytes], bytes | None] = partial(pieces.one, name)
        self._pieces = pieces

    @property
    def handle(self) -> None:
        return None

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        if low is not None and high is not None and low >= high:
            return
        count, name, read = READ_FIRST, self.name, self._pieces.read
        while True:
            rows, on = read(name, low, high, count, reverse=reverse)
            yield from rows
            if on is None:
                return
            low, high = (low, on) if reverse else (on, high)
            count = min(count * 4, READ_AT_ONCE)

    def seek(self, key: bytes) -> Row | None:
        low: bytes | None = key
        while True:
            rows, low = self._pieces.read(self.name, low, None, 1, reverse=False)
            if rows or low is None:
                return rows[0] if rows else None

    def approximate_count(self) -> int:
        return self._pieces.count(self.name)


class DictSnapshot:
    """Copies of families that are dictionaries."""

    def __init__(self, families: Mapping[str, Mapping[bytes, bytes]]) -> None:
        self._families: dict[str, Mapping[bytes, bytes]] | None = dict(families)
        self._sorted: dict[str, SortedList[bytes]] = {}

    def family(self, name: str) -> Family:
        return SnapshotFamily(name, self)

    def close(self) -> None:
        self._families = None
        self._sorted = {}

    def _rows(self, name: str) -> Mapping[bytes, bytes]:
        families = self._families
        if families is None:
            raise closed(name)
        return families.get(name, {})

    def one(self, name: str, key: bytes) -> bytes | None:
        return self._rows(name).get(key)

    def read(
        self, name: str, low: bytes | None, high: bytes | None, count: int, *, reverse: bool
    ) -> tuple[list[Row], bytes | None]:
        """All rows at once: nothing changes them."""
        rows = self._rows(name)
        keys = self._sorted.get(name)
        if keys is None:
            keys = self._sorted[name] = SortedList(rows)
        return [(key, rows[key]) for key in keys.irange(low, high, (True, False), reverse)], None

    def count(self, name: str) -> int:
        return len(self._rows(name))
