"""Members of a group that are no workers."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consumer import ConfluentConsumer
from waiting import wait_until

__all__ = ["Listener", "join"]


class Listener:
    """Takes what the group gives."""

    def __init__(self) -> None:
        self.assigned: set[TopicPartition] = set()

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.assigned.update(partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_lost(self, partitions: Collection[TopicPartition]) -> None: ...


def join(consumer: ConfluentConsumer, topic: str) -> TopicPartition:
    """Waits until the consumer has the first partition of the topic, and returns this."""
    listener, partition = Listener(), TopicPartition(topic, 0)
    consumer.subscribe([topic], listener)

    def joined() -> bool:
        with suppress(RetryableError):
            consumer.poll(0.1)
        return partition in listener.assigned

    wait_until("the consumer is a member of its group", joined, pauses=False)
    return partition
