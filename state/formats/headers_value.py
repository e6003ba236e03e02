"""Rows of stores that keep headers (KIP-1271, formats 3).

Headers are ``count varint`` and for each ``name length varint``, name in UTF-8, ``value length varint`` (-1 for null),
value; no headers are no bytes at all. A row is ``size of the headers varint``, headers, then ``timestamp i64`` and the
value; in a session store it is size, headers and aggregate, without a timestamp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from processor_api.record import NO_TIMESTAMP, HeaderList
from state.formats.varint import read_varint, write_varint

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

    :raises ValueError: if the data is no headers, or has bytes behind them.
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
