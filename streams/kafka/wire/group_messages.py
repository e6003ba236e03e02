"""The bytes that the members of a group exchange, which the protocol passes on as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from processor_api.task_id import TopicPartition
from streams.kafka.wire.codec import AtMost, Int16, Int32


@dataclass(frozen=True)
class AssignedTopic:
    """The partitions of one topic that a member is assigned."""

    topic: str
    partitions: Annotated[tuple[Int32, ...], AtMost(100_000)]


@dataclass(frozen=True)
class ConsumerAssignment:
    """Kafka's ``ConsumerProtocolAssignment``, as far as all of its versions have it."""

    version: Int16
    assigned: Annotated[tuple[AssignedTopic, ...], AtMost(100_000)]

    def partitions(self) -> frozenset[TopicPartition]:
        """Returns the partitions of all topics."""
        return frozenset(TopicPartition(one.topic, number) for one in self.assigned for number in one.partitions)
