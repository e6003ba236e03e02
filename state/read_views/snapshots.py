"""Rows of a running store for other threads: as they were at one moment, and as they are.

What a store holds at one moment are copies of its buffer, and a snapshot of its engine that belongs to them.

The rules that make this one moment are those of :mod:`state.write_buffer.shared_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter, call
from typing import Any

from processor_api.errors import StateError
from state.engine.port import Engine, Family, Snapshot
from state.row_format.migration import UpgradingFamily
from state.row_format.row_format import Entry
from state.write_buffer.open_views import OpenViews
from state.write_buffer.row_reader import ReadRule, RowReader
from state.write_buffer.shared_rows import SharedRows, Uncommitted

AtomicRead = Callable[[], Any]
"""A built-in function bound to the object that it reads. If one call runs several, no other thread runs in between."""


def read_uncommitted(rows: Uncommitted) -> list[AtomicRead]:
    """Returns the reads of the rows that wait for the commit (:func:`uncommitted_of`). The dictionary that is being
    drained loses nothing that is seen: it needs no copy."""
    return [rows.dirty.copy, partial(attrgetter("draining"), rows), rows.drained.copy]


def uncommitted_of(copies: Sequence[Any]) -> Uncommitted:
    """Returns the rows of :func:`read_uncommitted`, as they were then; without copies, none."""
    if not copies:
        return Uncommitted()
    dirty, draining, drained = copies
    # A key in both was put again during the drain: the later row counts.
    return Uncommitted({**draining, **dirty} if draining else dirty, drained)


def families_shown(family: Family) -> list[str]:
    """Returns the names of the engine's families whose rows a family shows."""
    return family.names if isinstance(family, UpgradingFamily) else [family.name]


class SnapshotSource:
    """Takes snapshots of one store.

    :param families: the engine's families to take a snapshot of.
    :param reads: what to copy of the buffer.
    """

    def __init__(
        self, store: str, engine: Engine, views: OpenViews, families: Sequence[str], reads: Sequence[AtomicRead] = ()
    ) -> None:
        self.store = store
        self.views = views
        self._engine = engine
        self._families = families
        self._reads = tuple(reads)

    def take(self, reads: Sequence[AtomicRead] | None = None) -> tuple[Snapshot, tuple[Any, ...]]:
        """Returns a snapshot, and what the reads gave at its moment.

        :raises StoreError: if the store is closed.
        """
        engine = self._engine
        try:
            with engine.lock:
                copies = tuple(map(call, self._reads if reads is None else reads))
                snapshot = engine.snapshot(self._families)
        except StateError:
            self.check()
            raise
        self.check()
        return snapshot, copies

    def at(self, family: Family, snapshot: Snapshot) -> Family:
        """Returns a family as of a snapshot that was taken."""
        found = family.at(snapshot) if isinstance(family, UpgradingFamily) else snapshot.family(family.name)
        return ViewedFamily(found, self)

    def check(self) -> None:
        """Checks after a read that the store was still open, so that the read has missed no rows.

        :raises StoreError: if the store is closed.
        """
        self.views.check(self.store)


class ViewedFamily:
    """A family, or its part of a snapshot; reads raise StoreError once the store is closed."""

    def __init__(self, family: Family, source: SnapshotSource) -> None:
        self.name = family.name
        self._family = family
        self._source, self._views = source, source.views
        self._moves = isinstance(family, UpgradingFamily)

    @property
    def handle(self) -> None:
        return None

    def get(self, key: bytes) -> bytes | None:
        """Returns a row; reads twice where a row of an older kind may move to its new family during the first read."""
        family = self._family
        try:
            row = family.get(key)
            if row is None and self._moves:
                row = family.get(key)
        except (AttributeError, StateError):
            self._source.check()
            raise
        if self._views.closed:
            self._source.check()
        return row

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._family.range(low, high, reverse=reverse)
        except StateError:
            self._source.check()
            raise

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        try:
            return self._family.seek(key)
        except StateError:
            self._source.check()
            raise

    def approximate_count(self) -> int:
        try:
            return self._family.approximate_count()
        except Exception:
            self._source.check()
            raise


RangeOf = Callable[[bytes | None, bytes | None], RowReader]
"""Returns rows that hold the range ``(low, high)`` as it is now, and may hold others; ``None`` is open."""


class FrozenRows(RowReader):
    """Rows as they were at one moment.

    :param family: the family as of that moment.
    :param uncommitted: copies of the rows that waited for the commit then.
    """

    def __init__(
        self, shared: SharedRows, family: Family, uncommitted: Uncommitted, rule: ReadRule | None = None
    ) -> None:
        super().__init__(shared.at(family, uncommitted), rule)

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return self._read_drained

    def _read_drained(self, row_key: Any) -> Entry | None:
        return _drained(self, row_key) or self._read_family(row_key)


class LiveRows(RowReader):
    """Rows as they are at each read, from any thread.

    :param range_of: gives the rows in a range as they are now.
    :param committed: shows only the rows of the engine.
    """

    def __init__(
        self,
        shared: SharedRows,
        source: SnapshotSource,
        range_of: RangeOf,
        rule: ReadRule | None = None,
        *,
        committed: bool,
    ) -> None:
        uncommitted = Uncommitted() if committed else shared.uncommitted
        super().__init__(shared.at(ViewedFamily(shared.family, source), uncommitted), rule)
        self._range_of = range_of

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return self._read_waiting

    def _read_waiting(self, row_key: Any) -> Entry | None:
        # `get` has looked into `dirty` before: in this order a row that moves is found (rule 1 of `shared_rows`).
        entry = self.shared.uncommitted.draining.get(row_key) or _drained(self, row_key)
        return entry if entry is not None else self._read_family(row_key)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        return self._range_of(low, high).range(low, high, reverse=reverse)


def _drained(rows: RowReader, row_key: Any) -> Entry | None:
    found = rows.drained.get(row_key)
    if found is None:
        return None
    data = found[1]
    return None if data is None else rows.format.values.stored(data), found[2]
