"""Rows of list stores: Kafka's list of byte arrays (formats 5).

``strategy byte 1``, ``count i32``, and for each item ``length i32`` and its bytes; a length of -1 is a null item.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">bi")
_LENGTH = struct.Struct(">i")
_VARIABLE_SIZE = 1


def add_item(row: bytes | None, item: bytes | None) -> bytes:
    """The row with one item more; no row is an empty list.

    :raises ValueError: if the row is no list.
    """
    count, items = (0, b"") if row is None else (_count(row), row[_HEAD.size :])
    written = _LENGTH.pack(-1) if item is None else _LENGTH.pack(len(item)) + item
    return _HEAD.pack(_VARIABLE_SIZE, count + 1) + items + written


def read_items(row: bytes) -> list[bytes | None]:
    """The items of a row, in the order in which they were added.

    :raises ValueError: if the row is no list, or has too many or too few bytes for its items.
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
        raise ValueError(f"a list of {len(items)} items takes {offset} bytes, and there are {len(row)}")
    return items


def _count(row: bytes) -> int:
    if len(row) < _HEAD.size:
        raise ValueError(f"a list has at least {_HEAD.size} bytes, this one has {len(row)}")
    strategy, count = _HEAD.unpack_from(row)
    if strategy != _VARIABLE_SIZE or count < 0:
        raise ValueError(f"not a list of byte arrays: strategy {strategy}, {count} items")
    return int(count)
