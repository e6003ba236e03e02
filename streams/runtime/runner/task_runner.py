"""Runs one task over records of history, as a stream thread would, and captures what it writes.

The task is the runtime's own: plan, environment, stores and nodes are those of the live application. There is no
consumer: its owner feeds columns of records. There is no producer: records of sinks and changelogs are captured.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

from processor_api.clock import ManualClock
from processor_api.context import HeldBack
from processor_api.errors import StreamsError, TopologyError
from processor_api.punctuation import PunctuationType
from processor_api.record import NO_TIMESTAMP, HeaderList
from processor_api.stores.suppliers import ROCKSDB
from processor_api.task_id import TaskId, TopicPartition
from processor_api.topology.function import TopologyLike
from processor_api.topology.topology import Topology
from state.directory.metadata import DATABASE
from state.directory.own_files import link_or_copy
from state.engine.port import OFFSETS, POSITIONS, Engine
from state.engine.spilling import SpillingEngine
from state.registry.kinds import changelog_records_of, families_of, restore_of
from state.windowed.segments import Retention
from state.write_buffer.memory_budget import Budget
from streams.config import StreamsConfig
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.producing.record_collector import RecordCollector
from streams.kafka.producing.zero_timestamps import as_written
from streams.kafka.topics.internal import changelog_name, internal_topic_counts
from streams.runtime.engines.opener import spilling
from streams.runtime.plan.task_plan import TaskPlan, plan_tasks
from streams.runtime.processing.environment import TaskSettings
from streams.runtime.processing.error_policy import error_policy_for
from streams.runtime.processing.punctuations import Grids
from streams.runtime.runner.captured import CapturingProducer, Output
from streams.runtime.runner.changelog_capture import RECORDS, Change, ChangelogCapture, ChangelogRow
from streams.runtime.runner.columns import HistoryRecord, UnplacedRecord, history_records
from streams.runtime.runner.options import RunnerOptions, SavedState
from streams.runtime.runner.resources import RunnerResources
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.record_runs import RunColumns
from streams.runtime.tasks.task import Task, TaskState

# State that a task over history begins with: the rows of its stores, and the times of its inputs and operators.

LOAD_ROWS = 10_000
STORES, CHANGELOGS = "stores", "changelogs"
"""The names of the directories of saved databases."""
TABLE_FILE = ".sst"


def kept_stores(plan: TaskPlan) -> dict[str, str]:
    """Returns the stores of a task that write no changelog, each with the name under which its rows are kept: that of
    the changelog that it would have."""
    own = plan.changelogs.keys() - plan.source_changelogs
    return {store: changelog_name(plan.prefix, store) for store in plan.stores if store not in own}


def saved_families(plan: TaskPlan) -> list[str]:
    """Returns the families of those stores of a task that are on RocksDB: the rows of saved databases are theirs."""
    builders = [plan.topology.stores[name] for name in plan.stores]
    return sorted(one for each in builders if each.supplier.engine == ROCKSDB for one in families_of(each))


def load_rows(
    task: Task, state: Mapping[str, Iterable[ChangelogRow]], capture: ChangelogCapture, saved: SavedState | None = None
) -> None:
    """Fills the stores of a task that has not started with rows of their changelogs, which are captured too.

    :param saved: the databases that have been opened; rows that are in one are not put there.
    :raises TopologyError: if the task has no store with such a changelog.
    """
    own = {topic: store for store, topic in task.plan.changelogs.items() if topic in capture.topics}
    stores = own | {topic: store for store, topic in kept_stores(task.plan).items()}
    for topic, rows in state.items():
        if topic not in stores:
            raise TopologyError(
                f"task {task.id} does not have a store with the changelog {topic!r}; its changelogs are"
                f" {', '.join(sorted(stores)) or 'none'}",
                topic=topic,
                task=str(task.id),
            )
        is_there = saved is not None and saved.stores is not None and _is_on_rocksdb(task, stores[topic])
        is_captured = topic in own and (saved is None or topic not in saved.known)
        takers = [] if is_there else [_restoring(task, stores[topic])]
        if is_captured:
            takers.append(_capturing(capture, topic))
        left = iter(rows if takers else ())
        while some := list(islice(left, LOAD_ROWS)):
            for take in takers:
                take(some)


def _is_on_rocksdb(task: Task, store: str) -> bool:
    return task.plan.topology.stores[store].supplier.engine == ROCKSDB


def _restoring(task: Task, store: str) -> Callable[[list[ChangelogRow]], None]:
    engine = task.stores.progress.engine_of(store)
    restore = restore_of(task.plan.topology.stores[store], engine)

    def take(rows: list[ChangelogRow]) -> None:
        keys, values, stamps, headers = zip(*rows, strict=True)
        batch = engine.batch()
        times, found = as_written(stamps, headers)
        restore(batch, iter(keys), iter(values), times, iter(found))
        engine.load(batch)

    return take


def _capturing(capture: ChangelogCapture, topic: str) -> Callable[[list[ChangelogRow]], None]:
    write = capture.writer(topic)

    def take(rows: list[ChangelogRow]) -> None:
        for row in rows:
            write(*row)
        capture.settle()

    return take


def open_saved(files: Path, directory: Path) -> None:
    """Puts the files of a saved database where an engine opens it: table files, which never change, as further names
    of these where the file systems allow that, others as copies.

    :param directory: of the task.
    """
    target = directory / DATABASE
    target.mkdir(parents=True)
    for path in files.iterdir():
        (link_or_copy if path.suffix == TABLE_FILE else shutil.copyfile)(path, target / path.name)


def start_offsets(
    task: Task, partition_times: Mapping[str, int], processor_times: Mapping[str, int]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the committed offsets by which a task begins with the times of its inputs and operators."""
    if not partition_times and not processor_times:
        return {}
    times = {place: partition_times.get(place.topic, NO_TIMESTAMP) for place in task.plan.partitions(task.id.partition)}
    return {
        place: OffsetAndMetadata(0, TopicPartitionMetadata(time, processor_times).encode())
        for place, time in times.items()
    }


COUNTED_PART = 6
"""Bytes in memory for each byte that the write buffers of small rows count: they count as Kafka Streams does, without
the objects of Python. Large rows take less."""


class TaskRunner:
    """Runs one task over the records that it is fed. Used by one thread.

    :param topology: a topology, a builder, or a function that makes either.
    :param partition_counts: the partition counts of all topics that the topology reads or writes, except internal ones.
    :param subtopology: the number of the subtopology.
    :param partition: the partition whose task it is.
    :param resources: what it shares with other runners of the same topology; of its own, and closed with it, if not
        given.
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
        resources: RunnerResources | None = None,
    ) -> None:
        self._options = options = options or RunnerOptions()
        self._opened = ExitStack()
        """Closes what was opened, the last first."""
        if resources is None:
            resources = RunnerResources(topology, config, options)
            self._opened.callback(resources.close)
        self._resources = resources
        directory = resources.directory / str(TaskId(subtopology, partition))
        self._opened.callback(shutil.rmtree, directory, ignore_errors=True)
        self.partition = partition
        self.directory = resources.directory
        """Where the runner and others with the same resources have files; it is removed with these."""
        self.clock = ManualClock(options.start_ms)
        self._task: Task | None = None
        self._capture: ChangelogCapture | None = None
        try:
            made, config = resources.topology, resources.config
            self.plan = _plan(made, config, partition_counts, subtopology, partition)
            counts = {**partition_counts, **internal_topic_counts(made, config.dotted(), partition_counts)}
            self._capture = self._open_capture(directory / "changelogs")
            self._opened.callback(self._capture.close)
            self._producer = CapturingProducer(self._capture, counts, options.kept_outputs, options.zero_timestamp_ms)
            self._collector = RecordCollector(self._producer, self.clock)
            self._budget = Budget(config.statestore_cache_max_bytes, options.buffer_bytes // COUNTED_PART)
            self._task = self._open_task(directory)
            self._opened.callback(self._task.close)
            load_rows(self._task, options.state, self._capture, options.saved)
            if options.tracks_changes and self._capture.spilled and options.saved is None:
                self._capture.track()
            if not options.event_time:
                self._start()
        except BaseException:
            self.close()
            raise

    def _open_capture(self, directory: Path) -> ChangelogCapture:
        plan, engines = self.plan, self._resources.capture_engines
        own = {store: topic for store, topic in plan.changelogs.items() if store not in plan.source_changelogs}
        kinds = plan.topology.stores
        versioned = [own[store] for store in own if "history_retention_ms" in kinds[store].supplier.parameters]

        def open_engine(name: str, families: list[str]) -> Engine:
            return engines.open(ROCKSDB, directory / name, families)

        lasting = {
            own[store]: retention.at_least_ms + retention.interval_ms  # no store shows a row for longer
            for store in own
            if kinds[store].supplier.parameters.get("retain_duplicates")
            for retention in [Retention.of(kinds[store], persistent=True)]
        }
        capture = ChangelogCapture(own.values(), versioned, open_engine, self._options.capture_bytes, lasting)
        if self._options.saved is not None:
            open_saved(self._options.saved.changelogs, directory / RECORDS)
            capture.resume(self._options.saved.known)
        return capture

    def _open_task(self, directory: Path) -> Task:
        config, resources = self._resources.config, self._resources
        stores = None if self._options.saved is None else self._options.saved.stores
        assembly = TaskAssembly(
            settings=TaskSettings.of(
                config,
                log_each_put=config.changelog_updates == "each",
                global_store=resources.global_store,
                kept_outputs=self._options.kept_outputs,
                keeps_origins=False,  # A run takes only records without headers together.
            ),
            error_policy=partial(error_policy_for, config, collector=self._collector),
            clock=self.clock,
            open_engine=spilling(resources.engines.open, self._options.store_bytes, is_filled=stores is not None),
            budget=self._budget,
        )
        if stores is not None:
            open_saved(stores, directory)
        task = assembly.task(self.plan, TaskId(self.plan.subtopology, self.partition), directory)
        if stores is not None:  # offsets were those of the earlier runner
            task.stores.engines[ROCKSDB].clear([OFFSETS, POSITIONS])
        return task

    def _start(self) -> None:
        task, options = self._running, self._options
        committed = start_offsets(task, options.partition_times, options.processor_times)
        task.start(self._collector, committed, punctuations=options.punctuations)

    @property
    def _running(self) -> Task:
        if self._task is None:
            raise StreamsError("the runner is closed: take its results before close()")
        return self._task

    @property
    def _captured(self) -> ChangelogCapture:
        if self._capture is None:
            raise StreamsError("the runner is closed: read its changelogs before close()")
        return self._capture

    # ------------------------------------------------------------------ processing

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the task reads. Of records with equal timestamps, those of an earlier topic go first."""
        return tuple(place.topic for place in self.plan.partitions(self.partition))

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
        task = self._running
        if task.state is TaskState.CREATED:
            self._begin_at(min(timestamps, default=0))
        place = TopicPartition(topic, self.partition)
        inputs = task.inputs.queues
        if place not in inputs:
            raise TopologyError(
                f"task {task.id} does not read {place}; it reads {', '.join(map(str, inputs)) or 'nothing'}",
                topic=topic,
                task=str(task.id),
            )
        kind = UnplacedRecord if topic in self._options.unplaced else HistoryRecord
        task.add(place, history_records(keys, values, timestamps, headers, offsets, kind))

    @property
    def takes_runs(self) -> bool:
        """Whether :meth:`take_run` may take records."""
        return not self._options.event_time and self._running.takes_runs

    def take_run(self, topic: str, run: RunColumns) -> bool:
        """Processes records of an input topic that follow those that were fed and run, by their keys.

        :returns: whether it did; if not, they are to be fed.
        """
        task = self._running
        return self.takes_runs and task.take_run(TopicPartition(topic, self.partition), run)

    def run(self) -> int:
        """Processes everything that was fed, in the order of timestamps; returns how many records it was."""
        task, count = self._running, 0
        if self._options.event_time:
            while task.process(1):
                count += 1
                self._begin_at(self.stream_time)
            return count
        while done := task.process(1 << 30):
            count += done
        return count

    def _begin_at(self, time: int) -> None:
        """Moves the clock to a time, unless it is later already, and runs what is due by then."""
        task = self._running
        if time > self.clock.time_ms():
            self.clock.advance(time - self.clock.time_ms())
        if task.state is TaskState.CREATED:
            self._start()
        elif task.wall_clock_due():
            task.punctuate_wall_clock()

    def wants_commit(self) -> bool:
        """Whether more waits for a commit than may; to be asked after each `run`."""
        return self._budget.wants_commit()

    def commit(self) -> None:
        """Forwards what caches hold back, and writes what was put to the stores."""
        task = self._running
        if task.state is TaskState.CREATED:
            self._start()
        task.drain()
        self._collector.flush()
        task.apply()
        task.committed()
        self._captured.settle()

    def end(self, sent: Callable[[], None]) -> None:
        """Sends on what operators hold back for later records, after the last one: changes that are suppressed, windows
        that are open, records that wait for partners. The state is not one that a live task could continue with then.

        :param sent: called now and then, to `take` what was sent.
        """
        self.commit()
        self._running.end(sent)
        self.commit()

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
        capture = self._captured
        return {topic: capture.rows(topic) for topic in capture.topics}

    @property
    def tracked(self) -> Mapping[str, int]:
        """The changelogs whose changes are tracked, with the number of the next record of each."""
        return self._captured.tracked

    def changed(self) -> Mapping[str, int]:
        """Returns the number of keys of each tracked changelog that have changed by the last `commit`."""
        return self._captured.changed()

    def changes(self) -> dict[str, Iterator[Change]]:
        """Returns the changes of each tracked changelog by the last `commit`."""
        capture = self._captured
        return {topic: capture.changes(topic) for topic in capture.tracked}

    def save(self, directory: Path) -> list[Path]:
        """Writes the databases as of the last `commit`, for a runner that continues with them; returns their
        directories, `STORES` and `CHANGELOGS`, of which there is no more than the latter without a store on RocksDB.

        :param directory: does not exist; on the file system of the runner's directory.
        :raises StateError: if they cannot be written.
        """
        directory.mkdir(parents=True)
        engine = self._running.stores.engines.get(ROCKSDB)
        if engine is not None:
            cast(SpillingEngine, engine).save(directory / STORES)
        self._captured.save(directory / CHANGELOGS)
        return sorted(directory.iterdir())

    def other_rows(self) -> dict[str, Iterator[ChangelogRow]]:
        """Returns the rows after the last `commit` of stores that write no changelog, such as tables whose changelog is
        their source topic, by the names that their changelogs would have."""
        progress, found = self._running.stores.progress, dict[str, Iterator[ChangelogRow]]()
        for store, topic in kept_stores(self.plan).items():
            rows = changelog_records_of(self.plan.topology.stores[store], progress.engine_of(store))
            if rows is not None:
                time = max(self.stream_time, 0)  # of rows that have none
                found[topic] = ((key, value, time if ms < 0 else ms, given) for key, value, ms, given in rows)
        return found

    def positions(self) -> dict[str, int]:
        """Returns the next offset to process of each input topic of which a record was processed."""
        return {name.topic: position for name, position in self._running.inputs.positions().items()}

    def partition_times(self) -> dict[str, int]:
        """Returns the largest timestamp of each input topic, in ms; -1 where there was no record."""
        return {name.topic: queue.partition_time for name, queue in self._running.inputs.queues.items()}

    def processor_times(self) -> dict[str, int]:
        """Returns the times that operators commit with their offsets, by store (semantics 51)."""
        return dict(self._running.environment.operators.times.current())

    def punctuations(self) -> Grids:
        """Returns the punctuations with their next times, for a runner that continues: those by stream time, and those
        by the wall clock where that goes with the records."""
        kinds = {PunctuationType.STREAM_TIME.name}
        if self._options.event_time:
            kinds.add(PunctuationType.WALL_CLOCK_TIME.name)
        return {
            node: [one if one[0] in kinds else (one[0], -1, 0, 0) for one in own]
            for node, own in self._running.punctuations.items()
        }

    @property
    def stores(self) -> Mapping[str, Any]:
        """The stores of the task by name, as processors get them."""
        return {name: store.facade for name, store in self._running.stores.stores.items()}

    @property
    def stream_time(self) -> int:
        """The largest timestamp of the task, in ms; -1 before the first record."""
        return self._running.environment.cursor.stream_time

    def held_results(self) -> tuple[tuple[str, HeldBack], ...]:
        """Returns the nodes that hold results back until stream time advances, with what they hold."""
        return self._running.environment.operators.held_results.find()

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
        self._task = self._capture = None
        self._opened.close()


def _plan(
    topology: Topology, config: StreamsConfig, counts: Mapping[str, int], subtopology: int, partition: int
) -> TaskPlan:
    plans = {plan.subtopology: plan for plan in plan_tasks(topology, config.dotted(), counts)}
    plan = plans.get(subtopology)
    if plan is None:
        raise TopologyError(
            f"the topology does not have a subtopology {subtopology} with tasks; it has {sorted(plans)}"
        )
    if not 0 <= partition < plan.tasks:
        raise TopologyError(
            f"subtopology {subtopology} has {plan.tasks} tasks, so partition {partition} does not have a task"
        )
    return plan
