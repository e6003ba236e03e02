"""The index by key of a store whose rows are in order of time (KIP-825); each row has an index row without a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakSet

from processor_api.serde import Serdes
from state.engine.port import Batch
from state.row_format.codec import PLAIN
from state.row_format.migration import upgrading_codec
from state.row_format.row_format import Entry
from state.windowed.key_layout import TimeFirst
from state.windowed.segments import SEGMENT
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import make_put
from state.write_buffer.row_reader import Get, RowReader
from state.write_buffer.store_kind import CommitParticipant, Opening, open_rows

Found = Iterator[tuple[bytes, Entry]]


class _Lookups(Found):
    """An open scan: each row is looked up when it is read, and the rest of them before a row changes."""

    def __init__(self, rows: Found) -> None:
        self._rows = rows

    def __next__(self) -> tuple[bytes, Entry]:
        return next(self._rows)

    def freeze(self) -> None:
        self._rows = iter(list(self._rows))


class IndexReads:
    """The index by key of rows in order of time, for reading.

    :param rows: of the index, which are in the family of the rows that they point to.
    :param get: looks up the row that an index row points to, by its key.
    """

    def __init__(self, rows: RowReader, layout: TimeFirst, get: Get) -> None:
        self.rows = rows
        self._get = get
        self._row = layout.row
        self._layout = layout.index
        self._open: WeakSet[_Lookups] = WeakSet()

    def range(self, low: bytes, high: bytes, *, reverse: bool) -> Found:
        """Returns the keys of the index in a range, with the entries they point to; values as users know them."""
        get, row, parts, segment = self._get, self._row, self._layout.parts, SEGMENT.unpack_from
        found = (
            (key, entry)
            for key, _ in self.rows.range(low, high, reverse=reverse)
            if (entry := get(row(segment(key)[0], *parts(key)))) is not None
        )
        lookups = _Lookups(found)
        self._open.add(lookups)
        return lookups

    def freeze(self) -> None:
        """Looks up the rest of all open scans, so that they show rows as they were; called before a put."""
        for lookups in self._open:
            lookups.freeze()
        self._open.clear()


class IndexRows(IndexReads, CommitParticipant):
    """The index of a store of a task: written with the rows that it points to."""

    rows: Rows

    def __init__(self, rows: Rows, layout: TimeFirst, get: Get) -> None:
        super().__init__(rows, layout, get)
        self._put = make_put(rows)
        self._parts_of_row = layout.parts

    def put(self, row: bytes, value: Any) -> None:
        """Updates the index for a row that was put, or deleted if ``value`` is ``None``."""
        segment = SEGMENT.unpack_from(row)[0]
        self._put(self._layout.row(segment, *self._parts_of_row(row)), None if value is None else b"", 0)

    # ---------------------------------------------------------------- commits

    @property
    def pending(self) -> bool:
        return bool(self.rows.dirty or self.rows.drained)

    def apply(self, batch: Batch) -> None:
        # Nothing else drains it: the index is a part of a store, and no store of its task.
        self.rows.drain()
        self.rows.apply(batch)

    def applied(self) -> None:
        self.rows.applied()

    def close(self) -> None:
        self.rows.close()


def open_index(opening: Opening, layout: TimeFirst, get: Get) -> IndexRows:
    """Returns the index of a store that is opened; ``get`` looks its rows up."""
    suffix = opening.codec.family_suffix
    family = opening.engine.family(f"{opening.builder.name}.{suffix}")
    # A restore makes the index from the rows, so it is not logged; nothing below it reads changes.
    unlogged = replace(
        opening,
        builder=opening.builder.with_caching_disabled(),
        codec=upgrading_codec(replace(PLAIN, family_suffix=suffix), family),
        value_serde=Serdes.BYTES,
        log=None,
        log_many=None,
    )
    return IndexRows(open_rows(unlogged, key_serde=Serdes.BYTES), layout, get)
