"""Events that a consumer delivers in place of a record, apart from the end of a partition."""

from __future__ import annotations

from typing import Any

from processor_api.errors import AuthorizationError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import HEALED, Renewal, renewal
from streams.kafka.ports import ClientUnusable, InstanceFenced
from streams.log import RepeatedLines


def is_event(message: Any) -> bool:
    """Whether a message is an event of the client or of a partition, and no record."""
    return message.error() is not None


RIGHTS = {
    "GROUP_AUTHORIZATION_FAILED": "READ on the group, which is named by the application.id",
    "TOPIC_AUTHORIZATION_FAILED": "READ on the topic",
}

REMEDIES = {
    "INCONSISTENT_GROUP_PROTOCOL": "the group, which is named by the application.id, has members of another protocol,"
    " such as those of Kafka Streams for Java: stop them all, or wait until their sessions have timed out",
}


def client_event(error: Any, partition: TopicPartition, lines: RepeatedLines) -> None:
    """Logs an event that the client recovers from by itself; raises an error for any other.

    :raises InstanceFenced: if another consumer has joined the group under the same id.
    :raises AuthorizationError: if a right is missing.
    :raises ClientUnusable: after an error that may pass, if the client might skip records after it.
    :raises StreamsError: if reading cannot go on.
    """
    name = error.name()
    if name == "_FATAL":  # the client says no more than that: the only such error of a consumer in a classic group
        raise InstanceFenced("another process has taken the place of this thread in the group")
    if name not in HEALED:
        what = f"read {partition}" if partition.topic else "go on as a member of the group"
        if name in RIGHTS:
            text = f"cannot {what}: {error.str()} ({name}); allow {RIGHTS[name]}"
            raise AuthorizationError(text, topic=partition.topic or None)
        if renewal(name) is not Renewal.FINAL:
            text = f"cannot {what}: {error.str()} ({name}); a new client reads on from the last commit"
            raise ClientUnusable(text, topic=partition.topic or None)
        remedy = f"; {REMEDIES[name]}" if name in REMEDIES else ""
        raise StreamsError(f"cannot {what}: {error.str()} ({name}){remedy}", topic=partition.topic or None)
    lines.log("client event", partition=str(partition), error=error.str())
