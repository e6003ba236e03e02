"""The cost of a record of batches, beside single calls, and of deduplication, beside a store with a time to live.

    python -m benchmarks beyond_java
    python -m benchmarks.bench_beyond_java [RECORDS]

One task, driven by hand, whose last node does nothing: rounds of 2,000 records, and a commit after every 20,000. Rounds
alternate between the cases; the least of them counts, in microseconds of the thread a record.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId
from state.write_buffer.memory_budget import Budget
from streams import BatchProcessor, KStream, StreamsBuilder
from streams.config import StreamsConfig
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.engines.opener import Engines
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.processing.environment import Environment, TaskSettings
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import TaskStores
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.messages import LogRecord

ROUNDS = 3
LIMIT, COMMIT = 2000, 20_000
WITHIN = timedelta(minutes=10)
VALUE = b'{"id": 7, "user": "user-000007", "amount": 12.25}'
SERDES = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}

Topologies = dict[str, Callable[[KStream[str, str]], Any]]


def same(values: list[str]) -> list[str]:
    return values


def parse_together(values: list[str]) -> list[Any]:
    """One call of a parser for a thousand texts."""
    found: list[Any] = json.loads(f"[{','.join(values)}]")
    return found


class Alone(Processor[str, str, str, str]):
    def process(self, record: Any) -> None:
        self.context.forward(record)


class Together(BatchProcessor[str, str, str, str]):
    def process_batch(self, records: list[Any]) -> list[list[Any]]:
        return [[record] for record in records]


class Unseen(Processor[str, str, str, str]):
    """Deduplicates by a key-value store with a time to live."""

    @staticmethod
    def stores() -> list[Any]:
        supplier = Stores.persistent_key_value_store("seen")
        return [Stores.key_value_store_builder(supplier, Serdes.STRING, Serdes.STRING).with_time_to_live(WITHIN)]

    def init(self, context: Any) -> None:
        super().init(context)
        self.seen = context.get_state_store("seen")

    def process(self, record: Any) -> None:
        if self.seen.put_if_absent(record.key, "") is None:
            self.context.forward(record)


BATCHES: Topologies = {
    "nothing": lambda stream: stream,
    "map_values, of nothing": lambda stream: stream.map_values(lambda value: value),
    "map_values_batch, of nothing": lambda stream: stream.map_values_batch(same),
    "map_values(json.loads)": lambda stream: stream.map_values(json.loads),
    "map_values_batch(json.loads of a list)": lambda stream: stream.map_values_batch(parse_together),
    "process, of nothing": lambda stream: stream.process(Alone),
    "process_batch, of nothing": lambda stream: stream.process_batch(Together),
}
KEPT: Topologies = {
    "nothing": lambda stream: stream,
    "deduplicate": lambda stream: stream.deduplicate(within=WITHIN),
    "deduplicate, by id": lambda stream: stream.deduplicate(within=WITHIN, id_selector=lambda key, value: value),
    "a store with a time to live": lambda stream: stream.process(Unseen),
}


def make_task(make: Callable[[KStream[str, str]], Any], directory: Path) -> tuple[Task, RecordCollector]:
    builder = StreamsBuilder()
    make(builder.stream("in")).foreach(lambda key, value: None)
    config = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "unused:9092", **SERDES})
    settings, clock, id_ = TaskSettings.of(config), ManualClock(0), TaskId(0, 0)
    collector = RecordCollector(EmbeddedClients(EmbeddedBroker(clock, auto_create_topics=True)).producer({}), clock)
    environment = Environment(id_, settings, error_policy_for(config, id_, collector), clock=clock, state_dir=directory)
    plan = plan_all(builder.build(), settings.app_configs, {})
    task = Task(plan, environment, TaskStores(plan, environment, Budget(0), Engines(clock).open))
    task.start(collector, {})
    return task, collector


def messages(records: int, first: int, new_keys: bool) -> list[LogRecord]:
    """Records of a thousand a second."""
    made = []
    for number in range(first, first + records):
        key = b"%020d" % (number if new_keys else number % 100)
        message = LogRecord("in", 0, key, VALUE, (1, number), None)
        message.log_offset = number
        made.append(message)
    return made


def round_of(task: Task, collector: RecordCollector, records: int, first: int, new_keys: bool) -> float:
    (queue,) = task.inputs.queues.values()
    queue.add(messages(records, first, new_keys))
    begin = time.thread_time()
    for number in range(0, records, LIMIT):
        task.process(LIMIT)
        if (number + LIMIT) % COMMIT == 0:
            task.drain()
            collector.flush()
            task.apply()
            task.committed()
    return (time.thread_time() - begin) / records * 1e6


def measure(title: str, cases: Topologies, records: int, *, new_keys: bool) -> None:
    least = dict.fromkeys(cases, float("inf"))
    with tempfile.TemporaryDirectory() as directory:
        tasks = {name: make_task(make, Path(directory) / str(n)) for n, (name, make) in enumerate(cases.items())}
        for turn in range(ROUNDS):
            for name, (task, collector) in tasks.items():
                least[name] = min(least[name], round_of(task, collector, records, turn * records, new_keys))
    print(title)
    for name, microseconds in least.items():
        print(f"  {name:40} {microseconds:6.2f} us a record")


def main(arguments: list[str]) -> None:
    records = int(arguments[0]) if arguments else 200_000
    measure("batches", BATCHES, records, new_keys=False)
    measure("deduplication, every key new", KEPT, records, new_keys=True)
    measure("deduplication, every key known", KEPT, records, new_keys=False)


if __name__ == "__main__":
    main(sys.argv[1:])
