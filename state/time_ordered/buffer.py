"""The base of the time-ordered buffers: those of suppressions, and of joins of a stream and a table with grace.

Records wait in them, with their contexts, until an operator removes them in order of time. Rows are those of the
changelog, and go through :class:`state.write_buffer.buffer.Rows` like those of any store;
:class:`state.time_ordered.index.BufferIndex` knows which is next. Both buffers are on both engines; Kafka Streams has
the first in memory only and the second on RocksDB only. They belong to operators: a user's processor can read the
figures of one, but not change it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from processor_api.errors import StateError, StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.texts import repr_of
from state.engine.repair_hints import rebuild_store
from state.formats.buffer_value import (
    BufferContext,
    BufferValue,
    read_buffer_value,
    resident_size,
    write_buffer_value,
    write_context,
)
from state.formats.keys import MAX_TIME
from state.row_format.checked_serdes import key_writer, reader, value_writer
from state.row_format.record_context import Cursor, OffsetOnly
from state.time_ordered.index import EMPTY, BufferIndex
from state.write_buffer.buffer import Log, Rows
from state.write_buffer.fast_path import make_get, make_put
from state.write_buffer.store_kind import Opening, OpenStore, open_rows

Callback = Callable[[Any, Any, int, HeaderList | None], None]
"""``(key, value, timestamp_ms, headers)`` of a record that leaves the buffer, while its context is the current one."""


def row_size(key: bytes, value: BufferValue) -> int:
    """Returns the bytes that Kafka Streams counts for a row; ``key`` is that of the changelog."""
    return 8 + len(key) + resident_size(value)


def written(value: BufferValue) -> bytes:
    """Returns a row as it is written."""
    context, prior, old, new, time, prefixes = value
    return write_buffer_value(write_context(*context), prior, old, new, time, prefixes)


def read_row(row: bytes, store: str) -> BufferValue:
    """Returns a row as it is read.

    :raises StateError: if it is damaged.
    """
    try:
        return read_buffer_value(row)
    except ValueError as error:
        raise StateError(f"store {store!r} has a damaged row: {error}", store=store) from error


class Buffer(ABC):
    """A buffer as operators get it. Its calls do not check that it is open: an operator ends with its task.

    :param index_family: suffix of the family that holds the index.
    """

    cached = False

    def __init__(self, opening: Opening, log: Log | None, index_family: str, *, log_each: bool) -> None:
        self.name = name = opening.builder.name
        self.persistent: bool = opening.engine.persistent
        as_bytes = replace(opening, value_serde=Serdes.BYTES)
        self.rows: Rows = open_rows(as_bytes, key_serde=Serdes.BYTES, log=log, log_each=log_each)
        self.index = BufferIndex(
            opening.engine.family(f"{name}.{index_family}"),
            writes_entries=index_family != opening.codec.family_suffix,
        )
        self.min_timestamp = EMPTY
        """The time of the record that leaves next, in ms; `EMPTY` if there is none."""
        self._get, self._put = make_get(self.rows), make_put(self.rows)
        self._cursor: Cursor = opening.cursor
        self._write_key, self._read_key = key_writer(opening.key_serde, name), reader(opening.key_serde, "key", name)
        self._write_value = value_writer(opening.value_serde, name)
        self._read_value = reader(opening.value_serde, "value", name)

    @property
    def num_records(self) -> int:
        return self.index.num_records

    @property
    def buffer_size(self) -> int:
        """The bytes that Kafka Streams would count."""
        return self.index.buffer_size

    def _context(self, timestamp: int, headers: HeaderList | None) -> BufferContext:
        topic, partition = self._cursor.source
        return BufferContext(timestamp, self._cursor.message.offset(), topic or "", partition, headers or [])

    def _check_time(self, time: Any) -> None:
        if type(time) is not int or not 0 <= time <= MAX_TIME:
            raise StoreError(
                f"store {self.name!r} needs non-negative times in ms, got {repr_of(time)}", store=self.name
            )

    def _hand_out(self, callback: Callback, raw_key: bytes, row: BufferValue) -> None:
        cursor, context = self._cursor, row.context
        saved = cursor.message, cursor.source, cursor.timestamp, cursor.headers
        headers = context.headers or None
        message = OffsetOnly()
        message.origin = context.offset
        cursor.message, cursor.source = message, (context.topic or None, context.partition)
        cursor.timestamp, cursor.headers = context.timestamp, headers
        try:
            key, value = self._read_key(raw_key), self._value_of(row)
            callback(key, value, context.timestamp, headers)
        finally:
            cursor.message, cursor.source, cursor.timestamp, cursor.headers = saved

    @abstractmethod
    def _value_of(self, row: BufferValue) -> Any:
        """Returns the value of a row as it is handed out."""

    def _row(self, key: bytes) -> BufferValue:
        found = self._get(key)
        if found is None:
            raise StateError(
                f"store {self.name!r} does not have a row that its index has: {rebuild_store(self.name)}",
                store=self.name,
            )
        return read_row(found[0], self.name)


class BufferView:
    """A buffer as processors get it: they can see how much is buffered."""

    def __init__(self, buffer: Buffer) -> None:
        self.name, self.persistent = buffer.name, buffer.persistent
        self._buffer = buffer
        self._open = True

    @property
    def is_open(self) -> bool:
        return self._open

    def close(self) -> None:
        """Every later call fails."""
        self._open = False

    def num_records(self) -> int:
        """Returns the number of records in the buffer."""
        return self._checked().num_records

    def buffer_size(self) -> int:
        """Returns the size of the buffer's records in bytes, as Kafka Streams counts them."""
        return self._checked().buffer_size

    def min_timestamp(self) -> int | None:
        """The time of the record that leaves next, in ms; ``None`` if there is none."""
        buffer = self._checked()
        return buffer.min_timestamp if buffer.num_records else None

    def _checked(self) -> Buffer:
        if not self._open:
            raise StoreError(f"store {self.name!r} is closed: its task is no longer on this worker", store=self.name)
        return self._buffer


def open_buffer(opening: Opening, buffer: Buffer) -> OpenStore:
    """Returns the store of a task."""
    return OpenStore(
        kind=opening.kind,
        builder=opening.builder,
        rows=buffer.rows,
        facade=BufferView(buffer),
        operator=buffer,
        participants=(buffer.index,),
    )
