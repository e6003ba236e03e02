"""Partitioners: which partition a record is written to (semantics 136)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from processor_api.record import HeaderList

StreamPartitioner = Callable[[str, Any, Any, HeaderList | None, int], Collection[int] | None]
"""``(topic, key, value, headers, number_of_partitions)`` to partitions: ``None`` leaves the choice to Kafka's default,
an empty collection drops the record, several write it to each."""

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Returns Kafka's 32-bit murmur2 of the data, as an unsigned number."""
    length = len(data)
    h = 0x9747B28C ^ length
    end = length & ~3
    for i in range(0, end, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k ^= k >> 24
        h = (h * _M & _MASK) ^ (k * _M & _MASK)
    if rest := data[end:]:
        h = (h ^ int.from_bytes(rest, "little")) * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    return h ^ h >> 15


def partition_for_key(key: bytes, partitions: int) -> int:
    """Returns the partition that every Kafka client's default partitioner gives a key that is not null."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
