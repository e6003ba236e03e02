"""LRU maps: the keys that were put or read last, in memory; those that go are deleted from the changelog.

The one kind whose reads change it. Which key goes next is kept beside the rows. Rows carry a number, so that a store
that opens on rows that are there (after an abort, or a restore) knows in which order they were written; reads of the
time before are forgotten.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from processor_api.record import HeaderList
from processor_api.stores.factory import StoreBuilder
from state.engine.port import Batch, Engine
from state.key_value.store import KeyValueFacade, OperatorStore, TimestampedFacade
from state.write_buffer.buffer import Entry, Rows
from state.write_buffer.fast_path import Get, Put, make_keep, row_key_maker
from state.write_buffer.row_codec import Logged, RowCodec
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind, open_rows

__all__ = ["KINDS"]

_FRONT = struct.Struct(">qq")


def _read(row: bytes) -> tuple[bytes, int]:
    return row[16:], _FRONT.unpack_from(row)[1]


def _numbered(number: Callable[[], int]) -> RowCodec:
    """Rows of ``number i64``, ``timestamp i64`` and the value."""

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


class _Order:
    """Which key goes next, and the functions of the store that keep it up."""

    def __init__(self, rows: Rows, get: Get, put: Put, max_entries: int, keys: Iterable[bytes]) -> None:
        self._rows, self._get, self._put, self._max = rows, get, put, max_entries
        self._row_key, self._keep = row_key_maker(rows), make_keep(rows)
        self.keys: OrderedDict[Any, Any] = OrderedDict()
        """Row keys, and the keys as their users know them; the next to go stands first."""
        for raw in keys:
            key = rows.read_key(raw)
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
                self._put(oldest, None, self._rows.cursor.timestamp, headers)
                del self.keys[first]
        self._put(key, value, timestamp, headers)
        self.keys[row_key] = key
        self.keys.move_to_end(row_key)


class _Lru(KeyValueFacade):
    """A plain LRU map, with `_order` set when it opens."""

    _order: _Order

    def follow(self, order: _Order) -> None:
        self._order, self._get, self._put = order, order.get, order.put

    def approximate_num_entries(self) -> int:
        self._check()
        return len(self._order.keys)


class _TimestampedLru(_Lru, TimestampedFacade):
    pass


def _open_with(facade: Callable[[Rows], _Lru]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        rows = open_rows(opening, log_each=opening.log_each)
        known = _by_number(opening.engine, rows.name)
        rows.codec = _numbered(_next_number(known))
        shown, operator = facade(rows), OperatorStore(rows)
        max_entries = opening.builder.supplier.parameters["max_entries"]
        order = _Order(rows, operator.get, operator.put, max_entries, [key for _, key in known])
        shown.follow(order)
        operator.get, operator.put = order.get, order.put
        return OpenStore(builder=opening.builder, rows=rows, facade=shown, operator=operator)

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


KINDS = {
    "lru-map": StoreKind(_numbered(count().__next__), _open_with(_Lru), _restoring),
    "timestamped-lru-map": StoreKind(_numbered(count().__next__), _open_with(_TimestampedLru), _restoring),
}
