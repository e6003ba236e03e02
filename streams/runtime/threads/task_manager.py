"""The tasks of one stream thread: opened, restored, run, closed.

Membership says which tasks to own, inside the consumer's callback. Tasks that are lost are committed and closed there;
new ones are only noted, and opened step by step in the thread's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import DiskFullError, RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TaskId, TopicPartition
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.kafka.membership.port import Tasks
from streams.kafka.ports import ClientUnusable, CommitAgain, OffsetAndMetadata
from streams.log import RepeatedLines, working_on
from streams.restore.restorer import RestoreJob, Restorer
from streams.runtime.plan.plans import PlanBook
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.start.lock_waits import LockWaits
from streams.runtime.start.orphaned_transactions import OrphanedTransactions
from streams.runtime.start.start_offsets import StartOffsets
from streams.runtime.start.task_opener import TaskOpener
from streams.runtime.start.task_restores import TaskRestores
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.retry import Retry
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.tasks.task_snapshots import TaskSnapshots
from streams.runtime.tasks.thread_clients import ThreadClients
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.tasks")

STARTING_S = 0.1
"""How long to start tasks at a time."""


class OwnedTask(NamedTuple):
    """A task of a thread as it is now, for other threads."""

    id: TaskId
    plan: TaskPlan
    task: Task | None
    """``None`` until it is opened."""
    changelog_ends: Mapping[str, int]
    """While it is restored, and not before: where the changelog of each store ended when that began."""
    restores: Mapping[str, RestoreJob]
    """The restores of its stores that are not complete."""


class TaskManager:
    """Opens, restores, starts and closes the tasks of one stream thread. Used by that thread, unless a method says so.

    :param plans: the plans in force; the manager works by those of now until :meth:`replan`.
    """

    def __init__(
        self,
        plans: PlanBook,
        clients: ThreadClients,
        restorer: Restorer,
        committer: Committer,
        opener: TaskOpener,
        config: StreamsConfig,
        clock: Clock,
    ) -> None:
        self._book = plans
        self._plans = plans.current.tasks
        self._consumer = clients.consumer
        self._committer = committer
        self._opener = opener
        self._lock_waits = LockWaits(clock, opener.holder)
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._retry = Retry(clock, 0, 0, config.task_timeout_ms)
        """Retries the opening of tasks; it has no back-off, since the loop has one."""
        self._start_offsets = StartOffsets(clients, committer, clock, client_configs.auto_offset_reset(config))
        snapshots = TaskSnapshots(config.state_snapshot_dir, config.application_id, clock)
        self._restores = TaskRestores(restorer, clients, snapshots, clock)
        self._orphans: OrphanedTransactions | None = None
        if config.exactly_once:
            self._orphans = OrphanedTransactions(config.application_id, clients.admin, clock)
        self._wanted: frozenset[TaskId] = frozenset()
        self._has_new_inputs = False
        self.owned: frozenset[TaskId] = frozenset()
        self.assigned = False
        """Whether membership has said which tasks this thread owns."""
        self.revoked = False
        """Whether tasks were taken away; the thread resets it when it has noticed."""
        self.tasks: dict[TaskId, Task] = {}
        self.running: dict[TopicPartition, Task] = {}
        """Running tasks by input partition."""
        self._starts: dict[TaskId, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.waits: Callable[[TaskId], bool] = _no
        """Whether a task is not to be opened yet, since it went back a moment ago."""
        self._now: dict[TaskId, Task] | None = None
        self._now_open = False

    # ------------------------------------------------------------------ ownership

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """Takes over new ownership (:class:`streams.kafka.membership.port.Owner`)."""
        gone = self.owned - tasks.active
        self.assigned = True
        self.revoked = self.revoked or bool(gone)
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
        except (CommitAgain, DiskFullError) as error:
            text = "no commit, or none on disk; the next owner of the tasks restores or processes again what is missing"
            log.warning(text, extra={"error": str(error)})
        finally:
            for task in opened:
                self._close(task, dirty=True)
        if lost and uncommitted:
            raise TaskMigratedError("tasks were lost in the middle of a transaction: it is rolled back")

    def all_running(self) -> list[Task]:
        """Lists the tasks that run; any thread may call it."""
        return [task for task in list(self.tasks.values()) if task.state is TaskState.RUNNING]

    @property
    def running_now(self) -> Mapping[TaskId, Task]:
        """The tasks that run, by id: the same mapping until others run. For the tasks' own thread."""
        return self._find_running() if self._now is None else self._now

    def _find_running(self) -> dict[TaskId, Task]:
        self._now = now = {task.id: task for task in self.all_running()}
        self._now_open = self._wanted <= now.keys()
        return now

    def _others_run(self) -> None:
        """Other tasks run than before, or are wanted."""
        self._now = None

    @property
    def all_open(self) -> bool:
        """Whether every owned task that has inputs runs, and reads them all."""
        if self._now is None:
            self._find_running()
        return self._now_open and not self._has_new_inputs

    @property
    def looks_for_inputs(self) -> bool:
        """Whether :meth:`advance` has to look again for inputs that did not exist."""
        return self._start_offsets.absent_inputs_due(self.running_now.values())

    def list_tasks(self) -> list[OwnedTask]:
        """Lists the tasks that the thread has to run, as they are now; any thread may call it."""
        plans, tasks = self._plans, self.tasks
        opened = {id_ for id_, task in list(tasks.items()) if task.state is not TaskState.CREATED}
        jobs = self._restores.by_task()
        return [
            OwnedTask(
                id_,
                plans[id_.subtopology],
                tasks.get(id_),
                self._restores.changelog_ends(id_) if id_ in opened else {},
                jobs.get(id_, {}) if id_ in opened else {},  # of a task that can be read too
            )
            for id_ in sorted(self._wanted)
        ]

    def _find_wanted(self) -> None:
        plans = self._plans
        if any(id_.partition >= plans[id_.subtopology].tasks for id_ in self.owned):
            self._book.outdated.set()
        self._wanted = frozenset(id_ for id_ in self.owned if plans[id_.subtopology].partitions(id_.partition))
        self._others_run()

    def replan(self, plans: Mapping[int, TaskPlan]) -> None:
        """Takes over plans in which patterns of the topology match more topics than before.

        The partitions of these are read by the tasks there are, and give new ones work.
        """
        self._plans = plans
        self._find_wanted()
        self._has_new_inputs = True

    # ------------------------------------------------------------------ opening

    def advance(self) -> None:
        """Takes the next steps towards running the tasks that are owned.

        Errors that may pass are logged, and the steps tried again, until ``task.timeout.ms``.

        :raises TaskTimeoutError: when they have lasted for longer.
        :raises TaskMigratedError: if another member owns the tasks.
        :raises ClientUnusable: if new clients are needed.
        :raises DiskFullError: if a store cannot be written; to be followed by :meth:`close_unopened`.
        """
        try:
            self._read_new_inputs()
            self._open_missing()
            created = [
                task for id_, task in self.tasks.items() if task.state is TaskState.CREATED and not self.waits(id_)
            ]
            if created and self._orphans is not None:
                self._orphans.end()
            self._prepare(self._restores.readable(created))
            self._restores.take_snapshots()
            self._restores.start_truncated_over(self.tasks, self._starts)
            self._start_restored()
            self._has_new_inputs = any(
                task.plan is not self._plans[id_.subtopology] for id_, task in self.tasks.items()
            )
            self._retry.reset()
        except (TaskMigratedError, ClientUnusable, DiskFullError):
            raise
        except RetryableError as error:
            self._retry.record_failure(error)
            self._repeated.log("tasks not opened yet", error=str(error))

    def close_unopened(self) -> None:
        """Closes the tasks that do not run yet, to be opened again: steps of theirs were left in the middle."""
        for task in [task for task in self.tasks.values() if task.state is not TaskState.RUNNING]:
            try:
                self._close(task, dirty=True)
            except StreamsError as error:
                log.warning("not closed in order", extra={"error": str(error)}, exc_info=error)

    def _open_missing(self) -> None:
        self._lock_waits.keep(self._wanted)
        for id_ in sorted(self._wanted - self.tasks.keys()):
            task = self._opener.open(self._plans[id_.subtopology], id_)
            if task is None:
                self._lock_waits.waits(id_)
            else:
                self._lock_waits.opened(id_)
                self.tasks[id_] = task
        self._lock_waits.log_waits()

    def _prepare(self, tasks: Collection[Task]) -> None:
        """Finds where tasks start and what their stores lack."""
        if not tasks:
            return
        for task in tasks:
            task.plan = self._plans[task.id.subtopology]
        jobs: list[RestoreJob] = []
        for task, starts in self._start_offsets.find(tasks):
            self._starts[task.id] = starts
            jobs += self._restores.plan(task, starts)
        self._restores.start(jobs)
        for task in tasks:  # from now on a store without a job lacks nothing
            task.become(TaskState.RESTORING)

    def _read_new_inputs(self) -> None:
        """Has running tasks read the partitions that were added since they were opened."""
        absent_due = self.looks_for_inputs
        for task in self.all_running():
            plan = self._plans[task.id.subtopology]
            if task.plan is plan and not (absent_due and task.absent):
                continue
            before, task.plan = task.plan, plan
            new = [name for name in plan.partitions(task.id.partition) if name not in task.queues]
            try:
                known = self._start_offsets.find_added(task, new) if new else {}
            except BaseException:
                task.plan = before
                raise
            for name, start in known.items():
                task.read_also(name, plan.topics[name.topic], start)
                self.running[name] = task
            self._consumer.assign({name: one.offset for name, one in known.items()})
            if known:
                log.info("task reads more", extra={"task": str(task.id), "partitions": ", ".join(map(str, known))})

    def _start_restored(self) -> None:
        """Starts the tasks whose stores are complete.

        Their partitions are assigned together: a fetch of the first alone may wait for records at the broker, and the
        others for its end. Where initialising takes long, some tasks are left for the next time, so that the thread
        polls and commits meanwhile.
        """
        starts: dict[TopicPartition, int] = {}
        until = self._clock.monotonic() + STARTING_S
        try:
            for task in self.tasks.values():
                if task.state is TaskState.RESTORING and not self._restores.pending(task.id):
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
            task.stores.finish_bulk_load()
            task.start(self._committer.collector, starts, self._restores.take_changelog_ends(task.id))
        for name in starts:
            self.running[name] = task
        self._others_run()
        log.debug("task runs", extra={"task": str(task.id)})
        return {name: one.offset for name, one in starts.items()}

    # ------------------------------------------------------------------ closing

    def named(self, names: Collection[str | None]) -> frozenset[TaskId]:
        """Returns the tasks with these names, as far as they are open; none if one of the names is not known."""
        by_name = {str(id_): id_ for id_ in self.tasks}
        return frozenset() if None in names else frozenset(by_name[name] for name in names if name in by_name)

    def roll_back(self, only: Collection[TaskId] | None = None) -> None:
        """Takes tasks back to their last commit, all of them after an abort; engines remain open."""
        for task in [task for id_, task in self.tasks.items() if only is None or id_ in only]:
            self._stop_reading(task)
            self._restores.stop(task.id)
            self._others_run()
            task.roll_back()

    def _stop_reading(self, task: Task) -> None:
        partitions = [name for name, owner in self.running.items() if owner is task]
        for name in partitions:
            del self.running[name]
        self._starts.pop(task.id, None)
        self._consumer.unassign(partitions)

    def _close(self, task: Task, *, dirty: bool) -> None:
        with ExitStack() as steps:  # a client that takes no more calls must not leave the task open, and its lock taken
            steps.callback(self._opener.release, task.id)
            steps.callback(self._close_stores, task, dirty)
            steps.callback(self._restores.stop, task.id)
            steps.callback(self._stop_reading, task)
        log.debug("task closed", extra={"task": str(task.id)})

    def _close_stores(self, task: Task, dirty: bool) -> None:
        del self.tasks[task.id]
        self._others_run()
        with working_on(task.id):
            task.close(dirty=dirty)

    def close_all(self, *, dirty: bool) -> None:
        """Closes every task; the first error is raised after all were closed."""
        failure: Exception | None = None
        for task in list(self.tasks.values()):
            try:
                self._close(task, dirty=dirty)
            except BaseException as error:
                if passes(error):
                    raise
                failure = failure or as_error(error, "while a task was closed", task=str(task.id))
        self.owned = frozenset()
        if failure is not None and not dirty:
            raise failure


def _no(_: TaskId) -> bool:
    return False


def _names(tasks: Collection[TaskId]) -> Any:
    return " ".join(str(task) for task in sorted(tasks))
