"""Rows of stores whose values have more than their bytes: a timestamp, headers, or several items.

A timestamped row is ``timestamp i64`` and the value's bytes (KIP-258, formats 2), a row of a list store Kafka's list of
byte arrays (formats 5). In a store that keeps headers (KIP-1271, formats 3) these are ``count varint`` and for each
``name length varint``, name in UTF-8, ``value length varint`` (-1 for null), value; empty headers have no bytes at all.
A row is ``size of the headers varint``, headers, then ``timestamp i64`` and the value; in a session store it is size,
headers and aggregate, without a timestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from processor_api.record import NO_TIMESTAMP, HeaderList

_LOW, _HIGH = -(1 << 31), (1 << 31) - 1


def write_varint(number: int) -> bytes:
    """The bytes of a 32-bit number: one for -64 to 63, at most five.

    :raises ValueError: if it does not fit 32 bits.
    """
    if not _LOW <= number <= _HIGH:
        raise ValueError(f"{number} is not a 32-bit number")
    rest = (number << 1) ^ (number >> 31)
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


def read_varint(data: bytes, offset: int = 0) -> tuple[int, int]:
    """The number at ``offset``, and the offset behind it.

    :raises ValueError: if the data ends inside the number or it is longer than five bytes.
    """
    raw = 0
    for i in range(5):
        if offset + i >= len(data):
            raise ValueError(f"the data ends inside the number at byte {offset}")
        byte = data[offset + i]
        raw |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), offset + i + 1
    raise ValueError(f"the number at byte {offset} is longer than 32 bits")


_TIMESTAMP = struct.Struct(">q")
_NO_HEADERS = b"\x00"
_PLAIN = _NO_HEADERS + _TIMESTAMP.pack(NO_TIMESTAMP)
_NULL = write_varint(-1)


def write_headers(headers: Iterable[tuple[str, bytes | None]]) -> bytes:
    """Returns the bytes of the headers, in their order, without their size."""
    parts: list[bytes] = []
    count = 0
    for name, value in headers:
        raw = name.encode()
        parts += (write_varint(len(raw)), raw)
        parts += (_NULL,) if value is None else (write_varint(len(value)), value)
        count += 1
    return write_varint(count) + b"".join(parts) if count else b""


def read_headers(data: bytes) -> HeaderList:
    """Reads headers that `write_headers` has written.

    :raises ValueError: if the data does not hold headers, or has bytes after them.
    """
    headers: HeaderList = []
    if not data:
        return headers
    count, offset = read_varint(data)
    for _ in range(count):
        name, offset = _piece(data, offset)
        value, offset = _piece(data, offset)
        if name is None:
            raise ValueError("a header has no name")
        headers.append((name.decode(), value))
    if offset != len(data):
        raise ValueError(f"{len(data) - offset} bytes follow the headers")
    return headers


def _piece(data: bytes, offset: int) -> tuple[bytes | None, int]:
    length, start = read_varint(data, offset)
    if length < 0:
        return None, start
    end = start + length
    if end > len(data):
        raise ValueError(f"the data ends inside the {length} bytes at byte {start}")
    return data[start:end], end


def _write_front(headers: Iterable[tuple[str, bytes | None]] | None) -> bytes:
    written = write_headers(headers) if headers else b""
    return write_varint(len(written)) + written if written else _NO_HEADERS


def _read_front(row: bytes) -> tuple[HeaderList, int]:
    size, start = read_varint(row)
    end = start + size
    if size < 0 or end > len(row):
        raise ValueError(f"a row of {len(row)} bytes cannot hold {size} bytes of headers")
    return read_headers(row[start:end]), end


def write_prefix(timestamp: int, headers: Iterable[tuple[str, bytes | None]] | None) -> bytes:
    """Returns what stands before the value in a row: the size of the headers, the headers, and the timestamp."""
    return _write_front(headers) + _TIMESTAMP.pack(timestamp)


def write_value_with_headers(
    value: bytes | None, timestamp: int, headers: Iterable[tuple[str, bytes | None]] | None
) -> bytes | None:
    """The row; no value gives no row, whatever the headers."""
    return None if value is None else write_prefix(timestamp, headers) + value


def read_value_with_headers(row: bytes) -> tuple[bytes, int, HeaderList]:
    """The value's bytes, the timestamp in ms and the headers.

    :raises ValueError: if the row is too short or its headers are damaged.
    """
    headers, offset = _read_front(row)
    if len(row) < offset + 8:
        raise ValueError(f"a row of {len(row)} bytes cannot hold a timestamp at byte {offset}")
    return row[offset + 8 :], _TIMESTAMP.unpack_from(row, offset)[0], headers


def write_session_with_headers(
    aggregate: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> bytes | None:
    """The row of a session, which has no timestamp; no aggregate gives no row."""
    return None if aggregate is None else _write_front(headers) + aggregate


def read_session_with_headers(row: bytes) -> tuple[bytes, HeaderList]:
    """The aggregate's bytes and the headers.

    :raises ValueError: if the headers are damaged.
    """
    headers, offset = _read_front(row)
    return row[offset:], headers


def from_timestamped(row: bytes | None) -> bytes | None:
    """The row for one of a timestamped store: no headers."""
    return None if row is None else _NO_HEADERS + row


def from_plain(value: bytes | None) -> bytes | None:
    """The row for a plain store's value: no headers, the timestamp -1."""
    return None if value is None else _PLAIN + value


_TIMESTAMP = struct.Struct(">q")
_unpack = _TIMESTAMP.unpack_from
pack_timestamp = _TIMESTAMP.pack
"""Returns the bytes before the value; for loops over many rows."""
_NO_TIMESTAMP = pack_timestamp(NO_TIMESTAMP)


def write_value_and_timestamp(value: bytes | None, timestamp: int) -> bytes | None:
    """The row; no value gives no row, whatever the timestamp."""
    return None if value is None else pack_timestamp(timestamp) + value


def read_value_and_timestamp(row: bytes) -> tuple[bytes, int]:
    """The value's bytes and the timestamp in ms.

    :raises ValueError: if the row is too short to hold a timestamp.
    """
    if len(row) < 8:
        raise ValueError(f"a row with a timestamp must have at least 8 bytes, got {len(row)}")
    return row[8:], _unpack(row)[0]


def timestamped_from_plain(value: bytes | None) -> bytes | None:
    """The row for a plain store's value: its timestamp is -1, not known."""
    return None if value is None else _NO_TIMESTAMP + value


_HEAD = struct.Struct(">bi")
_LENGTH = struct.Struct(">i")
_VARIABLE_SIZE = 1


def add_item(row: bytes | None, item: bytes | None) -> bytes:
    """The row with one item more; no row is an empty list.

    :raises ValueError: if the row is not a list.
    """
    count, items = (0, b"") if row is None else (_count(row), row[_HEAD.size :])
    written = _LENGTH.pack(-1) if item is None else _LENGTH.pack(len(item)) + item
    return _HEAD.pack(_VARIABLE_SIZE, count + 1) + items + written


def read_items(row: bytes) -> list[bytes | None]:
    """The items of a row, in the order in which they were added.

    :raises ValueError: if the row is not a list, or has too many or too few bytes for its items.
    """
    items: list[bytes | None] = []
    offset = _HEAD.size
    for _ in range(_count(row)):
        if offset + 4 > len(row):
            raise ValueError(f"a list ends early, after {len(items)} items")
        (length,) = _LENGTH.unpack_from(row, offset)
        offset += 4
        if length < 0:
            items.append(None)
            continue
        items.append(row[offset : offset + length])
        offset += length
    if offset != len(row):
        raise ValueError(f"a list of {len(items)} items needs {offset} bytes, got {len(row)}")
    return items


def _count(row: bytes) -> int:
    if len(row) < _HEAD.size:
        raise ValueError(f"a list must have at least {_HEAD.size} bytes, got {len(row)}")
    strategy, count = _HEAD.unpack_from(row)
    if strategy != _VARIABLE_SIZE or count < 0:
        raise ValueError(f"not a list of byte arrays: strategy {strategy}, {count} items")
    return int(count)
