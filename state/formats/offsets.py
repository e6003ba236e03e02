"""Rows of the families `OFFSETS` and `POSITIONS`: ``<topic>-<partition>`` to an offset, ``i64`` (frozen on disk).

Beside the offsets of a changelog is the id of the topic that they are of: a topic that is deleted and made again has
another one, and its offsets mean other records. Then there is the time as of which the rows were complete, ``i64``, in
ms since 1970: deletions after it may be missing. The schemas of a store's serdes are there too, as JSON.
"""

from __future__ import annotations

import struct

TOPIC_ID = b"streams.topic-id/"
"""The prefix of the keys of topic ids; no topic or family of rows has a name like that."""

COMPLETE_AT = b"streams.complete-at/"
"""The prefix of the keys of the times as of which rows were complete."""

SCHEMAS = b"streams.schemas/"
"""The prefix of the keys of what is known of the serdes by which a store's rows were written."""

_OFFSET = struct.Struct(">q")

write_offset = _OFFSET.pack
"""An offset's row."""

write_time = _OFFSET.pack
"""A time's row, of ms since 1970."""


def offset_key(topic: str, partition: int) -> bytes:
    """The key of a partition's row."""
    return f"{topic}-{partition}".encode()


def topic_id_key(topic: str, rows: bytes = b"") -> bytes:
    """The key of the id of a topic whose offsets are in the family; the row is the id as text.

    :param rows: what the keys of these offsets start with, in front of the topic.
    """
    return TOPIC_ID + rows + topic.encode()


def complete_at_key(topic: str) -> bytes:
    """The key of the time as of which the rows of a changelog were complete."""
    return COMPLETE_AT + topic.encode()


def schemas_key(family: str) -> bytes:
    """The key of the schemas of a store's serdes.

    :param family: the first one of the store's rows.
    """
    return SCHEMAS + family.encode() + b"/"


def read_time(row: bytes | None) -> int | None:
    """The time in a row, in ms since 1970; ``None`` if there is none, or if the row is damaged."""
    if row is None or len(row) != _OFFSET.size:
        return None
    time: int = _OFFSET.unpack(row)[0]
    return time


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
