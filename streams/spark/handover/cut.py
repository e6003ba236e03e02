"""The cut between history and live: where in each partition a backfill ends and live workers begin."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from processor_api.task_id import TopicPartition
from processor_api.texts import repr_of
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import SkipRule
from streams.kafka.ports import KafkaClients
from streams.spark.errors import CutError
from streams.spark.handover.cluster import Cluster
from streams.spark.time_units import refuse_other_unit

VERSION = 1


class NumberedHistory(Protocol):
    """The parts of a history that say where it ends."""

    @property
    def df(self) -> Any:
        """The rows, as a DataFrame."""
        ...

    @property
    def partition(self) -> str | None:
        """The column of the partition numbers."""
        ...

    @property
    def offset(self) -> str | None:
        """The column of the offsets."""
        ...

    @property
    def partitions(self) -> int | None:
        """The number of partitions, if it is known."""
        ...


@dataclass(frozen=True)
class Cut:
    """Holds the offset of each source partition at which live workers begin; a backfill processes what is before.

    Offsets are last stable offsets: no transaction is open before them. A cut by time has also a time, before which
    everything belongs to the history, and the end of each partition when the cut was made: live workers skip records
    before both. Records that come later are processed, late as they are.

    :param offsets: by topic and partition.
    :param partition_times: the largest timestamp before each offset in ms, where it is known.
    :param skip_before_ms: the time of a cut by time, in ms; ``None`` for a cut by offsets.
    :param until_offsets: the end of each partition when a cut by time was made.
    :param topic_ids: the ids of the topics, where the cluster was asked: a topic that is made again has another.
    """

    offsets: Mapping[TopicPartition, int]
    partition_times: Mapping[TopicPartition, int] = field(default_factory=lambda: MappingProxyType({}))
    skip_before_ms: int | None = None
    until_offsets: Mapping[TopicPartition, int] = field(default_factory=lambda: MappingProxyType({}))
    topic_ids: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for name in ("offsets", "partition_times", "until_offsets"):
            given = {TopicPartition(*place): number for place, number in getattr(self, name).items()}
            object.__setattr__(self, name, MappingProxyType(given))
        for place, offset in self.offsets.items():
            if type(offset) is not int or offset < 0:
                raise CutError(f"the cut of {place} must be an offset from 0, got {repr_of(offset)}", topic=place.topic)

    # ------------------------------------------------------------------ made from

    @staticmethod
    def at_end(
        config: StreamsConfig | Mapping[str, Any], topics: Collection[str], *, clients: KafkaClients | None = None
    ) -> Cut:
        """Returns the cut at the present end of topics: everything that is committed by now is history.

        :param clients: makes the Kafka clients; librdkafka's by default.
        :raises CutError: if a topic does not exist.
        """
        with Cluster(config, clients, read_only=True) as cluster:
            ids = cluster.admin.topic_ids(topics)
            return Cut(cluster.reader.end_offsets(_partitions(cluster, topics)), topic_ids=ids)

    @staticmethod
    def at_time(
        config: StreamsConfig | Mapping[str, Any],
        topics: Collection[str],
        timestamp_ms: int,
        *,
        clients: KafkaClients | None = None,
    ) -> Cut:
        """Returns the cut at a time: the history must have every record with an earlier timestamp, and no other.

        It is for histories without offsets. Records are distinguished by the timestamps that Kafka keeps, also where
        the topology extracts others.

        :raises CutError: if a topic does not exist.
        :raises TimestampRangeError: if the time seems to be in another unit than ms.
        """
        refuse_other_unit(timestamp_ms, "the time of the cut is", "give ms")
        with Cluster(config, clients, read_only=True) as cluster:
            partitions, ids = _partitions(cluster, topics), cluster.admin.topic_ids(topics)
            ends = cluster.reader.end_offsets(partitions)
            found = cluster.reader.offsets_for_time(dict.fromkeys(partitions, timestamp_ms))
            offsets = {place: min(offset, ends[place]) for place, offset in found.items()}
            return Cut(offsets, skip_before_ms=timestamp_ms, until_offsets=ends, topic_ids=ids)

    @staticmethod
    def of(histories: Mapping[str, NumberedHistory]) -> Cut:
        """Returns the cut behind the last record of histories that have offsets and partitions.

        Partitions without a record have the cut 0. This runs a Spark job for each topic.

        :raises CutError: if a history has no column of offsets or partitions, or an empty value in one.
        """
        offsets: dict[TopicPartition, int] = {}
        for topic, history in histories.items():
            if history.offset is None or history.partition is None:
                raise CutError(
                    f"the history of topic {topic!r} has no {'offsets' if history.offset is None else 'partitions'}, so"
                    " that its end in Kafka is not known: use Cut.at_time, with a history that ends at this time",
                    topic=topic,
                )
            offsets |= _ends_of(topic, history)
        return Cut(offsets)

    # ------------------------------------------------------------------ text

    def to_json(self) -> str:
        """Returns the cut as text, which `from_json` reads."""
        return json.dumps(
            {
                "version": VERSION,
                "offsets": _by_topic(self.offsets),
                "partition_times": _by_topic(self.partition_times),
                "skip_before_ms": self.skip_before_ms,
                "until_offsets": _by_topic(self.until_offsets),
                "topic_ids": dict(self.topic_ids),
            }
        )

    @staticmethod
    def from_json(text: str) -> Cut:
        """Returns the cut that `to_json` wrote.

        :raises CutError: if it is not such a text.
        """
        try:
            found = json.loads(text)
            if found["version"] != VERSION:
                raise CutError(f"the cut is of version {found['version']}, this library reads version {VERSION}")
            return Cut(
                _flat(found["offsets"]),
                _flat(found["partition_times"]),
                None if found["skip_before_ms"] is None else int(found["skip_before_ms"]),
                _flat(found["until_offsets"]),
                {str(topic): str(given) for topic, given in found.get("topic_ids", {}).items()},
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CutError(f"this is not the text of a cut ({type(error).__name__}: {error}): {text[:80]!r}") from error

    # ------------------------------------------------------------------ use

    def topics(self) -> frozenset[str]:
        """Returns the topics that are cut."""
        return frozenset(place.topic for place in self.offsets)

    def skip_rule(self, place: TopicPartition) -> SkipRule | None:
        """Returns the records that live workers skip in a partition; ``None`` if there is none."""
        until = self.until_offsets.get(place, 0)
        if self.skip_before_ms is None or until <= self.offsets.get(place, 0):
            return None
        return SkipRule(self.skip_before_ms, until)


def _partitions(cluster: Cluster, topics: Collection[str]) -> list[TopicPartition]:
    found = cluster.admin.topics()
    missing = sorted(set(topics) - found.keys())
    if missing:
        raise CutError(f"topics do not exist: {', '.join(map(repr, missing))}. Create them, or correct the names")
    return [TopicPartition(topic, number) for topic in sorted(set(topics)) for number in range(found[topic].partitions)]


def _ends_of(topic: str, history: NumberedHistory) -> dict[TopicPartition, int]:
    """Returns the offset behind the last record of each partition of a history."""
    from pyspark.sql import functions

    assert history.partition is not None
    assert history.offset is not None
    number, offset = (
        functions.col("`" + name.replace("`", "``") + "`") for name in (history.partition, history.offset)
    )
    rows = history.df.groupBy(number.alias("number")).agg(
        functions.max(offset).alias("last"), functions.sum(offset.isNull().cast("int")).alias("empty")
    )
    ends = {}
    for row in rows.collect():
        if row["number"] is None or row["empty"]:
            raise CutError(
                f"a row of the history of topic {topic!r} has no {'offset' if row['empty'] else 'partition'}, so that"
                " its end is not known",
                topic=topic,
            )
        ends[TopicPartition(topic, int(row["number"]))] = int(row["last"]) + 1
    return {TopicPartition(topic, one): 0 for one in range(history.partitions or 0)} | ends


def _by_topic(numbers: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), number in sorted(numbers.items()):
        found.setdefault(topic, {})[str(partition)] = number
    return found


def _flat(numbers: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(number)
        for topic, partitions in numbers.items()
        for partition, number in partitions.items()
    }
