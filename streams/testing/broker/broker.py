"""The embedded broker: topics, groups and transactions of one Kafka cluster, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import CommitAgain, OffsetAndMetadata, PartlyCommitted
from streams.kafka.streams_group import GroupTopic
from streams.testing.broker.groups import Group, GroupCoordinator
from streams.testing.broker.messages import ERROR_CODES, ErrorInfo, LogRecord
from streams.testing.broker.partition_log import PartitionLog
from streams.testing.broker.topics import Topic
from streams.testing.broker.transactions import TransactionalId, TransactionCoordinator
from streams.threads import SYSTEM_THREADS, Condition, Threads

FIRST_TOPIC_NUMBER = 2
"""Kafka keeps the ids 0 and 1 for itself."""
_LONGEST_NAP_S = 0.05
"""Longest time until a waiting client notices that a manual clock was moved."""


class Changes:
    """Has clients wait until something has changed in the broker. To be called with the broker's lock held.

    :param time: the time that a wait takes; real time if not given, whatever the broker's clock.
    :param blocking: whether anybody may wait.
    """

    def __init__(self, condition: Condition, time: Clock | None, *, blocking: bool) -> None:
        self._condition = condition
        self._blocking = blocking
        self._time: Clock = SystemClock() if time is None else time
        self._nap_s = _LONGEST_NAP_S if time is None else float("inf")
        self._waiting = 0

    def notify(self) -> None:
        """Wakes the clients that wait."""
        if self._waiting:
            self._condition.notify_all()

    def deadline_s(self, timeout_s: float) -> float:
        """Returns the end of a wait that starts now, for :meth:`wait`."""
        return self._time.monotonic() + timeout_s

    def wait(self, deadline_s: float) -> bool:
        """Waits a while for a change, releasing the lock; ``False`` if the deadline has passed."""
        left_s = deadline_s - self._time.monotonic()
        if left_s <= 0 or not self._blocking:
            return False
        self._waiting += 1
        try:
            self._condition.wait(min(left_s, self._nap_s))
        finally:
            self._waiting -= 1
        return True


class EmbeddedBroker:
    """Kafka in memory, for one process and any number of threads.

    :param clock: the broker's time: append times, default record timestamps, retention, sessions and transaction
        timeouts.
    :param waiting: the time that waiting for records takes; real time if not given, whatever the clock.
    :param threads: makes the locks and events by which threads wait.
    :param default_partitions: partitions of a topic created without a number.
    :param auto_create_topics: whether producing to an unknown topic creates it.
    :param blocking: ``False`` for a simulation on a single thread: nothing ever waits, a poll returns what is there and
        a call that would have to wait raises `RetryableError`.

    The clients of this package hold ``lock`` around whatever they do here; the methods below take it themselves.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        default_partitions: int = 1,
        auto_create_topics: bool = False,
        *,
        blocking: bool = True,
        threads: Threads = SYSTEM_THREADS,
        waiting: Clock | None = None,
    ) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self.default_partitions = default_partitions
        self.auto_create_topics = auto_create_topics
        self.lock = threads.lock()
        self.topics: dict[str, Topic] = {}
        self.gives_ids = True
        """Whether topics are described with ids, as by brokers since Kafka 2.8."""
        self._topic_numbers = count(FIRST_TOPIC_NUMBER)
        self.groups = GroupCoordinator(self._partition_counts)
        self.transactions = TransactionCoordinator(self.groups.decide)
        self.changes = Changes(threads.condition(self.lock), waiting, blocking=blocking)
        self._next_deadline_s = float("inf")
        self.before_expiry: Callable[[], None] = lambda: None
        """Called before sessions are ended whose time may have passed: the last chance for heartbeats of consumers."""

    # Topics

    def create_topic(self, name: str, partitions: int | None = None, configs: Mapping[str, str] | None = None) -> None:
        """Creates a topic; one that exists already is left as it is.

        :raises StreamsError: if the name, the number of partitions or a setting is not one that Kafka takes.
        """
        with self.lock:
            if name not in self.topics:
                wanted = self.default_partitions if partitions is None else partitions
                self.topics[name] = Topic(name, wanted, configs or {}, next(self._topic_numbers))
                self.groups.topics_changed([name])
                self.changes.notify()

    def create_for(self, topic: GroupTopic, partitions: int) -> None:
        """Creates an internal topic for a group that asks for it."""
        self.create_topic(topic.name, partitions, dict(topic.configs))

    def add_partitions(self, name: str, partitions: int) -> None:
        """Increases the partitions of a topic to this total; a topic with as many or more stays as it is.

        :raises StreamsError: if there is no such topic.
        """
        with self.lock:
            topic = self.topic(name)
            if len(topic.partitions) < partitions:
                topic.partitions += [PartitionLog(name, number) for number in range(len(topic.partitions), partitions)]
                self.groups.topics_changed([name])
                self.changes.notify()

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its records and the offsets committed for it; an unknown one is passed over."""
        with self.lock:
            topic = self.topics.pop(name, None)
            if topic is not None:
                topic.deleted = True
                self.groups.forget_offsets(name)
                self.groups.topics_changed([name])
                self.changes.notify()

    def topic(self, name: str) -> Topic:
        """Returns the topic of this name.

        :raises StreamsError: if there is none.
        """
        topic = self.topics.get(name)
        if topic is None:
            raise StreamsError(f"topic {name!r} does not exist: create it first", topic=name)
        return topic

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Returns the log of a partition.

        :raises StreamsError: if there is none.
        """
        logs = self.topic(partition.topic).partitions
        if not 0 <= partition.partition < len(logs):
            raise StreamsError(
                f"topic {partition.topic!r} has {len(logs)} partitions, there is no number {partition.partition}",
                topic=partition.topic,
                partition=partition.partition,
            )
        return logs[partition.partition]

    def records(self, topic: str, *, read_committed: bool = True) -> list[LogRecord]:
        """Returns the records that are in a topic now, partition by partition.

        :raises StreamsError: if there is no such topic.
        """
        with self.lock:
            logs = self.topic(topic).partitions
            return [r for log in logs for r in log.read(log.start_offset, log.end_offset, read_committed)[0]]

    # What real brokers do in the background happens on request here

    def clean(self, topic: str) -> None:
        """Compacts and deletes what is due, segment by segment, by the topic's ``cleanup.policy``. A broker does so
        from time to time, and waits with a compaction until a part of the log is new.

        :raises StreamsError: if there is no such topic.
        """
        with self.lock:
            found, now_ms = self.topic(topic), self.clock.time_ms()
            for log in found.partitions:
                found.cleanup.clean(log, now_ms)

    def roll(self, topic: str) -> None:
        """Ends the newest segment of each partition, so that :meth:`clean` reaches all records that are there now.

        :raises StreamsError: if there is no such topic.
        """
        with self.lock:
            for log in self.topic(topic).partitions:
                log.segments.roll(log.end_offset)

    def leave_group(self, group: str, instance_id: str) -> None:
        """Removes a static member from its group, as ``kafka-consumer-groups`` and ``LeaveGroup`` do; one that is not
        there is passed over."""
        with self.lock:
            found = self.groups.group(group)
            member = found.static_member(instance_id)
            if member is not None:
                found.leave(member)
                self.changes.notify()

    # Faults

    def refuse(self, topic: str, error_name: str) -> None:
        """Refuses every record for the topic from now on, with an error named as Kafka names it.

        :raises StreamsError: if there is no such topic.
        :raises ValueError: if the name is none of those in `messages.ERROR_CODES`.
        """
        if error_name not in ERROR_CODES:
            raise ValueError(f"{error_name!r} is none of {', '.join(sorted(ERROR_CODES))}")
        with self.lock:
            self.topic(topic).refuse(error_name)

    def elect(self, partition: TopicPartition) -> None:
        """Gives a partition another leader, which has all of its records.

        :raises StreamsError: if there is no such partition.
        """
        with self.lock:
            self.log(partition).elect()
            self.changes.notify()

    def lose_records(self, partition: TopicPartition, offset: int) -> None:
        """Gives a partition a leader that lacks the records from an offset on: an unclean election, or a broker with
        an older copy of its disk. The next records get their offsets.

        :raises StreamsError: if there is no such partition.
        """
        with self.lock:
            self.log(partition).lose_from(offset)
            self.changes.notify()

    def accept(self, topic: str) -> None:
        """Takes records for the topic again.

        :raises StreamsError: if there is no such topic.
        """
        with self.lock:
            self.topic(topic).refuse(None)

    # For the clients, which hold the lock

    def append(
        self, topic: Topic, partition: int, batch: Sequence[LogRecord], author: TransactionalId | None
    ) -> Sequence[ErrorInfo] | None:
        """Appends a batch, or none of it: then the error of each record is returned."""
        if topic.deleted:
            return [ErrorInfo("UNKNOWN_TOPIC_OR_PART", f"topic {topic.name!r} was deleted")] * len(batch)
        errors = topic.admit(batch, self.clock)
        if errors is not None:
            return errors
        log = topic.partitions[partition]
        producer_id = None
        if author is not None:
            producer_id = author.producer_id
            author.logs[log] = None
            self.note_transaction(author)
        log.append(batch, producer_id)
        self.changes.notify()
        return None

    def note_transaction(self, author: TransactionalId) -> None:
        """Starts the time-out of a transaction, which has its first record or offset."""
        if author.started_s is None:
            author.started_s = self.clock.monotonic()
            self.expect(author.started_s + author.timeout_s)

    def expect(self, deadline_s: float) -> None:
        """Wakes the waiting clients at this time of the clock, since something may expire."""
        self._next_deadline_s = min(self._next_deadline_s, deadline_s)

    def commit_offsets(
        self,
        group: Group,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        refusal: str | None,
        *,
        client: str,
        moved: str,
    ) -> None:
        """Commits offsets without a transaction.

        :param refusal: why the group does not take them, in the words of Kafka; ``None`` if it does.
        :param client: what commits, for the error.
        :param moved: what the group has done since, for the error.
        :raises CommitAgain: if the group has moved on.
        :raises TaskMigratedError: if the client is not in it.
        :raises PartlyCommitted: if partitions do not exist; the offsets of others are committed.
        :raises StreamsError: if an offset is negative.
        """
        if refusal in ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH"):
            raise CommitAgain(f"group {group.name!r} {moved}: poll, then commit again")
        if refusal is not None:
            raise TaskMigratedError(f"this {client} is no longer in group {group.name!r}: {refusal}")
        counts = self._partition_counts()
        absent = {name for name in offsets if name.partition >= counts.get(name.topic, 0)}
        for partition, committed in offsets.items():
            if committed.offset < 0:
                raise StreamsError(f"offset {committed.offset} of {partition} cannot be committed: it is negative")
        group.offsets.update((name, one) for name, one in offsets.items() if name not in absent)
        if absent:
            raise PartlyCommitted.without(absent)

    def expire(self) -> None:
        """Ends the transactions and sessions whose time has passed."""
        now_s = self.clock.monotonic()
        if now_s >= self._next_deadline_s:
            self.before_expiry()
            expired = [self.transactions.expire(now_s), self.groups.expire(now_s)]
            self._next_deadline_s = min(self.transactions.next_deadline_s(), self.groups.next_deadline_s())
            if any(expired):
                self.changes.notify()

    def _partition_counts(self) -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in self.topics.items()}
