"""One task without a client: records stand in its queues, and what it sends goes nowhere.

So it shows what a record costs in this library: a client's own work, the same for every engine, is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock
from processor_api.serde import Serdes
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from state.write_buffer.memory_budget import Budget
from streams.config import StreamsConfig
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.engines.opener import Engines
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.processing.environment import TaskSettings, TaskThread
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.idling import Idling
from streams.runtime.tasks.assembly import TaskAssembly
from streams.testing.broker import EmbeddedBroker
from streams.testing.broker.messages import LogRecord
from streams.testing.broker.producer import EmbeddedProducer

__all__ = ["TaskRig", "message"]

BATCH = 2000
CACHE_BYTES = 10 << 20
Input = tuple[bytes, bytes, int]
"""Key, value and timestamp."""


class _Nowhere(EmbeddedProducer):
    """A producer that counts what it is given, and drops it."""

    sent = 0

    def produce(self, *_: Any, **__: Any) -> None:
        self.sent += 1


def message(topic: str, offset: int, record: Input) -> LogRecord:
    """Returns a record as a consumer delivers it."""
    key, value, timestamp = record
    made = LogRecord(topic, 0, key, value, (1, timestamp), None)
    made.log_offset = offset
    return made


class TaskRig:
    """One task of a topology, on RocksDB unless the topology says otherwise.

    :param settings: over the defaults, which are strings for keys and values.
    """

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        settings: dict[str, Any] | None = None,
        *,
        cache_bytes: int = CACHE_BYTES,
        thread: TaskThread | None = None,
    ) -> None:
        serdes = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
        given = {"application.id": "app", "bootstrap.servers": "unused:9092", **serdes, **(settings or {})}
        config = StreamsConfig.of(given)
        task_settings, clock, id_ = TaskSettings.of(config), ManualClock(0), TaskId(0, 0)
        broker = EmbeddedBroker(clock, auto_create_topics=True)
        self.producer = _Nowhere(broker, {})
        collector = RecordCollector(self.producer, clock)
        assembly = TaskAssembly(
            settings=task_settings,
            error_policy=partial(error_policy_for, config, collector=collector),
            clock=clock,
            open_engine=Engines(clock).open,
            budget=Budget(cache_bytes),
            thread=thread or TaskThread(),
        )
        self.task = assembly.task(plan_all(topology, task_settings.app_configs, {}), id_, directory)
        self.task.start(collector, {})
        self._idle = Idling(0, clock)
        self._queues = {queue.partition.topic: queue for queue in self.task.inputs.queues.values()}

    def run(self, inputs: dict[str, Sequence[Input]], commit_every: int = 50_000) -> float:
        """Processes records; returns the processor time of the thread in seconds, commits included."""
        left = self.add(inputs)
        begin = time.thread_time()
        while left:
            some = min(left, commit_every)
            self.process(some)
            self.commit()
            left -= some
        self.commit()
        return time.thread_time() - begin

    def add(self, inputs: dict[str, Sequence[Input]]) -> int:
        """Adds records to the queues; returns how many."""
        for topic, records in inputs.items():
            queue = self._queues[topic]
            first = queue.position or 0
            queue.add([message(topic, first + number, record) for number, record in enumerate(records)])
            queue.at_end(first + len(records))
        return sum(map(len, inputs.values()))

    def process(self, count: int) -> None:
        """Processes this many records that were added."""
        while count:
            count -= self.task.process(min(count, BATCH), self._idle)
            for queue in self._queues.values():
                queue.caught_up = True

    def commit(self) -> None:
        """Commits, but for the offsets."""
        self.task.drain()
        self.task.apply()
        self.task.committed()

    def close(self) -> None:
        """Closes the stores."""
        self.task.close(dirty=True)
