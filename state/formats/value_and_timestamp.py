"""Rows of timestamped stores: ``timestamp i64`` and the value's bytes (KIP-258, formats 2)."""

from __future__ import annotations

import struct

from processor_api.record import NO_TIMESTAMP

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
        raise ValueError(f"a row with a timestamp has at least 8 bytes, this one has {len(row)}")
    return row[8:], _unpack(row)[0]


def from_plain(value: bytes | None) -> bytes | None:
    """The row for a plain store's value: its timestamp is -1, not known."""
    return None if value is None else _NO_TIMESTAMP + value
