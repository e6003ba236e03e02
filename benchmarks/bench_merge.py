"""The cost of a record of a task with several inputs, by the number of inputs and of those with records.

    python -m benchmarks merge
    python -m benchmarks.bench_merge [RECORDS]

One task, driven by hand, of a topology that only counts: the records are in its queues, of which each has the next one
in turn. "one" is a task with a single input, which runs through a batch in one loop. Rounds alternate between the
cases; the least of them counts, in microseconds of the thread a record.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.task_rig import TaskRig, message
from processor_api.clock import ManualClock
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from streams.runtime.processing.idling import Idling
from streams.runtime.tasks.task import Task
from streams.testing.broker.messages import LogRecord

ROUNDS = 7
CASES = [(1, 1), (2, 2), (2, 1), (20, 20), (20, 1), (200, 200), (200, 1)]
"""Inputs, and how many of them have records."""


class Count(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> None: ...


def make_task(inputs: int, directory: Path) -> Task:
    names = [f"t{number:03d}" for number in range(inputs)]
    topology = Topology().add_source("source", *names, key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    topology.add_processor("count", Count, "source")
    return TaskRig(topology, directory / str(inputs)).task


def messages(topic: str, records: int, step: int, first: int) -> list[LogRecord]:
    return [message(topic, number, (b"k", b"value", first + number * step)) for number in range(records)]


def round_of(task: Task, filled: int, records: int) -> float:
    queues = list(task.inputs.queues.values())
    for number, queue in enumerate(queues):
        queue.position = None
        if number < filled:
            queue.add(messages(queue.partition.topic, records // filled, filled, number))
        queue.at_end(records)
    idle, left = Idling(0, ManualClock(0)), records // filled * filled
    begin = time.thread_time()
    while left:
        left -= task.process(2000, idle)
        for queue in queues[:filled]:  # also the ends of queues that ran empty
            queue.caught_up = True
    return (time.thread_time() - begin) / records * 1e6


def main(arguments: list[str]) -> None:
    records = int(arguments[0]) if arguments else 20_000
    least = dict.fromkeys(CASES, float("inf"))
    with tempfile.TemporaryDirectory() as directory:
        tasks = {inputs: make_task(inputs, Path(directory)) for inputs, _ in CASES}
        for _ in range(ROUNDS):
            for case in CASES:
                least[case] = min(least[case], round_of(tasks[case[0]], case[1], records))
    for (inputs, filled), microseconds in least.items():
        print(f"{inputs:4} inputs, {filled:3} with records: {microseconds:6.2f} us a record")


if __name__ == "__main__":
    main(sys.argv[1:])
