"""Maps the client's errors to those of this project, by the table of `streams.kafka.client_errors` (semantics 141)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from processor_api.errors import AuthenticationError, AuthorizationError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from processor_api.texts import error_text
from streams.kafka.client_errors import RIGHTS, error_of, instance_fenced
from streams.kafka.ports import ClientUnusable, TransactionAborted, UnknownPartitionError

P = ParamSpec("P")
T = TypeVar("T")

AUTHORIZATION = {
    "CLUSTER_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}  # fmt: skip
_OF_MEMBERS = (
    KafkaError.FENCED_INSTANCE_ID,
    KafkaError.UNRELEASED_INSTANCE_ID,
    KafkaError.GROUP_ID_NOT_FOUND,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.UNSUPPORTED_VERSION,
)
AUTHENTICATION = {
    "_AUTHENTICATION", "_SSL", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM",
}  # fmt: skip
UNKNOWN = {"_NOENT", "_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_OR_PART"}


def kafka_error(error: BaseException) -> KafkaError | None:
    """Returns the client's error that an exception holds. If a delivery callback ran meanwhile, the error is in the
    cause."""
    for found in (error, error.__cause__, error.__context__):
        if isinstance(found, KafkaException) and found.args and isinstance(found.args[0], KafkaError):
            return found.args[0]
    return None


def fatal_name(error: KafkaError) -> str | None:
    """Returns the name of the error of a group that ended a client, by the text of the client's report, which has no
    more; ``None`` if it is none of those that are known here."""
    codes = map(KafkaError, _OF_MEMBERS)
    return next((one.name() for one in codes if one.str() in error.str()), None)


def caught(call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Returns the result of a call in which the client may report; each error of it is an exception that can be caught.

    After a fatal error the client makes further reports before it raises it (confluent-kafka 2.16). It then may raise
    the bare `KafkaError`, which no `except` with a type catches.

    :raises KafkaException: instead of that.
    """
    try:
        return call(*args, **options)
    except BaseException:
        raise
    except:  # noqa: E722
        bare: Any = sys.exc_info()[1]
    raise KafkaException(bare)  # here, since it must not have the other as its context


def raise_first(partitions: Iterable[ClientPartition] | None) -> None:
    """Raises the error of the first partition that has one, of what the client returned.

    :raises KafkaException: with that error.
    """
    for one in partitions or ():
        if one.error is not None:
            raise KafkaException(one.error)


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
                own = (
                    "the transactional id of the producer"
                    if self.transactional_id is None
                    else f"transactional id {self.transactional_id!r}"
                )
                return f"WRITE on {own}, or on all that start with the application.id"
            case _:
                return f"{self.on_cluster} on the cluster"


def mapped(error: BaseException, what: str, resources: Resources = Resources(), **place: Any) -> StreamsError:
    """Returns the error to raise instead of the client's."""
    found = kafka_error(error)
    if found is None and isinstance(error, SystemError):  # a report of the client that came next has cleared it
        return ClientUnusable(f"cannot {what}: the client has lost its own error; a new client reports it", **place)
    if found is None:
        return StreamsError(f"cannot {what}: {error_text(error)}", **place)
    name = found.name()
    text = f"cannot {what}: {found.str()} ({name})"
    if name in AUTHORIZATION:  # also if an abort is required: the next transaction would fail in the same way
        return AuthorizationError(f"{text}; allow {resources.right(name, place.get('topic'))}", **place)
    if name in AUTHENTICATION:
        return AuthenticationError(text, **place)
    if found.txn_requires_abort():  # the producer continues after that, also when the member is known to be gone
        return TransactionAborted(text, **place)
    if name == "FENCED_INSTANCE_ID":
        return instance_fenced(**place)
    return error_of(
        name,
        text,
        fatal=found.fatal(),
        retriable=found.retriable(),
        transactional=resources.transactional_id is not None,
        **place,
    )


def offsets_error(error: KafkaException, partitions: Collection[TopicPartition]) -> StreamsError:
    """Returns the error to raise instead of the client's, when offsets of partitions were requested."""
    found = kafka_error(error)
    if found is not None and found.name() in UNKNOWN:
        names = ", ".join(sorted(map(str, partitions)))
        return UnknownPartitionError(f"one of these partitions does not exist: {names}")
    return mapped(error, "read offsets of partitions")


def session_ended() -> TaskMigratedError:
    """Returns the error of a consumer that lost its place in the group since its own session had ended."""
    return TaskMigratedError(
        "the session of this consumer ended, or one of its late requests has replaced it in the group: a new consumer"
        " takes over"
    )


def fatal_error(name: str | None, text: str) -> StreamsError:
    """Returns the error of a consumer that cannot continue, for another reason than its replacement.

    :param text: the client's report.
    """
    what = f"the consumer cannot continue as a member of its group: {text}"
    if name in RIGHTS:
        return AuthorizationError(f"{what}; allow {RIGHTS[name]}")
    return ClientUnusable(f"{what}; a new one replaces it")


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
