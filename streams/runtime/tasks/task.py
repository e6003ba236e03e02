"""A task: one subtopology for one partition.

The same code runs in a stream thread, in the test driver and in simulations. The owner of a task gives it messages and
calls the steps of a commit in order. A task never commits by itself.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any

from processor_api.errors import InternalError
from processor_api.punctuation import PunctuationType
from processor_api.record import NO_TIMESTAMP, DropReason
from processor_api.task_id import TaskId, TopicPartition
from processor_api.texts import plain_str
from streams.kafka.offset_metadata import TopicPartitionMetadata
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.node_chain import NodeChain, build_chain
from streams.runtime.processing.node_samples import SAMPLED_RECORDS
from streams.runtime.processing.pace import Pace
from streams.runtime.processing.punctuations import NEVER, Grids, Punctuations, Schedule
from streams.runtime.tasks.record_runs import RunColumns, take_run
from streams.runtime.tasks.task_inputs import TaskInputs
from streams.runtime.tasks.task_stores import TaskStores

log = logging.getLogger("streams.tasks")


class TaskState(enum.Enum):
    """The state of a task (semantics 130)."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    """Its processors are closed, its engines still open."""
    CLOSED = "CLOSED"


_NEXT = {
    TaskState.CREATED: {TaskState.RESTORING, TaskState.SUSPENDED},
    TaskState.RESTORING: {TaskState.RUNNING, TaskState.SUSPENDED},
    TaskState.RUNNING: {TaskState.SUSPENDED},
    TaskState.SUSPENDED: {TaskState.RESTORING, TaskState.CLOSED},
    TaskState.CLOSED: {TaskState.CREATED},
}


class Task:
    """Runs a subtopology for one partition.

    It is made with open engines; `start` builds its chain once they are restored.
    """

    def __init__(self, plan: TaskPlan, environment: Environment, stores: TaskStores) -> None:
        self.id: TaskId = environment.task_id
        self.plan = plan
        self.environment = environment
        self.stores = stores
        self.state = TaskState.CREATED
        self.inputs = TaskInputs()
        self.commit_needed = False
        self.has_progress = False
        """Whether what waits for a commit is more than what was written when processors were initialised."""
        self.topic_ids: Mapping[str, str] = {}
        """The ids of the topics that it reads, and of the changelogs of its stores, where the cluster knows them."""
        self.absent: frozenset[TopicPartition] = frozenset()
        """Inputs that do not exist and are not read."""
        self._chain: NodeChain | None = None
        self._punctuations = Punctuations(self._punctuate)

    def become(self, state: TaskState) -> None:
        """Changes the state.

        :raises InternalError: if a task cannot go from its state to that one.
        """
        if state not in _NEXT[self.state]:
            raise InternalError(f"a task cannot go from {self.state.value} to {state.value}", task=str(self.id))
        self.state = state

    # ------------------------------------------------------------------ lifecycle

    def start(
        self,
        collector: RecordCollector,
        committed: Mapping[TopicPartition, OffsetAndMetadata],
        changelog_ends: Mapping[str, int] = MappingProxyType({}),
        *,
        punctuations: Grids = MappingProxyType({}),
    ) -> None:
        """Builds the chain and goes RUNNING. ``committed`` restores partition times (semantics 2).

        :param changelog_ends: where the changelog of each store ends.
        :param punctuations: those of a task over history whose work this one continues with.
        """
        if self.state is TaskState.CREATED:
            self.become(TaskState.RESTORING)  # nothing was missing
        collector.prepare(self.plan.topics_written)
        self.stores.open(collector, changelog_ends)
        starts = {name: one.offset for name, one in committed.items()}
        self.stores.positions.start(self.stores.progress.restored_positions(starts, changelog_ends))
        metadata = (TopicPartitionMetadata.decode(one.metadata) for one in committed.values())
        self.environment.operators.start(one.processors for one in metadata)
        self.stores.keep_times()
        self._punctuations = Punctuations(self._punctuate, punctuations)
        self._chain = build_chain(self.plan, self.environment, collector, self.stores.stores, self._punctuations)
        self.environment.operators.times.warn_of_too_many(str(self.id))
        sources = self._chain.sources
        partitions = (name for name in self.plan.partitions(self.id.partition) if name not in self.absent)
        self.inputs.open(
            {name: sources[name.topic] for name in partitions}, committed, self.environment, self.plan.key_watch
        )
        cursor = self.environment.cursor
        cursor.stream_time = self.inputs.stream_time()
        cursor.leave()
        self._init(self._chain)
        self.commit_needed = self._chain.initialises  # what it wrote and forwarded is there before the first record
        self.become(TaskState.RUNNING)

    def _init(self, chain: NodeChain) -> None:
        environment, now = self.environment, self.environment.clock.monotonic
        begin = now()
        environment.users.initialised = False
        chain.init()
        self._punctuations.initialised()
        environment.users.initialised = True
        if environment.thread.pace is not None:
            environment.thread.pace.calls.record(now() - begin, "the start of the processors", {"task": str(self.id)})

    @property
    def punctuations(self) -> Grids:
        """The punctuations, for a task that continues with the work of this one."""
        return self._punctuations.grids()

    def read_also(self, partition: TopicPartition, source: str, committed: OffsetAndMetadata | None = None) -> None:
        """Reads one more partition with a source node whose pattern its topic matches, from the next record added.

        :param committed: restores the partition's time.
        """
        assert self._chain is not None
        bound = self._chain.sources[partition.topic] = self._chain.bind_source(source, partition.topic)
        queue = self.inputs.add(partition, bound, committed, self.environment)
        cursor = self.environment.cursor
        cursor.stream_time = max(cursor.stream_time, queue.partition_time)

    def roll_back(self) -> None:
        """Goes back to the last commit; the engines remain open."""
        self._close_chain(dirty=True)
        self.stores.drop_uncommitted()
        self.stores.positions.stop()
        self.inputs.clear()
        self.commit_needed = self.has_progress = False
        self.environment.users.commit_requested = False
        self.environment.cursor.stream_time = NO_TIMESTAMP
        if self.state is not TaskState.CREATED:
            # As a task that is closed and made again, but for its engines.
            for state in (TaskState.SUSPENDED, TaskState.CLOSED, TaskState.CREATED):
                self.become(state)

    def close(self, *, dirty: bool = False) -> None:
        """Closes processors, stores and engines. What was not committed is lost.

        :param dirty: whether there is an error already, so that those of processors are only logged.
        """
        if self.state is TaskState.CLOSED:
            return
        self.become(TaskState.SUSPENDED)
        # They end with the task: from now on no commit carries an offset of it.
        self.inputs.known_offsets, self.inputs.sent_offsets = {}, {}
        try:
            self._close_chain(dirty=dirty)
        finally:
            self.stores.close()
            self.become(TaskState.CLOSED)

    def _close_chain(self, *, dirty: bool) -> None:
        chain, self._chain = self._chain, None
        self.environment.operators.stop()
        if chain is None:
            return
        try:
            chain.close()
        except Exception as error:
            if not dirty:
                raise
            # a dirty close has an error already, which must not be hidden by this one
            log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)
        if self.environment.probe is not None:
            self.environment.probe.rolled_back()

    # ------------------------------------------------------------------ processing

    def add(self, partition: TopicPartition, messages: Sequence[Any]) -> InputQueue:
        """Buffers consumed messages of one input partition."""
        queue = self.inputs.queues[partition]
        sample = self.inputs.samples.get(partition)
        if sample is not None and (misplaced := sample.look(messages)):
            drops = self.environment.metrics.drops.of(queue.reader.source.node)
            drops.counts[DropReason.MISPLACED_KEY] += misplaced
        if queue.add(messages):
            self.commit_needed = True
        return queue

    def reached_end(self, partition: TopicPartition, offset: int) -> bool:
        """Notes that an input partition was read to its end; returns whether a commit is needed for that alone.

        As in Kafka Streams, the markers of transactions behind the last record are committed too: otherwise the group
        would seem to have something left to read.
        """
        self.inputs.queues[partition].at_end(offset)
        if self.commit_needed or not self.inputs.is_ahead(partition):
            return False
        self.commit_needed = True
        return True

    def continue_at(self, partition: TopicPartition, offset: int) -> None:
        """Continues a partition at another offset, where nothing of it is buffered.

        The offset is committed, so that a restart begins there.
        """
        self.inputs.queues[partition].continue_at(offset)
        self.commit_needed = True

    @property
    def takes_runs(self) -> bool:
        """Whether runs of records may be taken together: it has one input, and what is behind that can."""
        only = self.inputs.only
        return only is not None and only.queue.reader.source.take_run is not None

    def take_run(self, partition: TopicPartition, run: RunColumns) -> bool:
        """Processes records of an input that follow those that were added, where none needs a decision of its own.

        :returns: whether it did; if not, nothing has changed.
        """
        only = self.inputs.only
        if only is None or only.queue.partition != partition or partition in self.inputs.samples:
            return False
        if not take_run(run, only.queue, self.environment, self._punctuations.next_stream_time):
            return False
        self.commit_needed = self.has_progress = True
        self.environment.metrics.records_processed += run.records
        return True

    def process(self, limit: int, idle: Idling | None = None) -> int:
        """Processes up to ``limit`` records; returns how many. Stops early when an input must be waited for.

        :param idle: decides whether to wait for an empty partition
            (:class:`streams.runtime.processing.idling.Idling`); ``None`` never waits.
        """
        nodes = self.environment.metrics.nodes
        if not nodes.is_due or not self.inputs.has_records():
            return self._process(limit, idle)
        some, pace = min(limit, SAMPLED_RECORDS), self.environment.thread.pace
        count = nodes.process(lambda: self._process(some, idle), self.environment.metrics.records_processed)
        is_over = count < some or count == limit or (pace is not None and pace.over)
        return count if is_over else count + self._process(limit - count, idle)

    def _process(self, limit: int, idle: Idling | None) -> int:
        environment, inputs = self.environment, self.inputs
        if environment.operators.remainders and not self._send_remainders():
            return 0
        only, metrics = inputs.only, environment.metrics
        dropped = metrics.dropped_records
        if only is not None:
            count = only.run(limit, self._punctuations, self._punctuate_stream_time) if only.queue else 0
        elif not inputs.merge.begin(idle):
            count = 0
        elif environment.thread.pace is None:
            count = self._process_by_time(limit, idle)
        else:
            count = self._process_in_runs(limit, idle, environment.thread.pace)
        if environment.operators.held:
            environment.operators.held.end_round()
        if count or metrics.dropped_records != dropped:  # these move positions too, and may have sent dead letters
            self.commit_needed = self.has_progress = True
            metrics.records_processed += count
            inputs.pass_markers()
        return count

    def _process_in_runs(self, limit: int, idle: Idling | None, pace: Pace) -> int:
        """Processes records in runs, and checks the clock between these."""
        count, run = 0, self.inputs.run
        pace.begin_run()
        while count < limit:
            wanted = min(run, limit - count)
            try:
                done = self._process_by_time(wanted, idle)
            except BaseException:  # it may have failed because a slow record before it was too late
                pace.check(run, self._slow)
                raise
            count += done
            run = pace.check(run, self._slow)
            if pace.over or done < wanted:
                break
        self.inputs.run = run
        return count

    def _slow(self) -> tuple[str, dict[str, Any]]:
        """Returns the last record and its place, for messages about its time."""
        cursor = self.environment.cursor
        queue = next((one for one in self.inputs.queues.values() if one.partition == cursor.source), None)
        return "a record", {} if queue is None else queue.reader.place(cursor.message)

    def _process_by_time(self, limit: int, idle: Idling | None) -> int:
        merge, punctuations = self.inputs.merge, self._punctuations
        cursor, remainders = self.environment.cursor, self.environment.operators.remainders
        count = 0
        while count < limit and merge.next(idle) is not None:
            count += merge.run(limit - count, cursor, punctuations, self._punctuate_and_stop)
            if remainders:
                break
        return count

    def _punctuate_and_stop(self) -> bool:
        """Runs what stream time has made due; returns whether results are left that go before the next record."""
        self._punctuate_stream_time()
        return bool(self.environment.operators.remainders)

    # ------------------------------------------------------------------ punctuation

    def _send_remainders(self) -> bool:
        """Sends on what the records before have made due; returns whether all of it is sent."""
        self.commit_needed = self.has_progress = True
        cursor = self.environment.cursor
        cursor.leave()
        try:
            return self.environment.operators.remainders.send()
        finally:
            cursor.leave()

    def _punctuate_stream_time(self) -> None:
        environment = self.environment
        if environment.operators.remainders and not self._send_remainders():
            return
        self._punctuations.slept()
        now = environment.cursor.stream_time
        if environment.operators.held:
            environment.operators.held.release()
        if now != NO_TIMESTAMP and self._punctuations.punctuate(PunctuationType.STREAM_TIME, now):
            self.commit_needed = self.has_progress = True

    def has_records(self) -> bool:
        """Whether anything is buffered, or results are due."""
        return bool(self.environment.operators.remainders) or self.inputs.has_records()

    @property
    def at_end(self) -> bool:
        """Whether every input was read and processed to its end, and nothing waits for a commit."""
        return not self.commit_needed and not self.environment.operators.remainders and self.inputs.at_end()

    @property
    def next_wall_clock_ms(self) -> int:
        """The time of the next punctuation by the wall clock, or of a batch that has waited long enough by then."""
        return min(self._punctuations.next_wall_clock, self.environment.operators.held.due_ms)

    def wall_clock_due(self) -> bool:
        """Whether a punctuation by the wall clock is due, or a batch."""
        due = self.next_wall_clock_ms
        return due != NEVER and self.environment.clock.time_ms() >= due

    def punctuate_wall_clock(self) -> bool:
        """Runs what is due by the wall clock, batches before punctuations; returns whether a punctuation ran."""
        environment = self.environment
        now, held, pace = environment.clock.time_ms(), environment.operators.held, environment.thread.pace
        if now < self._punctuations.next_wall_clock:
            held.release_due(now)
            return False
        held.release()
        enough = None if pace is None else pace.ends_here
        ran = self._punctuations.punctuate(PunctuationType.WALL_CLOCK_TIME, now, enough)
        held.end_round()
        if ran:
            self.commit_needed = self.has_progress = True
        return ran

    def _punctuate(self, schedule: Schedule, now_ms: int) -> None:
        probe = self.environment.probe
        with nullcontext() if probe is None else probe.punctuation(schedule.node, now_ms):
            self._run_punctuation(schedule, now_ms)

    def _run_punctuation(self, schedule: Schedule, now_ms: int) -> None:
        environment = self.environment
        cursor = environment.cursor
        cursor.leave()
        cursor.timestamp = now_ms
        begin = environment.clock.monotonic()
        try:
            environment.metrics.nodes.together("punctuation", schedule.node, 1, partial(schedule.callback, now_ms))
        except Exception as error:
            environment.errors.punctuation(schedule.node, error, cursor)
            environment.drop(schedule.node, DropReason.FAILED)
        finally:
            seconds = environment.clock.monotonic() - begin
            environment.metrics.punctuated(seconds)
            if environment.thread.pace is not None:
                what = f"a punctuation of node {schedule.node!r}"
                environment.thread.pace.calls.record(seconds, what, {"node": schedule.node, "task": str(self.id)})
            cursor.leave()

    # ------------------------------------------------------------------ the steps of a commit

    def drain(self) -> None:
        """Steps (a) and (b): forwards and logs what nodes and caches hold back."""
        held = self.environment.operators.held
        held.release()
        self.stores.drain()
        while held:  # caches lie above nodes that hold records back
            held.release()
            self.stores.drain()
        self.environment.cursor.leave()

    def end(self, sent: Callable[[], None]) -> None:
        """Sends on all that waits for later records, after the last record that there will ever be.

        Operators upstream go first, so that what they send is still taken in downstream.

        :param sent: called now and then, when some were sent.
        """
        cursor = self.environment.cursor
        self.drain()
        for send in reversed(self.environment.operators.enders):
            more = True
            while more:
                cursor.leave()
                more = send()
                self.drain()
                sent()
        self.commit_needed = True

    def committable(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the offsets that the next commit changes, with their metadata (semantics 79)."""
        times = self.environment.operators.times
        changelogs = self.stores.changelogs
        return self.inputs.committable(
            times.current(),
            self.topic_ids,
            changelogs.marks(),
            changelogs.schemas,
            changelogs.ids(self.topic_ids),
            progressed=times.progressed,
        )

    def apply(self, *, transaction: bool = False) -> None:
        """Step (d) or (e): writes to the engines what was drained.

        :param transaction: whether a transaction was committed before.
        """
        positions = self.inputs.positions()
        self.stores.apply(positions, self.inputs.points() if self.plan.source_changelogs else {})
        self.stores.positions.note_commit(positions)
        if transaction:
            self.stores.changelogs.transaction_committed()

    def sample(self) -> None:
        """Samples the counters of the task and its stores, for rates."""
        self.environment.metrics.sample()
        self.stores.sample()

    def committed(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        absent: Collection[TopicPartition] = (),
    ) -> None:
        """Notes that the commit has succeeded.

        :param offsets: what was committed, if that was a while ago; otherwise it is what is :meth:`committable`.
        :param absent: partitions that do not exist, and whose offsets are not committed.
        """
        changed = self.committable() if offsets is None else offsets
        self.inputs.committed({name: one for name, one in changed.items() if name not in absent} if absent else changed)
        self.stores.commit_ended()
        if offsets is None:
            self.environment.operators.committed()
        self.has_progress = False
        self.commit_needed = bool(self.environment.operators.remainders)  # a drain has left some
        if offsets is not None:  # positions may have moved meanwhile, past records that are none
            self.commit_needed = self.commit_needed or bool(self.committable())
        self.environment.users.commit_requested = False
        if self.environment.probe is not None:
            self.environment.probe.committed()
