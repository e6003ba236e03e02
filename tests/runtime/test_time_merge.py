"""The merge of inputs by time, against one that looks at every queue for every record."""

from __future__ import annotations

import random
from pathlib import Path

from processor_api.clock import ManualClock
from processor_api.handlers import log_and_continue
from processor_api.task_id import TopicPartition
from processor_api.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.kafka.embedded.messages import Record
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.time_merge import TimeMerge


class Slow:
    """The rule itself."""

    def __init__(self, queues: list[InputQueue]) -> None:
        self._queues = queues

    def begin(self, idle: Idling | None) -> bool:
        return True

    def next(self, idle: Idling | None) -> InputQueue | None:
        best: InputQueue | None = None
        for queue in self._queues:
            if queue.head is None and not queue.fill():
                if idle is not None and idle.must_wait(queue):
                    return None
                continue
            if best is None or queue.head[0] < best.head[0]:  # type: ignore[index]
                best = queue
        return best


def reading(inputs: int) -> Topology:
    topology = Topology()
    names = [f"t{number}" for number in range(inputs)]
    return topology.add_source("source", *names).add_sink("sink", "out", "source")


class Run:
    """A task of which only the queues and the clock are used."""

    def __init__(self, kit: TaskKit, merge: type, seed: int, max_task_idle_ms: int) -> None:
        self.chance = random.Random(seed)
        self.clock = ManualClock(0)
        self.queues = list(kit.task.queues.values())
        self.merge = merge(self.queues)
        self.idle = Idling(max_task_idle_ms, self.clock) if self.chance.random() < 0.9 else None
        self.offsets = dict.fromkeys((queue.partition for queue in self.queues), 0)
        self.order: list[object] = []

    def add(self, queue: InputQueue, count: int) -> None:
        made = []
        for _ in range(count):
            bad = self.chance.random() < 0.1
            timestamp = self.chance.randrange(30)
            message = Record(*queue.partition, b"k", b"\xff" if bad else b"v", (1, timestamp), None)
            message.log_offset = self.offsets[queue.partition]
            self.offsets[queue.partition] += 1
            made.append(message)
        queue.add(made)
        if self.idle is not None:
            self.idle.arrived(queue.partition)

    def process(self, limit: int) -> None:
        if not self.merge.begin(self.idle):
            self.order.append("waits")
            return
        for _ in range(limit):
            queue = self.merge.next(self.idle)
            if queue is None:
                break
            head, queue.head = queue.head, None
            queue.position = head[4].offset() + 1
            self.order.append((queue.partition, head[0], head[4].offset()))
        self.order.append([queue.position for queue in self.queues])

    def run(self) -> list[object]:
        chance = self.chance
        for _ in range(40):
            for queue in self.queues:
                if chance.random() < 0.4:
                    self.add(queue, chance.randrange(4))
                if chance.random() < 0.4:
                    queue.at_end(self.offsets[queue.partition])
            self.clock.advance(chance.choice((0, 0, 3, 10)))
            self.process(chance.randrange(1, 12))
        return [one for one in self.order if one != "waits" and not isinstance(one, list)]


def test_the_order_is_that_of_looking_at_every_queue(tmp_path: Path) -> None:
    """Ties go to the first input; empty inputs stop the merge as ``max.task.idle.ms`` says; records that cannot be read
    are passed over at the same time."""
    config = {"deserialization.exception.handler": log_and_continue}
    for seed in range(150):
        inputs, idle_ms = seed % 5 + 2, (-1, 0, 0, 8)[seed % 4]
        found = []
        for merge in (TimeMerge, Slow):
            with TaskKit(reading(inputs), tmp_path / f"{seed}-{merge.__name__}", config) as kit:
                found.append(Run(kit, merge, seed, idle_ms).run())
        assert found[0] == found[1], seed
        assert len(found[0]) > 10


def test_a_record_that_fails_does_not_stop_those_behind_it(tmp_path: Path) -> None:
    """The one after it is next, where the owner goes on."""
    with TaskKit(reading(2), tmp_path) as kit:
        for topic, timestamp in (("t0", 1), ("t0", 3), ("t1", 2)):
            kit.add(topic, b"k", b"v", timestamp)
        merge = TimeMerge(kit.task.queues.values())
        seen = []
        for _ in range(3):
            assert merge.begin(None)
            queue = merge.next(None)
            assert queue is not None
            head, queue.head = queue.head, None
            seen.append((queue.partition, head[0]))  # type: ignore[index]
        first, second = TopicPartition("t0", 0), TopicPartition("t1", 0)
        assert seen == [(first, 1), (second, 2), (first, 3)]
