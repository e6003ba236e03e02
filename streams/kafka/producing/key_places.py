"""The partitioner that has placed the keys of a topic, found out by a sample of the records of its partitions.

Producers do not agree: Kafka's own place a key by murmur2, librdkafka's by CRC32 unless they are set otherwise. A task
that reads two topics together meets the records of a key only where both were placed alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from enum import Enum

from processor_api.texts import repr_of
from processor_api.topology.partitioner import partition_for_key

ENOUGH_KEYS = 8
"""If this many different keys are all where a partitioner puts them, that is not an accident."""


class Placement(Enum):
    """A way to choose the partition of a key."""

    MURMUR2 = "murmur2"
    CRC32 = "CRC32"

    def partition(self, key: bytes, count: int) -> int:
        """Returns the partition of a key."""
        return partition_for_key(key, count) if self is Placement.MURMUR2 else zlib.crc32(key) % count


class PlacedKeys:
    """Counts, in a sample of the keys of one topic, those that lie elsewhere than a partitioner puts them."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.looked = 0
        """Keys looked at."""
        self.elsewhere = dict.fromkeys(Placement, 0)
        """How many of them lie elsewhere, by partitioner."""
        self.example: tuple[bytes, int, int] | None = None
        """A key that is not where murmur2 puts it: the key, its partition, and the one that murmur2 gives it."""
        self._some: set[bytes] = set()

    def look(self, partition: int, keys: Iterable[bytes | None]) -> int:
        """Looks at some keys of a partition; empty ones are passed over, which librdkafka places at random.

        :returns: how many are not where murmur2 puts them.
        """
        before = self.elsewhere[Placement.MURMUR2]
        for key in keys:
            if not key:
                continue
            self.looked += 1
            if len(self._some) < ENOUGH_KEYS:
                self._some.add(key)
            for way in Placement:
                place = way.partition(key, self.partitions)
                if place != partition:
                    self.elsewhere[way] += 1
                    if way is Placement.MURMUR2 and self.example is None:
                        self.example = key, partition, place
        return self.elsewhere[Placement.MURMUR2] - before

    def is_by(self, way: Placement) -> bool:
        """Whether a partitioner has placed the keys, judging by this many."""
        return len(self._some) >= ENOUGH_KEYS and self.elsewhere[way] == 0

    def may_be_by(self, way: Placement) -> bool:
        """Whether a partitioner may have placed the keys."""
        return self.elsewhere[way] == 0

    def text(self) -> str:
        """Returns how many keys are not where murmur2 puts them, with an example, for a sentence."""
        wrong = self.elsewhere[Placement.MURMUR2]
        found = f"{wrong} of {self.looked} keys are not in the partition that murmur2 computes"
        if self.example is not None:
            key, here, there = self.example
            found += f", such as {key_text(key)} in {here} instead of {there}"
        return found

    def remedy(self) -> str:
        """Returns what to do about keys that murmur2 would place elsewhere."""
        again = "and write its records again"
        if self.may_be_by(Placement.CRC32):
            return (
                "they were partitioned by CRC32, the default of librdkafka and confluent-kafka-python: set"
                f" partitioner=murmur2_random in the producer, {again}"
            )
        return f"partition keys by murmur2 in the producer, as Kafka's own producers do, {again}"


def disagreeing(topics: Mapping[str, PlacedKeys], *, by_murmur2: bool) -> list[str]:
    """Returns those of some topics that are read together whose keys are not where murmur2 puts them, if that matters.

    It does not where another partitioner may have placed the keys of all of them.

    :param by_murmur2: whether they meet a topic that is written by murmur2 of the key. Otherwise one topic must be by a
        partitioner that is known: all may be by one of the user's.
    """
    found = list(topics.values())
    if not by_murmur2:
        if any(all(keys.may_be_by(way) for keys in found) for way in Placement):
            return []
        if not any(keys.is_by(way) for keys in found for way in Placement):
            return []
    return [name for name, keys in topics.items() if not keys.may_be_by(Placement.MURMUR2)]


def key_text(key: bytes) -> str:
    """Returns a key for a sentence: as a text, if it is one."""
    try:
        return repr_of(key.decode())
    except UnicodeDecodeError:
        return repr_of(key)
