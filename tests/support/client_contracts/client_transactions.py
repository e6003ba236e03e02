"""The contract of transactions: `streams.kafka.ports.Producer` with a transactional id, and reading committed."""

from __future__ import annotations

import threading
from typing import Any

from client_contracts.client_kit import Cluster, Deliveries, contents, raises, read, read_to_end, send
from processor_api.errors import StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata, Producer, TransactionAborted

__all__ = ["TransactionContract"]


class TransactionContract:
    """All records of a transaction are seen or none, and only those of the newest producer of its id."""

    cluster: Cluster

    def sent(self, producer: Producer, partition: TopicPartition, *values: bytes) -> None:
        """Sends records and waits until they are in the log, so that the transaction is open at the broker."""
        deliveries = Deliveries()
        send(producer, partition.topic, *values, partition=partition.partition, on_delivery=deliveries)
        producer.flush()
        assert deliveries.errors == [None] * len(values)

    def values(self, partition: TopicPartition, isolation: str = "read_committed") -> list[Any]:
        """Returns the values in the partition as they are seen now."""
        consumer = self.cluster.consumer(isolation_level=isolation)
        return contents(read_to_end(self.cluster.until, consumer, [partition]))

    def ended(self, partition: TopicPartition) -> TopicPartition:
        """Waits until the markers of all transactions in the partition are written, which may be after the commit."""
        committed, uncommitted = self.cluster.consumer(), self.cluster.consumer(isolation_level="read_uncommitted")
        self.cluster.until(
            "no transaction is open",
            lambda: committed.end_offsets([partition]) == uncommitted.end_offsets([partition]),
        )
        return partition

    def test_a_committed_transaction_is_seen_whole(self) -> None:
        """The records are seen after the commit, in all partitions, by consumers of either isolation level."""
        topic = self.cluster.topic(2)
        partitions = [TopicPartition(topic, p) for p in (0, 1)]
        producer = self.cluster.transactional()
        producer.begin_transaction()
        for partition in partitions:
            self.sent(producer, partition, b"a", b"b")
        assert [self.values(p) for p in partitions] == [[], []]
        producer.commit_transaction()
        for isolation in ("read_committed", "read_uncommitted"):
            assert [self.values(self.ended(p), isolation) for p in partitions] == [[b"a", b"b"], [b"a", b"b"]]

    def test_an_aborted_transaction_is_never_seen(self) -> None:
        """Reading committed skips its records, between others too; reading uncommitted does not."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional()
        for values, commit in (((b"1", b"2"), True), ((b"3", b"4"), False), ((b"5",), True), ((b"6",), False)):
            producer.begin_transaction()
            self.sent(producer, partition, *values)
            (producer.commit_transaction if commit else producer.abort_transaction)()
        assert self.values(self.ended(partition)) == [b"1", b"2", b"5"]
        assert self.values(partition, "read_uncommitted") == [b"1", b"2", b"3", b"4", b"5", b"6"]

    def test_interleaved_transactions(self) -> None:
        """The aborted one of two transactions in one partition is skipped, record by record."""
        partition = TopicPartition(self.cluster.topic(), 0)
        kept, dropped = self.cluster.transactional(), self.cluster.transactional()
        kept.begin_transaction()
        dropped.begin_transaction()
        for i in range(4):
            self.sent(kept, partition, b"kept-%d" % i)
            self.sent(dropped, partition, b"dropped-%d" % i)
        dropped.abort_transaction()
        assert self.values(partition) == []
        kept.commit_transaction()
        assert self.values(self.ended(partition)) == [b"kept-%d" % i for i in range(4)]

    def test_markers_take_an_offset(self) -> None:
        """Commit and abort each take one offset in the log, which is never handed out."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional()
        for end in (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            self.sent(producer, partition, b"x", b"y")
            end()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [self.ended(partition)])
        assert [r.offset() for r in records] == [0, 1, 6, 7]
        assert self.cluster.consumer().end_offsets([partition]) == {partition: 9}

    def test_the_end_is_the_last_stable_offset(self) -> None:
        """Reading committed ends before an open transaction, also for records after it that are committed."""
        partition = TopicPartition(self.cluster.topic(), 0)
        plain, producer = self.cluster.producer(), self.cluster.transactional()
        send(plain, partition.topic, b"before")
        plain.flush()
        producer.begin_transaction()
        self.sent(producer, partition, b"open")
        send(plain, partition.topic, b"after")
        plain.flush()
        committed, uncommitted = self.cluster.consumer(), self.cluster.consumer(isolation_level="read_uncommitted")
        assert committed.end_offsets([partition]) == {partition: 1}
        assert uncommitted.end_offsets([partition]) == {partition: 3}
        assert committed.offsets_for_time({partition: 2_000}) == {partition: 1}
        assert contents(read_to_end(self.cluster.until, uncommitted, [partition])) == [b"before", b"open", b"after"]
        assert contents(read_to_end(self.cluster.until, committed, [partition])) == [b"before"]
        assert committed.position(partition) == 1
        producer.abort_transaction()
        self.ended(partition)
        assert contents(read_to_end(self.cluster.until, committed, [partition], start=None)) == [b"after"]
        assert committed.end_offsets([partition]) == {partition: 4}

    def test_position_goes_past_markers_and_aborted_records(self) -> None:
        """The position comes to the end without any message where the log ends in such records, and the end is
        reported."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional()
        for values, commit in (((b"1", b"2"), True), ((b"3", b"4"), False)):
            producer.begin_transaction()
            self.sent(producer, partition, *values)
            (producer.commit_transaction if commit else producer.abort_transaction)()
        consumer = self.cluster.consumer()
        assert contents(read_to_end(self.cluster.until, consumer, [self.ended(partition)])) == [b"1", b"2"]
        assert consumer.position(partition) == 6
        only_aborted = TopicPartition(self.cluster.topic(), 0)
        producer.begin_transaction()
        self.sent(producer, only_aborted, b"1")
        producer.abort_transaction()
        assert contents(read_to_end(self.cluster.until, consumer, [self.ended(only_aborted)])) == []
        assert consumer.position(only_aborted) == 2

    def test_a_newer_producer_fences_the_older(self) -> None:
        """Calling ``init_transactions`` aborts the open transaction of the id; the older producer cannot commit it."""
        partition = TopicPartition(self.cluster.topic(), 0)
        name = self.cluster.name("transactional-id")
        older = self.cluster.transactional(name)
        older.begin_transaction()
        self.sent(older, partition, b"older")
        newer = self.cluster.transactional(name)
        newer.begin_transaction()
        self.sent(newer, partition, b"newer")
        newer.commit_transaction()
        raises(TaskMigratedError, older.commit_transaction)
        raises(TaskMigratedError, older.abort_transaction)
        raises(TaskMigratedError, older.begin_transaction)
        assert self.values(self.ended(partition)) == [b"newer"]

    def test_records_of_a_fenced_producer_do_not_count(self) -> None:
        """Records that it sends after the newer producer began are not seen, and the commit raises at the latest."""
        partition = TopicPartition(self.cluster.topic(), 0)
        name = self.cluster.name("transactional-id")
        older = self.cluster.transactional(name)
        older.begin_transaction()
        self.sent(older, partition, b"before")
        newer = self.cluster.transactional(name)

        def go_on() -> None:
            send(older, partition.topic, b"zombie")
            older.flush()
            older.commit_transaction()

        raises(TaskMigratedError, go_on)
        newer.begin_transaction()
        self.sent(newer, partition, b"newer")
        newer.commit_transaction()
        assert self.values(self.ended(partition)) == [b"newer"]

    def test_a_transaction_past_its_timeout_is_aborted(self) -> None:
        """The broker ends such a transaction, so that readers go on, and its producer is fenced."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional(transaction_timeout_ms=2_000)
        plain = self.cluster.producer()
        producer.begin_transaction()
        self.sent(producer, partition, b"late")
        send(plain, partition.topic, b"stable")
        plain.flush()
        self.cluster.let_time_pass(3)
        consumer = self.cluster.consumer()
        consumer.assign({partition: 0})
        assert contents(read(self.cluster.until, consumer, 1)) == [b"stable"]
        raises(TaskMigratedError, producer.commit_transaction)

    def test_a_refused_record_spoils_its_transaction(self) -> None:
        """The commit raises; after the abort the producer can begin again. The next transaction may have to be aborted
        once more, since librdkafka then finds a gap in its sequence numbers."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        producer = self.cluster.transactional()
        deliveries = Deliveries()
        producer.begin_transaction()
        send(producer, topic, b"small", on_delivery=deliveries)
        producer.flush()
        send(producer, topic, b"x" * 5_000, on_delivery=deliveries)
        producer.flush()
        assert deliveries.errors == [None, "MSG_SIZE_TOO_LARGE"]
        raises(TransactionAborted, producer.commit_transaction)
        producer.abort_transaction()

        def again() -> bool:
            producer.begin_transaction()
            send(producer, topic, b"again")
            try:
                producer.commit_transaction()
            except TransactionAborted:
                producer.abort_transaction()
                return False
            return True

        self.cluster.until("a transaction after the abort was committed", again)
        assert self.values(self.ended(TopicPartition(topic, 0))) == [b"again"]

    def test_a_transaction_that_has_failed_takes_no_records(self) -> None:
        """The error of `produce` then stands for a transaction to abort, and not for an error of the record."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        producer, deliveries = self.cluster.transactional(), Deliveries()
        producer.begin_transaction()
        send(producer, topic, b"x" * 5_000, on_delivery=deliveries)
        producer.flush()
        assert deliveries.errors == ["MSG_SIZE_TOO_LARGE"]
        try:
            send(producer, topic, b"small")
        except Exception as error:
            refused = error
        else:
            raise AssertionError("a record was taken that cannot be committed")
        assert topic in str(raises(TransactionAborted, lambda: producer.refused(refused, topic)))
        producer.abort_transaction()
        producer.begin_transaction()
        producer.abort_transaction()

    def test_commit_sends_what_is_not_yet_sent(self) -> None:
        """Records produced right before the commit, without a flush, are part of it."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional(linger_ms=50)
        producer.begin_transaction()
        send(producer, partition.topic, *(b"%d" % i for i in range(100)))
        producer.commit_transaction()
        assert self.values(self.ended(partition)) == [b"%d" % i for i in range(100)]

    def test_an_empty_transaction_may_be_committed_or_aborted(self) -> None:
        """The call does nothing, and the next transaction works."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.transactional()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            end()
        producer.begin_transaction()
        self.sent(producer, partition, b"v")
        producer.commit_transaction()
        assert self.cluster.consumer().end_offsets([self.ended(partition)]) == {partition: 2}

    def test_calls_in_the_wrong_state(self) -> None:
        """Committing without a transaction, beginning twice or before ``init_transactions`` is an error."""
        producer = self.cluster.producer(transactional_id=self.cluster.name("transactional-id"))
        raises(StreamsError, producer.begin_transaction)
        producer.init_transactions()
        raises(StreamsError, producer.commit_transaction)
        producer.begin_transaction()
        raises(StreamsError, producer.begin_transaction)
        producer.abort_transaction()

    def test_offsets_are_committed_with_the_transaction(self) -> None:
        """Offsets count when the transaction commits, and not when it aborts."""
        partition = TopicPartition(self.cluster.topic(), 0)
        consumer = self.cluster.consumer()
        producer = self.cluster.transactional()
        for offset, commit in ((1, True), (2, False), (3, True), (4, False)):
            producer.begin_transaction()
            producer.send_offsets({partition: OffsetAndMetadata(offset, f"at {offset}")}, consumer.group_metadata())
            (producer.commit_transaction if commit else producer.abort_transaction)()
            stable = offset if commit else offset - 1
            assert consumer.committed([partition]) == {partition: OffsetAndMetadata(stable, f"at {stable}")}

    def test_committed_waits_for_pending_offsets(self) -> None:
        """Other consumers' ``committed`` waits for the outcome of a transaction that holds offsets."""
        partition = TopicPartition(self.cluster.topic(), 0)
        group = self.cluster.name("group")
        consumer, other = self.cluster.consumer(group_id=group), self.cluster.consumer(group_id=group)
        consumer.commit({partition: OffsetAndMetadata(1)})
        producer = self.cluster.transactional()
        producer.begin_transaction()
        producer.send_offsets({partition: OffsetAndMetadata(2)}, consumer.group_metadata())
        answers: list[Any] = []
        thread = threading.Thread(target=lambda: answers.append(other.committed([partition])))
        thread.start()
        producer.commit_transaction()
        thread.join(self.cluster.until.patience_s)
        assert answers == [{partition: OffsetAndMetadata(2)}]

    def test_records_and_offsets_are_one(self) -> None:
        """Neither the records nor the offsets of a transaction are there after an abort."""
        source, sink = (TopicPartition(self.cluster.topic(), 0) for _ in range(2))
        consumer = self.cluster.consumer()
        producer = self.cluster.transactional()
        producer.begin_transaction()
        self.sent(producer, sink, b"lost")
        producer.send_offsets({source: OffsetAndMetadata(5)}, consumer.group_metadata())
        producer.abort_transaction()
        assert self.values(self.ended(sink)) == []
        assert consumer.committed([source]) == {}
