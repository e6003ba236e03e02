"""The partitions that a consumer reads, at a client that may be in the middle of a rebalance."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.task_id import TopicPartition

log = logging.getLogger("streams.kafka.client")
_NOT_STARTED = (KafkaError._STATE, KafkaError._PREV_IN_PROGRESS)


def client_partitions(partitions: Collection[TopicPartition]) -> list[ClientPartition]:
    """Returns partitions in the client's own form."""
    return [ClientPartition(topic, partition) for topic, partition in partitions]


class AssignedPartitions:
    """Holds the partitions that a consumer reads, and changes them at its client.

    librdkafka takes every removal of partitions for the answer to a revocation, also to one that it has not reported
    yet. The group then gives the revoked partitions to other members before this one has committed, and a loss is not
    reported as one. So a member of a group does not remove partitions that it stops reading: the client pauses them,
    and they are removed at the end of the next revocation.
    """

    def __init__(self) -> None:
        self.names: set[TopicPartition] = set()
        """The partitions that the consumer reads."""
        self.is_member = False
        """Whether the client has subscribed, so that it may be in a rebalance at any time."""
        self._left: set[TopicPartition] = set()
        """Partitions that the client still has, paused, and the consumer does not read."""
        self._waiting: dict[TopicPartition, int] = {}
        """Partitions that are read again, and from where: paused until the client has gone there."""

    def add(self, client: Any, partitions: Mapping[TopicPartition, int]) -> None:
        """Reads partitions, each from the given offset, in the client's own form where that is none."""
        again = {name: offset for name, offset in partitions.items() if name in self._left}
        new = [ClientPartition(*name, offset) for name, offset in partitions.items() if name not in again]
        if new:
            client.incremental_assign(new)
        self._left.difference_update(again)
        self._waiting.update(again)
        self.names.update(partitions)
        self.go_on(client)
        if self._waiting:
            log.info("the client has yet to start partitions", extra={"partitions": sorted(map(str, self._waiting))})

    def remove(self, client: Any, partitions: Collection[TopicPartition]) -> None:
        """Reads partitions of these names no more."""
        self.names.difference_update(partitions)
        if not self.is_member:
            client.incremental_unassign(client_partitions(partitions))
            return
        for name in partitions:
            self._waiting.pop(name, None)
        self._left.update(partitions)
        client.pause(client_partitions(partitions))

    def answer_revocation(self, client: Any) -> None:
        """Says that the member has finished with what is revoked, and removes what it reads no more."""
        left, self._left = client_partitions(self._left), set()
        with suppress(KafkaException):  # the client dropped them by itself, as after a fatal error
            client.resume(left)  # it would keep the flag for the next time
            client.incremental_unassign(left)
            return
        client.incremental_unassign([])

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def go_on(self, client: Any) -> None:
        """Goes to where partitions are to be read again; those that the client has not started yet wait."""
        for name, offset in list(self._waiting.items()):
            try:
                client.seek(ClientPartition(*name, offset))
            except KafkaException as error:
                if error.args[0].code() not in _NOT_STARTED:
                    raise
                continue
            del self._waiting[name]
            client.resume(client_partitions([name]))

    def seek(self, client: Any, name: TopicPartition, offset: int) -> None:
        """Reads a partition from another offset."""
        if name in self._waiting:
            self._waiting[name] = offset
        else:
            client.seek(ClientPartition(*name, offset))

    def position(self, client: Any, name: TopicPartition) -> int:
        """Returns the offset that is read next; it is negative if none is known."""
        if name in self._waiting:
            return self._waiting[name]
        offset: int = client.position(client_partitions([name]))[0].offset
        return offset

    def without_events_of_left(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Leaves out what the client reports of partitions that it has and the consumer does not read."""
        if not self._left or all(message.error() is None for message in messages):
            return messages
        return [message for message in messages if message.error() is None or not self._has_left(message)]

    def _has_left(self, message: Any) -> bool:
        return TopicPartition(message.topic() or "", message.partition() or 0) in self._left
