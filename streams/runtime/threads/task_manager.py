"""The tasks of one stream thread: owned, started, run, closed.

Membership says which tasks to own, inside the consumer's callback. Tasks that are lost are committed and closed there;
new ones are only noted, and started step by step in the thread's loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from processor_api.clock import Clock
from processor_api.errors import DiskFullError, RetryableError, StreamsError, TaskMigratedError, outage_behind
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.membership.port import Tasks
from streams.kafka.ports import ClientUnusable, CommitAgain, Consumer
from streams.log import RepeatedLines, working_on
from streams.restore.jobs import RestoreJob
from streams.runtime.plan.task_plan import PlanBook, Plans, TaskPlan
from streams.runtime.snapshots.snapshot_starts import SnapshotDownload
from streams.runtime.start.standby_tasks import StandbyTasks
from streams.runtime.start.task_starts import TaskStarts
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.retry import Retry
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.threads.thread_metrics import GroupCounters
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
    download: SnapshotDownload | None = None
    """The snapshot that it waits for."""


class ThreadTasks:
    """Holds the tasks of one stream thread: those that it is to run, those that are open, and those that run."""

    def __init__(self) -> None:
        self.wanted: frozenset[TaskId] = frozenset()
        """The owned tasks that have inputs."""
        self.opened: dict[TaskId, Task] = {}
        self.running: dict[TopicPartition, Task] = {}
        """Running tasks by input partition."""
        self.has_unread_inputs = False
        """Whether a task has inputs that it does not read yet."""
        self._now: dict[TaskId, Task] | None = None
        self._all_run = False

    def want(self, tasks: frozenset[TaskId]) -> None:
        """Sets which tasks the thread is to run."""
        self.wanted = tasks
        self._now = None

    def runs(self, task: Task, partitions: Collection[TopicPartition]) -> None:
        """Notes that a task runs and reads partitions."""
        self.running.update(dict.fromkeys(partitions, task))
        self._now = None

    def stop(self, task: Task) -> list[TopicPartition]:
        """Notes that a task no longer runs; returns the partitions that it has read."""
        partitions = [name for name, owner in self.running.items() if owner is task]
        for name in partitions:
            del self.running[name]
        self._now = None
        return partitions

    def closes(self, task: Task) -> None:
        """Notes that a task is no longer open."""
        del self.opened[task.id]
        self._now = None

    def all_running(self) -> list[Task]:
        """Lists the tasks that run; any thread may call it."""
        return [task for task in list(self.opened.values()) if task.state is TaskState.RUNNING]

    @property
    def running_now(self) -> Mapping[TaskId, Task]:
        """The tasks that run, by id: the same mapping until others run. For the tasks' own thread."""
        return self._find_running() if self._now is None else self._now

    def _find_running(self) -> dict[TaskId, Task]:
        self._now = now = {task.id: task for task in self.all_running()}
        self._all_run = self.wanted <= now.keys()
        return now

    @property
    def all_run(self) -> bool:
        """Whether every task that the thread is to run does, and reads all of its inputs."""
        if self._now is None:
            self._find_running()
        return self._all_run and not self.has_unread_inputs

    def named(self, names: Collection[str | None]) -> frozenset[TaskId]:
        """Returns the tasks with these names, as far as they are open; none if one of the names is not known."""
        by_name = {str(id_): id_ for id_ in self.opened}
        return frozenset() if None in names else frozenset(by_name[name] for name in names if name in by_name)


class Ownership:
    """Holds the tasks that the group has given to a stream thread, and the plans by which it runs them.

    :param plans: the plans of now; those of the book are taken over when membership has announced their tasks.
    """

    def __init__(self, book: PlanBook, plans: Plans) -> None:
        self._book = book
        self.plans = plans.tasks
        self.owned: frozenset[TaskId] = frozenset()
        self.assigned = False
        """Whether membership has said which tasks the thread owns."""
        self.revoked = False
        """Whether tasks were taken away; the thread resets it when it has noticed."""

    def take(self, tasks: Tasks, *, lost: bool) -> frozenset[TaskId]:
        """Takes over new ownership; returns the tasks that are owned no more."""
        gone, new = self.owned - tasks.active, tasks.active - self.owned
        self.owned, self.assigned, self.revoked = tasks.active, True, self.revoked or bool(gone)
        if gone or new:
            log.info(
                "assignment",
                extra={"owned": _names(self.owned), "new": _names(new), "gone": _names(gone), "lost": lost},
            )
        return gone

    def with_inputs(self) -> frozenset[TaskId]:
        """Returns the owned tasks that have inputs; asks for other plans where these do not know one of them."""
        plans = self.plans
        if any(id_.partition >= plans[id_.subtopology].tasks for id_ in self.owned):
            self._book.outdated.set()
        return frozenset(id_ for id_ in self.owned if plans[id_.subtopology].partitions(id_.partition))


class TaskManager:
    """Starts, runs and closes the tasks of one stream thread. Used by that thread, unless a method says so.

    :param retry: says for how long errors of the start may last; it has no back-off, since the loop has one.
    """

    def __init__(
        self,
        tasks: ThreadTasks,
        ownership: Ownership,
        starts: TaskStarts,
        consumer: Consumer,
        committer: Committer,
        retry: Retry,
        clock: Clock,
    ) -> None:
        self._tasks = tasks
        self.ownership = ownership
        self._starts = starts
        self._consumer = consumer
        self._committer = committer
        self._retry = retry
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self.waits: Callable[[TaskId], bool] = _no
        """Whether a task is not to be opened yet, since it went back a moment ago."""
        self.group: GroupCounters | None = None
        """Counts what the group does to the tasks, if anything does; nothing once all are closed."""

    # ------------------------------------------------------------------ ownership

    def own(self, tasks: Tasks, *, lost: bool) -> None:
        """Takes over new ownership (:class:`streams.kafka.membership.port.Owner`)."""
        gone = self.ownership.take(tasks, lost=lost)
        if self.group is not None:
            self.group.owns(gone=bool(gone), lost=lost)
        self._tasks.want(self.ownership.with_inputs())
        self.standbys.want(tasks.copies, warm_ups=tasks.warmup)
        opened = [task for id_, task in self._tasks.opened.items() if id_ in gone]
        if not opened:
            return
        running = self._tasks.all_running()
        left_open = lost and self._committer.in_transaction and any(task.commit_needed for task in running)
        try:
            if not lost:
                self._committer.commit_last(running, opened)
        except (CommitAgain, DiskFullError) as error:
            text = "no commit, or none on disk; the next owner of the tasks restores or processes again what is missing"
            log.warning(text, extra={"error": str(error)})
            # With the next commit of the others it would commit results of tasks whose offsets it does not have.
            left_open = self._committer.in_transaction and any(task.commit_needed for task in opened)
        finally:
            for task in opened:
                if self.standbys.keeps(task):
                    self._keep(task)
                else:
                    self._close(task, dirty=True)
        if left_open:
            raise TaskMigratedError("tasks were lost in the middle of a transaction: it is rolled back")

    def _keep(self, task: Task) -> None:
        """Takes a task back to its last commit, and makes it a standby."""
        try:
            self._stop_reading(task)
            self._starts.stop(task.id)
            with working_on(task.id):
                task.roll_back()
                task.stores.finish_bulk_load()
        except BaseException:
            self._close(task, dirty=True)
            raise
        self._tasks.closes(task)
        self.standbys.keep(task)

    @property
    def standbys(self) -> StandbyTasks:
        """The copies that the thread keeps of tasks of other processes."""
        return self._starts.standbys

    def replan(self, plans: Mapping[int, TaskPlan]) -> None:
        """Takes over plans in which patterns of the topology match more topics than before.

        The partitions of these are read by the tasks there are, and give new ones work.
        """
        self.ownership.plans = plans
        self._tasks.want(self.ownership.with_inputs())
        self._tasks.has_unread_inputs = True

    def list_tasks(self, partition: int | None = None) -> list[OwnedTask]:
        """Lists the tasks that the thread has to run, as they are now; any thread may call it.

        :param partition: only tasks of this number; a query of one key asks for no others.
        """
        plans, tasks, restores = self.ownership.plans, self._tasks.opened, self._starts.restores
        wanted = sorted(id_ for id_ in self._tasks.wanted if partition is None or id_.partition == partition)
        if not wanted:
            return []
        opened = {id_ for id_, task in list(tasks.items()) if task.state is not TaskState.CREATED}
        jobs, downloads = restores.by_task(), self._starts.snapshots.downloads()
        return [
            OwnedTask(
                id_,
                plans[id_.subtopology],
                tasks.get(id_),
                restores.changelog_ends(id_) if id_ in opened else {},
                jobs.get(id_, {}) if id_ in opened else {},  # of a task that can be read too
                downloads.get(id_),
            )
            for id_ in wanted
        ]

    # ------------------------------------------------------------------ starting

    @property
    def looks_for_inputs(self) -> bool:
        """Whether :meth:`advance` has to look again for inputs that did not exist."""
        return self._starts.offsets.absent_inputs_due(self._tasks.running_now.values())

    def advance(self) -> None:
        """Takes the next steps towards running the tasks that are owned.

        Errors that may pass are logged, and the steps tried again, until ``task.timeout.ms``.

        :raises TaskTimeoutError: when they have lasted for longer.
        :raises TaskMigratedError: if another member owns the tasks.
        :raises ClientUnusable: if new clients are needed.
        :raises DiskFullError: if a store cannot be written; to be followed by :meth:`close_unopened`.
        """
        plans, tasks = self.ownership.plans, self._tasks
        before = len(tasks.opened)
        try:
            self._read_new_inputs()
            self._starts.advance(plans, tasks.wanted, tasks.opened, self.waits)
            self._run_restored()
            tasks.has_unread_inputs = any(task.plan is not plans[id_.subtopology] for id_, task in tasks.opened.items())
            self._retry.reset()
        except (TaskMigratedError, ClientUnusable, DiskFullError):
            raise
        except Exception as error:
            passing = error if isinstance(error, RetryableError) else outage_behind(error)
            if passing is None:
                raise
            self._retry.record_failure(passing)
            self._repeated.log("tasks not opened yet", error=str(passing))
        finally:
            if self.group is not None:
                self.group.tasks_created += len(tasks.opened) - before

    def _read_new_inputs(self) -> None:
        """Has running tasks read the partitions that were added since they were opened."""
        absent_due = self.looks_for_inputs
        for task in self._tasks.all_running():
            plan = self.ownership.plans[task.id.subtopology]
            if task.plan is plan and not (absent_due and task.absent):
                continue
            # Before the look, which goes by it; an error takes it back, so that the next try looks again.
            before, task.plan = task.plan, plan
            new = [name for name in plan.partitions(task.id.partition) if name not in task.inputs.queues]
            try:
                known = self._starts.offsets.find_added(task, new) if new else {}
            except BaseException:
                task.plan = before
                raise
            for name, start in known.items():
                task.read_also(name, plan.topics[name.topic], start)
                self._tasks.running[name] = task
            self._consumer.assign({name: one.offset for name, one in known.items()})
            if known:
                log.info("task reads more", extra={"task": str(task.id), "partitions": ", ".join(map(str, known))})

    def _run_restored(self) -> None:
        """Runs the tasks whose stores are complete.

        Their partitions are assigned together: a fetch of the first alone may wait for records at the broker, and the
        others for its end. Where initialising takes long, some tasks are left for the next time, so that the thread
        polls and commits meanwhile.
        """
        starts: dict[TopicPartition, int] = {}
        until = self._clock.monotonic() + STARTING_S
        try:
            for task in self._starts.restored(self._tasks.opened):
                if self._reads_rows(task, until):
                    starts.update(self._run(task))
                if self._clock.monotonic() >= until:
                    return
        finally:
            # Also after an error: the tasks that run by now have to be read.
            self._consumer.assign(starts)

    def _reads_rows(self, task: Task, until: float) -> bool:
        """Returns whether it is known that this version reads the rows of a task's stores."""
        with working_on(task.id):
            task.stores.finish_bulk_load()
            return self._starts.reads_rows(task, until)

    def _run(self, task: Task) -> dict[TopicPartition, int]:
        """Runs a task; returns where it reads from."""
        start = self._starts.finish(task)
        self._committer.begin()  # its processors may write when they are initialised
        with working_on(task.id):
            task.start(self._committer.collector, start.inputs, start.changelog_ends)
        self._tasks.runs(task, start.inputs)
        log.debug("task runs", extra={"task": str(task.id)})
        return {name: one.offset for name, one in start.inputs.items()}

    # ------------------------------------------------------------------ closing

    def roll_back(self, only: Collection[TaskId] | None = None) -> None:
        """Takes tasks back to their last commit, all of them after an abort; engines remain open."""
        for task in [task for id_, task in self._tasks.opened.items() if only is None or id_ in only]:
            self._stop_reading(task)
            self._starts.stop(task.id)
            task.roll_back()

    def _stop_reading(self, task: Task) -> None:
        self._consumer.unassign(self._tasks.stop(task))

    def close_unopened(self) -> None:
        """Closes the tasks that do not run yet, to be opened again: steps of theirs were left in the middle."""
        for task in [task for task in self._tasks.opened.values() if task.state is not TaskState.RUNNING]:
            try:
                self._close(task, dirty=True)
            except StreamsError as error:
                log.warning("not closed in order", extra={"error": str(error)}, exc_info=error)

    def close_all(self, *, dirty: bool) -> None:
        """Closes every task; the first error is raised after all were closed."""
        failure: Exception | None = None
        for task in list(self._tasks.opened.values()):
            try:
                self._close(task, dirty=dirty)
            except BaseException as error:
                if passes(error):
                    raise
                if failure is None or isinstance(failure, ClientUnusable):  # what a user's code raises tells more
                    failure = as_error(error, "while a task was closed", task=str(task.id))
        self.standbys.close()
        self.ownership.owned = frozenset()
        self.group = None
        if failure is not None and not dirty:
            raise failure

    def _close(self, task: Task, *, dirty: bool) -> None:
        with ExitStack() as steps:  # a client that takes no more calls must not leave the task open, and its lock taken
            # The steps are made from the last to the first.
            steps.callback(self._starts.release, task.id)
            steps.callback(self._close_stores, task, dirty)
            steps.callback(self._starts.stop, task.id)
            steps.callback(self._stop_reading, task)
        log.debug("task closed", extra={"task": str(task.id)})

    def _close_stores(self, task: Task, dirty: bool) -> None:
        self._tasks.closes(task)
        if self.group is not None:
            self.group.tasks_closed += 1
            environment = task.environment
            dropped, letters = environment.metrics.dropped_records, environment.errors.sent_letters
            self.group.closed.add(environment.metrics.drops, dropped=dropped, dead_letters=letters)
        with working_on(task.id):
            task.close(dirty=dirty)


def _no(_: TaskId) -> bool:
    return False


def _names(tasks: Collection[TaskId]) -> Any:
    return " ".join(str(task) for task in sorted(tasks))
