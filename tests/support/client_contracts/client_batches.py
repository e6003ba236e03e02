"""The contract of batches: a broker refuses a batch as a whole, and reports an error for each of its records."""

from __future__ import annotations

from functools import partial

from client_contracts.client_kit import Cluster, Deliveries, contents, raises, read_to_end, send
from processor_api.errors import ProductionError, StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from streams.kafka.ports import TransactionAborted

__all__ = ["BatchContract"]

LOG_APPEND_TIME = 2
HOUR_MS = 60 * 60 * 1000
LINGER_MS = 500
"""Records sent at once are one batch."""


class BatchContract:
    """A producer that lingers sends the records of a partition in one batch."""

    cluster: Cluster

    def batch(self, topic: str, *records: tuple[bytes | None, bytes, int]) -> Deliveries:
        """Sends ``(key, value, timestamp)`` in one batch."""
        producer, deliveries = self.cluster.producer(linger_ms=LINGER_MS), Deliveries()
        for key, value, timestamp in records:
            send(producer, topic, value, key=key, timestamp=timestamp, on_delivery=deliveries)
        producer.flush()
        return deliveries

    def kept(self, topic: str) -> list[bytes | None]:
        return contents(read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)]))

    def limited(self) -> str:
        limits = {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": str(HOUR_MS)}
        return self.cluster.topic(configs=limits)

    def test_one_timestamp_outside_the_limits_spoils_its_batch(self) -> None:
        """All records are refused with INVALID_TIMESTAMP, none is in the log; the next batch is taken (KIP-32)."""
        topic, now_ms = self.limited(), self.cluster.now_ms()
        for bad in (now_ms - 2 * HOUR_MS, now_ms + 2 * HOUR_MS):
            deliveries = self.batch(topic, (b"a", b"1", now_ms), (b"b", b"2", bad), (b"c", b"3", now_ms))
            assert deliveries.errors == ["INVALID_TIMESTAMP"] * 3
        assert self.batch(topic, (b"d", b"4", now_ms), (b"e", b"5", now_ms)).offsets == [0, 1]
        assert self.kept(topic) == [b"4", b"5"]

    def test_several_bad_records_of_a_batch_are_distinguished_from_the_others(self) -> None:
        """The client reports bad records, if there are several, only as invalid, and the others as records beside them
        (KIP-467)."""
        topic, now_ms = self.limited(), self.cluster.now_ms()
        bad = now_ms - 2 * HOUR_MS
        errors = self.batch(topic, (b"a", b"1", now_ms), (b"b", b"2", bad), (b"c", b"3", now_ms), (b"d", b"4", bad))
        assert errors.errors == ["_INVALID_DIFFERENT_RECORD", "INVALID_RECORD"] * 2
        assert self.kept(topic) == []

    def test_a_compacted_topic_takes_no_null_keys(self) -> None:
        """One record without a key spoils its batch."""
        topic = self.cluster.topic(configs={"cleanup.policy": "compact"})
        assert self.batch(topic, (b"a", b"1", 5), (None, b"2", 5)).errors == ["INVALID_RECORD"] * 2
        assert self.batch(topic, (None, b"3", 5)).errors == ["INVALID_RECORD"]
        assert self.batch(topic, (b"a", b"4", 5)).errors == [None]
        assert self.kept(topic) == [b"4"]

    def test_the_limit_of_bytes_is_that_of_a_batch(self) -> None:
        """The limit ``max.message.bytes`` counts for the batch: records that are small enough each are refused
        together."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        small = [(b"k", bytes(500), 5)] * 6
        assert self.batch(topic, *small).errors == ["MSG_SIZE_TOO_LARGE"] * 6
        assert self.kept(topic) == []
        for record in small:
            assert self.batch(topic, record).errors == [None]
        assert self.batch(topic, *small[:2]).errors == [None] * 2

    def test_a_producer_s_batches_are_no_larger_than_a_broker_takes(self) -> None:
        """A producer makes no batch that is too large, however much lingers: ``batch.size`` is below the default of
        ``max.message.bytes``."""
        topic = self.cluster.topic()
        large = [(b"k", bytes(50_000), 5)] * 60
        assert self.batch(topic, *large).errors == [None] * 60
        assert len(self.kept(topic)) == 60

    def test_batches_may_be_limited_to_what_a_topic_takes(self) -> None:
        """No small record is refused with a ``batch.size`` that the topic takes, however much lingers, and the order
        stays; a record that is larger goes alone."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        producer, deliveries = self.cluster.producer(linger_ms=LINGER_MS, batch_size=2000), Deliveries()
        values = [b"%03d" % number + bytes(4_000 if number == 20 else 150) for number in range(40)]
        send(producer, topic, *values, on_delivery=deliveries)
        producer.flush()
        assert sorted(map(str, deliveries.errors)) == ["MSG_SIZE_TOO_LARGE", *["None"] * 39]
        assert self.kept(topic) == [value for value in values if len(value) < 4_000]

    def test_a_producer_takes_records_as_large_as_a_topic_does(self) -> None:
        """A producer and a topic take somewhat more than a million bytes by default, as Java's; more is refused."""
        topic = self.cluster.topic()
        assert self.batch(topic, (b"k", bytes(1_000_500), 5)).errors == [None]
        assert self.batch(topic, (b"k", bytes(1_048_400), 5)).errors == [None]
        producer = self.cluster.producer()
        large: list[tuple[bytes, HeaderList | None]] = [(bytes(1_048_577), None), (b"", [("h", bytes(1_048_577))])]
        for value, headers in large:
            try:
                send(producer, topic, value, headers=headers)
            except StreamsError:
                raise
            except Exception as error:
                refused = error
            else:
                raise AssertionError("the producer took a record that no topic takes")
            assert "MSG_SIZE_TOO_LARGE" in str(raises(ProductionError, partial(producer.refused, refused, topic)))
        assert self.kept(topic) == [bytes(1_000_500), bytes(1_048_400)]

    def test_what_takes_up_the_bytes_of_a_batch(self) -> None:
        """Key, value and headers count, and some 70 bytes beside them."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        for sizes, refused in (((500, 1400), False), ((500, 1500), True), ((1, 1900), False), ((1, 1990), True)):
            producer, deliveries = self.cluster.producer(), Deliveries()
            send(producer, topic, bytes(sizes[1]), key=bytes(sizes[0]), on_delivery=deliveries)
            producer.flush()
            assert deliveries.errors == ["MSG_SIZE_TOO_LARGE" if refused else None]
            producer, deliveries = self.cluster.producer(), Deliveries()
            send(producer, topic, bytes(sizes[1]), headers=[("name", bytes(sizes[0]))], on_delivery=deliveries)
            producer.flush()
            assert deliveries.errors == ["MSG_SIZE_TOO_LARGE" if refused else None]

    def test_a_refused_record_is_reported_without_time_and_headers(self) -> None:
        """Topic, partition, key and value are reported; the client keeps neither timestamp nor headers of a record."""
        topic = self.cluster.topic(configs={"max.message.bytes": "200"})
        producer, deliveries = self.cluster.producer(), Deliveries()
        send(producer, topic, bytes(500), key=b"k", timestamp=77, headers=[("h", b"1")], on_delivery=deliveries)
        producer.flush()
        ((error, message),) = deliveries.reports
        assert error.name() == "MSG_SIZE_TOO_LARGE"
        assert (message.topic(), message.partition(), message.key(), message.value()) == (topic, 0, b"k", bytes(500))
        assert message.timestamp() == (0, -1)
        assert message.headers() is None

    def test_append_time_has_no_limits(self) -> None:
        """Any timestamp is taken with LogAppendTime, and the records of a batch all get the broker's (KIP-32)."""
        configs = {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1000"}
        topic, now_ms = self.cluster.topic(configs=configs), self.cluster.now_ms()
        deliveries = self.batch(topic, (b"a", b"1", 5), (b"b", b"2", now_ms + 2 * HOUR_MS))
        assert deliveries.errors == [None, None]
        stamps = {message.timestamp() for _, message in deliveries.reports}
        ((kind, timestamp),) = stamps
        assert kind == LOG_APPEND_TIME
        assert abs(timestamp - now_ms) < HOUR_MS
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert {record.timestamp() for record in records} == stamps

    def test_a_batch_outside_the_limits_spoils_its_transaction(self) -> None:
        """The commit fails, and nothing of the transaction is seen after the abort."""
        topic, now_ms = self.limited(), self.cluster.now_ms()
        producer, deliveries = self.cluster.transactional(linger_ms=LINGER_MS), Deliveries()
        producer.begin_transaction()
        for timestamp in (now_ms, now_ms - 2 * HOUR_MS):
            send(producer, topic, b"v", timestamp=timestamp, on_delivery=deliveries)
        producer.flush()
        assert deliveries.errors == ["INVALID_TIMESTAMP"] * 2
        raises(TransactionAborted, producer.commit_transaction)
        producer.abort_transaction()
        assert self.kept(topic) == []
