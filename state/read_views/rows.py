"""Rows of a running store for other threads: as they were at one moment, and as they are at each read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from state.engine.port import Family
from state.read_views.snapshots import SnapshotSource, ViewedFamily
from state.row_format.row_format import Entry
from state.write_buffer.row_reader import ReadRule, RowReader
from state.write_buffer.shared_rows import SharedRows, Uncommitted

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
