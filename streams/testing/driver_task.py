"""The task of a test driver with its stores, and the global stores: up to date as soon as a record was piped."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import TopologyError
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.cycles import cycles_of
from processor_api.topology.topology import Topology
from state.directory.errors import directory_error
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore
from streams.config import StreamsConfig
from streams.kafka.producing.record_collector import RecordCollector
from streams.observing.accounting import dropped_by
from streams.observing.status import DropStatus
from streams.runtime.engines.opener import Engines, spilling
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.plan.task_plan import plan_all
from streams.runtime.processing.environment import GlobalStoreReader, TaskSettings, TaskThread, no_global_store
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.probe import ProbeMaker
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import EngineOpener
from streams.runtime.tracing.rules import TraceRules
from streams.runtime.tracing.task_trace import traced_by
from streams.telemetry import spans_by
from streams.testing.driver_parts.arrivals import ArrivalMerge, Arrivals
from streams.testing.driver_parts.driver_log import DriverProducer, DriverTopic
from streams.testing.record_trace import RecordTrace

MOST_FED_BACK = 10_000
"""Records that one piped record may write to topics from which their own input comes."""

NO_POSITIONS: Mapping[TopicPartition, int] = {}
"""An empty set of positions: those of a task are written for the next that opens its state, and a driver's state goes
with it."""


class DriverGlobals:
    """The global stores of a driver; empty for a topology without global stores."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        directory: Path,
        clock: Clock,
        open_engine: EngineOpener,
        probe: ProbeMaker | None = None,
    ) -> None:
        self.queues: dict[TopicPartition, InputQueue] = {}
        """The queues of the only partition of each topic, whose records wait for :meth:`run`."""
        self.stores: Mapping[str, OpenStore] = {}
        self.reader: GlobalStoreReader = no_global_store
        self._task: GlobalTask | None = None
        if topology.global_stores:
            task = self._task = GlobalTask(topology, config, directory, clock, open_engine, probe=probe)
            self.queues = {
                partition: task.queue(partition) for partition in (TopicPartition(topic, 0) for topic in task.specs)
            }
            self.stores, self.reader = task.stores.stores, task.stores.reader

    def start(self) -> None:
        """Initialises the processors."""
        if self._task is not None:
            self._task.start()

    def run(self) -> None:
        """Brings the stores up to date, also with what a test put into them."""
        task = self._task
        if task is None:
            return
        for queue in self.queues.values():
            if queue:
                task.run(queue)
        task.apply()

    @property
    def dropped_records(self) -> int:
        return 0 if self._task is None else self._task.environment.metrics.dropped_records

    def drops(self) -> tuple[DropStatus, ...]:
        """Returns the records without a result by node and reason."""
        task = self._task
        return () if task is None else dropped_by(task.environment.metrics.drops, task.topology)

    def close(self) -> None:
        """Closes processors and stores."""
        task, self._task = self._task, None
        if task is not None:
            task.close()


class DriverTask:
    """The task of a driver, in a directory of its own. A driver makes another one to follow records.

    :param topics: the topics of the driver, which get the queues by which they are read.
    :param partitions: how many partitions topics have; each has one if it is not among them.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        clock: Clock,
        topics: dict[str, DriverTopic],
        partitions: Mapping[str, int],
    ) -> None:
        self._topics = topics
        rules = TraceRules.of(config)
        self.trace = None if rules is None else RecordTrace(rules, clock)
        tracer = None if self.trace is None else self.trace.tracer
        self._arrivals = Arrivals()
        self._topology = topology
        self.is_endless = False
        """Whether a cycle kept it from processing a record to the end."""
        self._cycles = cycles_of(topology, undeclared=True)
        producer = DriverProducer(topics, self._arrivals, partitions)
        sent = None if tracer is None else tracer.sent(producer.partition_count)
        watch = spans_by(config)
        with_headers, spans = (None, None) if watch is None else (watch.with_headers, watch.probe)
        self.collector = RecordCollector(producer, clock, sent=sent, with_headers=with_headers)
        idle_ms = config.max_task_idle_ms
        self._idling = Idling(idle_ms, clock) if idle_ms > 0 else None  # there is never more to fetch
        probe, open_engine = traced_by(tracer), _engine_opener(config)
        self.directory = _new_directory(config)
        try:
            self.globals = DriverGlobals(topology, config, self.directory / "global", clock, open_engine, probe)
            self.globals.start()
            self.task = self._assembled(topology, config, clock, open_engine, probe or spans)
            self.task.inputs.merge_of = partial(ArrivalMerge, arrivals=self._arrivals)
            self.task.start(self.collector, {})
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        for partition, queue in {**self.task.inputs.queues, **self.globals.queues}.items():
            self._read_by(partition, queue)

    def _assembled(
        self,
        topology: Topology,
        config: StreamsConfig,
        clock: Clock,
        open_engine: EngineOpener,
        probe: ProbeMaker | None,
    ) -> Task:
        assembly = TaskAssembly(
            settings=TaskSettings.of(
                config, log_each_put=config.changelog_updates != "last", global_store=self.globals.reader
            ),
            error_policy=partial(error_policy_for, config, collector=self.collector),
            clock=clock,
            open_engine=open_engine,
            budget=Budget(config.statestore_cache_max_bytes),
            thread=TaskThread(probe=probe),
        )
        plan = plan_all(topology, config.dotted(), {})
        task_id = TaskId(plan.subtopology, 0)
        return assembly.task(plan, task_id, self.directory / str(task_id))

    def topic(self, name: str) -> DriverTopic:
        return self._topics.setdefault(name, DriverTopic(name))

    def _read_by(self, partition: TopicPartition, queue: InputQueue) -> None:
        self.topic(partition.topic).queue = queue
        queue.caught_up = True

    def read_also(self, topic: str, source: str) -> None:
        """Starts reading a topic that is piped for the first time, since the pattern of a source matches it."""
        partition = TopicPartition(topic, 0)
        self.task.read_also(partition, source)
        self._read_by(partition, self.task.inputs.queues[partition])

    @property
    def stores(self) -> dict[str, OpenStore]:
        """Returns all stores by name, global ones too."""
        return {**self.task.stores.stores, **self.globals.stores}

    def pipe(self, queue: InputQueue, message: Any) -> None:
        """Adds a record to a queue, and processes everything that can be processed then."""
        self._arrivals.add(queue, message)
        if self._idling is not None:
            self._idling.arrived(queue.partition)
        self.complete()

    def complete(self) -> None:
        """Processes record by record, with a commit after each, until there is none."""
        task, idling, globals_ = self.task, self._idling, self.globals
        before = self._fed_back() if self._cycles else 0
        if globals_.queues:
            globals_.run()
        while task.process(1, idling):
            self.commit()
            if self._cycles and self._fed_back() - before > MOST_FED_BACK:
                raise self._endless()
            if globals_.queues:
                globals_.run()
            elif not task.has_records():
                return

    def _fed_back(self) -> int:
        """Returns how many records the topics have that the task reads, internal ones left out."""
        internal = self._topology.repartition_topics
        return sum(
            one.end_offset for one in self._topics.values() if one.queue is not None and one.name not in internal
        )

    def _endless(self) -> TopologyError:
        self.is_endless = True
        cycle = self._cycles[0]
        return TopologyError(
            f"one record was not processed to the end: after it {MOST_FED_BACK:,} records came back to a topic of"
            f" the topology. {cycle}. Write to another topic, or let a filter end the cycle",
            node=cycle.sink,
            **self._topology.origin_of(cycle.sink),
        )

    def commit(self) -> None:
        task = self.task
        task.drain()
        self.collector.flush()
        task.stores.apply(NO_POSITIONS)
        task.committed()

    def close(self) -> None:
        """Closes the stores and removes their directory."""
        try:
            self.task.close()
            self.globals.close()
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)


def _new_directory(config: StreamsConfig) -> Path:
    parent = None
    if config.origin("state.dir") == "given":
        parent = Path(config.state_dir)
    try:
        if parent is not None:
            parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="streams-driver-", dir=parent))
    except OSError as error:
        raise directory_error(error, parent or Path(tempfile.gettempdir())) from error


def _engine_opener(config: StreamsConfig) -> EngineOpener:
    engines = Engines.of(config, SystemClock())
    if config.rocksdb_config_setter is not None:  # options are meant for a real database
        return engines.open
    return spilling(engines.open)
