"""The producer of the embedded broker."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from processor_api.errors import ProductionError, StreamsError, TaskMigratedError
from processor_api.record import HeaderList, TimestampType
from processor_api.task_id import TopicPartition
from processor_api.texts import error_text
from processor_api.topology.partitioner import partition_for_key
from streams.kafka.headers import UnsendableHeaders, sendable
from streams.kafka.ports import MOST_RECORD_BYTES, OffsetAndMetadata, OnDelivery, TransactionAborted, UnknownTopicError
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.groups import GroupIdentity
from streams.testing.broker.messages import ErrorInfo, LogRecord, RefusedRecord, as_bytes, check_time
from streams.testing.broker.segments import BATCH_OVERHEAD, record_bytes
from streams.testing.broker.topics import Topic
from streams.testing.broker.transactions import TransactionalId

CLIENT_OVERHEAD = 27
"""Bytes that the client counts for a record above those that it takes: as many as it could take."""
_CREATE_TIME = int(TimestampType.CREATE_TIME)


class _TooLarge(Exception):
    """Raised for a record that is larger than the producer may send, with the error that the client gives."""


class ProducerTransactions:
    """The transactions of one producer: which id and epoch it has, and how far the present one is.

    :param name: the ``transactional.id``; a producer without one may always write.
    """

    def __init__(self, broker: EmbeddedBroker, name: str | None, timeout_s: float) -> None:
        self._broker = broker
        self.name = name
        self._timeout_s = timeout_s
        self.author: TransactionalId | None = None
        self._epoch = -1
        self.open = name is None
        """Whether records may be written: always, or inside a transaction."""
        self.written = False
        """Whether the broker has the transaction."""
        self.failure: str | None = None
        """The reason why the transaction can only be aborted."""
        self.fenced = False

    def check(self) -> None:
        """Checks that no newer producer is known to have the id.

        :raises TaskMigratedError: if one has it.
        """
        if self.fenced:
            raise TaskMigratedError(f"the producer with transactional.id {self.name!r} is fenced: make a new one")

    def is_outdated(self) -> bool:
        """Whether a newer producer has the id; this one may not know it yet."""
        return self.author is not None and self.author.epoch != self._epoch

    def initialize(self) -> None:
        if self.name is None:
            raise StreamsError("transactions need the producer setting transactional.id")
        if self.author is not None:
            raise StreamsError("init_transactions was called already: call it once for each producer")
        with self._broker.lock:
            self._broker.expire()
            self.author = self._broker.transactions.initialize(self.name, self._timeout_s)
            self._epoch = self.author.epoch
            self._broker.changes.notify()

    def begin(self) -> None:
        if self.author is None or self.open:
            state = "open already" if self.open else "possible only after init_transactions"
            raise StreamsError(f"begin_transaction: a transaction is {state}")
        self.open = True

    def current(self, call: str) -> TransactionalId:
        """Returns the id whose transaction is open."""
        if self.author is None or not self.open:
            raise StreamsError(f"{call}: no transaction is open; begin one first")
        return self.author

    def check_whole(self) -> None:
        """Checks that nothing of the transaction was refused.

        :raises TransactionAborted: if it can only be aborted.
        """
        if self.failure is not None:
            raise TransactionAborted(f"{self.failure}; abort the transaction")

    def add_offsets(
        self,
        author: TransactionalId,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_metadata: GroupIdentity,
    ) -> None:
        with self._broker.lock:
            self._broker.expire()
            self._check_epoch()
            group = self._broker.groups.group(group_metadata.group)
            refusal = group.refusal(group_metadata, offsets)
            if refusal is not None:
                self.failure = f"the offsets of group {group.name!r} were refused: {refusal}"
                self.check_whole()
            for partition in offsets:
                self._broker.log(partition)
                group.pending.setdefault(partition, set()).add(author.producer_id)
            author.offsets.setdefault(group.name, {}).update(offsets)
            self._broker.note_transaction(author)
            self.written = True

    def end(self, author: TransactionalId, *, committed: bool) -> None:
        if self.written:
            with self._broker.lock:
                self._broker.expire()
                self._check_epoch()
                self._broker.transactions.end(author, committed=committed)
                self._broker.changes.notify()
        self.open = self.written = False
        self.failure = None

    def failed(self, record: LogRecord, error: ErrorInfo) -> None:
        """Takes that a record was not delivered."""
        if error.name() == "_FENCED":
            self.fenced = True
        elif self.author is not None and self.failure is None:
            self.failure = f"a record for {record.topic()!r} was not delivered: {error}"

    def _check_epoch(self) -> None:
        if self.is_outdated():
            self.fenced = True
            self.check()


class Lingering:
    """The records that wait for more of their batch, by partition.

    :param most: how many records a batch has at most; with 0 none waits.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._batches: dict[tuple[Topic, int], list[tuple[LogRecord, OnDelivery | None]]] = {}
        self._bytes: dict[tuple[Topic, int], int] = {}

    def __bool__(self) -> bool:
        return bool(self._batches)

    def has_room(self, topic: Topic, partition: int, size: int) -> bool:
        """Whether a batch takes a record of this size as well; a new one takes any."""
        place = topic, partition
        return place not in self._batches or self._bytes[place] + size <= self._most_bytes

    def add(self, topic: Topic, partition: int, record: LogRecord, report: OnDelivery | None) -> bool:
        """Adds a record; returns whether its batch is full."""
        place = topic, partition
        batch = self._batches.setdefault(place, [])
        batch.append((record, report))
        self._bytes[place] = self._bytes.get(place, BATCH_OVERHEAD) + record_bytes(record)
        return len(batch) >= self.most

    def shorten(self, choose: Callable[[int], int]) -> None:
        """Keeps the first records of each batch, as many as are chosen, given their number."""
        self._batches = {place: batch[: choose(len(batch))] for place, batch in self._batches.items()}

    def take(self) -> dict[tuple[Topic, int], list[tuple[LogRecord, OnDelivery | None]]]:
        """Returns all batches, and begins new ones."""
        batches, self._batches = self._batches, {}
        self._bytes.clear()
        return batches


class EmbeddedProducer:
    """Implements `streams.kafka.ports.Producer`.

    Settings: ``transactional.id``, ``transaction.timeout.ms``, ``queue.buffering.max.messages`` (records whose delivery
    was not yet reported), ``linger.ms``, ``batch.num.messages``, ``batch.size`` and ``message.max.bytes``. Without
    linger, the default, each record is a batch of its own and is in the log when `produce` returns. With any linger it
    waits for the next `poll`, `flush` or commit, or a full batch; a producer that is dropped before loses it, as one
    that crashes does.
    """

    zero_timestamp_ms = 0

    def __init__(self, broker: EmbeddedBroker, config: Mapping[str, Any]) -> None:
        self._broker = broker
        self._lock = broker.lock
        self._topics = broker.topics
        self._transactions = ProducerTransactions(
            broker, config.get("transactional.id"), int(config.get("transaction.timeout.ms", 60_000)) / 1000
        )
        batch_records = int(config.get("batch.num.messages", 10_000)) if float(config.get("linger.ms", 0)) else 0
        self._lingering = Lingering(batch_records, int(config.get("batch.size", 1_000_000)))
        self._queue_max = int(config.get("queue.buffering.max.messages", 100_000))
        self._most_bytes = int(config.get("message.max.bytes", MOST_RECORD_BYTES)) - CLIENT_OVERHEAD
        self._reports: deque[tuple[OnDelivery | None, ErrorInfo | None, LogRecord]] = deque()
        self._queued = 0
        self._next_partition: dict[str, int] = {}
        self._closed = False

    def produce(
        self,
        topic: str,
        value: bytes | str | None = None,
        key: bytes | str | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int | None = None,
        headers: HeaderList | None = None,
    ) -> None:
        """Sends a record; ``callback`` and ``on_delivery`` are the same. No timestamp means now.

        :raises BufferError: if the queue is full: call `poll` first.
        :raises StreamsError: if there is no such partition, or a transactional producer is outside a transaction.
        :raises TaskMigratedError: if this producer is known to be fenced.
        :raises TransactionAborted: if the transaction can only be aborted, since a record was not delivered.
        """
        transactions = self._transactions
        if not transactions.open or transactions.fenced:
            self._check_usable()
            raise StreamsError("a transactional producer can produce only inside a transaction: begin one first")
        transactions.check_whole()
        if self._queued >= self._queue_max:
            raise BufferError("the producer's queue is full: call poll() and produce again")
        if type(value) is not bytes and value is not None:
            value = as_bytes(value)
        if type(key) is not bytes and key is not None:
            key = as_bytes(key)
        found = self._topics.get(topic) or self._unknown_topic(topic)
        if found is not None and not 0 <= partition < len(found.partitions):
            partition = self._choose_partition(found, partition, key)
        if timestamp is None:
            timestamp = self._broker.clock.time_ms()
        check_time(timestamp)
        record = LogRecord(
            topic, partition, key, value, (_CREATE_TIME, timestamp), list(sendable(headers)) if headers else None
        )
        size = record_bytes(record)
        if size > self._most_bytes:
            raise _TooLarge(ErrorInfo("MSG_SIZE_TOO_LARGE", f"the record is larger than {self._most_bytes} bytes"))
        self._queued += 1
        report = callback or on_delivery
        if found is None:
            self._report_failure(record, report, ErrorInfo("UNKNOWN_TOPIC_OR_PART", f"topic {topic!r} does not exist"))
        elif self._lingering.most:
            if not self._lingering.has_room(found, partition, size):
                self.deliver()
            if self._lingering.add(found, partition, record, report):
                self.deliver()
        else:
            refusals = self._append(found, partition, (record,))
            if refusals is None:
                self._reports.append((report, None, record))
            else:
                self._report_failure(record, report, refusals[0])

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the project's error for one that :meth:`produce` raised, which is often the same."""
        if isinstance(error, (TaskMigratedError, TransactionAborted)):
            raise error
        if isinstance(error, UnsendableHeaders):
            raise error.locate(topic=topic)
        raise ProductionError(f"cannot send a record to topic {topic!r}: {error_text(error)}", topic=topic) from error

    def deliver(self) -> None:
        """Sends the records that linger, as a client's own thread does after ``linger.ms``. Nothing is reported yet."""
        for (topic, partition), batch in self._lingering.take().items():
            if not batch:
                continue
            refusals = self._append(topic, partition, [record for record, _ in batch])
            for number, (record, report) in enumerate(batch):
                if refusals is None:
                    self._reports.append((report, None, record))
                else:
                    self._report_failure(record, report, refusals[number])

    def deliver_some(self, choose: Callable[[int], int]) -> None:
        """Sends the first of the records that linger in each partition, and loses the others, as happens to a client
        whose process is killed while its requests are on their way.

        :param choose: given the number of records of a partition, returns how many of them are sent.
        """
        self._lingering.shorten(choose)
        self.deliver()

    @property
    def transactional_id(self) -> str | None:
        return self._transactions.name

    @property
    def has_written(self) -> bool:
        """Whether the broker has a part of the open transaction, or would get one by :meth:`deliver`."""
        return self._transactions.written or bool(self._lingering)

    def poll(self, timeout: float = 0) -> int:
        """Sends the records that linger and serves the delivery callbacks; never waits, since delivery is immediate.

        :raises TaskMigratedError: if this producer is fenced, after the callbacks.
        """
        self.deliver()
        served = 0
        for _ in range(len(self._reports)):
            report, error, record = self._reports.popleft()
            self._queued -= 1
            if report is not None:
                report(error, record)
                served += 1
        self._check_usable()
        return served

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Sends the records that linger and serves the delivery callbacks, also those of records that the callbacks
        produce; never waits.

        :raises TaskMigratedError: if this producer is fenced, after the callbacks.
        """
        self.poll()
        while self._queued:
            self.poll()
        return True

    # Transactions

    def init_transactions(self) -> None:
        self._check_usable()
        self._transactions.initialize()

    def begin_transaction(self) -> None:
        self._check_usable()
        self._transactions.begin()

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: GroupIdentity) -> None:
        self._check_usable()
        author = self._transactions.current("send_offsets")
        self._transactions.check_whole()
        if offsets:
            self._transactions.add_offsets(author, offsets, group_metadata)

    def commit_transaction(self) -> None:
        self._check_usable()
        author = self._transactions.current("commit_transaction")
        self.deliver()
        self._check_usable()
        self._transactions.check_whole()
        self._transactions.end(author, committed=True)

    def abort_transaction(self) -> None:
        self._check_usable()
        author = self._transactions.current("abort_transaction")
        purged = ErrorInfo("_PURGE_QUEUE", "the transaction was aborted before the record was sent")
        for batch in self._lingering.take().values():
            self._reports.extend((report, purged, RefusedRecord(record, purged)) for record, report in batch)
        self._transactions.end(author, committed=False)

    def prepare(self, topics: Collection[str]) -> None:
        """Does nothing: the broker is in this process, so that its topics are known."""

    def partition_count(self, topic: str) -> int:
        found = self._topics.get(topic) or self._unknown_topic(topic)
        if found is None:
            raise UnknownTopicError(f"topic {topic!r} does not exist", topic=topic)
        return len(found.partitions)

    def close(self) -> None:
        """Drops what was not sent and leaves an open transaction to its timeout or to `init_transactions`."""
        self._closed = True
        self._transactions.open = False
        self._lingering.take()
        self._reports.clear()
        self._queued = 0

    # Inside

    def _check_usable(self) -> None:
        if self._closed:
            raise StreamsError("the producer is closed: make a new one")
        self._transactions.check()

    def _unknown_topic(self, name: str) -> Topic | None:
        if not self._broker.auto_create_topics:
            return None
        self._broker.create_topic(name)
        return self._topics[name]

    def _choose_partition(self, topic: Topic, partition: int, key: bytes | None) -> int:
        count = len(topic.partitions)
        if partition != -1:
            raise StreamsError(
                f"topic {topic.name!r} has {count} partitions, there is no number {partition}",
                topic=topic.name,
                partition=partition,
            )
        if key is not None:
            return partition_for_key(key, count)
        turn = self._next_partition.get(topic.name, 0)
        self._next_partition[topic.name] = turn + 1
        return turn % count

    def _append(self, topic: Topic, partition: int, batch: Sequence[LogRecord]) -> Sequence[ErrorInfo] | None:
        """Appends a batch, or none of it: then the error of each record is returned."""
        transactions = self._transactions
        with self._lock:
            if transactions.is_outdated():
                return [ErrorInfo("_FENCED", "a newer producer has the same transactional id")] * len(batch)
            refusals = self._broker.append(topic, partition, batch, transactions.author)
        if refusals is None:
            transactions.written = True
        return refusals

    def _report_failure(self, record: LogRecord, report: OnDelivery | None, error: ErrorInfo) -> None:
        self._reports.append((report, error, RefusedRecord(record, error)))
        self._transactions.failed(record, error)
