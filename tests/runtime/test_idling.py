"""An empty input whose end was not told: it is asked for, and nothing is processed too early."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset
from runtime_support.failing_clients import FailingClients
from runtime_support.task_kit import TaskKit
from streams.runtime.processing.idling import ASK_INTERVAL_S, Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.threads.undelivered import LostOffsets
from streams.testing.broker import EmbeddedClients

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
INTERVAL_MS = int(1000 * ASK_INTERVAL_S)


class Ends:
    """A task that reads "a" and "b"; the consumer of "b" never tells of its end."""

    def __init__(self, kit: TaskKit, isolation: str) -> None:
        self.kit = kit
        self.asked = 0
        self.fails = False
        clients = EmbeddedClients(kit.broker)
        self.admin = clients.admin({})
        self.producer = clients.producer({"transactional.id": "t"})
        self.producer.init_transactions()
        kit.broker.create_topic("a")
        kit.broker.create_topic("b")
        config = {"isolation.level": isolation, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        self.consumer: Any = FailingClients(clients, self.trap, deaf=True).consumer(config)
        self.consumer.assign({B: 0})
        self.queue: InputQueue = kit.task.inputs.queues[B]
        self.queue.start = 0
        self.idling = Idling(0, kit.clock, self.consumer)

    @property
    def clock(self) -> ManualClock:
        return self.kit.clock

    def trap(self, call: str) -> None:
        if call == "end_offsets":
            self.asked += 1
            if self.fails:
                raise RetryableError("no broker answers")

    def write(self, *, end: str) -> None:
        """A transaction with one record in "b": "commit", "abort" or "leave" it open."""
        self.producer.begin_transaction()
        self.producer.produce("b", b"v", b"k", 0)
        self.producer.poll(0)
        if end == "commit":
            self.producer.commit_transaction()
        elif end == "abort":
            self.producer.abort_transaction()

    def process(self) -> bool:
        """A record of "b", if there is one."""
        head = self.queue.take()
        if head is not None:
            self.queue.run(head)
        return head is not None

    def waits(self, after_ms: int = INTERVAL_MS) -> bool:
        """Whether "b" is waited for, after so long."""
        self.idling.must_wait(self.queue)
        self.clock.advance(after_ms)
        return self.idling.must_wait(self.queue)


def copying(*topics: str) -> Topology:
    topology = Topology()
    for topic in topics:
        topology.add_source(f"from-{topic}", topic)
    return topology.add_sink("sink", "out", *(f"from-{topic}" for topic in topics))


@pytest.fixture(params=["read_committed", "read_uncommitted"])
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ends]:
    with TaskKit(copying("a", "b"), tmp_path) as kit:
        yield Ends(kit, request.param)


def test_the_end_of_an_empty_partition_is_asked_for(ends: Ends) -> None:
    """After a while, and then never again, for it is known."""
    assert ends.waits(INTERVAL_MS - 1)
    assert ends.asked == 0
    assert not ends.waits(1)
    assert not ends.waits()
    assert ends.asked == 1


def test_a_record_on_its_way_is_waited_for(ends: Ends) -> None:
    ends.write(end="commit")
    assert ends.waits()
    ends.queue.add(list(ends.consumer.consume(10, 0.0)))
    ends.idling.arrived(B)
    assert ends.process()
    assert not ends.waits()


def test_the_end_is_behind_the_markers_of_transactions(ends: Ends) -> None:
    """What an aborted transaction leaves holds nobody up, and the offset to commit is behind it."""
    ends.write(end="commit")
    ends.write(end="abort")
    ends.queue.add(list(ends.consumer.consume(10, 0.0)))
    while ends.process():
        pass
    assert ends.consumer.consume(10, 0.0) == []
    assert not ends.waits()
    assert ends.queue.position == 4  # two records, two markers


def test_what_is_deleted_up_to_the_end_was_read(ends: Ends) -> None:
    """The end lay behind a marker and was committed, and the records before it were deleted, as those of repartition
    topics are. The next record then seemed to follow records that were lost."""
    lost = LostOffsets(ends.consumer, ends.admin, ends.clock, AutoOffsetReset.none())

    def read() -> None:
        batch = list(ends.consumer.consume(10, 0.0))
        assert list(lost.checked(ends.kit.task, ends.queue, batch)) == batch != []
        ends.queue.add(batch)
        ends.idling.arrived(B)
        while ends.process():
            pass

    ends.write(end="commit")
    read()
    assert not ends.waits()
    assert ends.queue.position == 2
    EmbeddedClients(ends.kit.broker).admin({}).delete_records({B: 2})
    ends.write(end="commit")
    read()
    assert not ends.waits()


def test_records_that_were_deleted_unread_are_not_before_the_end(ends: Ends) -> None:
    """Otherwise a position behind them would be committed, and their loss not be noticed."""
    lost = LostOffsets(ends.consumer, ends.admin, ends.clock, AutoOffsetReset.none())
    ends.write(end="commit")
    batch = list(ends.consumer.consume(10, 0.0))
    ends.queue.add(lost.checked(ends.kit.task, ends.queue, batch))
    while ends.process():
        pass
    ends.write(end="commit")
    EmbeddedClients(ends.kit.broker).admin({}).delete_records({B: 4})
    ends.write(end="abort")
    reads_committed = ends.consumer.consume(10, 0.0) == []
    if reads_committed:
        assert ends.consumer.position(B) == 6
        assert ends.waits()
        assert ends.queue.position == 1


def test_an_open_transaction_is_the_end_for_those_who_read_what_is_committed(ends: Ends) -> None:
    ends.write(end="leave")
    reads_committed = ends.consumer.consume(10, 0.0) == []
    if reads_committed:
        assert not ends.waits()
        assert ends.queue.position is None


def test_a_broker_that_does_not_answer_is_asked_again(ends: Ends) -> None:
    """Now and then: not in every round of the loop."""
    ends.fails = True
    for _ in range(10):
        assert ends.waits(INTERVAL_MS // 10)
    assert ends.asked == 1
    ends.fails = False
    assert not ends.waits()
