"""What a consumer tells in place of a record, apart from the end of a partition."""

from __future__ import annotations

import logging
from typing import Any

from processor_api.errors import AuthorizationError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import InstanceFenced

__all__ = ["client_event"]

log = logging.getLogger("streams.thread")

PASSING = frozenset({
    "_ALL_BROKERS_DOWN", "_MAX_POLL_EXCEEDED", "_RESOLVE", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
    "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "_WAIT_CACHE", "_WAIT_COORD", "BROKER_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "FETCH_SESSION_ID_NOT_FOUND",
    "ILLEGAL_GENERATION", "INVALID_FETCH_SESSION_EPOCH", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE",
    "MEMBER_ID_REQUIRED", "NETWORK_EXCEPTION", "NOT_COORDINATOR", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE",
    "REBALANCE_IN_PROGRESS", "REPLICA_NOT_AVAILABLE", "REQUEST_TIMED_OUT", "UNKNOWN", "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_MEMBER_ID", "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PART",
})  # fmt: skip
"""The client tries again by itself and skips no record. After any other error it might, so that none is passed over."""

RIGHTS = {
    "GROUP_AUTHORIZATION_FAILED": "READ on the group, which is named by the application.id",
    "TOPIC_AUTHORIZATION_FAILED": "READ on the topic",
}


def client_event(error: Any, partition: TopicPartition) -> None:
    """Logs what the client gets over by itself.

    :raises InstanceFenced: if another consumer has taken the place of this one.
    :raises AuthorizationError: if a right is missing.
    :raises StreamsError: if reading cannot go on.
    """
    name = error.name()
    if name == "_FATAL":  # the client says no more than that: the only such error of a consumer in a classic group
        raise InstanceFenced("another process has taken the place of this thread in the group")
    if name == "_AUTO_OFFSET_RESET":
        raise StreamsError(
            f"the committed offset of {partition} is outside of its log and the reset policy is 'none': records"
            " were deleted before they were processed. Set the group's offset, or choose another auto.offset.reset",
            topic=partition.topic,
            partition=partition.partition,
        )
    if name not in PASSING:
        what = f"read {partition}" if partition.topic else "go on as a member of the group"
        if name in RIGHTS:
            text = f"cannot {what}: {error.str()} ({name}); allow {RIGHTS[name]}"
            raise AuthorizationError(text, topic=partition.topic or None)
        raise StreamsError(f"cannot {what}: {error.str()} ({name})", topic=partition.topic or None)
    log.warning("client event", extra={"partition": str(partition), "error": error.str()})
