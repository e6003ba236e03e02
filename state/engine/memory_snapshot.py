"""Snapshots of the engine in memory: the present rows, and the former values of those that have changed since.

A write first notes, in each open snapshot, the rows that it changes. Without an open snapshot it costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, Protocol

from sortedcontainers import SortedList

from state.engine.port import Family
from state.engine.snapshot import Row, SnapshotFamily, closed

_SAME: Any = object()


class Source(Protocol):
    """A family in memory."""

    rows: dict[bytes, bytes]

    def index(self) -> SortedList[bytes]: ...


class _Kept:
    """A family, and what rows were before they changed; ``None`` for one that was not there."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.before: dict[bytes, bytes | None] = {}
        self._changed: SortedList[bytes] = SortedList()

    def keep(self, keys: Iterable[bytes]) -> None:
        before, rows = self.before, self.source.rows
        for key in keys:
            if key not in before:
                before[key] = rows.get(key)

    def get(self, key: bytes) -> bytes | None:
        """Reads one row without a lock, since the former value of a row is noted before the row changes."""
        row = self.source.rows.get(key)
        before = self.before.get(key, _SAME)
        return row if before is _SAME else before

    def changed(self) -> SortedList[bytes]:
        """Returns the keys of changed rows, in order; the reader sorts those that came since the last call."""
        if len(self._changed) < len(self.before):
            self._changed.update(islice(self.before, len(self._changed), None))
        return self._changed

    def read(self, low: bytes | None, high: bytes | None, count: int, reverse: bool) -> tuple[list[Row], bytes | None]:
        keys: Collection[bytes] = list(islice(self._between(self.source.index(), low, high, reverse), count + 1))
        on = None
        if len(keys) > count:  # the next piece begins at the last one
            *keys, beyond = keys
            on = keys[-1] if reverse else beyond
            low, high = (on, high) if reverse else (low, on)
        before, rows = self.before, self.source.rows
        found = [(key, rows[key]) for key in keys if key not in before]
        if before:
            found += [
                (key, old)
                for key in self._between(self.changed(), low, high, reverse)
                if (old := before[key]) is not None
            ]
            found.sort(reverse=reverse)
        return found, on

    @staticmethod
    def _between(keys: SortedList[bytes], low: bytes | None, high: bytes | None, reverse: bool) -> Iterable[bytes]:
        return keys.irange(low, high, (True, False), reverse)


class MemorySnapshot:
    """A snapshot of families in memory (:class:`state.engine.port.Snapshot`), made under the engine's lock.

    :param lock: held by writes; and while a piece of a range is read.
    """

    def __init__(self, families: Mapping[str, Source], lock: AbstractContextManager[Any]) -> None:
        self._kept: dict[str, _Kept] | None = {name: _Kept(family) for name, family in families.items()}
        self._lock = lock

    def family(self, name: str) -> Family:
        return SnapshotFamily(name, self)

    def keep(self, name: str, keys: Iterable[bytes]) -> None:
        """Notes the values of rows of a family before they change; called under the lock."""
        kept = None if self._kept is None else self._kept.get(name)
        if kept is not None:
            kept.keep(keys)

    def close(self) -> None:
        self._kept = None

    def _of(self, name: str) -> _Kept | None:
        kept = self._kept
        if kept is None:
            raise closed(name)
        return kept.get(name)

    def one(self, name: str, key: bytes) -> bytes | None:
        kept = self._of(name)
        return None if kept is None else kept.get(key)

    def read(
        self, name: str, low: bytes | None, high: bytes | None, count: int, *, reverse: bool
    ) -> tuple[list[Row], bytes | None]:
        with self._lock:
            kept = self._of(name)
            return ([], None) if kept is None else kept.read(low, high, count, reverse)

    def count(self, name: str) -> int:
        kept = self._of(name)
        return 0 if kept is None else len(kept.source.rows)
