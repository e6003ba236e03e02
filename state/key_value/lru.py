"""LRU maps: the keys that were put or read last, in memory; those that go are deleted from the changelog.

It is the only kind whose reads change it. The order in which keys go is kept beside the rows. Rows carry a number, so
that a store that opens on existing rows (after an abort, or a restore) knows in which order they were written; reads of
the time before are forgotten.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Self

from processor_api.record import HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from state.engine.port import Batch, Engine
from state.key_value.live_view import KeyValueView
from state.key_value.store import (
    PLAIN_ANSWERS,
    TIMESTAMPED_ANSWERS,
    TIMESTAMPED_FORMS,
    KeyValueFacade,
    OperatorStore,
    TimestampedFacade,
)
from state.row_format.codec import Logged, RowCodec
from state.row_format.row_format import Entry
from state.write_buffer.buffer import Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.fast_path import make_get, make_keep, make_put, refusing_put, row_key_maker
from state.write_buffer.iterators import OpenIterators
from state.write_buffer.row_reader import Get, RowReader
from state.write_buffer.store_kind import ITSELF, Opening, OpenStore, Restore, StoreKind, open_rows
from state.write_buffer.stored_rows import StoredFamily, StoredRow

_FRONT = struct.Struct(">qq")


def _read(row: bytes) -> tuple[bytes, int]:
    return row[16:], _FRONT.unpack_from(row)[1]


def _numbered(number: Callable[[], int]) -> RowCodec:
    """Returns the codec of rows of ``number i64``, ``timestamp i64`` and the value."""

    def write(value: bytes, timestamp: int) -> bytes:
        return _FRONT.pack(number(), timestamp) + value

    def fill(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
        for key, data, timestamp in rows:
            if data is None:
                batch.delete(key, handle)
            else:
                batch.put(key, write(data, timestamp), handle)

    return RowCodec("lru", write, _read, fill)


def _by_number(engine: Engine, store: str) -> list[tuple[int, bytes]]:
    rows = engine.family(f"{store}.lru").range()
    return sorted((_FRONT.unpack_from(row)[0], key) for key, row in rows)


def _next_number(known: list[tuple[int, bytes]]) -> Callable[[], int]:
    return count(known[-1][0] + 1 if known else 0).__next__


class _EvictionOrder:
    """Knows which key goes next, and makes the functions of the store that keep it up."""

    def __init__(self, rows: Rows, max_entries: int, keys: Iterable[bytes]) -> None:
        self._cursor, self._max = rows.cursor, max_entries
        self._get, self._put = make_get(rows), make_put(rows)
        self._row_key, self._keep = row_key_maker(rows.format), make_keep(rows.format)
        self.keys: OrderedDict[Any, Any] = OrderedDict()
        """Row keys, and the keys as their users know them; the next to go stands first."""
        for raw in keys:
            key = rows.format.keys.read(raw)
            self.keys[self._row_key(key)] = key

    def get(self, key: Any) -> Entry | None:
        found = self._get(key)
        if found is not None:
            self.keys.move_to_end(self._row_key(key))
        return found

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        row_key = self._row_key(key)
        if value is None:
            self._put(key, None, timestamp, headers)
            self.keys.pop(row_key, None)
            return
        self._keep(value)  # fails before anything goes
        if row_key not in self.keys:
            while len(self.keys) >= self._max:
                first, oldest = next(iter(self.keys.items()))
                self._put(oldest, None, self._cursor.timestamp, headers)
                del self.keys[first]
        self._put(key, value, timestamp, headers)
        self.keys[row_key] = key
        self.keys.move_to_end(row_key)


class _Lru(KeyValueFacade):
    """A plain LRU map, and the base of that with timestamps.

    :param get: replaces the `get` of the order, since reads of other threads change no order.
    """

    def __init__(
        self, rows: RowReader, order: _EvictionOrder, *, get: Get | None = None, iterators: OpenIterators | None = None
    ) -> None:
        put = order.put if get is None else refusing_put(rows.name)
        super().__init__(rows, put, get=get or order.get, iterators=iterators)
        self._order = order

    def reading(self, rows: RowReader, iterators: OpenIterators) -> Self:
        return type(self)(rows, self._order, get=make_get(rows), iterators=iterators)

    def approximate_num_entries(self) -> int:
        self._iterators.check()
        return len(self._order.keys)


class _TimestampedLru(_Lru, TimestampedFacade):
    """An LRU map with timestamps."""


def _open_with(facade: Callable[[Rows, _EvictionOrder], _Lru]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        known = _by_number(opening.engine, opening.builder.name)
        numbered = replace(opening, codec=_numbered(_next_number(known)))
        rows = open_rows(numbered, log_each=opening.log_each)
        order = _EvictionOrder(rows, opening.builder.supplier.parameters["max_entries"], [key for _, key in known])
        return OpenStore(
            kind=opening.kind,
            builder=opening.builder,
            rows=rows,
            facade=facade(rows, order),
            operator=OperatorStore(rows, order.get, order.put),
        )

    return opened


def _restoring(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    fill = _numbered(_next_number(_by_number(engine, builder.name))).fill
    handle = engine.family(f"{builder.name}.lru").handle

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        fill(batch, handle, zip(keys, values, timestamps, strict=True))

    return restore


def _records(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Iterator[ChangelogRecord]:
    """Yields the rows in the order in which they were put, by which a restore numbers them from 0 on.

    The keys are sorted in memory, as they are when the map is opened: its largest number of entries bounds them.
    """
    get = engine.family(f"{builder.name}.lru").get
    found = ((key, get(key)) for _, key in _by_number(engine, builder.name))
    return (ChangelogRecord(*row, None) for row in codec.logged((key, row) for key, row in found if row is not None))


def _stored(key: bytes, row: bytes) -> StoredRow:
    number, timestamp = _FRONT.unpack_from(row)
    return StoredRow(key, row[_FRONT.size :], timestamp, more={"number": number})


_PLAIN = StoreKind(
    codec=_numbered(count().__next__),
    open=_open_with(_Lru),
    restoring=_restoring,
    changelog_records=_records,
    view=KeyValueView,
    offline={"lru": StoredFamily(_stored, ("timestamp", "number"))},
    changelog_form=ChangelogForm.KEYS,
    forms={"key-value": ITSELF},
    answers=PLAIN_ANSWERS,
    metrics_scope="lru",
)
KINDS = {
    "lru-map": _PLAIN,
    "timestamped-lru-map": replace(
        _PLAIN, open=_open_with(_TimestampedLru), forms=TIMESTAMPED_FORMS, answers=TIMESTAMPED_ANSWERS
    ),
}
