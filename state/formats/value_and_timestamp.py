"""Rows of timestamped stores: ``timestamp i64`` and the value's bytes (KIP-258, reference 3.1)."""

from __future__ import annotations

import struct

from processor_api.record import NO_TIMESTAMP

__all__ = ["from_plain", "read_value_and_timestamp", "write_value_and_timestamp"]

_TIMESTAMP = struct.Struct(">q")
_pack, _unpack = _TIMESTAMP.pack, _TIMESTAMP.unpack_from
_NO_TIMESTAMP = _pack(NO_TIMESTAMP)


def write_value_and_timestamp(value: bytes | None, timestamp: int) -> bytes | None:
    """The row; no value gives no row, whatever the timestamp."""
    return None if value is None else _pack(timestamp) + value


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
