"""What only the embedded broker can do: background work on request, faults, its own time."""

from __future__ import annotations

from typing import Any

import pytest

from client_contracts.client_kit import Deliveries, send
from processor_api.clock import ManualClock
from processor_api.errors import ConfigError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata, TransactionAborted
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

NOW_MS = 10_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def broker(clock: ManualClock) -> EmbeddedBroker:
    return EmbeddedBroker(clock, blocking=False)


@pytest.fixture
def clients(broker: EmbeddedBroker) -> EmbeddedClients:
    return EmbeddedClients(broker)


def fill(clients: EmbeddedClients, topic: str, *rows: tuple[Any, Any, int]) -> None:
    producer = clients.producer({})
    for key, value, timestamp in rows:
        send(producer, topic, value, key=key, timestamp=timestamp)
    producer.flush()


def test_compaction_keeps_the_last_record_of_a_key(
    broker: EmbeddedBroker, clients: EmbeddedClients, clock: ManualClock
) -> None:
    """Offsets stay, gaps are skipped. A tombstone stays ``delete.retention.ms`` from its first compaction on."""
    broker.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"})
    fill(clients, "t", (b"a", b"1", 0), (b"b", b"1", 0), (b"a", b"2", 0), (b"b", None, 0), (b"c", b"1", 0))
    broker.clean("t")
    assert len(broker.records("t")) == 5
    broker.roll("t")
    broker.clean("t")
    assert [(r.offset(), r.key(), r.value()) for r in broker.records("t")] == [
        (2, b"a", b"2"), (3, b"b", None), (4, b"c", b"1"),
    ]  # fmt: skip
    clock.advance(999)
    fill(clients, "t", (b"a", b"3", 0))
    broker.roll("t")
    broker.clean("t")
    assert [(r.offset(), r.key()) for r in broker.records("t")] == [(3, b"b"), (4, b"c"), (5, b"a")]
    clock.advance(1)
    broker.clean("t")
    consumer = clients.consumer({})
    consumer.assign({TopicPartition("t", 0): 0})
    assert [message.offset() for message in consumer.consume(10, 0)] == [4, 5]


def test_records_younger_than_the_lag_are_not_compacted(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Nor what comes after their segment."""
    broker.create_topic("t", 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "1000"})
    for time in (NOW_MS - 1000, NOW_MS - 999, NOW_MS - 2000):
        fill(clients, "t", (b"a", b"1", time), (b"a", b"2", time))
        broker.roll("t")
    broker.clean("t")
    assert [record.offset() for record in broker.records("t")] == [1, 2, 3, 4, 5]


def test_compaction_stops_at_open_transactions(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Records from the last stable offset on stay; those of aborted transactions before it go."""
    broker.create_topic("t", 1, {"cleanup.policy": "compact"})
    producer = clients.producer({"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, "t", b"aborted", key=b"a")
    producer.abort_transaction()
    fill(clients, "t", (b"a", b"1", 0), (b"a", b"2", 0))
    producer.begin_transaction()
    send(producer, "t", b"open", key=b"a")
    fill(clients, "t", (b"a", b"3", 0))
    broker.roll("t")
    broker.clean("t")
    values = [record.value() for record in broker.records("t", read_committed=False)]
    assert values == [b"2", b"open", b"3"]


def test_only_compacted_topics_are_compacted(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """A topic without the policy keeps all records of a key; one with the policy refuses records without a key."""
    broker.create_topic("plain")
    fill(clients, "plain", (b"a", b"1", 0), (b"a", b"2", NOW_MS))
    broker.roll("plain")
    broker.clean("plain")
    assert len(broker.records("plain")) == 2
    broker.create_topic("t", 1, {"cleanup.policy": "compact,delete"})
    producer, deliveries = clients.producer({}), Deliveries()
    send(producer, "t", b"v", on_delivery=deliveries)
    send(producer, "t", b"v", key=b"k", on_delivery=deliveries)
    producer.flush()
    assert deliveries.errors == ["INVALID_RECORD", None]


def test_retention_deletes_what_is_too_old(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Segments before the first with a young record go and the log start moves; no limit or policy: nothing goes."""
    old, young = NOW_MS - 5_001, NOW_MS - 5_000
    for name, configs in (
        ("t", {"retention.ms": "5000"}),
        ("unlimited", {"retention.ms": "-1"}),
        ("compacted", {"retention.ms": "5000", "cleanup.policy": "compact"}),
    ):
        broker.create_topic(name, 1, configs)
        for rows in ([(b"1", b"", old)], [(b"2", b"", old), (b"3", b"", young)], [(b"4", b"", old)]):
            fill(clients, name, *rows)
            broker.roll(name)
        broker.clean(name)
    assert [record.key() for record in broker.records("t")] == [b"2", b"3", b"4"]
    assert clients.consumer({}).beginning_offsets([TopicPartition("t", 0)]) == {TopicPartition("t", 0): 1}
    assert len(broker.records("unlimited")) == len(broker.records("compacted")) == 4


def test_both_policies(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    broker.create_topic("t", 1, {"cleanup.policy": "compact,delete", "retention.ms": "5000"})
    for time in (NOW_MS - 6000, NOW_MS):
        fill(clients, "t", (b"a", b"1", time), (b"b", b"1", time), (b"a", b"2", time))
        broker.roll("t")
    broker.clean("t")
    assert [(record.offset(), record.key()) for record in broker.records("t")] == [(4, b"b"), (5, b"a")]


def test_a_topic_can_be_told_to_refuse(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """The error reaches the callbacks and spoils a transaction, until the topic accepts again."""
    broker.create_topic("t")
    producer, deliveries = clients.producer({"transactional.id": "x"}), Deliveries()
    producer.init_transactions()
    producer.begin_transaction()
    broker.refuse("t", "TOPIC_AUTHORIZATION_FAILED")
    send(producer, "t", b"v", on_delivery=deliveries)
    producer.flush()
    assert deliveries.errors == ["TOPIC_AUTHORIZATION_FAILED"]
    error, message = deliveries.reports[0]
    assert (error.code(), message.offset(), message.timestamp()) == (29, -1, (0, -1))
    assert message.value() == b"v"
    with pytest.raises(TransactionAborted, match="TOPIC_AUTHORIZATION_FAILED"):
        producer.commit_transaction()
    producer.abort_transaction()
    broker.accept("t")
    producer.begin_transaction()
    send(producer, "t", b"w")
    producer.commit_transaction()
    assert [record.value() for record in broker.records("t")] == [b"w"]
    with pytest.raises(ValueError, match="NONSENSE"):
        broker.refuse("t", "NONSENSE")


def test_one_bad_record_spoils_its_batch(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """With linger the records of a partition go in one batch, which is refused as a whole (KIP-32)."""
    broker.create_topic("t", 2, {"message.timestamp.after.max.ms": "1000"})
    producer, deliveries = clients.producer({"linger.ms": 5}), Deliveries()
    for partition, timestamp in ((0, NOW_MS), (0, NOW_MS + 1_001), (0, NOW_MS), (1, NOW_MS)):
        send(producer, "t", b"v", partition=partition, timestamp=timestamp, on_delivery=deliveries)
    assert broker.records("t") == []
    producer.poll(0)
    assert deliveries.errors == ["INVALID_TIMESTAMP"] * 3 + [None]
    assert [record.partition() for record in broker.records("t")] == [1]


def test_a_crash_loses_what_lingers(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Records of a lingering producer that was neither polled nor flushed are not in the log; a full batch is."""
    broker.create_topic("t")
    producer = clients.producer({"linger.ms": "5", "batch.num.messages": 3})
    send(producer, "t", b"1", b"2", b"3", b"4")
    producer.close()
    assert [record.value() for record in broker.records("t")] == [b"1", b"2", b"3"]


def test_an_abort_drops_what_lingers(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Records not sent yet are reported as purged."""
    broker.create_topic("t")
    producer, deliveries = clients.producer({"linger.ms": 5, "transactional.id": "x"}), Deliveries()
    producer.init_transactions()
    producer.begin_transaction()
    send(producer, "t", b"v", on_delivery=deliveries)
    producer.abort_transaction()
    producer.flush()
    assert deliveries.errors == ["_PURGE_QUEUE"]
    assert broker.records("t", read_committed=False) == []


def test_the_queue_counts_records_without_a_callback(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """A producer that is never polled runs full, with and without linger."""
    broker.create_topic("t")
    for linger in (0, 5):
        producer = clients.producer({"queue.buffering.max.messages": 2, "linger.ms": linger})
        send(producer, "t", b"1", b"2")
        with pytest.raises(BufferError, match="the producer's queue is full"):
            send(producer, "t", b"3")
        producer.poll(0)
        send(producer, "t", b"3")


def test_both_places_of_the_callback(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """The fifth and the sixth argument, and both names, are the delivery callback."""
    broker.create_topic("t")
    producer, deliveries = clients.producer({}), Deliveries()
    producer.produce("t", b"v", None, 0, deliveries)
    producer.produce("t", b"v", None, 0, None, deliveries)
    producer.produce("t", b"v", on_delivery=deliveries)
    producer.produce("t", b"v", callback=deliveries)
    assert producer.poll(0) == 4
    assert deliveries.errors == [None] * 4
    assert {message.timestamp() for _, message in deliveries.reports} == {(1, NOW_MS)}


def test_records_without_a_key_take_turns(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Partition -1 without a key goes round."""
    broker.create_topic("t", 3)
    producer = clients.producer({})
    send(producer, "t", *[b"v"] * 6, partition=-1)
    assert [record.partition() for record in broker.records("t")] == [0, 0, 1, 1, 2, 2]


def test_unknown_topics(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Producing to one fails in the callback, or creates it; reading one is an event, told once."""
    producer, deliveries = clients.producer({}), Deliveries()
    send(producer, "missing", b"v", on_delivery=deliveries)
    producer.flush()
    assert deliveries.errors == ["UNKNOWN_TOPIC_OR_PART"]
    consumer = clients.consumer({"auto.offset.reset": "earliest"})
    consumer.assign({TopicPartition("missing", 0): 0})
    assert [message.error().name() for message in consumer.consume(5, 0)] == ["UNKNOWN_TOPIC_OR_PART"]
    assert consumer.consume(5, 0) == []
    creating = EmbeddedBroker(default_partitions=3, auto_create_topics=True)
    producer = EmbeddedClients(creating).producer({})
    send(producer, "new", b"v", partition=2)
    assert producer.partition_count("new") == len(creating.records("new")) + 2 == 3
    broker.create_topic("missing")
    fill(clients, "missing", (b"k", b"v", 0))
    assert [message.value() for message in consumer.consume(5, 0)] == [b"v"]


def test_batches_take_turns_between_partitions(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Each consume starts with another partition and takes a run of it."""
    broker.create_topic("t", 2)
    producer = clients.producer({})
    for partition in (0, 1):
        send(producer, "t", *[b"v"] * 4, partition=partition)
    consumer = clients.consumer({})
    consumer.assign({TopicPartition("t", p): 0 for p in (0, 1)})
    batches = [[m.partition() for m in consumer.consume(2, 0)] for _ in range(5)]
    assert sorted(batches[:2]) == sorted(batches[2:4]) == [[0, 0], [1, 1]]
    assert batches[4] == []


def test_headers_are_not_shared(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Changing headers after producing or after reading changes no record."""
    broker.create_topic("t")
    headers = [("a", b"1")]
    send(clients.producer({}), "t", b"v", headers=headers)
    headers.append(("b", b"2"))
    (record,) = broker.records("t")
    record.headers().clear()
    assert record.headers() == [("a", b"1")]


def test_transactions_time_out_by_the_clock(
    broker: EmbeddedBroker, clients: EmbeddedClients, clock: ManualClock
) -> None:
    """Its records are aborted when the time has passed since its first record, and its producer is fenced."""
    broker.create_topic("t")
    producer = clients.producer({"transactional.id": "x", "transaction.timeout.ms": 5_000})
    producer.init_transactions()
    producer.begin_transaction()
    clock.advance(60_000)
    send(producer, "t", b"v")
    consumer = clients.consumer({"enable.partition.eof": True})
    consumer.assign({TopicPartition("t", 0): 0})
    clock.advance(4_999)
    assert [message.offset() for message in consumer.consume(5, 0)] == [0]
    clock.advance(1)
    assert [message.offset() for message in consumer.consume(5, 0)] == [2]
    for call in (producer.commit_transaction, producer.flush, lambda: send(producer, "t", b"v")):
        with pytest.raises(TaskMigratedError, match="'x' is fenced"):
            call()


def test_a_record_of_a_fenced_producer(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Its callback gets _FENCED, then every call raises."""
    broker.create_topic("t")
    first, second = (clients.producer({"transactional.id": "x"}) for _ in range(2))
    deliveries = Deliveries()
    first.init_transactions()
    first.begin_transaction()
    second.init_transactions()
    send(first, "t", b"v", on_delivery=deliveries)
    for call in (first.flush, lambda: first.poll(0), lambda: send(first, "t", b"v"), first.abort_transaction):
        with pytest.raises(TaskMigratedError, match="'x' is fenced"):
            call()
    assert deliveries.errors == ["_FENCED"]
    assert broker.records("t", read_committed=False) == []


def test_an_empty_commit_asks_nobody(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """As with librdkafka a fenced producer with nothing to write does not notice."""
    first, second = (clients.producer({"transactional.id": "x"}) for _ in range(2))
    first.init_transactions()
    first.begin_transaction()
    second.init_transactions()
    first.commit_transaction()
    broker.create_topic("t")
    first.begin_transaction()
    send(first, "t", b"v")
    with pytest.raises(TaskMigratedError, match="'x' is fenced"):  # it notices once it has something to write
        first.commit_transaction()


def test_a_simulation_never_waits(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """With ``blocking=False`` a poll returns at once, and waiting for a pending transaction is a retryable error."""
    broker.create_topic("t")
    consumer = clients.consumer({"group.id": "g"})
    assert consumer.poll(3_600) is None
    producer = clients.producer({"transactional.id": "x"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.send_offsets({TopicPartition("t", 0): OffsetAndMetadata(1)}, consumer.group_metadata())
    with pytest.raises(RetryableError, match="offsets of group 'g' are pending"):
        consumer.committed([TopicPartition("t", 0)])
    producer.commit_transaction()
    assert consumer.committed([TopicPartition("t", 0)]) == {TopicPartition("t", 0): OffsetAndMetadata(1)}


def test_a_deleted_topic_takes_its_offsets_along(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """The group's offsets go with the topic; a consumer of it is told, and reads a new one of the same name."""
    broker.create_topic("t")
    fill(clients, "t", (b"k", b"1", 0), (b"k", b"2", 0))
    partition = TopicPartition("t", 0)
    consumer = clients.consumer({"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.commit({partition: OffsetAndMetadata(2)})
    consumer.assign({partition: 0})
    assert len(consumer.consume(5, 0)) == 2
    broker.delete_topic("t")
    broker.delete_topic("t")
    assert [message.error().name() for message in consumer.consume(5, 0)] == ["UNKNOWN_TOPIC_OR_PART"]
    broker.create_topic("t")
    assert consumer.committed([partition]) == {}
    fill(clients, "t", (b"k", b"new", 0))
    assert [message.value() for message in consumer.consume(5, 0)] == [b"new"]


def test_misuse_is_named(broker: EmbeddedBroker, clients: EmbeddedClients) -> None:
    """Calls that make no sense raise errors that say what to do."""
    broker.create_topic("t", 2)
    partition = TopicPartition("t", 0)
    consumer, producer = clients.consumer({}), clients.producer({})
    consumer.assign({partition: 0})
    wrong: list[tuple[type[Exception], str, Any]] = [
        (StreamsError, "assigned already", lambda: consumer.assign({partition: 0})),
        (StreamsError, "not assigned", lambda: consumer.unassign([TopicPartition("t", 1)])),
        (StreamsError, "not assigned", lambda: consumer.seek(TopicPartition("t", 1), 0)),
        (StreamsError, "group.id", lambda: consumer.subscribe(["t"], None)),
        (StreamsError, "group.id", lambda: consumer.committed([partition])),
        (StreamsError, "there is no number 2", lambda: consumer.end_offsets([TopicPartition("t", 2)])),
        (StreamsError, "does not exist", lambda: consumer.end_offsets([TopicPartition("u", 0)])),
        (StreamsError, "there is no number 7", lambda: send(producer, "t", b"v", partition=7)),
        (StreamsError, "transactional.id", producer.init_transactions),
        (ConfigError, "isolation.level", lambda: clients.consumer({"isolation.level": "none"})),
        (ConfigError, "auto.offset.reset", lambda: clients.consumer({"auto.offset.reset": "first"})),
        (TypeError, "bytes", lambda: producer.produce("t", 5)),
    ]
    for kind, text, call in wrong:
        with pytest.raises(kind, match=text):
            call()
    consumer.close()
    consumer.close()
    producer.close()
    for call in (lambda: consumer.poll(0), producer.flush, lambda: send(producer, "t", b"v")):
        with pytest.raises(StreamsError, match="closed"):
            call()
