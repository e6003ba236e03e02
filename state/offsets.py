"""Rows of the families `OFFSETS` and `POSITIONS`: ``<topic>-<partition>`` to an offset, ``i64`` (frozen on disk)."""

from __future__ import annotations

import struct

__all__ = ["offset_key", "read_offset", "write_offset"]

_OFFSET = struct.Struct(">q")

write_offset = _OFFSET.pack
"""An offset's row."""


def offset_key(topic: str, partition: int) -> bytes:
    """The key of a partition's row."""
    return f"{topic}-{partition}".encode()


def read_offset(row: bytes) -> int:
    """The offset in a row; -1 where nothing was read yet.

    :raises ValueError: if the row is damaged.
    """
    if len(row) != _OFFSET.size:
        raise ValueError(f"an offset has {_OFFSET.size} bytes, this row has {len(row)}")
    offset: int = _OFFSET.unpack(row)[0]
    if offset < -1:
        raise ValueError(f"{offset} is no offset")
    return offset
