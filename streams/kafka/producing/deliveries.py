"""Maps the errors of records that were not delivered (semantics 114).

The names are librdkafka's; where the embedded broker has Kafka's own name for the same error, both are listed.
"""

from __future__ import annotations

from typing import Any

from processor_api.errors import ProductionError, StreamsError, TaskMigratedError
from processor_api.handlers import ProducerRecord
from processor_api.record import TimestampType
from processor_api.texts import error_text
from streams.kafka.ports import BatchTooLarge, NotDelivered

FENCED = frozenset({
    "_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "OUT_OF_ORDER_SEQUENCE_NUMBER",
    "PRODUCER_FENCED",
})  # fmt: skip
"""Errors of a producer that another one replaced: the tasks are closed and the thread joins its group again."""

FATAL = frozenset({
    "_AUTHENTICATION", "_FATAL", "_INVALID_ARG", "_STATE", "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED",
    "ILLEGAL_SASL_STATE", "INVALID_TOPIC_EXCEPTION", "OFFSET_METADATA_TOO_LARGE", "SASL_AUTHENTICATION_FAILED",
    "SECURITY_DISABLED", "TOPIC_AUTHORIZATION_FAILED", "TOPIC_EXCEPTION", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "UNKNOWN", "UNSUPPORTED_SASL_MECHANISM",
})  # fmt: skip
"""Errors that any other record would meet too: no handler is asked."""

RETRIABLE = frozenset({
    "_ALL_BROKERS_DOWN", "_ISR_INSUFF", "_MSG_TIMED_OUT", "_TIMED_OUT", "_TIMED_OUT_QUEUE", "_TRANSPORT",
    "_UNKNOWN_TOPIC", "INVALID_MSG", "KAFKA_STORAGE_ERROR", "LEADER_NOT_AVAILABLE", "NETWORK_EXCEPTION",
    "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "NOT_LEADER_FOR_PARTITION", "REQUEST_TIMED_OUT",
    "UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PART",
})  # fmt: skip
"""A later try may succeed."""


PURGED = frozenset({"_PURGE_INFLIGHT", "_PURGE_QUEUE"})
"""Error of a record that an abort dropped; it is reported when the next transaction may have begun, and belongs to
none."""

_RIGHTS = {
    "CLUSTER_AUTHORIZATION_FAILED": "IDEMPOTENT_WRITE on the cluster",
    "TOPIC_AUTHORIZATION_FAILED": "WRITE on it",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE on all transactional ids that start with the application.id",
}


def not_delivered(error: Any, topic: str | None, partition: int | None) -> StreamsError:
    """Returns the error that a client's error stands for: :class:`NotDelivered`,
    :class:`~processor_api.errors.TaskMigratedError`, else :class:`~processor_api.errors.ProductionError`."""
    name = _name(error)
    hint = f"; allow {_RIGHTS[name]}" if name in _RIGHTS else ""
    what = (
        f"the broker rejected a record for topic {topic!r}: {error_text(error)}; no offset after it was committed{hint}"
    )
    place = {"topic": topic, "partition": partition if partition is not None and partition >= 0 else None}
    if name in FENCED:
        return TaskMigratedError(what, **place)
    failure = NotDelivered(what, **place) if name in RETRIABLE else ProductionError(what, **place)
    failure.reason = name
    return failure


def is_purged(error: Any) -> bool:
    """Whether a record was dropped because its transaction was aborted."""
    return _name(error) in PURGED


def is_fatal(failure: StreamsError) -> bool:
    """Whether an error is about the producer, so that no handler is asked about the record."""
    if isinstance(failure, ProductionError):
        return failure.reason is None or failure.reason in FATAL
    return not isinstance(failure, NotDelivered)


def is_too_large(failure: StreamsError | None) -> bool:
    """Whether the broker refused a record, or the batch in which it was, for its size."""
    return isinstance(failure, ProductionError) and failure.reason == "MSG_SIZE_TOO_LARGE"


def batch_too_large(topic: str | None, partition: int | None) -> BatchTooLarge:
    """Returns the error of a record that was refused with its batch."""
    return BatchTooLarge(
        f"the broker refused a batch for topic {topic!r} as larger than its max.message.bytes; its records are"
        " sent again in smaller ones",
        topic=topic,
        partition=partition,
    )


def produced_record(message: Any) -> ProducerRecord:
    """Returns the refused record that a delivery callback was given."""
    kind, timestamp = message.timestamp()
    known = kind != TimestampType.NOT_AVAILABLE and timestamp >= 0
    partition = message.partition()
    return ProducerRecord(
        topic=message.topic(),
        key=message.key(),
        value=message.value(),
        timestamp=timestamp if known else None,
        headers=message.headers(),
        partition=partition if partition is not None and partition >= 0 else None,
    )


def _name(error: Any) -> str | None:
    """Returns the name of a client's error, or of an exception that carries one."""
    arguments = getattr(error, "args", None)
    if arguments and hasattr(arguments[0], "name"):
        error = arguments[0]
    name = getattr(error, "name", None)
    return name() if callable(name) else None
