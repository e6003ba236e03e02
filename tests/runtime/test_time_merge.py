"""The merge of inputs by time, against one that looks at every queue for every record."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock
from processor_api.handlers import Response, log_and_continue
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.pace import Pace
from streams.runtime.processing.punctuations import Punctuations
from streams.runtime.processing.time_merge import TimeMerge, run_one
from streams.testing.broker.messages import LogRecord


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
        self.queues = list(kit.task.inputs.queues.values())
        self.merge = merge(self.queues)
        self.idle = Idling(max_task_idle_ms, self.clock) if self.chance.random() < 0.9 else None
        self.offsets = dict.fromkeys((queue.partition for queue in self.queues), 0)
        self.order: list[object] = []

    def add(self, queue: InputQueue, count: int) -> None:
        made = []
        for _ in range(count):
            bad = self.chance.random() < 0.1
            timestamp = self.chance.randrange(30)
            message = LogRecord(*queue.partition, b"k", b"\xff" if bad else b"v", (1, timestamp), None)
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
        merge = TimeMerge(kit.task.inputs.queues.values())
        seen = []
        for _ in range(3):
            assert merge.begin(None)
            queue = merge.next(None)
            assert queue is not None
            head, queue.head = queue.head, None
            seen.append((queue.partition, head[0]))  # type: ignore[index]
        first, second = TopicPartition("t0", 0), TopicPartition("t1", 0)
        assert seen == [(first, 1), (second, 2), (first, 3)]


class OneByOne(TimeMerge):
    """Asks for each record anew."""

    def next(self, idle: Idling | None) -> InputQueue | None:
        self.chosen = super().next(idle)
        return self.chosen

    def run(self, limit: int, cursor: Any, punctuations: Punctuations, punctuate: Callable[[], bool]) -> int:
        assert self.chosen is not None
        return run_one(self.chosen, cursor, punctuations, punctuate)


FAR = 4_102_444_800_000
"""The year 2100."""


class Seen(Processor[str, str, str, str]):
    """Notes each record with what the context says then, and each punctuation."""

    notes: list[Any]

    def init(self, context: Any) -> None:
        self.context = context
        context.schedule(7, PunctuationType.STREAM_TIME, lambda now: self.notes.append(("punctuated", now)))

    def process(self, record: Any) -> None:
        at = self.context.record_metadata
        self.notes.append((at.topic, at.offset, record.timestamp, self.context.current_stream_time_ms()))
        if record.value == "fails":
            raise ValueError("fails")


def notes_of(merge: type[TimeMerge], seed: int, directory: Path) -> list[Any]:
    """What a task does with records drawn by the seed: order, handlers, times, positions, and an error in the end."""
    chance, notes = random.Random(seed), list[Any]()

    class Noting(Seen):
        def __init__(self) -> None:
            self.notes = notes

    def unread(context: Any, message: Any, error: Exception) -> Response:
        notes.append(("unread", message.topic, message.offset))
        return Response.resume()

    topology, names = Topology(), [f"t{number}" for number in range(seed % 4 + 2)]
    for number, name in enumerate(names):
        extractor = (lambda record, before: record.timestamp - 2 if before % 3 else before) if number == 3 else None
        topology.add_source(name, name, timestamp_extractor=extractor)
    topology.add_processor("seen", Noting, *names)
    config = {
        "deserialization.exception.handler": unread,
        "timestamp.after.max.ms": 1000,
        "timestamp.after.max.handler": "drop",
    }
    pace = Pace(ManualClock(0), None, 300.0) if seed % 3 else None
    values = [b"v"] * 30 + [b"\xff", None] + [b"fails"] * (seed % 5 == 0)
    with TaskKit(topology, directory, config, pace=pace) as kit:
        task, idle = kit.task, Idling((-1, 0, 0)[seed % 3], kit.clock)
        task.inputs.merge_of = merge
        task.inputs._choose(task.environment)
        offsets, now = dict.fromkeys(task.inputs.queues, 0), 0
        for _ in range(12):
            for partition, queue in task.inputs.queues.items():
                made, time = [], now
                for _ in range(chance.choice((0, 1, 5, 30))):
                    time = chance.choice((time, time + 1, time + chance.randrange(-9, 15), chance.randrange(200)))
                    at = FAR if chance.random() < 0.02 else max(time, 0)
                    message = LogRecord(*partition, b"k", chance.choice(values), (1, at), None)
                    message.log_offset = offsets[partition]
                    offsets[partition] += 1
                    made.append(message)
                task.add(partition, made)
                if chance.random() < 0.7:
                    queue.at_end(offsets[partition])
            now += chance.randrange(20)
            for _ in range(3):
                try:
                    notes.append(task.process(chance.choice((1, 3, 40, 500)), idle))
                except Exception as error:
                    notes.append(str(error))
                queues = task.inputs.queues.values()
                notes.append([(queue.position, queue.partition_time, len(queue)) for queue in queues])
                if isinstance(notes[-2], str):
                    return notes
    return notes


def test_many_records_at_once_are_those_that_single_ones_would_be(tmp_path: Path) -> None:
    """The same order, stream times, punctuations, handlers at the same moment, positions, and place of an error."""
    failed = noted = 0
    for seed in range(120):
        single = notes_of(OneByOne, seed, tmp_path / f"{seed}-1")
        assert notes_of(TimeMerge, seed, tmp_path / f"{seed}-2") == single, seed
        noted += len(single)
        failed += any(isinstance(one, str) for one in single)
    assert failed > 10
    assert noted > 10_000
