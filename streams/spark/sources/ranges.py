"""Ranges of offsets as values, which executors get."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from processor_api.task_id import TopicPartition
from streams.spark.errors import SparkBridgeError

ISOLATION = ("read_committed", "read_uncommitted")


class OffsetRange(NamedTuple):
    """A part of a partition: offsets from ``start`` to before ``end``."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class OffsetRanges:
    """The parts of partitions that a DataFrame reads, and the ids of their topics; a value that JSON keeps."""

    ranges: tuple[OffsetRange, ...]
    topic_ids: Mapping[str, str]
    """The topics' ids, where the cluster gives them one: a topic that is made again has another."""
    isolation: str = "read_committed"

    def of(self, topic: str) -> OffsetRanges:
        """Returns the ranges of one topic.

        :raises SparkBridgeError: if there are none.
        """
        found = tuple(each for each in self.ranges if each.topic == topic)
        if not found:
            names = ", ".join(sorted({each.topic for each in self.ranges})) or "none"
            raise SparkBridgeError(f"no offsets of topic {topic!r} are pinned, only of: {names}", topic=topic)
        ids = {topic: self.topic_ids[topic]} if topic in self.topic_ids else {}
        return OffsetRanges(found, ids, self.isolation)

    def ends(self) -> dict[TopicPartition, int]:
        """Returns the end of each partition."""
        return {TopicPartition(each.topic, each.partition): each.end for each in self.ranges}

    def split(self, rows: int) -> tuple[OffsetRange, ...]:
        """Returns the ranges, cut into pieces of at most this many offsets."""
        return tuple(
            OffsetRange(each.topic, each.partition, low, min(low + rows, each.end))
            for each in self.ranges
            for low in (range(each.start, each.end, rows) if each.end > each.start else (each.start,))
        )

    def to_json(self) -> str:
        """Returns the ranges as a text that :meth:`from_json` reads."""
        return json.dumps(
            {"ranges": self.ranges, "topic_ids": dict(self.topic_ids), "isolation": self.isolation}, sort_keys=True
        )

    @staticmethod
    def from_json(text: str) -> OffsetRanges:
        """Returns the ranges that :meth:`to_json` wrote.

        :raises SparkBridgeError: if the text is something else.
        """
        try:
            found = json.loads(text)
            ranges = tuple(
                OffsetRange(str(topic), int(partition), int(start), int(end))
                for topic, partition, start, end in found["ranges"]
            )
            topic_ids = {str(topic): str(given) for topic, given in found["topic_ids"].items()}
            isolation = str(found["isolation"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SparkBridgeError(
                f"this is not a text of OffsetRanges.to_json: {error!r} in {text[:100]!r}"
            ) from error
        check_isolation(isolation)
        return OffsetRanges(ranges, topic_ids, isolation)


def check_isolation(isolation: str) -> None:
    """Makes sure that there is such an isolation level.

    :raises SparkBridgeError: if there is none.
    """
    if isolation not in ISOLATION:
        raise SparkBridgeError(f"isolation is one of {', '.join(ISOLATION)}, not {isolation!r}")
