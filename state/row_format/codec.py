"""The formats of key-value kinds' rows, in the engine and on the changelog."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from processor_api.record import NO_TIMESTAMP
from state.engine.port import Batch
from state.formats.values import pack_timestamp, read_value_and_timestamp

Logged = tuple[bytes, bytes | None, int]
Entry = tuple[Any, int]
"""A value and its timestamp."""


@dataclass(frozen=True)
class RowCodec:
    """Makes a row of the engine from a value's bytes and its timestamp, and reads it. Frozen on disk."""

    family_suffix: str
    """The last part of the name of this format's column family; it differs from those of other formats (KIP-258)."""
    write: Callable[[bytes, int], bytes]
    read: Callable[[bytes], tuple[bytes, int]]
    fill: Callable[[Batch, Any, Iterable[Logged]], None]
    """Puts logged rows, as ``(key, value's bytes or None, timestamp)``, into a batch of the engine for a family's
    handle: the loop over `write` that runs at every commit."""
    entries: Callable[[Callable[[bytes], Any]], Callable[[bytes], Entry]] | None = None
    """Makes, from a function that reads a value, one that reads a row: `read` and that function in one call, for reads
    of single rows. If that call fails, `read` gives the reason. ``None`` where there is only `read`."""
    written: Callable[[bytes], tuple[bytes, int]] | None = None
    """Returns what `write` was given for a row; ``None`` if `read` returns it."""

    def logged(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes, int]]:
        """Yields rows of the engine as they were logged: the inverse of `fill`. The timestamp is -1 if rows do not have
        it."""
        parts = self.written or self.read
        for key, row in rows:
            data, timestamp = parts(row)
            yield key, data, timestamp

    def reading(self, value: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        """Returns the quickest function that reads a row and its value."""
        return self.in_steps(value) if self.entries is None else self.entries(value)

    def in_steps(self, value: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
        """Returns a function that reads a row, then its value, and fails with the error of that step."""
        read = self.read

        def entry(row: bytes) -> Entry:
            data, timestamp = read(row)
            return value(data), timestamp

        return entry


_LONG = struct.Struct(">q")
_NOT_KNOWN = pack_timestamp(NO_TIMESTAMP)


def _fill_plain(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
    put, delete = batch.put, batch.delete
    for key, data, _ in rows:
        if data is None:
            delete(key, handle)
        else:
            put(key, data, handle)


def _fill_timestamped(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
    put, delete, pack = batch.put, batch.delete, pack_timestamp
    for key, data, timestamp in rows:
        if data is None:
            delete(key, handle)
        else:
            put(key, pack(timestamp) + data, handle)


def _write_timestamped(value: bytes, timestamp: int) -> bytes:
    return pack_timestamp(timestamp) + value


def _plain_entries(value: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
    return lambda row: (value(row), NO_TIMESTAMP)


def _timestamped_entries(value: Callable[[bytes], Any]) -> Callable[[bytes], Entry]:
    unpack = _LONG.unpack_from
    return lambda row: (value(row[8:]), unpack(row)[0])


PLAIN = RowCodec("plain", lambda value, timestamp: value, lambda row: (row, NO_TIMESTAMP), _fill_plain, _plain_entries)
"""Only the value."""

TIMESTAMPED = RowCodec(
    "timestamped", _write_timestamped, read_value_and_timestamp, _fill_timestamped, _timestamped_entries
)
"""Eight bytes of timestamp, then the value (formats 2)."""


def without_rows(family_suffix: str) -> RowCodec:
    """Returns the codec of a kind of store that has no rows in the engine."""
    return replace(PLAIN, family_suffix=family_suffix)


def row_from_plain(row: bytes) -> bytes:
    """A row of `PLAIN` as one of `TIMESTAMPED`, whose timestamp is -1, not known."""
    return _NOT_KNOWN + row


pack_access = pack_timestamp
"""Returns the prefix of a row of `ACCESSED`: the stream time of the last access, -1 if it is not known."""


def access_of(row: bytes) -> int:
    """Returns the time of the access at the front of a row of `ACCESSED`."""
    time: int = _LONG.unpack_from(row)[0]
    return time


def without_access(row: bytes) -> bytes:
    """Returns a row of `ACCESSED` as one of `TIMESTAMPED`."""
    return row[8:]


def _write_accessed(value: bytes, timestamp: int) -> bytes:
    return value[:8] + pack_timestamp(timestamp) + value[8:]


def _fill_accessed(batch: Batch, handle: Any, rows: Iterable[Logged]) -> None:
    for key, data, timestamp in rows:
        if data is None:
            batch.delete(key, handle)
        else:
            batch.put(key, _write_accessed(data, timestamp), handle)


def _read_accessed(row: bytes) -> tuple[bytes, int]:
    return read_value_and_timestamp(row[8:])


def _accessed_as_written(row: bytes) -> tuple[bytes, int]:
    value, timestamp = read_value_and_timestamp(row[8:])
    return row[:8] + value, timestamp


ACCESSED = RowCodec("accessed", _write_accessed, _read_accessed, _fill_accessed, written=_accessed_as_written)
"""Eight bytes of the time of the last access (`pack_access`), eight of timestamp, then the value. What is written has
the access in front of the value; what is read has not."""
