"""The client's errors as this project's: one table, used by every call of the adapter (reference, membership P7)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from confluent_kafka import KafkaError, KafkaException

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from streams.kafka.ports import CommitAgain, InstanceFenced, TransactionAborted

__all__ = ["ErrorLog", "instance_fenced", "kafka_error", "mapped", "mapping"]

log = logging.getLogger("streams.kafka.client")

P = ParamSpec("P")
T = TypeVar("T")

REPEAT_S = 10.0
AGAIN = {"ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"}
MIGRATED = {"UNKNOWN_MEMBER_ID", "_FATAL", "_FENCED", "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"}
RETRY = {
    "_TRANSPORT", "_TIMED_OUT", "_ALL_BROKERS_DOWN", "_TIMED_OUT_QUEUE", "_WAIT_COORD", "_RESOLVE",
    "REQUEST_TIMED_OUT", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR",
    "LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "NETWORK_EXCEPTION", "UNSTABLE_OFFSET_COMMIT",
    "CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PART", "_NOENT",
}  # fmt: skip


def kafka_error(error: BaseException) -> KafkaError | None:
    """The client's error inside an exception. A delivery callback that ran meanwhile hides it in the cause."""
    for found in (error, error.__cause__, error.__context__):
        if isinstance(found, KafkaException) and found.args and isinstance(found.args[0], KafkaError):
            return found.args[0]
    return None


def mapped(error: BaseException, what: str, **place: Any) -> StreamsError:
    """The error to raise in place of the client's."""
    found = kafka_error(error)
    if found is None:
        return StreamsError(f"cannot {what}: {error}", **place)
    name = found.name()
    text = f"cannot {what}: {found.str()} ({name})"
    if found.txn_requires_abort():  # the producer goes on after that, also when the member is known to be gone
        return TransactionAborted(text, **place)
    if name == "FENCED_INSTANCE_ID":
        return instance_fenced(**place)
    if found.fatal() or name in MIGRATED:
        return TaskMigratedError(f"{text}; another member owns the tasks of this thread now", **place)
    if name in AGAIN:
        return CommitAgain(text, **place)
    if found.retriable() or name in RETRY:
        return RetryableError(text, **place)
    return StreamsError(text, **place)


class ErrorLog:
    """Logs what a client tells of its connections. While a broker is away it tells the same again and again, which is
    logged once in a while."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._told_at: dict[str, float] = {}

    def __call__(self, error: KafkaError) -> None:
        name, now = error.name(), self._clock.monotonic()
        told_at = self._told_at.get(name)
        if told_at is None or now - told_at >= REPEAT_S:
            self._told_at[name] = now
            log.warning("client error", extra={"error": f"{error.str()} ({name})"})


def instance_fenced(**place: Any) -> InstanceFenced:
    """Of a consumer whose place in the group another has taken."""
    return InstanceFenced(
        "another process has joined the group with the group.instance.id of this thread, which ends: give each process"
        " a state.dir of its own (not a copy of another's), or its own group.instance.id",
        **place,
    )


def mapping(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator that maps what a call of the client raises."""

    def decorate(call: Callable[P, T]) -> Callable[P, T]:
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return call(*args, **kwargs)
            except (KafkaException, SystemError) as error:
                raise mapped(error, what) from error

        run.__doc__, run.__name__ = call.__doc__, call.__name__
        return run

    return decorate
