"""Rows that say how far a task is: of the families `OFFSETS` and `POSITIONS`, and Kafka Streams' checkpoint files.

The rows are ``<topic>-<partition>`` to an offset; a position says up to which offset of which input a store has seen
its records.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from processor_api.errors import StateError
from processor_api.task_id import TopicPartition

TOPIC_ID = b"streams.topic-id/"
"""The prefix of the keys of topic ids; no topic or family of rows has a name like that."""

COMPLETE_AT = b"streams.complete-at/"
"""The prefix of the keys of the times as of which rows were complete."""

SCHEMAS = b"streams.schemas/"
"""The prefix of the keys of what is known of the serdes by which a store's rows were written."""

REBUILT = b"streams.rebuilt/"
"""The prefix of the keys of stores that were emptied and have not all of their changelogs again."""

PASSED = b"streams.passed/"
"""The prefix of the keys of stores that are filled from a later record than the first one of their changelogs."""

LEADER_EPOCH = b"streams.leader-epoch/"
"""The prefix of the keys of the records of changelogs that a store stands for, with the epochs of their leaders."""

LAST_LOGGED = b"streams.last-logged/"
"""The prefix of the keys of the last records that stores have logged, with epochs of leaders that may not have them."""

_OFFSET = struct.Struct(">q")
_POINT = struct.Struct(">qi")

write_point = _POINT.pack
"""The row of a record of a changelog: its offset, and the epoch of a leader that had it in its log."""

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


def point_key(topic: str, rows: bytes = b"") -> bytes:
    """The key of the record of a changelog that says which log the offset is of.

    :param rows: what the key of the offset starts with, in front of the topic.
    """
    return LEADER_EPOCH + rows + topic.encode()


def last_logged_key(topic: str) -> bytes:
    """The key of the last record that was logged, with the epoch of the leader before it was."""
    return LAST_LOGGED + topic.encode()


def read_point(row: bytes | None) -> tuple[int, int] | None:
    """The offset and the leader epoch in a row; ``None`` if there is none, or if the row is damaged."""
    if row is None or len(row) != _POINT.size:
        return None
    offset, epoch = _POINT.unpack(row)
    return offset, epoch


def complete_at_key(topic: str) -> bytes:
    """The key of the time as of which the rows of a changelog were complete."""
    return COMPLETE_AT + topic.encode()


def schemas_key(family: str) -> bytes:
    """The key of the schemas of a store's serdes.

    :param family: the first one of the store's rows.
    """
    return SCHEMAS + family.encode() + b"/"


def rebuilt_key(family: str) -> bytes:
    """The key of the row that is there while a store is filled again.

    :param family: the first one of the store's rows.
    """
    return REBUILT + family.encode() + b"/"


def passed_key(family: str) -> bytes:
    """The key of the stream time that a store has to reach by a restore that passes over the first records.

    :param family: the first one of the store's rows.
    """
    return PASSED + family.encode() + b"/"


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
        raise ValueError(f"an offset must have {_OFFSET.size} bytes, got {len(row)}")
    offset: int = _OFFSET.unpack(row)[0]
    if offset < -1:
        raise ValueError(f"{offset} is not an offset")
    return offset


Position = Mapping[str, Mapping[int, int]]
"""The last offset seen, by topic and partition."""

_COUNT = struct.Struct(">i")
_HEAD = struct.Struct(">bi")
_PAIR = struct.Struct(">iq")


def write_position(position: Position) -> bytes:
    """The bytes of a position, topics and partitions in order."""
    parts = [_HEAD.pack(0, len(position))]
    for topic in sorted(position):
        name = topic.encode()
        parts += (_COUNT.pack(len(name)), name, _COUNT.pack(len(position[topic])))
        parts += (_PAIR.pack(*pair) for pair in sorted(position[topic].items()))
    return b"".join(parts)


def read_position(data: bytes) -> dict[str, dict[int, int]]:
    """Reads a position that `write_position` has written.

    :raises ValueError: if the data is of another version or ends too early.
    """
    try:
        version, topics = _HEAD.unpack_from(data)
        if version != 0:
            raise ValueError(f"a position of version {version} cannot be read, only version 0")
        offset = _HEAD.size
        position: dict[str, dict[int, int]] = {}
        for _ in range(topics):
            topic, offset = _name(data, offset)
            (pairs,) = _COUNT.unpack_from(data, offset)
            end = offset + 4 + pairs * _PAIR.size
            if pairs < 0 or len(data) < end:
                raise ValueError("a position ends inside its offsets")
            position[topic] = dict(_PAIR.iter_unpack(data[offset + 4 : end]))
            offset = end
    except struct.error:
        raise ValueError(f"a position ends early, after {len(data)} bytes") from None
    return position


def _name(data: bytes, offset: int) -> tuple[str, int]:
    (length,) = _COUNT.unpack_from(data, offset)
    end = offset + 4 + length
    if length < 0 or len(data) < end:
        raise ValueError("a position ends inside a topic's name")
    return data[offset + 4 : end].decode(), end


OFFSET_UNKNOWN = -4
"""The offset of a partition that is known but of which nothing was applied."""

_VERSION = 0


def write_checkpoint(offsets: Mapping[TopicPartition, int]) -> str | None:
    """The file's text, or ``None`` when there is nothing to write, and a file that is there is to be removed.

    :raises ValueError: if an offset is negative and not `OFFSET_UNKNOWN`.
    """
    for partition, offset in offsets.items():
        if not _valid(offset):
            raise ValueError(f"the offset {offset} of {partition} cannot be written to a checkpoint file")
    if not offsets:
        return None
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join([str(_VERSION), str(len(lines)), *lines, ""])


def read_checkpoint(text: str) -> dict[TopicPartition, int]:
    """The offsets in a file's text. Lines with a negative offset other than `OFFSET_UNKNOWN` are left out.

    :raises StateError: if the text is of another version or damaged.
    """
    lines = text.splitlines()
    try:
        version, count = int(lines[0]), int(lines[1])
        if version != _VERSION:
            raise StateError(f"a checkpoint file of version {version} cannot be read, only version {_VERSION}")
        rows = [line.split() for line in lines[2:]]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except (IndexError, ValueError):
        raise StateError(
            "a checkpoint file is damaged; remove it, and the store is restored from the start of its changelog"
        ) from None
    if len(rows) != count:
        raise StateError(f"a checkpoint file announces {count} offsets and has {len(rows)}; remove it")
    return {partition: offset for partition, offset in offsets.items() if _valid(offset)}


def _valid(offset: int) -> bool:
    return offset >= 0 or offset == OFFSET_UNKNOWN
