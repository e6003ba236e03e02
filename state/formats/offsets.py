"""Rows of the families `OFFSETS` and `POSITIONS`: ``<topic>-<partition>`` to an offset, ``i64`` (frozen on disk).

Beside the offsets of a changelog is the id of the topic that they are of: a topic that is deleted and made again has
another one, and its offsets mean other records.
"""

from __future__ import annotations

import struct

__all__ = ["TOPIC_ID", "offset_key", "read_offset", "topic_id_key", "write_offset"]

TOPIC_ID = b"streams.topic-id/"
"""The prefix of the keys of topic ids; no topic or family of rows has a name like that."""

_OFFSET = struct.Struct(">q")

write_offset = _OFFSET.pack
"""An offset's row."""


def offset_key(topic: str, partition: int) -> bytes:
    """The key of a partition's row."""
    return f"{topic}-{partition}".encode()


def topic_id_key(topic: str, rows: bytes = b"") -> bytes:
    """The key of the id of a topic whose offsets are in the family; the row is the id as text.

    :param rows: what the keys of these offsets start with, in front of the topic.
    """
    return TOPIC_ID + rows + topic.encode()


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
