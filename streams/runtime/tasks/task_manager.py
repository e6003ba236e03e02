"""The tasks of one stream thread: opened, restored, run, closed.

Membership says what to own, inside the consumer's callback; what goes is committed and closed there, what comes is only
noted, and opened step by step in the thread's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import RetryableError, TaskMigratedError
from processor_api.offset_reset import AutoOffsetReset
from processor_api.task_id import TaskId, TopicPartition
from state.directory.state_directory import StateDirectory, TaskLock
from state.registry.kinds import restore_of
from streams.kafka.group import Tasks
from streams.kafka.ports import CommitAgain, Consumer, OffsetAndMetadata
from streams.kafka.record_collector import RecordCollector
from streams.log import working_on
from streams.restore.restorer import RestoreJob, Restorer, plan_restore
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment
from streams.runtime.tasks.absent_inputs import AbsentInputs
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.hidden_records import HiddenRecords
from streams.runtime.tasks.retry import Trouble
from streams.runtime.tasks.start_offsets import check_positions, start_unrestored, starting_offsets
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.tasks.task_stores import TaskStores
from streams.runtime.tasks.topic_ids import check_committed, keep_changelog_ids, topics_of, with_ids
from streams.runtime.tasks.traced_task import make_task

__all__ = ["OwnedTask", "TaskManager"]

log = logging.getLogger("streams.tasks")

BULK_RECORDS = 100_000
"""Restores of a task that are as long are loaded in bulk (docs/decisions/0015-restores-write-batches.md): to open its
database twice takes as long as some thousand records."""

STARTING_S = 0.1
"""How long to start tasks at a time."""

MakeEnvironment = Callable[[TaskId], Environment]
MakeStores = Callable[[TaskPlan, TaskId, Environment], TaskStores]


class OwnedTask(NamedTuple):
    """A task of a thread, for those who look at it from another one."""

    id: TaskId
    plan: TaskPlan
    task: Task | None
    """``None`` until it is opened."""
    changelog_ends: Mapping[str, int]
    """While it is restored, and not before: where the changelog of each store ended when that began."""
    restores: Mapping[str, RestoreJob]
    """What its stores still lack."""


class TaskManager:
    """Used by its thread only, except where something else is said."""

    def __init__(
        self,
        *,
        plans: Mapping[int, TaskPlan],
        consumer: Consumer,
        restore_consumer: Consumer,
        restorer: Restorer,
        collector: RecordCollector,
        committer: Committer,
        directory: StateDirectory,
        clock: Clock,
        offset_reset: AutoOffsetReset,
        task_timeout_ms: int,
        make_environment: MakeEnvironment,
        make_stores: MakeStores,
        topic_ids: Callable[[Collection[str]], Mapping[str, str]],
        log_ends: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        on_unknown: Callable[[], None] = lambda: None,
    ) -> None:
        """:param topic_ids: see :meth:`streams.kafka.ports.Admin.topic_ids`.
        :param log_ends: see :meth:`streams.kafka.ports.Admin.log_ends`.
        :param on_unknown: called when a task is owned that the plans do not have yet."""
        self._plans = plans
        self._consumer = consumer
        self._restore_consumer = restore_consumer
        self._restorer = restorer
        self._collector = collector
        self._committer = committer
        self._directory = directory
        self._clock = clock
        self._offset_reset = offset_reset
        self._trouble = Trouble(clock, 0, 0, task_timeout_ms)
        """With opening tasks; the loop has its own pace."""
        self._make_environment = make_environment
        self._make_stores = make_stores
        self._topic_ids = topic_ids
        self._absent = AbsentInputs(consumer, clock)
        self._hidden = HiddenRecords(log_ends, restore_consumer, clock)
        self._on_unknown = on_unknown
        self._wanted: frozenset[TaskId] = frozenset()
        self._has_new_inputs = False
        self.owned: frozenset[TaskId] = frozenset()
        self.tasks: dict[TaskId, Task] = {}
        self.running: dict[TopicPartition, Task] = {}
        """Running tasks by input partition."""
        self._locks: dict[TaskId, TaskLock] = {}
        self._starts: dict[TaskId, dict[TopicPartition, OffsetAndMetadata]] = {}
        self._changelog_ends: dict[TaskId, dict[str, int]] = {}

    # ------------------------------------------------------------------ ownership

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """See :class:`streams.kafka.group.Owner`."""
        gone = self.owned - tasks.active
        new = tasks.active - self.owned
        self.owned = tasks.active
        self._find_wanted()
        if gone or new:
            log.info(
                "assignment",
                extra={"owned": _names(self.owned), "new": _names(new), "gone": _names(gone), "lost": lost},
            )
        opened = [task for id_, task in self.tasks.items() if id_ in gone]
        if not opened:
            return
        uncommitted = self._committer.in_transaction and any(task.commit_needed for task in self.all_running())
        try:
            if not lost:
                self._committer.commit(self.all_running())
        except CommitAgain as error:
            log.warning("no commit; what goes is processed again by its next owner", extra={"error": str(error)})
        finally:
            for task in opened:
                self._close(task, dirty=True)
        if lost and uncommitted:
            raise TaskMigratedError("tasks were lost in the middle of a transaction: it is rolled back")

    def all_running(self) -> list[Task]:
        return [task for task in list(self.tasks.values()) if task.state is TaskState.RUNNING]

    @property
    def all_open(self) -> bool:
        """Whether every owned task that has inputs runs, and reads them all."""
        return not self._has_new_inputs and all(
            (task := self.tasks.get(id_)) is not None and task.state is TaskState.RUNNING for id_ in self._wanted
        )

    @property
    def looks_for_inputs(self) -> bool:
        """Whether :meth:`advance` has to look again for inputs that did not exist."""
        return self._absent.due(self.all_running())

    def look(self) -> list[OwnedTask]:
        """What the thread has to run, as of now; any thread may ask."""
        plans, tasks = self._plans, self.tasks
        known = {id_ for id_, task in list(tasks.items()) if task.state is not TaskState.CREATED}
        jobs: dict[TaskId, dict[str, RestoreJob]] = {}
        for job in self._restorer.jobs():
            jobs.setdefault(job.task, {})[job.store] = job
        return [
            OwnedTask(
                id_,
                plans[id_.subtopology],
                tasks.get(id_),
                self._changelog_ends.get(id_, {}) if id_ in known else {},
                jobs.get(id_, {}),
            )
            for id_ in sorted(self._wanted)
        ]

    def _find_wanted(self) -> None:
        plans = self._plans
        if any(id_.partition >= plans[id_.subtopology].tasks for id_ in self.owned):
            self._on_unknown()
        self._wanted = frozenset(id_ for id_ in self.owned if plans[id_.subtopology].partitions(id_.partition))

    def replan(self, plans: Mapping[int, TaskPlan]) -> None:
        """Topics were added that patterns of the topology match: their partitions are read by the tasks there are, and
        give new ones work."""
        self._plans = plans
        self._find_wanted()
        self._has_new_inputs = True

    # ------------------------------------------------------------------ opening

    def advance(self) -> None:
        """Takes the next steps towards running what is owned. Trouble that may pass is tried again, until
        ``task.timeout.ms``."""
        try:
            self._read_new_inputs()
            self._open_missing()
            created = [task for task in self.tasks.values() if task.state is TaskState.CREATED]
            self._prepare(self._hidden.without(created))
            self._restore_anew()
            self._start_restored()
            self._has_new_inputs = any(
                task.plan is not self._plans[id_.subtopology] for id_, task in self.tasks.items()
            )
            self._trouble.over()
        except TaskMigratedError:
            raise
        except RetryableError as error:
            self._trouble.met(error)
            log.warning("tasks not opened yet", extra={"error": str(error)})

    def _open_missing(self) -> None:
        for id_ in sorted(self._wanted - self.tasks.keys()):
            plan = self._plans[id_.subtopology]
            lock = self._directory.try_lock_task(id_) if plan.stores else None
            if plan.stores and lock is None:
                continue  # its last owner in this state directory has not let go yet
            try:
                environment = self._make_environment(id_)
                stores = self._make_stores(plan, id_, environment)
            except BaseException:
                if lock is not None:
                    lock.release()
                raise
            if lock is not None:
                self._locks[id_] = lock
            self.tasks[id_] = make_task(plan, environment, stores)

    def _prepare(self, tasks: Collection[Task]) -> None:
        """Finds where tasks start and what their stores lack."""
        if not tasks:
            return
        for task in tasks:
            task.plan = self._plans[task.id.subtopology]
        ids = self._topic_ids(topics_of(tasks))
        inputs = {task.id: task.plan.partitions(task.id.partition) for task in tasks}
        committed = self._consumer.committed([name for names in inputs.values() for name in names])
        jobs: list[RestoreJob] = []
        for task in tasks:
            known = {name: committed[name] for name in inputs[task.id] if name in committed}
            task.topic_ids = {topic: ids[topic] for topic in topics_of([task]) if topic in ids}
            task.absent = self._absent.find(task, [name for name in inputs[task.id] if name not in known])
            check_committed(task.environment.application_id, known, ids)
            check_positions(task, known.keys() | task.absent)
            keep_changelog_ids(task)
            known = self._with_starts(task, [name for name in inputs[task.id] if name not in task.absent], known)
            self._starts[task.id] = known
            jobs += self._restore_jobs(task, known)
        if jobs:
            self._restorer.add(jobs)
        for task in tasks:  # from now on a store without a job lacks nothing
            task.become(TaskState.RESTORING)

    def _with_starts(
        self, task: Task, inputs: Collection[TopicPartition], known: dict[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The committed offsets, and where partitions without one start."""
        missing = [name for name in inputs if name not in known]
        committed = known
        if missing:
            starts = with_ids(
                starting_offsets(task, missing, self._consumer, self._offset_reset, self._clock), task.topic_ids
            )
            if task.stores.engines:
                self._committer.start_at(starts)
            known = known | starts
        start_unrestored(task, committed, known)
        return known

    def _read_new_inputs(self) -> None:
        """Has running tasks read the partitions that were added since they were opened."""
        look_again = self.looks_for_inputs
        for task in self.all_running():
            plan = self._plans[task.id.subtopology]
            if task.plan is plan and not (look_again and task.absent):
                continue
            before, task.plan = task.plan, plan
            new = [name for name in plan.partitions(task.id.partition) if name not in task.queues]
            try:
                known = self._new_starts(task, new) if new else {}
            except BaseException:
                task.plan = before
                raise
            for name, start in known.items():
                task.read_also(name, plan.topics[name.topic], start)
                self.running[name] = task
            self._consumer.assign({name: one.offset for name, one in known.items()})
            if known:
                log.info("task reads more", extra={"task": str(task.id), "partitions": ", ".join(map(str, known))})

    def _new_starts(self, task: Task, new: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where partitions start that a running task did not read before."""
        committed = self._consumer.committed(new)
        task.absent = self._absent.find(task, [name for name in new if name not in committed])
        new = [name for name in new if name not in task.absent]
        task.topic_ids = {**task.topic_ids, **self._topic_ids({name.topic for name in new})}
        check_committed(task.environment.application_id, committed, task.topic_ids)
        return self._with_starts(task, new, committed)

    def _restore_jobs(self, task: Task, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> list[RestoreJob]:
        changelogs = task.stores.changelog_partitions()
        beginnings = self._restore_consumer.beginning_offsets(changelogs)
        ends = self._restore_consumer.end_offsets(changelogs)
        self._changelog_ends[task.id] = {store: ends[partition] for partition, store in changelogs.items()}
        ranges: dict[str, tuple[TopicPartition, int, int]] = {}
        for partition, store in changelogs.items():
            end, stored = ends[partition], task.stores.stored_offset(store)
            if store in task.plan.source_changelogs:  # only what was processed (conformance 95)
                end, stored = _up_to(committed.get(partition), end, stored)
            has_rows = stored is None and task.stores.has_rows(store)
            start, clear = plan_restore(stored, beginnings[partition], end, store, task.id, has_rows=has_rows)
            if clear:
                task.stores.wipe(store)
            if start < end:
                ranges[store] = partition, start, end
        if sum(end - start for _, start, end in ranges.values()) >= BULK_RECORDS:
            task.stores.load_in_bulk(ranges)
        return [
            self._restore_job(task, store, partition, start, end) for store, (partition, start, end) in ranges.items()
        ]

    def _restore_job(self, task: Task, store: str, partition: TopicPartition, start: int, end: int) -> RestoreJob:
        engine = task.stores.engine_of(store)
        return RestoreJob(
            task=task.id,
            store=store,
            partition=partition,
            engine=engine,
            restore=restore_of(task.plan.topology.stores[store], engine),
            start=start,
            end=end,
            offset_key=task.stores.offset_key(store),
            from_source=store in task.plan.source_changelogs,
        )

    def _restore_anew(self) -> None:
        """Empties stores whose changelogs lost records while they were read, and restores them from what is there."""
        for job in self._restorer.cut():
            task, partition = self.tasks[job.task], job.partition
            beginning = self._restore_consumer.beginning_offsets([partition])[partition]
            end = self._restore_consumer.end_offsets([partition])[partition]
            if beginning <= (job.start if job.position is None else job.position) and job.end <= end:
                self._restorer.go_on(job)
                continue
            log.error(
                "store is rebuilt from its changelog: records were deleted from it while it was restored",
                extra={**job.place(), "position": job.position, "beginning": beginning, "end": end},
            )
            self._changelog_ends[task.id][job.store] = end
            if job.from_source:
                end, _ = _up_to(self._starts[task.id].get(partition), end, None)
            task.stores.wipe(job.store)
            self._restorer.replace(job, self._restore_job(task, job.store, partition, beginning, end))

    def _start_restored(self) -> None:
        """Their partitions are assigned together: a fetch of the first alone may wait for records at the broker, and
        the others for its end. Where initialising takes long, some are left for the next time: the thread polls and
        commits meanwhile."""
        starts: dict[TopicPartition, int] = {}
        until = self._clock.monotonic() + STARTING_S
        try:
            for task in self.tasks.values():
                if task.state is TaskState.RESTORING and not self._restorer.pending(task.id):
                    starts.update(self._start(task))
                    if self._clock.monotonic() >= until:
                        return
        finally:
            self._consumer.assign(starts)

    def _start(self, task: Task) -> dict[TopicPartition, int]:
        """Starts a task; returns where it reads from."""
        starts = self._starts.pop(task.id)
        self._committer.begin()  # its processors may write when they are initialised
        with working_on(task.id):
            task.stores.settle()
            task.start(self._collector, starts, self._changelog_ends.pop(task.id, {}))
        for name in starts:
            self.running[name] = task
        log.info("task runs", extra={"task": str(task.id)})
        return {name: one.offset for name, one in starts.items()}

    # ------------------------------------------------------------------ closing

    def rebuild(self) -> None:
        """After an abort: every task goes back to its last commit; engines stay open."""
        for task in list(self.tasks.values()):
            self._stop_reading(task)
            self._restorer.remove(task.id)
            task.rebuild()

    def _stop_reading(self, task: Task) -> None:
        partitions = [name for name, owner in self.running.items() if owner is task]
        self._consumer.unassign(partitions)
        for name in partitions:
            del self.running[name]
        self._starts.pop(task.id, None)

    def _close(self, task: Task, *, dirty: bool) -> None:
        self._stop_reading(task)
        self._restorer.remove(task.id)
        del self.tasks[task.id]
        try:
            with working_on(task.id):
                task.close(dirty=dirty)
        finally:
            lock = self._locks.pop(task.id, None)
            if lock is not None:
                lock.release()
        log.info("task closed", extra={"task": str(task.id)})

    def close_all(self, *, dirty: bool) -> None:
        """Closes every task; the first error is raised after all were closed."""
        failure: Exception | None = None
        for task in list(self.tasks.values()):
            try:
                self._close(task, dirty=dirty)
            except Exception as error:
                failure = failure or error
        self.owned = frozenset()
        if failure is not None and not dirty:
            raise failure


def _up_to(committed: OffsetAndMetadata | None, end: int, stored: int | None) -> tuple[int, int | None]:
    """The end of a restore from a source topic, and the offset that the store holds. A crash before the commit of the
    offsets leaves the store ahead of them: it stays, and the records are processed again."""
    limit = 0 if committed is None else min(end, committed.offset)
    return limit, limit - 1 if stored is not None and limit <= stored < end else stored


def _names(tasks: Collection[TaskId]) -> Any:
    return " ".join(str(task) for task in sorted(tasks))
