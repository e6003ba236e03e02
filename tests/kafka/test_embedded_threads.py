"""Threads that copy a topic exactly once, while members join, crash in a transaction and lose their session."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Any

from client_contracts.client_kit import Until, send
from processor_api.clock import ManualClock, SystemClock
from processor_api.errors import TaskMigratedError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import OffsetAndMetadata, TransactionAborted
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PARTITIONS, RECORDS = 4, 2_000


class Copier(threading.Thread):
    """Copies what it owns of "in" to "out", one transaction a batch; ends in the middle of one when told to crash."""

    def __init__(self, clients: EmbeddedClients, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.clients = clients
        self.consumer = clients.consumer({"group.id": "g", "session.timeout.ms": 10_000, "client.id": name})
        self.consumer.subscribe(["in"], self)
        self.to_open: set[TopicPartition] = set()
        self.stopping = threading.Event()
        self.crashing = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.producer = self.new_producer()
            while not self.stopping.is_set():
                try:
                    self.copy_batch()
                except TransactionAborted:
                    self.producer.abort_transaction()
                    self.reopen()
                except TaskMigratedError:
                    self.producer = self.new_producer()
                    self.reopen()
                if self.crashing.is_set():
                    return
            self.consumer.close()
        except BaseException as error:
            self.error = error
            raise

    def new_producer(self) -> Any:
        producer = self.clients.producer({"transactional.id": self.name, "transaction.timeout.ms": 10_000})
        producer.init_transactions()
        return producer

    def copy_batch(self) -> None:
        messages = self.consumer.consume(20, 0.01)
        if self.to_open:
            opened, self.to_open = self.to_open, set()
            committed = self.consumer.committed(opened)
            self.consumer.assign({p: committed[p].offset if p in committed else 0 for p in opened})
        if not messages:
            return
        self.producer.begin_transaction()
        offsets = {}
        for message in messages:
            self.producer.produce("out", message.value(), None, message.partition())
            offsets[TopicPartition("in", message.partition())] = OffsetAndMetadata(message.offset() + 1)
        self.producer.send_offsets(offsets, self.consumer.group_metadata())
        if self.crashing.is_set():
            return
        self.producer.poll(0)
        self.producer.commit_transaction()

    def reopen(self) -> None:
        self.to_open |= self.consumer.assignment()
        self.consumer.unassign(self.consumer.assignment())

    def on_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.to_open |= set(partitions)

    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.to_open -= set(partitions)
        self.consumer.unassign(self.consumer.assignment() & set(partitions))

    on_lost = on_revoked


def test_a_record_wakes_its_reader_at_once() -> None:
    """Two threads that answer each other need no naps: the rounds take far less than one nap of the broker each."""
    rounds = 100
    broker = EmbeddedBroker()
    clients = EmbeddedClients(broker)
    for topic in ("ping", "pong"):
        broker.create_topic(topic)

    def answer(listen: str, say: str) -> None:
        consumer, producer = clients.consumer({}), clients.producer({})
        consumer.assign({TopicPartition(listen, 0): 0})
        for _ in range(rounds):
            assert consumer.poll(30) is not None
            send(producer, say, b"v")
            producer.poll(0)

    threads = [threading.Thread(target=answer, args=args, daemon=True) for args in (("ping", "pong"), ("pong", "ping"))]
    for thread in threads:
        thread.start()
    started_s = SystemClock().monotonic()
    send(clients.producer({}), "ping", b"v")
    for thread in threads:
        thread.join(30)
    assert len(broker.records("pong")) == rounds
    assert SystemClock().monotonic() - started_s < rounds * 0.02


def test_exactly_once_under_rebalances_and_crashes() -> None:
    """Every record is copied once and in order, whatever the threads do to each other."""
    clock = ManualClock(1_000_000)
    broker = EmbeddedBroker(clock)
    broker.create_topic("in", PARTITIONS)
    broker.create_topic("out", PARTITIONS)
    clients = EmbeddedClients(broker)
    until = Until(30)
    producer = clients.producer({})
    copiers: list[Copier] = []

    reader = clients.consumer({})
    reader.assign({TopicPartition("out", p): 0 for p in range(PARTITIONS)})
    out: list[Any] = []

    def start(name: str) -> None:
        copiers.append(Copier(clients, name))
        copiers[-1].start()

    def progress(wanted: int) -> None:
        def attempt() -> bool:
            out.extend(reader.consume(100, 0.002))
            dead = [copier.error for copier in copiers if copier.error]
            assert not dead, dead
            clock.advance(20)
            return len(out) >= wanted

        until(f"{wanted} records were copied", attempt)

    for i in range(RECORDS):
        send(producer, "in", b"%d" % i, partition=i % PARTITIONS)
        producer.poll(0)
    start("one")
    progress(RECORDS // 10)
    start("two")
    start("three")
    progress(RECORDS // 4)
    copiers[0].crashing.set()
    copiers[0].join(30)
    progress(RECORDS // 2)
    clock.advance(20_000)
    start("four")
    progress(RECORDS)
    for copier in copiers[1:]:
        copier.stopping.set()
        copier.join(30)
    for partition in range(PARTITIONS):
        values = [int(record.value()) for record in out if record.partition() == partition]
        assert values == list(range(partition, RECORDS, PARTITIONS))
