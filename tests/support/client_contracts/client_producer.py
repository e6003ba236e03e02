"""The contract of `streams.kafka.ports.Producer`, transactions aside."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from client_contracts.client_kit import Cluster, Deliveries, contents, raises, read, read_to_end, send
from processor_api.errors import ProductionError, StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from streams.kafka.headers import UnsendableHeaders

__all__ = ["ProducerContract"]

CREATE_TIME, LOG_APPEND_TIME = 1, 2
HOUR_MS = 60 * 60 * 1000


class ProducerContract:
    """Records arrive as they were sent, and their deliveries are reported."""

    cluster: Cluster

    def test_a_record_arrives_as_it_was_sent(self) -> None:
        """Key, value, timestamp, headers and place of a record are the same at the consumer."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        send(producer, topic, b"value", key=b"key", partition=1, timestamp=12_345, headers=[("name", b"\x00\xff")])
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 1)])
        assert record.error() is None
        assert (record.topic(), record.partition(), record.offset()) == (topic, 1, 0)
        assert (record.key(), record.value()) == (b"key", b"value")
        assert record.timestamp() == (CREATE_TIME, 12_345)
        assert record.headers() == [("name", b"\x00\xff")]

    def test_topics_may_be_prepared(self) -> None:
        """Topics may be prepared also if they are missing; records that are written afterwards arrive."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        producer.prepare([topic, f"{topic}-missing"])
        producer.prepare({topic, *(f"{topic}-missing-{number}" for number in range(6))})
        send(producer, topic, b"value", partition=1)
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 1)])
        assert record.value() == b"value"

    def test_null_and_empty_are_different(self) -> None:
        """A null key or value stays null, an empty one stays empty."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        for key, value in ((None, None), (b"", b""), (b"k", None), (None, b"v")):
            send(producer, topic, value, key=key)
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert [(r.key(), r.value()) for r in records] == [(None, None), (b"", b""), (b"k", None), (None, b"v")]

    def test_text_is_sent_as_utf_8(self) -> None:
        """A key or value given as text arrives as its UTF-8 bytes."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        send(producer, topic, "Größe", key="ключ")
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert (record.key(), record.value()) == ("ключ".encode(), "Größe".encode())

    def test_headers_keep_order_repetition_and_null(self) -> None:
        """Headers keep their order, names may repeat, and a value may be null or empty."""
        headers: HeaderList = [("b", b"1"), ("a", None), ("b", b""), ("b", b"1"), ("ü", b"2")]
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        send(producer, topic, b"v", headers=headers)
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert record.headers() == headers

    def test_headers_that_cannot_be_sent_are_refused(self) -> None:
        """A header whose name has no UTF-8 or holds a NUL, or whose value is no bytes, is refused before it is sent;
        the producer goes on."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        for _ in range(2):
            for bad in ([("\ud800", b"1")], [("a\0b", b"1")], [("a", 1)], [("a", "\udfff")], [(b"a", b"1")], ["ab"]):
                raises(UnsendableHeaders, partial(send, producer, topic, b"bad", headers=[("ok", b""), *bad]))
        send(producer, topic, b"good", headers=[("größe", b"1"), ("", None), ("text", "\0ö")])  # type: ignore[list-item]
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert record.value() == b"good"
        assert record.headers() == [("größe", b"1"), ("", None), ("text", "\0ö".encode())]

    def test_a_record_without_headers_has_a_shorter_way(self) -> None:
        """``produce_plain`` takes what ``produce`` takes by position, without the headers."""
        topic = self.cluster.topic()
        producer, deliveries = self.cluster.producer(), Deliveries()
        producer.produce_plain(topic, b"v", b"k", 0, deliveries, None, 1_000)
        producer.flush()
        assert deliveries.errors == [None]
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert (record.key(), record.value(), record.timestamp()) == (b"k", b"v", (CREATE_TIME, 1_000))

    def test_extreme_times_arrive_as_they_are(self) -> None:
        """A timestamp may be any number of 64 bits but 0, also side by side in one batch; more bits are refused."""
        no_limit = str(2**63 - 1)
        limits = {"message.timestamp.after.max.ms": no_limit, "message.timestamp.before.max.ms": no_limit}
        topic, times = self.cluster.topic(configs=limits), (1, 2**63 - 1, 2**62, -2, -(2**62), 2**63 - 1, 2**53 + 1)
        producer, deliveries = self.cluster.producer(linger_ms=300), Deliveries()
        for time in times:
            send(producer, topic, b"v", timestamp=time, on_delivery=deliveries)
        for wrong in (2**63, -(2**63) - 1, 2**200, 1.5):
            try:
                send(producer, topic, b"bad", timestamp=wrong)  # type: ignore[arg-type]
            except (OverflowError, TypeError) as error:
                refused = error
            else:
                raise AssertionError(f"{wrong} was taken as a timestamp")
            assert topic in str(raises(ProductionError, partial(producer.refused, refused, topic)))
        producer.flush()
        assert deliveries.errors == [None] * len(times)
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert [record.timestamp() for record in records] == [(CREATE_TIME, time) for time in times]

    def test_no_headers_are_none(self) -> None:
        """A record sent with ``None`` or an empty list has no headers, which is ``None``."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        send(producer, topic, b"v", headers=None)
        send(producer, topic, b"v", headers=[])
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert [record.headers() for record in records] == [None, None]

    def test_records_of_a_partition_keep_their_order(self) -> None:
        """The log of a partition is in the order of the calls, with rising offsets."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        for i in range(1_000):
            send(producer, topic, b"%d" % i, partition=i % 2)
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, p) for p in (0, 1)])
        for partition in (0, 1):
            run = [r for r in records if r.partition() == partition]
            assert contents(run) == [b"%d" % i for i in range(partition, 1_000, 2)]
            assert [r.offset() for r in run] == list(range(500))

    def test_on_delivery_is_taken_in_the_place_the_port_names(self) -> None:
        """Calling ``produce`` by position, exactly as the port writes it, calls ``on_delivery``."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        deliveries = Deliveries()
        producer.produce(topic, b"v", b"k", 0, deliveries, None, 1_000, None)
        producer.flush()
        assert deliveries.errors == [None]

    def test_a_delivered_record_is_reported_with_its_place(self) -> None:
        """The delivery callback gets no error and the message with topic, partition, offset and timestamp."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        deliveries = Deliveries()
        send(producer, topic, b"a", b"b", key=b"k", partition=1, timestamp=77, on_delivery=deliveries)
        producer.flush()
        assert deliveries.errors == [None, None]
        for offset, (_, message) in enumerate(deliveries.reports):
            assert (message.topic(), message.partition(), message.offset()) == (topic, 1, offset)
            assert message.timestamp() == (CREATE_TIME, 77)
            assert message.key() == b"k"
            assert message.error() is None

    def test_callbacks_run_in_poll_and_flush_on_the_calling_thread(self) -> None:
        """No callback runs between the calls of ``poll`` and ``flush``, and none on another thread."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        inside: list[str] = []
        seen: list[tuple[int, list[str]]] = []

        def on_delivery(error: Any, message: Any) -> None:
            seen.append((threading.get_ident(), list(inside)))

        send(producer, topic, b"1", on_delivery=on_delivery)

        def poll() -> bool:
            inside.append("poll")
            producer.poll(0.1)
            inside.clear()
            return bool(seen)

        self.cluster.until("a delivery was reported by poll", poll)
        send(producer, topic, b"2", on_delivery=on_delivery)
        inside.append("flush")
        producer.flush()
        inside.clear()
        me = threading.get_ident()
        assert seen == [(me, ["poll"]), (me, ["flush"])]

    def test_flush_waits_for_every_record(self) -> None:
        """Every callback has been called after ``flush``, also those of records sent by callbacks."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        deliveries = Deliveries()

        def on_delivery(error: Any, message: Any) -> None:
            send(producer, topic, b"second", on_delivery=deliveries)

        send(producer, topic, *[b"first"] * 100, on_delivery=on_delivery)
        producer.flush()
        assert deliveries.errors == [None] * 100

    def test_a_refused_record_reaches_its_callback(self) -> None:
        """A record that the broker refuses is reported with the error's name; records after it are delivered."""
        topic = self.cluster.topic(configs={"max.message.bytes": "2000"})
        producer = self.cluster.producer()
        refused, taken = Deliveries(), Deliveries()
        send(producer, topic, b"x" * 5_000, key=b"large", on_delivery=refused)
        producer.flush()
        send(producer, topic, b"small", on_delivery=taken)
        producer.flush()
        ((error, message),) = refused.reports
        assert error.name() == "MSG_SIZE_TOO_LARGE"
        assert error.code() == 10
        assert error.str()
        assert (message.topic(), message.partition(), message.key()) == (topic, 0, b"large")
        assert message.error() is not None
        assert taken.errors == [None]
        assert contents(read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])) == [
            b"small"
        ]

    def test_timestamp_zero(self) -> None:
        """A timestamp of 0 is kept, or is to be replaced by what the producer says in ``zero_timestamp_ms``."""
        topic = self.cluster.topic()
        producer = self.cluster.producer()
        deliveries = Deliveries()
        timestamp = producer.zero_timestamp_ms
        assert timestamp in (0, 1)
        send(producer, topic, b"v", timestamp=timestamp, on_delivery=deliveries)
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert record.timestamp() == (CREATE_TIME, timestamp)
        assert deliveries.reports[0][1].timestamp() == (CREATE_TIME, timestamp)

    def test_log_append_time_replaces_the_timestamp(self) -> None:
        """The broker's time is what both sides see with ``message.timestamp.type=LogAppendTime`` (KIP-32)."""
        topic = self.cluster.topic(configs={"message.timestamp.type": "LogAppendTime"})
        producer = self.cluster.producer()
        deliveries = Deliveries()
        send(producer, topic, b"v", timestamp=5, on_delivery=deliveries)
        producer.flush()
        (record,) = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        kind, timestamp = record.timestamp()
        assert kind == LOG_APPEND_TIME
        assert abs(self.cluster.now_ms() - timestamp) < HOUR_MS
        assert deliveries.reports[0][1].timestamp() == (LOG_APPEND_TIME, timestamp)

    def test_a_timestamp_outside_the_limits_is_refused(self) -> None:
        """A timestamp outside ``message.timestamp.before/after.max.ms`` is refused with INVALID_TIMESTAMP (KIP-937)."""
        limits = {"message.timestamp.before.max.ms": str(HOUR_MS), "message.timestamp.after.max.ms": str(HOUR_MS)}
        topic = self.cluster.topic(configs=limits)
        producer = self.cluster.producer()
        now_ms = self.cluster.now_ms()
        errors = []
        for timestamp in (now_ms - 2 * HOUR_MS, now_ms, now_ms + 2 * HOUR_MS):
            deliveries = Deliveries()
            send(producer, topic, b"%d" % timestamp, timestamp=timestamp, on_delivery=deliveries)
            producer.flush()
            errors += deliveries.errors
        assert errors == ["INVALID_TIMESTAMP", None, "INVALID_TIMESTAMP"]
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, 0)])
        assert contents(records) == [b"%d" % now_ms]

    def test_partition_minus_one_is_murmur2_of_the_key(self) -> None:
        """Partition -1 puts a key where every Kafka client puts it (semantics 136)."""
        topic = self.cluster.topic(7)
        producer = self.cluster.producer()
        keys = [b"", b"a", b"key", b"longer key \xff\xfe", *(b"%d" % i for i in range(50))]
        for key in keys:
            send(producer, topic, b"v", key=key, partition=-1)
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, p) for p in range(7)])
        assert {r.key(): r.partition() for r in records} == {key: partition_for_key(key, 7) for key in keys}

    def test_partition_minus_one_takes_null_keys(self) -> None:
        """Records without a key go to some partition each; none is lost."""
        topic = self.cluster.topic(3)
        producer = self.cluster.producer()
        values = [b"%d" % i for i in range(30)]
        send(producer, topic, *values, partition=-1)
        producer.flush()
        records = read_to_end(self.cluster.until, self.cluster.consumer(), [TopicPartition(topic, p) for p in range(3)])
        assert sorted(contents(records)) == sorted(values)

    def test_a_partition_that_does_not_exist_is_refused(self) -> None:
        """Producing to it raises at once or fails in the delivery callback."""
        topic = self.cluster.topic(2)
        producer = self.cluster.producer()
        assert producer.partition_count(topic) == 2
        send(producer, topic, b"v")
        producer.flush()
        deliveries = Deliveries()
        raised = False
        try:
            send(producer, topic, b"v", partition=2, on_delivery=deliveries)
            producer.flush()
        except Exception:
            raised = True
        assert raised or deliveries.errors != [None]

    def test_partition_count(self) -> None:
        """The number of partitions is known without a record being sent; an unknown topic is an error."""
        producer = self.cluster.producer()
        assert producer.partition_count(self.cluster.topic(5)) == 5
        missing = self.cluster.name("missing")
        error = raises(StreamsError, lambda: producer.partition_count(missing))
        assert missing in str(error)

    def test_a_full_queue_says_so(self) -> None:
        """Calling ``produce`` raises ``BufferError`` when reports are not fetched; after a poll it takes records
        again."""
        topic = self.cluster.topic()
        producer = self.cluster.producer(queue_buffering_max_messages=10)
        deliveries = Deliveries()
        sent = 0
        try:
            for _ in range(11):
                send(producer, topic, b"v", on_delivery=deliveries)
                sent += 1
        except BufferError:
            pass
        assert sent == 10

        def try_again() -> bool:
            producer.poll(0.1)
            try:
                send(producer, topic, b"v", on_delivery=deliveries)
            except BufferError:
                return False
            return True

        self.cluster.until("a polled producer took a record", try_again)
        producer.flush()
        assert deliveries.errors == [None] * 11

    def test_another_thread_wakes_a_waiting_poll(self) -> None:
        """A consumer waiting in ``poll`` gets a record that another thread sends, without waiting to the end."""
        topic = self.cluster.topic()
        consumer = self.cluster.consumer(enable_partition_eof=False)
        consumer.assign({TopicPartition(topic, 0): 0})
        got: list[Any] = []
        waiting = threading.Event()

        def wait() -> None:
            waiting.set()
            got.append(consumer.poll(self.cluster.until.patience_s * 2))

        thread = threading.Thread(target=wait)
        thread.start()
        waiting.wait()
        producer = self.cluster.producer()
        send(producer, topic, b"v")
        producer.flush()
        thread.join(self.cluster.until.patience_s)
        assert contents(got) == [b"v"]

    def test_two_producers_share_a_log(self) -> None:
        """Records of two producers are all there, each producer's in its order."""
        topic = self.cluster.topic()
        producers = [self.cluster.producer() for _ in range(2)]
        for i in range(20):
            send(producers[i % 2], topic, b"%d" % i)
            producers[i % 2].flush()
        consumer = self.cluster.consumer()
        consumer.assign({TopicPartition(topic, 0): 0})
        assert contents(read(self.cluster.until, consumer, 20)) == [b"%d" % i for i in range(20)]
