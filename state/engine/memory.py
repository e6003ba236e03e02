"""The engine in memory: a dictionary and a sorted list of its keys for each family.

The sorted list is built at the first read of a range and kept up to date from then on; a family of which only single
rows are read never pays for it. A range is read in small pieces, so that the first rows of a long one cost no more than
those of a short one. A write first reads the rest of all open ranges, since they show rows as they were. For snapshots,
which serve other threads, a write notes only the rows that it changes (state/engine/memory.py).
"""

from __future__ import annotations

import shutil
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast
from weakref import WeakSet

from sortedcontainers import SortedList

from processor_api.errors import StateError
from state.engine.port import Family
from state.engine.row_files import AT_ONCE, Columns, read_rows, write_rows
from state.engine.snapshot import Row, SnapshotFamily, closed

# Snapshots of the engine in memory: the present rows, and the former values of those that have changed since.
#
# A write first notes, in each open snapshot, the rows that it changes. Without an open snapshot it costs nothing.

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

    def keys(self) -> list[bytes]:
        """Returns the keys of all rows as they were, in no order, with some that came since. Called under the lock."""
        found: list[bytes] = []
        rows, before = self.source.rows, self.before
        present = iter(rows)
        while piece := list(islice(present, KEYS_AT_ONCE)):  # other threads run in between
            found += piece
        found += [key for key, row in before.items() if row is not None and key not in rows]
        return found

    def rows_of(self, keys: Sequence[bytes]) -> Columns:
        """Returns rows as they were, without a lock, as :meth:`get` does."""
        found, before = list(map(self.source.rows.get, keys)), self.before  # in this order
        if before:
            found = [before.get(key, row) for key, row in zip(keys, found, strict=True)]
        if None in found:
            there = [(key, row) for key, row in zip(keys, found, strict=True) if row is not None]
            return [key for key, _ in there], [row for _, row in there]
        return keys, cast("list[bytes]", found)

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

    def pieces(self, name: str, count: int = AT_ONCE) -> Iterator[Columns]:
        """Yields all rows of a family in pieces, in no order; holds the lock while it lists their keys only.

        :param count: the rows of a piece, at most.
        """
        kept = self._of(name)
        if kept is None:
            return
        with self._lock:
            keys = kept.keys()
        keys.reverse()
        while keys:  # which are let go a piece at a time: all at once would take the interpreter for long
            rows = kept.rows_of(keys[: -count - 1 : -1])
            del keys[-count:]
            self._of(name)
            yield rows


READ_FIRST = 16
"""Rows that a range reads when it is opened."""
READ_AT_ONCE = 100
"""Rows that a range reads at once afterwards."""
KEYS_AT_ONCE = 20_000
"""Keys that are listed in one call of the interpreter: half a millisecond."""


class _UntilKey(bytes):
    """The end of a range to delete, instead of a value."""


class _MemoryBatch:
    """Operations in order; a value of ``None`` deletes."""

    def __init__(self) -> None:
        self.operations: list[tuple[dict[bytes, bytes], bytes, bytes | None, MemoryFamily]] = []

    def put(self, key: bytes, value: bytes, handle: MemoryFamily) -> None:
        self.operations.append((handle.rows, key, value, handle))

    def delete(self, key: bytes, handle: MemoryFamily) -> None:
        self.operations.append((handle.rows, key, None, handle))

    def delete_range(self, low: bytes, high: bytes, handle: MemoryFamily) -> None:
        self.operations.append((handle.rows, low, _UntilKey(high), handle))


class _Rest:
    """The rows that an open range has not read yet."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows

    def read(self) -> list[Row]:
        """The next rows."""
        return list(islice(self._rows, READ_AT_ONCE))

    def freeze(self) -> None:
        """Reads all rows that are left, before the family changes."""
        self._rows = iter(list(self._rows))


class _Keys(SortedList[bytes]):
    """Keys in order."""

    def first_from(self, key: bytes) -> bytes | None:
        """Returns the first key that is this one or follows it. Searched by the parts of the list: its own calls for
        this take two and a half times as long."""
        maxes: list[bytes] = self._maxes  # type: ignore[attr-defined]
        place = bisect_left(maxes, key)
        if place == len(maxes):
            return None
        part: list[bytes] = self._lists[place]  # type: ignore[attr-defined]
        return part[bisect_left(part, key)]


class MemoryFamily:
    """One ordered byte space in memory."""

    def __init__(self, name: str, lock: AbstractContextManager[Any], rows: dict[bytes, bytes] | None = None) -> None:
        self.name = name
        self.handle = self
        self.rows: dict[bytes, bytes] = {} if rows is None else rows
        self.get = self.rows.get
        self.sorted: _Keys | None = None
        self._lock = lock
        self._open: WeakSet[_Rest] = WeakSet()

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        if low is not None and high is not None and low >= high:
            return iter(())
        with self._lock:
            keys = self.index().irange(low, high, inclusive=(True, False), reverse=reverse)
            rows = self.rows
            found = ((key, rows[key]) for key in keys)
            first = list(islice(found, READ_FIRST))
            if len(first) < READ_FIRST:
                return iter(first)
            rest = _Rest(found)
            self._open.add(rest)
        return self._read_on(first, rest)

    def _read_on(self, rows: list[Row], rest: _Rest) -> Iterator[Row]:
        while rows:
            yield from rows
            with self._lock:
                rows = rest.read()

    def seek(self, key: bytes) -> Row | None:
        found = self.index().first_from(key)
        return None if found is None else (found, self.rows[found])

    def index(self) -> _Keys:
        """The keys in order, for ranges."""
        if self.sorted is None:
            self.sorted = _Keys(self.rows)
        return self.sorted

    def freeze(self) -> None:
        """Has open ranges read the rows that they have not read yet; called before a write."""
        for rest in self._open:
            rest.freeze()
        self._open.clear()

    def delete_range(self, low: bytes, high: bytes) -> None:
        index = self.index()
        start, end = index.bisect_left(low), index.bisect_left(high)
        for key in index[start:end]:
            del self.rows[key]
        del index[start:end]

    def approximate_count(self) -> int:
        return len(self.rows)


class MemoryEngine:
    """The engine in memory, whose rows are gone when it closes."""

    persistent = False

    def __init__(self) -> None:
        self._families: dict[str, MemoryFamily] = {}
        self._lock = threading.RLock()
        """Ranges may be read by any thread."""
        self._snapshots: WeakSet[MemorySnapshot] = WeakSet()
        self._prepared: tuple[Path, dict[str, dict[bytes, bytes]]] | None = None
        """The files that are to be taken over, and the rows in them."""
        self._closed = False

    @property
    def lock(self) -> AbstractContextManager[Any]:
        return self._lock

    def family(self, name: str) -> MemoryFamily:
        return self._families.setdefault(name, MemoryFamily(name, self._lock))

    def holds(self, name: str) -> bool:
        family = self._families.get(name)
        return family is not None and bool(family.rows)

    def snapshot(self, families: Collection[str]) -> MemorySnapshot:
        with self._lock:
            if self._closed:
                raise StateError("the engine is closed")
            found = {name: self._families[name] for name in families if name in self._families}
            snapshot = MemorySnapshot(found, self._lock)
            self._snapshots.add(snapshot)
            return snapshot

    def rows(self) -> dict[str, dict[bytes, bytes]]:
        """A copy of everything, by family."""
        with self._lock:
            return {name: family.rows.copy() for name, family in self._families.items()}

    def batch(self) -> _MemoryBatch:
        return _MemoryBatch()

    def write(self, batch: _MemoryBatch) -> None:
        with self._lock:
            for family in self._families.values():
                family.freeze()
            if self._snapshots:
                self._keep(batch)
            for rows, key, value, family in batch.operations:
                index = family.sorted
                if value is None:
                    if rows.pop(key, None) is not None and index is not None:
                        index.remove(key)
                elif type(value) is _UntilKey:
                    family.delete_range(key, value)
                else:
                    if index is not None and key not in rows:
                        index.add(key)
                    rows[key] = value

    load = write

    def _keep(self, batch: _MemoryBatch) -> None:
        """Notes in the open snapshots what rows are before a batch changes them."""
        changed: dict[str, list[bytes]] = {}
        for _, key, value, family in batch.operations:
            keys = changed.setdefault(family.name, [])
            if type(value) is _UntilKey:
                keys += family.index().irange(key, value, (True, False))
            else:
                keys.append(key)
        for snapshot in self._snapshots:
            for name, keys in changed.items():
                snapshot.keep(name, keys)

    def flush(self) -> None:
        """Does nothing: there is no disk."""

    def clear(self, families: Collection[str]) -> None:
        with self._lock:
            for name in families:
                family = self._families.get(name)
                if family is not None:
                    family.freeze()
                    for snapshot in self._snapshots:
                        snapshot.keep(name, family.rows)
                    family.rows.clear()
                    family.sorted = None

    def checkpoint(self, directory: Path, families: Collection[str]) -> Callable[[], None]:
        """Takes the rows as of now (:class:`state.engine.port.Checkpointing`): a write notes the rows that it changes
        until the files are written."""
        snapshot = self.snapshot(families)
        return partial(_write_checkpoint, snapshot, families, directory)

    def prepare(self, directory: Path) -> None:
        self._prepared = directory, read_rows(directory)

    def take_over(self, directory: Path | None) -> None:
        if directory is not None and (self._prepared is None or self._prepared[0] != directory):
            self.prepare(directory)
        with self._lock:
            if self._closed:
                raise StateError("the engine is closed")
            for snapshot in self._snapshots:
                snapshot.close()
            prepared, self._prepared = self._prepared, None
            found = {} if directory is None or prepared is None else prepared[1]
            self._families = {name: MemoryFamily(name, self._lock, rows) for name, rows in found.items()}
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for snapshot in self._snapshots:
                snapshot.close()
            self._families.clear()


def _write_checkpoint(snapshot: MemorySnapshot, families: Collection[str], directory: Path) -> None:
    try:
        write_rows(directory, {name: snapshot.pieces(name) for name in sorted(families)})
    finally:
        snapshot.close()
