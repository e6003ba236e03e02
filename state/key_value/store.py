"""Key-value stores as processors use them, over :class:`state.write_buffer.buffer.Rows`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from processor_api.errors import StoreError
from processor_api.serde import Serde
from processor_api.stores.contracts import ValueAndTimestamp
from state.write_buffer.buffer import Rows
from state.write_buffer.checked_serdes import key_writer, prefix_bounds
from state.write_buffer.fast_path import make_get, make_keep, make_put, row_key_maker
from state.write_buffer.iterators import OpenIterators, RowIterator
from state.write_buffer.row_codec import PLAIN, TIMESTAMPED, row_from_plain, without_access
from state.write_buffer.store_kind import Opening, OpenStore, StoreKind, open_rows
from state.write_buffer.value_forms import Timestamped, named

__all__ = ["KINDS", "KeyValueFacade", "OperatorStore", "TimestampedFacade"]


class OperatorStore:
    """What operators of the DSL get: functions without wrapper objects."""

    __slots__ = ("cached", "get", "name", "on_flush", "put")

    def __init__(self, rows: Rows) -> None:
        self.name = rows.name
        self.cached = rows.cached
        self.get = make_get(rows)
        self.put = make_put(rows)
        self.on_flush: Callable[..., None] = rows.on_flush


class KeyValueFacade:
    """A key-value store, and the base of those that show their rows otherwise."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._get = make_get(rows)
        self._put = make_put(rows)
        self._row_key = row_key_maker(rows)
        self._keep = make_keep(rows)
        self._open = True
        self._iterators = OpenIterators(rows.name)

    @property
    def name(self) -> str:
        return self._rows.name

    @property
    def persistent(self) -> bool:
        return self._rows.engine.persistent

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        """Every later call fails."""
        self._open = False
        self._iterators.close()

    # ------------------------------------------------------------------ values as this kind shows them

    def _shown(self, value: Any, timestamp: int) -> Any:
        return value

    def _parts(self, value: Any) -> tuple[Any, int]:
        """The value and the timestamp to put."""
        return value, self._rows.cursor.timestamp

    # ------------------------------------------------------------------ reads

    def get(self, key: Any) -> Any:
        self._check()
        entry = self._get(key)
        return None if entry is None else self._shown(entry[0], entry[1])

    def range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(self._bound(from_key), self._after(to_key), reverse=False)

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(self._bound(from_key), self._after(to_key), reverse=True)

    def all(self) -> RowIterator:
        return self._range(None, None, reverse=False)

    def reverse_all(self) -> RowIterator:
        return self._range(None, None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: Serde[Any] | None = None) -> RowIterator:
        write_key = key_writer(self._rows.key_serde, self.name)
        return self._range(*prefix_bounds(prefix, write_key, prefix_serde, self.name), reverse=False)

    def approximate_num_entries(self) -> int:
        self._check()
        return self._rows.family.approximate_count() + len(self._rows.dirty) + len(self._rows.drained)

    # ------------------------------------------------------------------ writes

    def put(self, key: Any, value: Any) -> None:
        self._check()
        value, timestamp = self._parts(value)
        try:
            self._put(self._not_null(key), value, timestamp, self._rows.cursor.headers)
        except TypeError:
            self._row_key(key)
            raise

    def put_if_absent(self, key: Any, value: Any) -> Any:
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Puts all entries in order, or none of them if one cannot be put."""
        self._check()
        rows = [(self._not_null(key), *self._parts(value)) for key, value in self._pairs(entries)]
        for key, value, _ in rows:
            self._row_key(key)
            self._keep(value)
        headers = self._rows.cursor.headers
        for key, value, timestamp in rows:
            self._put(key, value, timestamp, headers)

    def delete(self, key: Any) -> Any:
        old = self.get(key)
        self.put(key, None)
        return old

    # ------------------------------------------------------------------ helpers

    def _range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> RowIterator:
        self._check()
        rows = self._rows
        found = rows.range(low, high, reverse=reverse)
        read_key, value_of, shown = rows.read_key, rows.value_of, self._shown
        decoded = ((read_key(key), shown(value_of(entry[0]), entry[1])) for key, entry in found)
        return self._iterators.open(decoded)

    def _bound(self, key: Any) -> bytes | None:
        return None if key is None else self._rows.key_bytes(self._row_key(key))

    def _after(self, key: Any) -> bytes | None:
        bound = self._bound(key)
        return None if bound is None else bound + b"\0"

    def _pairs(self, entries: Iterable[Any]) -> Iterable[tuple[Any, Any]]:
        for entry in entries:
            if not isinstance(entry, tuple | list) or len(entry) != 2:
                raise StoreError(f"store {self.name!r} takes pairs of key and value, got {entry!r}", store=self.name)
            yield entry[0], entry[1]

    def _not_null(self, key: Any) -> Any:
        if key is None:
            raise StoreError(f"store {self.name!r} takes no null keys", store=self.name)
        return key

    def _check(self) -> None:
        if not self._open:
            raise StoreError(f"store {self.name!r} is closed: its task is not on this worker any more", store=self.name)


class PlainFacade(KeyValueFacade):
    """A plain key-value store; as its base, with less around a read."""

    def get(self, key: Any) -> Any:
        if not self._open:
            self._check()
        entry = self._get(key)
        return None if entry is None else entry[0]


class TimestampedFacade(KeyValueFacade):
    """A key-value store of :class:`~processor_api.stores.contracts.ValueAndTimestamp` (KIP-258)."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        self._timestamped = Timestamped(rows.name, rows.cursor)

    def get(self, key: Any) -> Any:
        if not self._open:
            self._check()
        entry = self._get(key)
        return None if entry is None else named(ValueAndTimestamp, (entry[0], entry[1]))

    def _shown(self, value: Any, timestamp: int) -> Any:
        return named(ValueAndTimestamp, (value, timestamp))

    def _parts(self, value: Any) -> tuple[Any, int]:
        return self._timestamped.parts(value)


def _open_with(facade: Callable[[Rows], KeyValueFacade]) -> Callable[[Opening], OpenStore]:
    def opened(opening: Opening) -> OpenStore:
        rows = open_rows(opening, log_each=opening.log_each)
        return OpenStore(builder=opening.builder, rows=rows, facade=facade(rows), operator=OperatorStore(rows))

    return opened


KINDS = {
    "key-value": StoreKind(PLAIN, _open_with(PlainFacade)),
    "timestamped-key-value": StoreKind(
        TIMESTAMPED, _open_with(TimestampedFacade), older={"plain": row_from_plain, "accessed": without_access}
    ),
}
