"""One task on an embedded broker, driven by hand: what the test driver does at once is a step of its own here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from processor_api.clock import ManualClock
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.topology import Topology
from state.write_buffer.memory_budget import Budget
from streams.config import StreamsConfig
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.engines.opener import Engines
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.processing.environment import TaskSettings, TaskThread
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.assembly import TaskAssembly
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

__all__ = ["DEFAULTS", "TaskKit"]

DEFAULTS: Mapping[str, Any] = {
    "application.id": "app",
    "bootstrap.servers": "unused:9092",
    "default.key.serde": Serdes.STRING,
    "default.value.serde": Serdes.STRING,
}


class TaskKit:
    """A context manager, since the engines are closed at its end.

    :param partitions: of every topic that is created by writing to it.
    :param pace: says when a turn of the task is over; none ever is without it.
    """

    def __init__(
        self,
        topology: Topology,
        directory: Path,
        config: Mapping[str, Any] | None = None,
        *,
        partitions: int = 1,
        start: bool = True,
        pace: Pace | None = None,
    ) -> None:
        self.config = StreamsConfig.of({**DEFAULTS, **(config or {})})
        self.clock = ManualClock(0)
        self.broker = EmbeddedBroker(self.clock, default_partitions=partitions, auto_create_topics=True)
        clients = EmbeddedClients(self.broker)
        self._input = clients.producer({})
        self.collector = RecordCollector(clients.producer({}), self.clock)
        settings = TaskSettings.of(self.config, log_each_put=self.config.changelog_updates != "last")
        plan = plan_all(topology, settings.app_configs, {})
        task_id = TaskId(0, 0)
        self.budget = Budget(self.config.statestore_cache_max_bytes)
        assembly = TaskAssembly(
            settings=settings,
            error_policy=partial(error_policy_for, self.config, collector=self.collector),
            clock=self.clock,
            open_engine=Engines(self.clock).open,
            budget=self.budget,
            thread=TaskThread(pace=pace),
        )
        self.task = assembly.task(plan, task_id, directory / str(task_id))
        self.environment = self.task.environment
        if start:
            self.task.start(self.collector, {})

    def add(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int = 0,
        headers: HeaderList | None = None,
    ) -> None:
        """Hands a consumed record to the task, which does not process it yet."""
        self.broker.create_topic(topic)
        partition = TopicPartition(topic, 0)
        log = self.broker.log(partition)
        offset = log.end_offset
        self._input.produce(topic, value, key, 0, None, None, timestamp, headers)
        self._input.poll(0)
        self.task.add(partition, log.read(offset, 1, False)[0])

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int = 0) -> None:
        """Hands a record to the task and processes it, without a commit."""
        self.add(topic, key, value, timestamp)
        self.task.process(1)

    def commit(self) -> None:
        self.task.drain()
        self.collector.flush()
        self.task.apply()
        self.task.committed()

    def sent(self, topic: str) -> list[tuple[bytes | None, bytes | None, int]]:
        """Key, value and timestamp of every record in a topic."""
        if topic not in self.broker.topics:
            return []
        records = self.broker.records(topic, read_committed=False)
        return [(record.key(), record.value(), record.timestamp()[1]) for record in records]

    @property
    def dropped(self) -> int:
        return self.environment.metrics.dropped_records

    def store(self, name: str) -> Any:
        return self.task.stores.stores[name].facade

    def __enter__(self) -> TaskKit:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.task.close(dirty=True)
