"""The metadata of a committed offset: the partition's time, and the numbers that processors need after a restart.

Base64 of ``magic byte 2``, ``partition time i64`` and, if there are any, the processors' numbers: ``count i32``, each
as ``name length i32``, name, ``value i64`` (formats 8, semantics 2 and 51). The names are those of stores, the
numbers the window close time that was emitted last. After them, which Kafka Streams does not read: a byte 1 and the 16
bytes of the topic's id, which distinguishes the offsets of a topic from those of one that was deleted before.
"""

from __future__ import annotations

import base64
import logging
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from processor_api.record import NO_TIMESTAMP

__all__ = ["TopicPartitionMetadata"]

log = logging.getLogger("streams.kafka")

_FRONT = struct.Struct(">bq")
_COUNT = struct.Struct(">i")
_VALUE = struct.Struct(">q")
_PARTITION_TIME_ONLY, _LATEST = 1, 2
_ID, ID_BYTES = b"\x01", 16


@dataclass(frozen=True)
class TopicPartitionMetadata:
    """The metadata that is committed with the offset of one input partition."""

    partition_time: int = NO_TIMESTAMP
    """The largest timestamp seen in the partition, in ms; -1 when none was."""
    processors: Mapping[str, int] = field(default_factory=dict)
    topic_id: str | None = None
    """The id of the topic that the offset is of, as Kafka's tools print it; ``None`` if it is not known."""

    def encode(self) -> str:
        parts = [_FRONT.pack(_LATEST, self.partition_time)]
        if self.processors or self.topic_id:
            parts.append(_COUNT.pack(len(self.processors)))
            for name, value in self.processors.items():
                raw = name.encode()
                parts += (_COUNT.pack(len(raw)), raw, _VALUE.pack(value))
        if self.topic_id:
            parts.append(_packed_id(self.topic_id))
        return base64.b64encode(b"".join(parts)).decode("ascii")

    @classmethod
    def is_whole(cls, text: str) -> bool:
        """Returns whether a text is, from its beginning to its end, one that `encode` writes for a topic with an id."""
        try:
            data = base64.b64decode(text, validate=True)
            if data[:1] != bytes([_LATEST]):
                return False
            _, end = _read_processors(data)
            return len(data) == end + 1 + ID_BYTES and _read_id(data, end) is not None
        except (ValueError, struct.error):
            return False

    @classmethod
    def decode(cls, text: str) -> TopicPartitionMetadata:
        """Reads what `encode` has written. What cannot be read is logged and counts as not known, as in Kafka Streams:
        another tool may have committed the offset."""
        if not text:
            return cls()
        partition_time = NO_TIMESTAMP
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
            magic, time = _FRONT.unpack_from(data)
            if magic not in (_PARTITION_TIME_ONLY, _LATEST):
                raise ValueError(f"version {magic} is not known")
            partition_time = time
            if magic != _LATEST:
                return cls(partition_time)
            processors, end = _read_processors(data)
            return cls(partition_time, processors, _read_id(data, end))
        except (ValueError, struct.error) as error:
            log.warning("metadata of a committed offset cannot be read", extra={"metadata": text, "error": str(error)})
            return cls(partition_time)


@lru_cache
def _packed_id(topic_id: str) -> bytes:
    return _ID + base64.urlsafe_b64decode(topic_id + "==")


def _read_id(data: bytes, offset: int) -> str | None:
    """Returns the id at an offset; anything else at this place is ignored."""
    end = offset + 1 + ID_BYTES
    if data[offset : offset + 1] != _ID or len(data) < end:
        return None
    return base64.urlsafe_b64encode(data[offset + 1 : end]).decode().rstrip("=")


def _read_processors(data: bytes) -> tuple[dict[str, int], int]:
    """Returns the processors' numbers, and the offset behind them."""
    offset = _FRONT.size
    if offset == len(data):
        return {}, offset
    (count,) = _COUNT.unpack_from(data, offset)
    offset += 4
    processors = {}
    for _ in range(count):
        (length,) = _COUNT.unpack_from(data, offset)
        end = offset + 4 + length
        if length < 0:
            raise ValueError("a processor's name has a negative length")
        processors[data[offset + 4 : end].decode()] = _VALUE.unpack_from(data, end)[0]
        offset = end + 8
    return processors, offset
