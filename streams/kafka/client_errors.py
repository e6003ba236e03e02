"""Says what each error of a client, by its name, makes necessary: one table for all adapters and events.

An error is one of a request that a caller made (an exception), or one that a consumer reports by itself (an event). The
table says what must be renewed before the same thing may succeed. An error that is not in it may pass: it is tried
again, with new clients, until ``task.timeout.ms``. Errors that no renewal helps are there by name as `FINAL`.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from processor_api.errors import AuthorizationError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import ClientUnusable, CommitAgain, InstanceFenced, TransactionAborted
from streams.log import RepeatedLines


class Renewal(Enum):
    """The thing that must be renewed after an error."""

    NOTHING = "nothing"
    """The same call may succeed."""
    METADATA = "metadata"
    """The client looks for the leader or coordinator again, and the same call may succeed."""
    REBALANCE = "rebalance"
    """The member takes part in a rebalance, by polling, and commits then."""
    TRANSACTION = "transaction"
    """The transaction is aborted, and its tasks go back to their last commit; a consumer is replaced."""
    CLIENT = "client"
    """A new client takes the place of this one."""
    MEMBERSHIP = "membership"
    """Another member or producer has taken over: this thread joins its group again, with new clients."""
    POSITION = "position"
    """The position is outside of its log: the reset policy of the source decides where reading continues."""
    TOPIC = "topic"
    """The topic or partition is not there; the caller knows whether it must be."""
    FINAL = "final"
    """A right, a setting or a record must be changed by the user."""


_NAMES: dict[Renewal, str] = {
    Renewal.NOTHING: """
        _FAIL _INTR _IN_PROGRESS _ISR_INSUFF _MSG_TIMED_OUT _NOOP _NO_OFFSET _OUTDATED _PARTIAL _PREV_IN_PROGRESS
        _PURGE_INFLIGHT _PURGE_QUEUE _QUEUE_FULL _RESOLVE _RETRY _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT
        _ALL_BROKERS_DOWN _MAX_POLL_EXCEEDED CONCURRENT_TRANSACTIONS DUPLICATE_SEQUENCE_NUMBER
        ELIGIBLE_LEADERS_NOT_AVAILABLE ELECTION_NOT_NEEDED FETCH_SESSION_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED
        INVALID_FETCH_SESSION_EPOCH KAFKA_STORAGE_ERROR NETWORK_EXCEPTION NOT_ENOUGH_REPLICAS
        NOT_ENOUGH_REPLICAS_AFTER_APPEND NO_REASSIGNMENT_IN_PROGRESS OPERATION_NOT_ATTEMPTED
        PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS REQUEST_TIMED_OUT THROTTLING_QUOTA_EXCEEDED
        UNKNOWN UNSTABLE_OFFSET_COMMIT
    """,
    Renewal.METADATA: """
        _DESTROY_BROKER _NODE_UPDATE _NOENT _UNKNOWN_BROKER _UNKNOWN_GROUP _WAIT_CACHE _WAIT_COORD
        BROKER_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE FENCED_LEADER_EPOCH
        INCONSISTENT_TOPIC_ID LEADER_NOT_AVAILABLE LISTENER_NOT_FOUND LOG_DIR_NOT_FOUND NOT_CONTROLLER NOT_COORDINATOR
        NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE REPLICA_NOT_AVAILABLE STALE_BROKER_EPOCH STALE_CTRL_EPOCH
        UNKNOWN_CONTROLLER_ID UNKNOWN_LEADER_EPOCH UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART
    """,
    Renewal.REBALANCE: "_ASSIGN_PARTITIONS _REVOKE_PARTITIONS ILLEGAL_GENERATION MEMBER_ID_REQUIRED"
    " REBALANCE_IN_PROGRESS STALE_MEMBER_EPOCH",
    Renewal.TRANSACTION: "_STATE TRANSACTION_ABORTABLE",
    Renewal.CLIENT: """
        _CRIT_SYS_RESOURCE _DESTROY _GAPLESS_GUARANTEE _INCONSISTENT _UNDERFLOW INVALID_PRODUCER_ID_MAPPING
        INVALID_TXN_STATE OUT_OF_ORDER_SEQUENCE_NUMBER REBOOTSTRAP_REQUIRED TRANSACTION_COORDINATOR_FENCED
        UNKNOWN_PRODUCER_ID
    """,
    Renewal.MEMBERSHIP: """
        _ASSIGNMENT_LOST _FATAL _FENCED FENCED_INSTANCE_ID FENCED_MEMBER_EPOCH GROUP_ID_NOT_FOUND
        INVALID_PRODUCER_EPOCH PRODUCER_FENCED UNKNOWN_MEMBER_ID UNRELEASED_INSTANCE_ID
    """,
    Renewal.POSITION: "_AUTO_OFFSET_RESET _LOG_TRUNCATION OFFSET_OUT_OF_RANGE",
    Renewal.TOPIC: "_UNKNOWN_PARTITION _UNKNOWN_TOPIC",
    Renewal.FINAL: """
        _APPLICATION _AUTHENTICATION _BAD_COMPRESSION _BAD_MSG _CONFLICT _EXISTING_SUBSCRIPTION _FS _INVALID_ARG
        _INVALID_DIFFERENT_RECORD _INVALID_TYPE _KEY_DESERIALIZATION _KEY_SERIALIZATION _NOT_CONFIGURED
        _NOT_IMPLEMENTED _READ_ONLY _SSL _UNKNOWN_PROTOCOL _UNSUPPORTED_FEATURE _VALUE_DESERIALIZATION
        _VALUE_SERIALIZATION CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED
        DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND
        DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DUPLICATE_RESOURCE DUPLICATE_VOTER
        FEATURE_UPDATE_FAILED FENCED_STATE_EPOCH GROUP_AUTHORIZATION_FAILED GROUP_SUBSCRIBED_TO_TOPIC
        ILLEGAL_SASL_STATE INCONSISTENT_GROUP_PROTOCOL INCONSISTENT_VOTER_SET INVALID_COMMIT_OFFSET_SIZE
        INVALID_CONFIG INVALID_GROUP_ID INVALID_MSG INVALID_MSG_SIZE INVALID_PARTITIONS INVALID_PRINCIPAL_TYPE
        INVALID_RECORD INVALID_RECORD_STATE INVALID_REGISTRATION INVALID_REGULAR_EXPRESSION
        INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUEST INVALID_REQUIRED_ACKS
        INVALID_SESSION_TIMEOUT INVALID_SHARE_SESSION_EPOCH INVALID_TIMESTAMP INVALID_TRANSACTION_TIMEOUT
        INVALID_UPDATE_VERSION INVALID_VOTER_KEY MISMATCHED_ENDPOINT_TYPE MSG_SIZE_TOO_LARGE NON_EMPTY_GROUP
        OFFSET_METADATA_TOO_LARGE POLICY_VIOLATION PRINCIPAL_DESERIALIZATION_FAILURE RECORD_LIST_TOO_LARGE
        RESOURCE_NOT_FOUND SASL_AUTHENTICATION_FAILED SECURITY_DISABLED SHARE_SESSION_LIMIT_REACHED
        SHARE_SESSION_NOT_FOUND STREAMS_INVALID_TOPOLOGY STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED
        TELEMETRY_TOO_LARGE TOPIC_ALREADY_EXISTS TOPIC_AUTHORIZATION_FAILED TOPIC_DELETION_DISABLED TOPIC_EXCEPTION
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL UNKNOWN_SUBSCRIPTION_ID UNSUPPORTED_ASSIGNOR
        UNSUPPORTED_COMPRESSION_TYPE UNSUPPORTED_ENDPOINT_TYPE UNSUPPORTED_FOR_MESSAGE_FORMAT
        UNSUPPORTED_SASL_MECHANISM UNSUPPORTED_VERSION VOTER_NOT_FOUND
    """,
}
_RENEWALS = {name: kind for kind, names in _NAMES.items() for name in names.split()}

LOST = frozenset(_NAMES[Renewal.POSITION].split())
"""The names of the client's errors for a position that is outside of its log; it stops reading the partition."""

HEALED = frozenset(
    name
    for name, kind in _RENEWALS.items()
    if kind in (Renewal.NOTHING, Renewal.METADATA, Renewal.REBALANCE, Renewal.TOPIC)
) | {"UNKNOWN_MEMBER_ID"}
"""Events after which a consumer continues by itself and skips no record; after any other one it might."""


def renewal(name: str) -> Renewal | None:
    """Returns what must be renewed after an error; ``None`` for one that is not known here, which may pass."""
    return _RENEWALS.get(name)


def error_of(
    name: str, text: str, *, fatal: bool = False, retriable: bool = False, transactional: bool = False, **place: Any
) -> StreamsError:
    """Returns the error to raise instead of a client's, other than one of rights, logins and instance ids.

    :param fatal: whether the client reports that it can no longer be used.
    :param retriable: whether it says that the same call may succeed.
    :param transactional: whether it is a producer with transactions.
    """
    needed = renewal(name)
    if needed is Renewal.MEMBERSHIP:
        return TaskMigratedError(f"{text}; another member owns the tasks of this thread now", **place)
    if needed in (Renewal.FINAL, Renewal.POSITION, Renewal.TOPIC) and not retriable:
        return StreamsError(text, **place)
    if fatal and needed is Renewal.CLIENT:
        return TaskMigratedError(f"{text}; the producer can no longer be used; a new one replaces it", **place)
    if needed is Renewal.TRANSACTION and transactional and not fatal:
        return TransactionAborted(text, **place)
    if needed is Renewal.REBALANCE:
        return CommitAgain(text, **place)
    if fatal or (needed in (Renewal.CLIENT, Renewal.TRANSACTION) and not retriable):
        return ClientUnusable(text, **place)
    return RetryableError(text, **place)


def is_event(message: Any) -> bool:
    """Whether a message is an event of the client or of a partition, and no record."""
    return message.error() is not None


RIGHTS = {
    "GROUP_AUTHORIZATION_FAILED": "READ on the group, whose name is the application.id",
    "TOPIC_AUTHORIZATION_FAILED": "READ on the topic",
}

REMEDIES = {
    "INCONSISTENT_GROUP_PROTOCOL": "the group, whose name is the application.id, has members of another protocol, such"
    " as those of Kafka Streams for Java: stop them all, or wait until their sessions have timed out",
}


def client_event(error: Any, partition: TopicPartition, lines: RepeatedLines) -> None:
    """Logs an event that the client recovers from by itself; raises an error for any other.

    :raises InstanceFenced: if another consumer has joined the group under the same id.
    :raises AuthorizationError: if a right is missing.
    :raises ClientUnusable: after an error that may pass, if the client might skip records after it.
    :raises StreamsError: if reading cannot continue.
    """
    name = error.name()
    if name == "_FATAL":  # the client says no more than that: the only such error of a consumer in a classic group
        raise InstanceFenced("another process has replaced this thread in the group")
    if name not in HEALED:
        what = f"read {partition}" if partition.topic else "continue as a member of the group"
        if name in RIGHTS:
            text = f"cannot {what}: {error.str()} ({name}); allow {RIGHTS[name]}"
            raise AuthorizationError(text, topic=partition.topic or None)
        if renewal(name) is not Renewal.FINAL:
            text = f"cannot {what}: {error.str()} ({name}); a new client continues from the last commit"
            raise ClientUnusable(text, topic=partition.topic or None)
        remedy = f"; {REMEDIES[name]}" if name in REMEDIES else ""
        raise StreamsError(f"cannot {what}: {error.str()} ({name}){remedy}", topic=partition.topic or None)
    lines.log("client event", partition=str(partition), error=error.str())


def instance_fenced(**place: Any) -> InstanceFenced:
    """Returns the error of a consumer whose place in the group was taken by another one."""
    return InstanceFenced(
        "another process has joined the group with the group.instance.id of this thread, which ends: give each process"
        " a state.dir of its own (not a copy of another's), or its own group.instance.id",
        **place,
    )
