"""The contract of `streams.kafka.ports.Consumer`, groups aside."""

from __future__ import annotations

from typing import Any

from client_contracts.client_kit import Cluster, contents, raises, read, read_to_end, send
from processor_api.task_id import TopicPartition
from streams.kafka.ports import AT_BEGINNING, AT_END, Consumer, OffsetAndMetadata, UnknownPartitionError

__all__ = ["ConsumerContract"]


class ConsumerContract:
    """Assigned partitions are read, in order, from the requested offset, and no others."""

    cluster: Cluster

    def filled(self, partitions: int = 1, count: int = 10, configs: dict[str, str] | None = None) -> str:
        """Makes a topic with ``count`` records 0, 1, 2, ... in each partition, of timestamps 0, 100, 200, ... plus
        1000."""
        topic = self.cluster.topic(partitions, configs)
        producer = self.cluster.producer()
        for partition in range(partitions):
            for i in range(count):
                send(producer, topic, b"%d" % i, partition=partition, timestamp=1_000 + 100 * i)
        producer.flush()
        return topic

    def next_end(self, consumer: Consumer) -> tuple[list[bytes | None], Any]:
        """Returns the values up to the next end of a partition, and that event."""
        values: list[bytes | None] = []

        def attempt() -> Any:
            message = consumer.poll(0.1)
            if message is not None and message.error() is not None:
                return message
            if message is not None:
                values.append(message.value())
            return None

        return values, self.cluster.until("an event came", attempt)

    def test_assign_starts_at_the_offset_given(self) -> None:
        """Partitions are read from their own offsets; the two ends are names for offsets."""
        topic = self.filled(4)
        at = {0: 7, 1: AT_BEGINNING, 2: AT_END, 3: 10}
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(topic, p): offset for p, offset in at.items()})
        assert consumer.assignment() == {TopicPartition(topic, p) for p in at}
        records = read_to_end(self.cluster.until, consumer, consumer.assignment(), start=None)
        first = {p: next((r.offset() for r in records if r.partition() == p), None) for p in at}
        assert first == {0: 7, 1: 0, 2: None, 3: None}

    def test_assign_adds(self) -> None:
        """A later assign adds partitions and leaves the others where they are."""
        topic = self.filled(2)
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        assert len(read_to_end(self.cluster.until, consumer, [TopicPartition(topic, 0)], start=None)) == 10
        consumer.assign({TopicPartition(topic, 1): 5})
        records = read_to_end(self.cluster.until, consumer, [TopicPartition(topic, 1)], start=None)
        assert {r.partition() for r in records} == {1}
        assert contents(records) == [b"5", b"6", b"7", b"8", b"9"]
        assert consumer.assignment() == {TopicPartition(topic, 0), TopicPartition(topic, 1)}

    def test_unassign_ends_reading(self) -> None:
        """No record of a partition comes after it was unassigned, and the others go on."""
        topic = self.filled(2)
        consumer = self.cluster.consumer()
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        read_to_end(self.cluster.until, consumer, [first, second])
        consumer.unassign([first])
        assert consumer.assignment() == {second}
        producer = self.cluster.producer()
        send(producer, topic, b"unseen", partition=0)
        producer.flush()
        send(producer, topic, b"seen", partition=1)
        producer.flush()
        assert contents(read(self.cluster.until, consumer, 1)) == [b"seen"]
        consumer.assign({first: 10})
        assert contents(read(self.cluster.until, consumer, 1)) == [b"unseen"]

    def test_consume_takes_what_is_there(self) -> None:
        """Calling ``consume(n, 0)`` gives at most n messages and never waits for more; those of a partition are in
        order."""
        topic = self.filled(3, 50)
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(topic, p): 0 for p in range(3)})
        seen: list[Any] = []
        ends = set()

        def attempt() -> bool:
            batch = consumer.consume(20, 0)
            if not batch:
                message = consumer.poll(0.1)
                batch = [] if message is None else [message]
            assert len(batch) <= 20
            for message in batch:
                (ends.add(message.partition()) if message.error() is not None else seen.append(message))
            return len(ends) == 3

        self.cluster.until("all partitions were read", attempt)
        for partition in range(3):
            assert [m.offset() for m in seen if m.partition() == partition] == list(range(50))
        assert list(consumer.consume(20, 0)) == []
        assert consumer.poll(0) is None

    def test_the_end_of_a_partition_is_an_event(self) -> None:
        """The end of a partition is reported once each time it is reached: a message with the code ``partition_eof``
        and the end as offset."""
        topic = self.filled(count=3)
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(topic, 0): 1})
        values, end = self.next_end(consumer)
        assert values == [b"1", b"2"]
        assert end.error().code() == consumer.partition_eof
        assert (end.topic(), end.partition(), end.offset()) == (topic, 0, 3)
        producer = self.cluster.producer()
        send(producer, topic, b"3")
        producer.flush()
        values, end = self.next_end(consumer)
        assert values == [b"3"]
        assert (end.error().code(), end.offset()) == (consumer.partition_eof, 4)

    def test_an_empty_partition_has_an_end(self) -> None:
        """The end of a partition without records is reported too."""
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(self.cluster.topic(), 0): AT_BEGINNING})
        values, end = self.next_end(consumer)
        assert (values, end.error().code(), end.offset()) == ([], consumer.partition_eof, 0)

    def test_ends_are_reported_only_on_request(self) -> None:
        """Only records come without ``enable.partition.eof``."""
        topic = self.filled(count=3)
        consumer = self.cluster.consumer(enable_partition_eof=False)
        consumer.assign({TopicPartition(topic, 0): 0})
        messages = [self.cluster.until("a message came", lambda: consumer.poll(0.1)) for _ in range(3)]
        producer = self.cluster.producer()
        send(producer, topic, b"3")
        producer.flush()
        messages.append(self.cluster.until("a message came", lambda: consumer.poll(0.1)))
        assert contents(messages) == [b"0", b"1", b"2", b"3"]

    def test_position_is_what_comes_next(self) -> None:
        """The position is ``None`` before the first message and after a seek, then the offset after the last message
        handed out."""
        topic = self.filled()
        partition = TopicPartition(topic, 0)
        consumer = self.cluster.consumer()
        consumer.assign({partition: 4})
        assert consumer.position(partition) is None
        read(self.cluster.until, consumer, 2)
        assert consumer.position(partition) == 6
        consumer.seek(partition, 9)
        assert consumer.position(partition) is None
        read(self.cluster.until, consumer, 1)
        assert consumer.position(partition) == 10

    def test_seek_goes_anywhere(self) -> None:
        """Reading goes on at the offset sought, back or forth; what was fetched before is dropped."""
        topic = self.filled()
        partition = TopicPartition(topic, 0)
        consumer = self.cluster.consumer()
        consumer.assign({partition: 0})
        assert contents(read(self.cluster.until, consumer, 3)) == [b"0", b"1", b"2"]
        consumer.seek(partition, 8)
        assert contents(read(self.cluster.until, consumer, 2)) == [b"8", b"9"]
        consumer.seek(partition, 1)
        assert contents(read(self.cluster.until, consumer, 2)) == [b"1", b"2"]

    def test_pause_keeps_the_position(self) -> None:
        """A paused partition gives nothing while others go on; resumed, it goes on where it was."""
        topic = self.filled(2)
        paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
        consumer = self.cluster.consumer()
        consumer.assign({paused: 0})
        assert contents(read(self.cluster.until, consumer, 3)) == [b"0", b"1", b"2"]
        consumer.pause([paused])
        consumer.assign({other: 0})
        records = read_to_end(self.cluster.until, consumer, [other], start=None)
        assert {record.partition() for record in records} == {1}
        assert consumer.position(paused) == 3
        consumer.resume([paused])
        assert contents(read(self.cluster.until, consumer, 7)) == [b"%d" % i for i in range(3, 10)]

    def test_what_comes_of_a_paused_partition_is_kept_in_order(self) -> None:
        """Records and ends of a partition come once, in order, however often it is paused and resumed, and the other
        partitions go on."""
        topic = self.filled(3, 60)
        partitions = [TopicPartition(topic, p) for p in range(3)]
        consumer = self.cluster.consumer()
        consumer.assign(dict.fromkeys(partitions, 0))
        seen: dict[int, list[int]] = {p: [] for p in range(3)}
        ends: set[int] = set()
        turn = [0]

        def attempt() -> bool:
            paused = partitions[turn[0] % 3]
            turn[0] += 1
            consumer.pause([paused])
            before = {p: consumer.position(p) for p in partitions}
            first = consumer.poll(0.05)
            for message in [] if first is None else [first, *consumer.consume(7, 0)]:
                assert message.partition() != paused.partition
                if message.error() is None:
                    seen[message.partition()].append(message.offset())
                else:
                    ends.add(message.partition())
            assert (consumer.position(paused) or 0) == (before[paused] or 0)
            consumer.resume([paused])
            return len(ends) == 3

        self.cluster.until("all partitions were read", attempt)
        assert seen == {p: list(range(60)) for p in range(3)}

    def test_a_paused_partition_is_left_and_sought(self) -> None:
        """No message comes that was fetched before."""
        topic = self.filled(2)
        paused, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
        consumer = self.cluster.consumer()
        consumer.assign({paused: 0})
        read(self.cluster.until, consumer, 1)
        consumer.pause([paused])
        consumer.assign({other: 0})
        read_to_end(self.cluster.until, consumer, [other], start=None)
        consumer.seek(paused, 8)
        consumer.resume([paused])
        assert contents(read(self.cluster.until, consumer, 2)) == [b"8", b"9"]
        consumer.pause([paused])
        consumer.unassign([paused])
        producer = self.cluster.producer()
        send(producer, topic, b"other", partition=1)
        producer.flush()
        assert contents(read(self.cluster.until, consumer, 1)) == [b"other"]

    def test_the_end_of_what_was_fetched(self) -> None:
        """Known or not, it is never before the end that the position is measured by."""
        topic = self.filled()
        partition = TopicPartition(topic, 0)
        consumer = self.cluster.consumer()
        assert consumer.fetched_end(partition) is None
        consumer.assign({partition: 0})
        read(self.cluster.until, consumer, 10)
        assert consumer.fetched_end(partition) in (None, 10)
        assert consumer.high_watermark(partition) == 10
        assert consumer.high_watermark(TopicPartition(topic, 1)) is None

    def test_an_assigned_partition_starts_unpaused(self) -> None:
        """A partition that was paused, unassigned and assigned again is read."""
        topic = self.filled()
        partition = TopicPartition(topic, 0)
        consumer = self.cluster.consumer()
        consumer.assign({partition: 0})
        read(self.cluster.until, consumer, 1)
        consumer.pause([partition])
        consumer.unassign([partition])
        consumer.assign({partition: 5})
        assert contents(read(self.cluster.until, consumer, 2)) == [b"5", b"6"]

    def test_beginning_and_end_offsets(self) -> None:
        """The calls return the log's first and next offset, also of partitions that are not assigned."""
        topic = self.filled(2)
        partition, empty = TopicPartition(topic, 0), TopicPartition(self.cluster.topic(), 0)
        consumer = self.cluster.consumer()
        assert consumer.beginning_offsets([partition, empty]) == {partition: 0, empty: 0}
        assert consumer.end_offsets([partition, empty]) == {partition: 10, empty: 0}
        self.cluster.admin.delete_records({partition: 4})
        assert consumer.beginning_offsets([partition]) == {partition: 4}
        assert consumer.end_offsets([partition]) == {partition: 10}

    def test_offsets_of_a_partition_that_does_not_exist(self) -> None:
        """The error says so at once, and is one that may pass: a new topic is not known to all brokers yet."""
        topic, missing = self.cluster.topic(1), self.cluster.name("missing")
        consumer = self.cluster.consumer()
        for unknown in (TopicPartition(missing, 0), TopicPartition(topic, 7)):
            asked = [TopicPartition(topic, 0), unknown]
            for call in (
                lambda asked=asked: consumer.beginning_offsets(asked),
                lambda asked=asked: consumer.end_offsets(asked),
                lambda asked=asked: consumer.offsets_for_time(dict.fromkeys(asked, 0)),
            ):
                assert unknown.topic in str(raises(UnknownPartitionError, call))
            raises(UnknownPartitionError, lambda asked=asked: self.cluster.admin.log_ends(asked))  # type: ignore[misc]
            by_time = dict.fromkeys(asked, 0)
            raises(UnknownPartitionError, lambda t=by_time: self.cluster.admin.offsets_for_time(t))  # type: ignore[misc]

    def test_offsets_for_time(self) -> None:
        """The first offset at or after a time; the end where there is none."""
        topic = self.filled(5)
        times = {0: 0, 1: 1_000, 2: 1_450, 3: 1_900, 4: 1_901}
        consumer = self.cluster.consumer()
        found = consumer.offsets_for_time({TopicPartition(topic, p): time for p, time in times.items()})
        assert {p.partition: offset for p, offset in found.items()} == {0: 0, 1: 0, 2: 5, 3: 9, 4: 10}
        empty = TopicPartition(self.cluster.topic(), 0)
        assert consumer.offsets_for_time({empty: 5}) == {empty: 0}

    def test_an_admin_finds_offsets_by_time(self) -> None:
        """The same as by a consumer, without partitions that have no record of the time or later."""
        topic, empty = self.filled(4), TopicPartition(self.cluster.topic(), 0)
        times = {TopicPartition(topic, p): time for p, time in {0: 0, 1: 1_450, 2: 1_900, 3: 1_901}.items()}
        found = self.cluster.admin.offsets_for_time({**times, empty: 5})
        assert {p.partition: offset for p, offset in found.items()} == {0: 0, 1: 5, 2: 9}
        assert self.cluster.admin.offsets_for_time({}) == {}

    def test_offsets_for_time_is_by_offset(self) -> None:
        """The first offset of the log counts where times go up and down, not the earliest time."""
        partition = TopicPartition(self.cluster.topic(), 0)
        producer = self.cluster.producer()
        for timestamp in (1_000, 5_000, 2_000, 3_000):
            send(producer, partition.topic, b"v", timestamp=timestamp)
            producer.flush()
        assert self.cluster.consumer().offsets_for_time({partition: 2_000}) == {partition: 1}

    def test_a_lost_position_goes_to_the_beginning(self) -> None:
        """A position below or beyond the log goes to its start, by ``auto.offset.reset=earliest``."""
        topic = self.filled(2)
        deleted, beyond = TopicPartition(topic, 0), TopicPartition(topic, 1)
        self.cluster.admin.delete_records({deleted: 6})
        for partition, offset, first in ((deleted, 2, 6), (beyond, 50, 0)):
            consumer = self.cluster.consumer(auto_offset_reset="earliest")
            records = read_to_end(self.cluster.until, consumer, [partition], start=offset)
            assert [r.offset() for r in records] == list(range(first, 10))

    def test_a_lost_position_goes_to_the_end(self) -> None:
        """A position below or beyond the log goes to its end, by ``auto.offset.reset=latest``."""
        topic = self.filled(2)
        deleted, beyond = TopicPartition(topic, 0), TopicPartition(topic, 1)
        self.cluster.admin.delete_records({deleted: 6})
        for partition, offset in ((deleted, 2), (beyond, 50)):
            consumer = self.cluster.consumer(auto_offset_reset="latest")
            assert read_to_end(self.cluster.until, consumer, [partition], start=offset) == []
            producer = self.cluster.producer()
            send(producer, topic, b"new", partition=partition.partition)
            producer.flush()
            assert contents(read(self.cluster.until, consumer, 1)) == [b"new"]

    def test_a_lost_position_is_an_event(self) -> None:
        """An event ``_AUTO_OFFSET_RESET`` names partition and offset, by ``auto.offset.reset=error``; the partition is
        read again after it was assigned again (librdkafka refuses to seek then)."""
        topic = self.filled()
        partition = TopicPartition(topic, 0)
        self.cluster.admin.delete_records({partition: 6})
        consumer = self.cluster.consumer(auto_offset_reset="error")
        consumer.assign({partition: 2})
        values, event = self.next_end(consumer)
        assert values == []
        assert event.error().name() == "_AUTO_OFFSET_RESET"
        assert (event.topic(), event.partition(), event.offset()) == (topic, 0, 2)
        consumer.unassign([partition])
        consumer.assign({partition: 6})
        assert contents(read(self.cluster.until, consumer, 4)) == [b"6", b"7", b"8", b"9"]

    def test_committed_offsets_belong_to_the_group(self) -> None:
        """Every consumer of the group sees the offsets that one commits, with their metadata, and no other group
        does."""
        topic = self.filled(3)
        partitions = [TopicPartition(topic, p) for p in range(3)]
        group = self.cluster.name("group")
        consumer = self.cluster.consumer(group_id=group)
        assert consumer.committed(partitions) == {}
        consumer.commit({partitions[0]: OffsetAndMetadata(4, "metadata"), partitions[1]: OffsetAndMetadata(0)})
        consumer.commit({partitions[0]: OffsetAndMetadata(3, "back")})
        expected = {partitions[0]: OffsetAndMetadata(3, "back"), partitions[1]: OffsetAndMetadata(0, "")}
        assert consumer.committed(partitions) == expected
        assert self.cluster.consumer(group_id=group).committed(partitions) == expected
        assert self.cluster.consumer().committed(partitions) == {}
