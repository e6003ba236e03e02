"""Runs one task over records of history, as a stream thread would, and captures what it writes.

The task is the runtime's own: plan, environment, stores and nodes are those of the live application. There is no
consumer: its owner feeds columns of records. There is no producer: records of sinks and changelogs are captured.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from processor_api.clock import ManualClock, SystemClock
from processor_api.errors import TopologyError
from processor_api.record import HeaderList
from processor_api.stores.factory import ROCKSDB
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology import Topology
from processor_api.topology_function import TopologyLike
from state.engine.port import Engine
from state.write_buffer.memory_budget import Budget
from streams.config import StreamsConfig
from streams.kafka.internal_topics import internal_topic_counts
from streams.kafka.record_collector import RecordCollector
from streams.runtime.engines.opener import Engines
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks
from streams.runtime.processing.environment import GlobalStoreReader, TaskSettings, no_global_store
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.runner.captured import CapturingProducer, Output
from streams.runtime.runner.changelog_capture import CAPTURE_BYTES, ChangelogCapture, ChangelogRow
from streams.runtime.runner.columns import history_records
from streams.runtime.tasks.assembly import TaskAssembly, topology_to_run
from streams.runtime.tasks.task import Task

__all__ = ["RunnerOptions", "TaskRunner"]

HistoryRow = tuple[bytes | None, bytes | None, int, HeaderList | None, int]
"""``(key, value, timestamp_ms, headers, offset)``"""


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """Holds the options of a :class:`TaskRunner`."""

    directory: Path | None = None
    """Where it makes its own directory, which `close` removes; the system's place for temporary files if not given."""
    kept_outputs: frozenset[str] | None = None
    """The topics whose records are captured; those of other sinks are dropped. ``None`` keeps all."""
    global_rows: Mapping[str, Iterable[HistoryRow]] = field(default_factory=dict)
    """The records of each topic that fills a global store."""
    buffer_bytes: int = 64 << 20
    """The bytes of uncommitted rows from which on `wants_commit` is true."""
    capture_bytes: int = CAPTURE_BYTES
    """The bytes of captured changelog records that stay in memory; more are on disk."""
    zero_timestamp_ms: int = 1
    """The timestamp that is written in place of 0, as by the clients of the live application."""


class TaskRunner:
    """Runs one task over the records that it is fed. Used by one thread.

    :param topology: a topology, a builder, or a function that makes either.
    :param partition_counts: the partition counts of all topics that the topology reads or writes, except internal ones.
    :param subtopology: the number of the subtopology.
    :param partition: the partition whose task it is.
    :raises TopologyError: if there is no such task.
    """

    def __init__(
        self,
        topology: TopologyLike,
        config: StreamsConfig | Mapping[str, Any],
        partition_counts: Mapping[str, int],
        subtopology: int,
        partition: int,
        options: RunnerOptions | None = None,
    ) -> None:
        self.config = config = config if isinstance(config, StreamsConfig) else StreamsConfig.of(config)
        options = options or RunnerOptions()
        made = topology_to_run(topology, config)
        self.plan = _plan(made, config, partition_counts, subtopology, partition)
        self.partition = partition
        self.clock = ManualClock()
        counts = {**partition_counts, **internal_topic_counts(made, config.dotted(), partition_counts)}
        self._engines = Engines.of(config, SystemClock())
        self._capture = self._open_capture(options.capture_bytes)
        self._producer = CapturingProducer(self._capture, counts, options.kept_outputs, options.zero_timestamp_ms)
        self._collector = RecordCollector(self._producer, self.clock)
        self._budget = Budget(config.statestore_cache_max_bytes, options.buffer_bytes)
        self._globals: GlobalTask | None = None
        self._task: Task | None = None
        if options.directory is not None:
            options.directory.mkdir(parents=True, exist_ok=True)
        self._directory = Path(tempfile.mkdtemp(prefix="streams-task-", dir=options.directory))
        try:
            reader = self._open_globals(made, options.global_rows)
            self._task = self._open_task(reader)
            self._task.start(self._collector, {})
        except BaseException:
            self.close()
            raise

    def _open_capture(self, most_bytes: int) -> ChangelogCapture:
        plan = self.plan
        own = {store: topic for store, topic in plan.changelogs.items() if store not in plan.source_changelogs}
        kinds = plan.topology.stores
        versioned = [own[store] for store in own if "history_retention_ms" in kinds[store].supplier.parameters]

        def open_engine(families: list[str]) -> Engine:
            return self._engines.open(ROCKSDB, self._directory / "changelogs", families)

        return ChangelogCapture(own.values(), versioned, open_engine, most_bytes)

    def _open_globals(self, topology: Topology, rows: Mapping[str, Iterable[HistoryRow]]) -> GlobalStoreReader:
        if not topology.global_stores:
            return no_global_store
        directory = self._directory / "global"
        task = self._globals = GlobalTask(topology, self.config, directory, self.clock, self._engines.open)
        task.start()
        for topic in task.specs:
            records = list(rows.get(topic, ()))
            if records:
                task.process(TopicPartition(topic, 0), history_records(*zip(*records, strict=True)))
        task.apply()
        return task.stores.reader

    def _open_task(self, global_store: GlobalStoreReader) -> Task:
        config, task_id = self.config, TaskId(self.plan.subtopology, self.partition)
        assembly = TaskAssembly(
            settings=TaskSettings.of(
                config, log_each_put=config.changelog_updates == "each", global_store=global_store
            ),
            error_policy=partial(error_policy_for, config, collector=self._collector),
            clock=self.clock,
            open_engine=self._engines.open,
            budget=self._budget,
        )
        return assembly.task(self.plan, task_id, self._directory / str(task_id))

    @property
    def _running(self) -> Task:
        assert self._task is not None
        return self._task

    # ------------------------------------------------------------------ processing

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the task reads. Of records with equal timestamps, those of an earlier topic go first."""
        return tuple(partition.topic for partition in self._running.queues)

    def feed(
        self,
        topic: str,
        keys: Sequence[bytes | None],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        headers: Iterable[HeaderList | None],
        offsets: Sequence[int],
    ) -> None:
        """Adds records of one input topic, in order; `run` processes them.

        :raises TopologyError: if the task does not read the topic.
        """
        place = TopicPartition(topic, self.partition)
        task = self._running
        if place not in task.queues:
            raise TopologyError(
                f"task {task.id} does not read {place}; it reads {', '.join(map(str, task.queues)) or 'nothing'}",
                topic=topic,
                task=str(task.id),
            )
        task.add(place, history_records(keys, values, timestamps, headers, offsets))

    def run(self) -> int:
        """Processes everything that was fed, in the order of timestamps; returns how many records it was."""
        task, count = self._running, 0
        while done := task.process(1 << 30):
            count += done
        return count

    def wants_commit(self) -> bool:
        """Whether more waits for a commit than may; to be asked after each `run`."""
        return self._budget.wants_commit()

    def commit(self) -> None:
        """Forwards what caches hold back, and writes what was put to the stores."""
        task = self._running
        task.drain()
        self._collector.flush()
        task.apply()
        task.committed()
        self._capture.settle()

    # ------------------------------------------------------------------ results

    def take(self) -> list[Output]:
        """Returns the records that sinks wrote since the last call, in order."""
        outputs = self._producer.outputs
        taken = outputs[:]
        outputs.clear()
        return taken

    def changelog(self) -> dict[str, Iterator[ChangelogRow]]:
        """Returns the rows of each changelog after the last `commit`: the last record of each key, in the order in
        which they were written. Keys that were deleted are left out. A versioned store has a row for each version."""
        return {topic: self._capture.rows(topic) for topic in self._capture.topics}

    def positions(self) -> dict[str, int]:
        """Returns the next offset to process of each input topic of which a record was processed."""
        return {name.topic: position for name, position in self._running.positions().items()}

    def partition_times(self) -> dict[str, int]:
        """Returns the largest timestamp of each input topic, in ms; -1 where there was no record."""
        return {name.topic: queue.partition_time for name, queue in self._running.queues.items()}

    def processor_times(self) -> dict[str, int]:
        """Returns the times that operators commit with their offsets, by store (semantics 51)."""
        return dict(self._running.environment.operator_times.current())

    @property
    def stream_time(self) -> int:
        """The largest timestamp of the task, in ms; -1 before the first record."""
        return self._running.environment.cursor.stream_time

    @property
    def dropped_records(self) -> int:
        """The number of records that were dropped, such as late ones."""
        return self._running.environment.metrics.dropped_records

    @property
    def processed_records(self) -> int:
        """The number of records that were processed."""
        return self._running.environment.metrics.records_processed

    def close(self) -> None:
        """Closes the task and removes its directory; what was not committed is lost."""
        task, self._task = self._task, None
        globals_, self._globals = self._globals, None
        try:
            if task is not None:
                task.close()
        finally:
            try:
                if globals_ is not None:
                    globals_.close()
            finally:
                self._capture.close()
                shutil.rmtree(self._directory, ignore_errors=True)


def _plan(
    topology: Topology, config: StreamsConfig, counts: Mapping[str, int], subtopology: int, partition: int
) -> TaskPlan:
    plans = {plan.subtopology: plan for plan in plan_tasks(topology, config.dotted(), counts)}
    plan = plans.get(subtopology)
    if plan is None:
        raise TopologyError(f"the topology has no subtopology {subtopology} with tasks; it has {sorted(plans)}")
    if not 0 <= partition < plan.tasks:
        raise TopologyError(f"subtopology {subtopology} has {plan.tasks} tasks, there is none of partition {partition}")
    return plan
