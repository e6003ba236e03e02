"""Maps the client's errors to those of this project: one table, used by every call of the adapter (semantics 141)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from confluent_kafka import KafkaError, KafkaException

from processor_api.errors import (
    AuthenticationError,
    AuthorizationError,
    RetryableError,
    StreamsError,
    TaskMigratedError,
)
from processor_api.task_id import TopicPartition
from streams.kafka.ports import CommitAgain, InstanceFenced, TransactionAborted, UnknownPartitionError

__all__ = [
    "AUTHENTICATION",
    "UNKNOWN",
    "Resources",
    "caught",
    "instance_fenced",
    "kafka_error",
    "mapped",
    "mapping",
    "offsets_error",
    "session_ended",
]

P = ParamSpec("P")
T = TypeVar("T")

AGAIN = {"ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"}
MIGRATED = {"UNKNOWN_MEMBER_ID", "_FATAL", "_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
RENEWED = {
    "_GAPLESS_GUARANTEE", "_INCONSISTENT", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE",
    "OUT_OF_ORDER_SEQUENCE_NUMBER", "TRANSACTION_COORDINATOR_FENCED", "UNKNOWN_PRODUCER_ID",
}  # fmt: skip
"""Fatal to a producer; a new one may go on. Any other fatal error would meet the next one too."""
AUTHORIZATION = {
    "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}  # fmt: skip
AUTHENTICATION = {
    "_AUTHENTICATION", "_SSL", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
}  # fmt: skip
RETRY = {
    "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_TIMED_OUT_QUEUE", "_WAIT_COORD", "_RESOLVE",
    "REQUEST_TIMED_OUT", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "NETWORK_EXCEPTION", "UNSTABLE_OFFSET_COMMIT",
    "CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PART", "_NOENT", "BROKER_NOT_AVAILABLE", "FENCED_LEADER_EPOCH",
    "KAFKA_STORAGE_ERROR", "OFFSET_NOT_AVAILABLE", "REPLICA_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH",
}  # fmt: skip

UNKNOWN = {"_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}


def kafka_error(error: BaseException) -> KafkaError | None:
    """Returns the client's error that an exception holds. If a delivery callback ran meanwhile, the error is in the
    cause."""
    for found in (error, error.__cause__, error.__context__):
        if isinstance(found, KafkaException) and found.args and isinstance(found.args[0], KafkaError):
            return found.args[0]
    return None


def caught(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Returns the result of a call in which the client may report; each error of it is an exception that can be caught.

    After a fatal error the client makes further reports before it raises it (confluent-kafka 2.16). It then may raise
    the bare `KafkaError`, which no `except` with a type catches.

    :raises KafkaException: in place of that.
    """
    try:
        return call(*args, **options)
    except BaseException:
        raise
    except:  # noqa: E722
        bare: Any = sys.exc_info()[1]
    raise KafkaException(bare)  # here, since it must not have the other as its context


@dataclass(frozen=True)
class Resources:
    """The resources that a client works on; an error about a missing right names the one to allow."""

    on_topics: str = "READ"
    """The operation on topics that it needs."""
    on_cluster: str = "DESCRIBE"
    group: str | None = None
    transactional_id: str | None = None

    @classmethod
    def of(cls, config: Mapping[str, Any], on_topics: str, on_cluster: str) -> Resources:
        """Returns the resources of a client with this configuration."""
        return cls(on_topics, on_cluster, config.get("group.id"), config.get("transactional.id"))

    def right(self, name: str, topic: str | None) -> str:
        """Returns the right that the broker missed, by the name of its error."""
        match name:
            case "TOPIC_AUTHORIZATION_FAILED":
                return f"{self.on_topics} on {'its topics' if topic is None else f'topic {topic!r}'}"
            case "GROUP_AUTHORIZATION_FAILED":
                return f"READ on {'the group of the application.id' if self.group is None else f'group {self.group!r}'}"
            case "TRANSACTIONAL_ID_AUTHORIZATION_FAILED":
                own = "that of the producer" if self.transactional_id is None else repr(self.transactional_id)
                return f"WRITE on transactional id {own}, or on all that start with the application.id"
            case _:
                return f"{self.on_cluster} on the cluster"


def mapped(error: BaseException, what: str, resources: Resources = Resources(), **place: Any) -> StreamsError:
    """Returns the error to raise in place of the client's."""
    found = kafka_error(error)
    if found is None and isinstance(error, SystemError):  # a report of the client that came next has cleared it
        return RetryableError(f"cannot {what}: the client has lost its own error, which a new client finds", **place)
    if found is None:
        return StreamsError(f"cannot {what}: {error}", **place)
    name = found.name()
    text = f"cannot {what}: {found.str()} ({name})"
    if name in AUTHORIZATION:  # also if an abort is required: the next transaction would fail in the same way
        return AuthorizationError(f"{text}; allow {resources.right(name, place.get('topic'))}", **place)
    if name in AUTHENTICATION:
        return AuthenticationError(text, **place)
    if found.txn_requires_abort():  # the producer goes on after that, also when the member is known to be gone
        return TransactionAborted(text, **place)
    if name == "FENCED_INSTANCE_ID":
        return instance_fenced(**place)
    if name in MIGRATED:
        return TaskMigratedError(f"{text}; another member owns the tasks of this thread now", **place)
    if found.fatal() and name in RENEWED:
        return TaskMigratedError(f"{text}; the producer cannot be used any more; a new one replaces it", **place)
    if found.fatal():
        return StreamsError(text, **place)
    if name in AGAIN:
        return CommitAgain(text, **place)
    if found.retriable() or name in RETRY:
        return RetryableError(text, **place)
    return StreamsError(text, **place)


def offsets_error(error: KafkaException, partitions: Collection[TopicPartition]) -> StreamsError:
    """Returns the error to raise in place of the client's, when offsets of partitions were requested."""
    found = kafka_error(error)
    if found is not None and found.name() in UNKNOWN:
        names = ", ".join(sorted(map(str, partitions)))
        return UnknownPartitionError(f"one of these partitions does not exist: {names}")
    return mapped(error, "read offsets of partitions")


def instance_fenced(**place: Any) -> InstanceFenced:
    """Returns the error of a consumer whose place in the group was taken by another one."""
    return InstanceFenced(
        "another process has joined the group with the group.instance.id of this thread, which ends: give each process"
        " a state.dir of its own (not a copy of another's), or its own group.instance.id",
        **place,
    )


def session_ended() -> TaskMigratedError:
    """Returns the error of a consumer whose session in the group ended while it committed."""
    return TaskMigratedError(
        "the session of this consumer ended before its commit reached a broker; a new one takes its place in the group"
    )


def mapping(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a method: errors of the client that it raises are mapped, by the object's ``resources``."""

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return call(*args, **kwargs)
            except (KafkaException, SystemError) as error:
                raise mapped(error, what, getattr(args[0], "resources", Resources())) from error

        run.__doc__, run.__name__ = call.__doc__, call.__name__
        return run

    return decorate
