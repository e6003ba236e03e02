"""The ports to Kafka: what the runtime needs, and no more.

Two adapters implement these protocols: `streams.kafka.confluent` on librdkafka, and `streams.testing.broker` in memory.
`streams.testing.contracts` is the suite that both pass.

Messages are used as the client gives them: methods, not attributes, and no wrapper object per record. Adapters expose
the client's own bound methods where a call is made per record or per batch (`consume`, `produce`).

Errors of the client are mapped at the adapter, by the table of `streams.kafka.client_errors`, to
`processor_api.errors`: `RetryableError` (the same call may succeed later), `ClientUnusable` (that of a new client may),
`TaskMigratedError` (fenced; another owns the tasks), `TransactionAborted` (abort and rebuild),
`AuthorizationError` and `AuthenticationError` (a right, or the login), and `StreamsError` for all else. Errors that a
delivery callback gets are mapped by `streams.kafka.producing.deliveries`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn, Protocol

from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from processor_api.record import HeaderList
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.client_statistics import ClientStatistics
from streams.kafka.offset_metadata import LogPoint

MOST_RECORD_BYTES = 1_048_576
"""The default limit of a record, with all that it takes in a batch: Kafka's ``max.request.size``. librdkafka's own
default for ``message.max.bytes`` is less than a broker takes."""
AT_BEGINNING = -2
AT_END = -1
"""Positions that the client resolves itself when a partition is assigned."""


class TransactionAborted(RetryableError):
    """The transaction cannot be committed and must be aborted; the tasks of the thread are rebuilt (semantics 141)."""


class ClientUnusable(RetryableError):
    """The client cannot do it, whatever the broker answers; a new client may: the thread makes new ones."""


class CommitAgain(RetryableError):
    """A commit met a rebalance in progress: keep the offsets and commit after the next poll (semantics 140)."""


class InstanceFenced(TaskMigratedError):
    """Another consumer has joined with this one's ``group.instance.id``. Joining again would fence that one in turn, so
    this one ends."""


class UnknownPartitionError(RetryableError):
    """The cluster does not know the partition: its topic was deleted, or is so new that not all brokers know it yet."""


class PartlyCommitted(RetryableError):
    """A commit left out the offsets of partitions that do not exist; all others are committed.

    Brokers look for the topics first: if none of them exists, they have not looked at the member.
    """

    def __init__(self, message: str, partitions: Collection[TopicPartition] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.partitions = frozenset(partitions)

    @classmethod
    def without(cls, partitions: Collection[TopicPartition]) -> PartlyCommitted:
        """Returns the error for these partitions."""
        names = ", ".join(sorted(map(str, partitions)))
        return cls(f"cannot commit offsets: these partitions do not exist: {names}", partitions)


class NotDelivered(TransactionAborted):
    """A record was not delivered in time and is lost to the producer, or its topic does not exist: its task goes back
    to the last commit and processes again what was read since (semantics 114, 165).

    The other tasks of the thread continue, unless they share a transaction with it, or it is not known whose record it
    was."""

    reason: str | None = None
    """The client's name of the error, such as ``_MSG_TIMED_OUT``."""
    tasks: frozenset[str | None] = frozenset()
    """All tasks of which records were lost until this was raised; ``None`` stands for one that is not known."""


class GroupHasMembers(StreamsError):
    """A group cannot be deleted as long as it has members."""


class UnknownTopicError(StreamsError):
    """The cluster has no topic of that name."""


class BatchTooLarge(RetryableError):
    """The broker refused a batch as too large whose records it would take in smaller ones: a new producer makes those,
    and processes again what was read since the last commit (semantics 151)."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset: that of the next record to process."""

    offset: int
    metadata: str = ""


class TopicState(NamedTuple):
    """A topic as it is now, by which it can be distinguished from what it was."""

    id: str
    """Its id, as Kafka's tools print it."""
    leader_epochs: Mapping[int, int]
    """The epoch of the leader of each partition; it is one more with each election. Empty where the cluster gives none.
    """


class MessageError(Protocol):
    """An error or event that a message carries instead of a record."""

    def code(self) -> int: ...

    def name(self) -> str: ...

    def str(self) -> str: ...


class Message(Protocol):
    """A consumed or delivered record, or an event about a partition when ``error()`` is not ``None``."""

    def topic(self) -> str: ...

    def partition(self) -> int: ...

    def offset(self) -> int: ...

    def key(self) -> bytes | None: ...

    def value(self) -> bytes | None: ...

    def leader_epoch(self) -> int | None:
        """Returns the epoch of the leader that appended the record; ``None`` where the broker gives none."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Returns ``(type, ms)``: type 0 not available (ms is then -1), 1 create time, 2 log append time (KIP-32)."""
        ...

    def headers(self) -> HeaderList | None: ...

    def error(self) -> Any:
        """Returns ``None`` for a record, otherwise a :class:`MessageError`; the end of a partition is one, see
        :attr:`Consumer.partition_eof`."""
        ...


class RebalanceListener(Protocol):
    """Is notified of ownership inside `consume`, `poll` and `close`, on the calling thread. It must not raise."""

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None: ...

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Is called before partitions go to another member: they are still owned while this runs, so commit here."""
        ...

    def on_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Is called when another member owns the partitions already: do not commit."""
        ...


class Consumer(Protocol):
    """A consumer whose partitions are added and removed by the runtime; used by one thread."""

    partition_eof: int
    """The error code of the event that the end of a partition (its last stable offset) was reached."""

    @property
    def consume(self) -> Callable[[int, float], Sequence[Any]]:
        """Returns the messages that have come, as ``consume(max_messages, timeout_s)``; it waits at most ``timeout_s``
        for *all* of them, so give 0."""
        ...

    @property
    def poll(self) -> Callable[[float], Any]:
        """Returns one message or ``None``, as ``poll(timeout_s)``."""
        ...

    def subscribe(self, topics: Collection[str], listener: RebalanceListener) -> None:
        """Joins the group. Partitions of subscribed topics are reported to the listener but not fetched: the runtime
        adds the partitions to read by :meth:`assign`."""
        ...

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read, each from the given offset (or `AT_BEGINNING`, `AT_END`)."""
        ...

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes partitions; paused ones are resumed first, so that a later assign starts unpaused."""
        ...

    def assignment(self) -> frozenset[TopicPartition]: ...

    def relieve(self) -> None:
        """Takes what a client without partitions has to report, which piles up until the next poll; waits for
        nothing."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        """Holds back the records of partitions until they are resumed. Messages fetched before are kept, within the
        client's limit of memory, so that frequent pauses cost little."""
        ...

    def resume(self, partitions: Collection[TopicPartition]) -> None: ...

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the next record to be handed out, past transaction markers; ``None`` while that is not
        known, as before the first was fetched."""
        ...

    def fetched_end(self, partition: TopicPartition) -> int | None:
        """Returns the end of the partition at its last fetch, or an offset behind that where a transaction is open;
        ``None`` if the broker would have to be asked. A position that is not before it is the end."""
        ...

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """Returns the end of the log of a partition at its last fetch, behind the records of open transactions.

        It asks no broker and raises nothing, for it serves measures alone.

        :returns: ``None`` while that is not known.
        """
        ...

    def log_start(self, partition: TopicPartition) -> int | None:
        """Returns the first offset of the log of a partition at its last fetch: nothing before it can be read.

        It asks no broker and raises nothing.

        :returns: ``None`` while that is not known.
        """
        ...

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed offsets of the group, without those partitions that have none. Waits for pending
        transactions."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits and waits.

        :raises CommitAgain: a rebalance is in progress.
        :raises PartlyCommitted: partitions do not exist; the offsets of all others are committed.
        :raises TaskMigratedError: this member is no longer in the group.
        """
        ...

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offsets of the first records that are still there; an empty partition has its next offset.

        :raises RetryableError: if the broker does not answer in time.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def end_offsets(self, partitions: Collection[TopicPartition], timeout_s: float = 30.0) -> dict[TopicPartition, int]:
        """Returns the ends as this consumer's isolation level sees them: the last stable offsets under read_committed.

        :raises RetryableError: if the broker does not answer within the time.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the first offset whose timestamp is at or after the given ms; the end offset where there is none.

        :raises RetryableError: if the broker does not answer in time.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def group_metadata(self) -> Any:
        """Returns the identity that fences a transaction's offsets; read immediately before each commit.

        :raises TaskMigratedError: if the group has thrown this member out.
        """
        ...

    def member_id(self) -> str | None:
        """Returns the id by which its group knows this member, or knew it last; ``None`` if it has none yet."""
        ...

    def close(self) -> None: ...


OnDelivery = Callable[[Any, Any], None]
"""``(error or None, message)``, called inside `poll` and `flush` on the calling thread."""


class Producer(Protocol):
    """A producer, idempotent always, transactional when it has a transactional id; used by one thread."""

    zero_timestamp_ms: int
    """The timestamp that is sent instead of 0: librdkafka takes 0 for "now", so its adapter says 1. A negative one is
    sent as it is; what has no time is given one before."""

    @property
    def produce(self) -> Callable[..., None]:
        """Sends a record, as ``produce(topic, value, key, partition, on_delivery, None, timestamp_ms, headers)`` by
        position. Partition -1 leaves the choice to murmur2 of the key. Raises ``BufferError`` when the queue is full:
        poll and call again. Raises the client's own error, for :meth:`refused`, for a record above
        ``message.max.bytes`` (`MOST_RECORD_BYTES`). The client has two positions for the callback, and a ``None`` in
        the first hides the second.

        :raises UnsendableHeaders: if the headers cannot be sent (`streams.kafka.headers`)."""
        ...

    @property
    def produce_plain(self) -> Callable[..., None]:
        """Sends a record without headers, as `produce` without its last argument: nothing must be checked."""
        ...

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the error that one of `produce`, which is the client's own, stands for: `TaskMigratedError` if fenced,
        `TransactionAborted` in a transaction that has failed already, else `ProductionError`."""
        ...

    @property
    def poll(self) -> Callable[[float], int]:
        """Serves delivery callbacks."""
        ...

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Waits until every record is delivered or failed and its callback served; returns whether that came within the
        time."""
        ...

    def init_transactions(self) -> None:
        """Fences earlier producers of the same id and ends their open transaction."""
        ...

    def begin_transaction(self) -> None: ...

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Any) -> None: ...

    def commit_transaction(self) -> None:
        """Commits the open transaction.

        :raises TransactionAborted: if the transaction cannot be committed: abort it.
        :raises TaskMigratedError: if the producer is fenced: make a new one.
        """
        ...

    def abort_transaction(self) -> None: ...

    def prepare(self, topics: Collection[str]) -> None:
        """Prepares writing to topics, so that the first record to one does not wait; a topic may be missing."""
        ...

    def partition_count(self, topic: str) -> int:
        """Returns the number of partitions of a topic, cached by the adapter for a short time.

        :raises UnknownTopicError: if the topic does not exist.
        """
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, kw_only=True)
class NewTopic:
    """A topic to create; a replication factor of -1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicInfo:
    """A topic as the cluster describes it."""

    name: str
    partitions: int
    replication_factor: int | None = field(default=None, compare=False)
    """The number of replicas of its first partition; ``None`` where replicas mean nothing."""


@dataclass(frozen=True)
class GroupMember:
    """A member of a consumer group as the broker describes it."""

    client_id: str
    member_id: str
    instance_id: str | None
    partitions: frozenset[TopicPartition]
    host: str = field(default="", compare=False)
    """The address from which it is connected; empty if it has none."""
    tasks: frozenset[TaskId] | None = None
    """The active tasks that the group has assigned to it, if the group is one of the streams protocol (KIP-1071); it
    assigns no partitions then."""
    standby: frozenset[TaskId] = frozenset()
    """The tasks of which such a group has it keep a standby copy, warm-ups among them."""
    has_left: bool = field(default=False, compare=False)
    """Whether it is a static member that was closed: its instance id may join again. Classic ones are removed then."""
    protocol: str = field(default="classic", compare=False)
    """The protocol that the member speaks: ``classic``, ``streams``, or ``consumer`` (KIP-848), which no member of ours
    does; a group of the last may have classic members too."""
    process_id: str = field(default="", compare=False)
    """The id of its process, as a member of the streams protocol tells the group; empty in the others."""


@dataclass(frozen=True)
class GroupInfo:
    """A consumer group as the broker describes it."""

    name: str
    state: str
    """The state in Kafka's words and small letters: ``stable``, ``preparing_rebalance``, ``completing_rebalance``,
    ``empty``, or ``dead`` for a group that does not exist. A group of the consumer or the streams protocol may also be
    ``assigning`` or ``reconciling``, one of the latter ``not_ready``."""
    assignor: str
    """The assignor that its members have agreed on, or that of the brokers; empty while there is none."""
    members: tuple[GroupMember, ...]
    protocol: str = "classic"
    """``classic``, ``consumer`` or ``streams``."""


class Admin(Protocol):
    """Calls for the whole cluster; may be used by any thread."""

    def topics(self, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """Returns the topics that exist: all that may be seen, or those named.

        :raises AuthorizationError: if one that is named may not be seen.
        """
        ...

    def topic_ids(self, names: Collection[str]) -> dict[str, str]:
        """Returns the ids of those topics that exist, as Kafka's tools print them. A topic that is deleted and made
        again has another one (KIP-516). A topic without an id, or that the cluster does not show, is left out. It takes
        one request.

        :raises RetryableError: if no broker answers.
        """
        ...

    def topic_states(self, names: Collection[str]) -> dict[str, TopicState]:
        """Returns the ids of topics as :meth:`topic_ids` does, with the epochs of their leaders. It takes one request.

        :raises RetryableError: if no broker answers.
        """
        ...

    def divergences(
        self, points: Collection[tuple[TopicPartition, LogPoint]]
    ) -> dict[tuple[TopicPartition, LogPoint], int]:
        """Returns the points that are no longer in their logs, each with the offset from which on its log is another
        one: the log was truncated there, and may have grown again since (KIP-320). It takes one request to each leader.

        A point of which the brokers cannot tell is left out.

        :raises RetryableError: if not all leaders answer.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def topic_settings(self, names: Collection[str]) -> dict[str, dict[str, str]]:
        """Returns the settings of those topics that exist under Kafka's names, those that have their default too. A
        topic whose settings the cluster does not show is left out. It takes one request.

        :raises RetryableError: if no broker answers.
        """
        ...

    def create_topics(self, topics: Collection[NewTopic]) -> None:
        """Creates topics and waits until they can be used; those that exist already are left as they are.

        :raises StreamsError: with the broker's reason, naming the topic.
        """
        ...

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Increases the partitions of a topic to this total; a topic with as many or more stays as it is.

        :raises StreamsError: if the topic does not exist.
        """
        ...

    def delete_topics(self, names: Collection[str]) -> None: ...

    def delete_records(self, before: Mapping[TopicPartition, int]) -> None:
        """Deletes records below the offsets (repartition topics, after a commit)."""
        ...

    def groups(self) -> list[str]:
        """Returns the names of the consumer groups that may be seen, in order."""
        ...

    def group_members(self, group: str) -> list[GroupMember]: ...

    def describe_group(self, group: str) -> GroupInfo:
        """Returns a group; one that does not exist is without members, and ``dead``.

        :raises RetryableError: if its coordinator does not answer.
        """
        ...

    def delete_group(self, group: str) -> None:
        """Deletes a group with its committed offsets; one that does not exist is passed over.

        :raises GroupHasMembers: if it has members.
        :raises RetryableError: if its coordinator does not answer.
        """
        ...

    def remove_members(self, group: str, members: Collection[GroupMember]) -> None:
        """Removes members from a group; one that runs joins again. Members that are gone are passed over.

        :raises RetryableError: if its coordinator does not answer.
        """
        ...

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends of the logs, with records of open transactions, which :meth:`Consumer.end_offsets` leaves
        out.

        :raises RetryableError: if the broker does not answer in time.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def offsets_for_time(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Returns the first offset at or after a time in ms by partition, without those that have no such record. Any
        thread may call it, unlike :meth:`Consumer.offsets_for_time`.

        :raises RetryableError: if the broker does not answer in time.
        :raises UnknownPartitionError: at once, if a partition does not exist.
        """
        ...

    def release_instance(self, group: str, member: GroupMember) -> None:
        """Ends a static member of the streams protocol (KIP-1071) on its behalf, so that its instance id may join again
        at once; the group keeps its tasks for that. One that has gone is passed over.

        :raises StreamsError: if it cannot be done; then the instance id is free when the member's session has ended.
        """
        ...

    def open_transactions(self) -> list[str]:
        """Returns the transactional ids that have an open transaction, as far as the cluster shows them; none where it
        cannot be asked.

        :raises RetryableError: if not all brokers answer.
        """
        ...

    def fence_producer(self, transactional_id: str) -> None:
        """Ends the open transaction of a transactional id, and fences the producer that has it.

        :raises RetryableError: if its coordinator does not answer.
        """
        ...

    def group_offsets(
        self, group: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed offsets of a group, without those partitions that have none. Unlike
        :meth:`Consumer.committed` it does not wait for a member's own request to join, which the broker holds during a
        rebalance.

        :raises RetryableError: if the coordinator does not answer.
        """
        ...

    def close(self) -> None: ...


class KafkaClients(Protocol):
    """Makes clients for one cluster; the runtime reaches Kafka only through it."""

    def consumer(self, config: Mapping[str, Any]) -> Consumer:
        """Makes a consumer; ``config`` holds client settings under Kafka's names: ``group.id``, ``isolation.level``,
        ..."""
        ...

    def producer(self, config: Mapping[str, Any]) -> Producer: ...

    def admin(self, config: Mapping[str, Any]) -> Admin: ...

    def streams_group(self, config: Mapping[str, Any]) -> Any:
        """Makes the requests of one member of a group of the streams protocol, a
        `streams.kafka.streams_group.StreamsGroupRequests`; ``config`` is that of its consumer.

        :raises ConfigError: if they are not possible with this configuration.
        """
        ...

    def leave_group(self, config: Mapping[str, Any], group: str, instance_id: str) -> None:
        """Removes a static member from the group, after its consumer closed; ``config`` is that consumer's."""
        ...

    def statistics(self) -> list[ClientStatistics]:
        """Returns the newest figures of each client that was made here and is open; none of clients that keep none.
        Any thread may call it."""
        ...
