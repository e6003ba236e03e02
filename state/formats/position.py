"""Positions: up to which offset of which input a store has seen its records (formats 7).

``version byte 0``, ``topics i32``, each as ``name length i32``, name, ``pairs i32`` and pairs of ``partition i32`` and
``offset i64``. Kafka Streams leaves zero bytes behind a position in a record's header: a reader ignores what follows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

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
