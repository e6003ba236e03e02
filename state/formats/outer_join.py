"""Rows of the store where an outer or left stream-stream join keeps records without a partner (formats 6).

The key is ``timestamp i64``, ``side byte`` (1 left, 0 right), key: by time, so that the oldest come first. Each item of
the value's list is the same side byte and the value.
"""

from __future__ import annotations

import struct

_FRONT = struct.Struct(">q?")
_LEFT, _RIGHT = b"\x01", b"\x00"


def outer_join_key(key: bytes, timestamp: int, left: bool) -> bytes:
    return _FRONT.pack(timestamp, left) + key


def read_outer_join_key(data: bytes) -> tuple[bytes, int, bool]:
    """Key, timestamp in ms and whether it is of the left side.

    :raises ValueError: if the data is too short.
    """
    if len(data) < 9:
        raise ValueError(f"a key of an outer-join store must have at least 9 bytes, got {len(data)}")
    timestamp, left = _FRONT.unpack_from(data)
    return data[9:], timestamp, left


def outer_join_value(value: bytes, left: bool) -> bytes:
    return (_LEFT if left else _RIGHT) + value


def read_outer_join_value(data: bytes) -> tuple[bytes, bool]:
    """The value's bytes and whether it is of the left side.

    :raises ValueError: if there is no side byte.
    """
    if data[:1] not in (_LEFT, _RIGHT):
        raise ValueError(f"a value of an outer-join store must start with a byte 0 or 1, got {data[:1]!r}")
    return data[1:], data[:1] == _LEFT
