"""Stores of lists: each put adds a value to its key's list, and the changelog carries the whole list.

Outer and left joins of streams keep records without a partner in one, under keys that sort by time
(:mod:`state.formats.outer_join`). Kafka Streams has it inside of its library only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

from processor_api.errors import StoreError
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.user_code.given_serdes import SerdeLike
from state.formats.values import add_item, read_items
from state.key_value.live_view import KeyValueView
from state.row_format.checked_serdes import key_writer, prefix_bounds, reader, value_writer
from state.row_format.codec import PLAIN
from state.write_buffer.buffer import Rows
from state.write_buffer.changelog_form import ChangelogForm
from state.write_buffer.fast_path import Put, make_get, make_put, refusing_put
from state.write_buffer.iterators import ClosableFacade, OpenIterators, RowIterator
from state.write_buffer.row_reader import RowReader
from state.write_buffer.store_kind import Opening, OpenStore, StoreKind, open_rows
from state.write_buffer.stored_rows import StoredFamily, StoredRow


class ListFacade(ClosableFacade):
    """A list store for processors and operators: :class:`processor_api.stores.contracts.ListStore`.

    :param iterators: opens its iterators.
    """

    cached = False

    def __init__(
        self,
        rows: RowReader,
        put: Put,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        iterators: OpenIterators | None = None,
    ) -> None:
        name = self.name = rows.name
        self.persistent: bool = rows.persistent
        self._rows = rows
        self._get, self._put, self._cursor = make_get(rows), put, rows.cursor
        self._serdes = key_serde, value_serde
        self._write_key, self._read_key = key_writer(key_serde, name), reader(key_serde, "key", name)
        self._write_value, self._read_value = value_writer(value_serde, name), reader(value_serde, "value", name)
        self._iterators = iterators or OpenIterators(name)

    def reading(self, rows: RowReader, iterators: OpenIterators) -> Self:
        """Returns a list store that reads other rows and is not written."""
        return type(self)(rows, refusing_put(self.name), *self._serdes, iterators)

    def put(self, key: Any, value: Any) -> None:
        self._iterators.check()
        raw, item = self._write_key(key), self._write_value(value)
        row = None
        if item is not None:
            found = self._get(raw)
            row = self._read(add_item, None if found is None else found[0], item)
        self._put(raw, row, self._cursor.timestamp, self._cursor.headers)

    def delete(self, key: Any) -> None:
        self.put(key, None)

    def get(self, key: Any) -> list[Any]:
        self._iterators.check()
        found = self._get(self._write_key(key))
        return [] if found is None else [self._read_value(item) for item in self._read(read_items, found[0])]

    def all(self) -> RowIterator:
        return self._range(None, None)

    def reverse_all(self) -> RowIterator:
        return self._range(None, None, reverse=True)

    def range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(*self._bounds(from_key, to_key))

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> RowIterator:
        return self._range(*self._bounds(from_key, to_key), reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None) -> RowIterator:
        return self._range(*prefix_bounds(prefix, self._write_key, prefix_serde, self.name))

    def approximate_num_entries(self) -> int:
        """Keys that have a list."""
        self._iterators.check()
        return self._rows.approximate_count()

    def _bounds(self, from_key: Any, to_key: Any) -> tuple[bytes | None, bytes | None]:
        low = None if from_key is None else self._write_key(from_key)
        return low, None if to_key is None else self._write_key(to_key) + b"\0"

    def _range(self, low: bytes | None, high: bytes | None, *, reverse: bool = False) -> RowIterator:
        self._iterators.check()
        return self._iterators.open(self._decoded(self._rows.range(low, high, reverse=reverse), reverse))

    def _decoded(self, rows: Iterator[tuple[bytes, Any]], reverse: bool) -> Iterator[tuple[Any, Any]]:
        for raw, entry in rows:
            key, items = self._read_key(raw), self._read(read_items, entry[0])
            for item in reversed(items) if reverse else items:
                yield key, self._read_value(item)

    def _read(self, function: Any, *row: Any) -> Any:
        return _checked(self.name, function, *row)


class SharedTime:
    """The time that the operators of a join share, for as long as their task runs."""

    __slots__ = ("next_emit_ms", "oldest", "send_rest", "stream_time")

    def __init__(self) -> None:
        self.stream_time = NO_TIMESTAMP
        """The largest timestamp that reached one of them, in ms."""
        self.oldest: int | None = None
        """The time from which on rows may wait, in ms; ``None`` until somebody has looked."""
        self.next_emit_ms = 0
        """The wall-clock time before which nothing that waits is looked at."""
        self.send_rest: Callable[[], None] | None = None
        """Sends on what is left of records that leave in parts; ``None`` if nothing is."""


class ListOperator:
    """The form of the store for operators: keys decoded, lists only when they are asked for."""

    cached = False

    def __init__(self, rows: Rows, opening: Opening) -> None:
        self.name = rows.name
        self.time = SharedTime()
        self._rows = rows
        self._get, self._put = make_get(rows), make_put(rows)
        self._write_key = key_writer(opening.key_serde, rows.name)
        self._read_key = reader(opening.key_serde, "key", rows.name)
        self._write_value = value_writer(opening.value_serde, rows.name)
        self._read_value = reader(opening.value_serde, "value", rows.name)

    def put(self, key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        """Adds a value to the key's list, or deletes the list with ``None``.

        :param timestamp: the time of the changelog record, in ms; so ``headers``.
        """
        raw, item = self._write_key(key), self._write_value(value)
        row = None
        if item is not None:
            found = self._get(raw)
            row = _checked(self.name, add_item, None if found is None else found[0], item)
        self._put(raw, row, timestamp, headers)

    def delete_present(self, key: Any, timestamp: int, headers: HeaderList | None = None) -> None:
        """Deletes the key's list, if there is one."""
        raw = self._write_key(key)
        if self._get(raw) is not None:
            self._put(raw, None, timestamp, headers)

    def rows(self, *, behind: Any = None, until: Any = None) -> Iterator[tuple[Any, bytes]]:
        """Yields each key with its list as it is stored, in order, as they are now: rows may be deleted meanwhile.

        :param behind: a key before the first that is wanted.
        :param until: the last key that is wanted.
        """
        read_key = self._read_key
        low, high = (None if key is None else self._write_key(key) + b"\0" for key in (behind, until))
        return ((read_key(raw), entry[0]) for raw, entry in self._rows.range(low, high, reverse=False))

    def last_key(self) -> Any:
        """Returns the last key in order, ``None`` if there is none."""
        return next((self._read_key(raw) for raw, _ in self._rows.range(None, None, reverse=True)), None)

    def length(self, row: bytes) -> int:
        """Returns how many values a stored list has."""
        return len(_checked(self.name, read_items, row))

    def items(self, row: bytes) -> list[Any]:
        """Returns the values of a stored list."""
        return [self._read_value(item) for item in _checked(self.name, read_items, row)]


def _checked(store: str, function: Any, *row: Any) -> Any:
    try:
        return function(*row)
    except ValueError as error:
        raise StoreError(f"store {store!r} has a damaged row: {error}", store=store) from error


def _open(opening: Opening) -> OpenStore:
    rows = open_rows(replace(opening, value_serde=Serdes.BYTES), key_serde=Serdes.BYTES, log_each=opening.log_each)
    facade = ListFacade(rows, make_put(rows), opening.key_serde, opening.value_serde)
    return OpenStore(
        kind=opening.kind, builder=opening.builder, rows=rows, facade=facade, operator=ListOperator(rows, opening)
    )


def _stored(key: bytes, row: bytes) -> StoredRow:
    return StoredRow(key, read_items(row))


KINDS = {
    "list": StoreKind(
        codec=replace(PLAIN, family_suffix="list"),
        changelog_form=ChangelogForm.LISTS,
        open=_open,
        view=KeyValueView,
        offline={"list": StoredFamily(_stored)},
    )
}
