"""The standby tasks of a stream thread (semantics 99): copies of tasks that another process runs, kept near them.

A standby task is a task that is open and was not started: its engines follow its changelogs, and nothing is processed.
When the group gives the task to this thread, the same object becomes its active task, with its open engines, and lacks
the last records of its changelogs only. An active task that goes elsewhere becomes a standby in the same way.

Its lock is the one of an active task. Who is to run the task in another thread or process of the same state directory
asks for it (:meth:`StateDirectory.want_task`), and the copy is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, DiskFullError, RetryableError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.ports import Admin, OffsetAndMetadata
from streams.log import RepeatedLines, working_on
from streams.restore.follower import FollowedChangelog, Follower, SuspendReason
from streams.restore.jobs import RestoreJob
from streams.restore.reports import RestoreCounters
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.snapshots.snapshot_starts import SnapshotStarts
from streams.runtime.start.task_opener import TaskOpener
from streams.runtime.start.task_restores import TaskRestores
from streams.runtime.start.topic_ids import keep_changelog_ids, note_states, topics_of
from streams.runtime.start.truncated_logs import find_truncated
from streams.runtime.start.write_back import replaced_changelogs
from streams.runtime.tasks.task import Task
from streams.threads import SYSTEM_THREADS, PeriodicCall, Threads
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.tasks")

REQUESTS_INTERVAL_S = 0.1
"""How often standby tasks look whether their files are wanted."""
OPEN_INTERVAL_S = 0.25
LOOK_INTERVAL_S = 0.25
"""How often it is looked what the stores have reached."""
AGAIN_S = 5.0
"""How long a copy that could not be opened or written is left alone."""
OPENED_AT_ONCE = 10
"""The number opened at a time, between which the thread polls and commits."""
MARKS_INTERVAL_S = 5.0
COMPLETE_INTERVAL_S = 30.0


class StandbyCopy(NamedTuple):
    """A standby task as it is now, for other threads."""

    id: TaskId
    plan: TaskPlan
    task: Task
    changelogs: Mapping[str, FollowedChangelog]
    """The changelogs that it follows, by store; empty until that begins."""
    positions: Mapping[TopicPartition, int]
    """The input offsets before which its stores hold everything, as far as that is known."""
    is_warm_up: bool = False
    """Whether the task is to move here when the copy is near it (semantics 100)."""


class Marks(NamedTuple):
    """The committed offsets of inputs, and the ends that the changelogs had later.

    A store that has all of its changelog up to such an end holds what was processed before such an offset."""

    committed: Mapping[TopicPartition, OffsetAndMetadata]
    ends: Mapping[TopicPartition, int]
    positions: Mapping[TopicPartition, int] = MappingProxyType({})
    """The next offset that each store took before."""


@dataclass
class _Copy:
    """A standby task that is open."""

    task: Task
    mark: int
    """The mark of requests for its files when it was opened."""
    is_planned: bool = False
    awaited: Marks | None = None
    """Marks that its stores have not reached yet."""
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)


class MarkReader:
    """Reads marks from time to time, on a thread of its own."""

    def __init__(self, application_id: str, admin: Admin, clock: Clock, threads: Threads = SYSTEM_THREADS) -> None:
        self._application = application_id
        self._admin = admin
        failed = (log, "the positions of standby tasks cannot be read yet")
        self._reads = PeriodicCall("standby-marks", clock, threads, failed)

    def read(self, inputs: Collection[TopicPartition], changelogs: Mapping[TopicPartition, int]) -> Marks | None:
        """Returns marks if some were read, and begins to read others when it is time.

        :param inputs: the partitions of which committed offsets are wanted.
        :param changelogs: those of which the ends are wanted, with the next offset that the store of each takes.
        """
        found: Marks | None = self._reads.take()
        if changelogs and self._reads.is_due:
            self._reads.start(MARKS_INTERVAL_S, self._read, list(inputs), changelogs)
        return found

    def _read(self, inputs: list[TopicPartition], changelogs: Mapping[TopicPartition, int]) -> Marks:
        committed = self._admin.group_offsets(self._application, inputs)
        return Marks(committed, self._admin.log_ends(changelogs), changelogs)

    def close(self) -> None:
        """Ends it, without waiting for what is being read."""
        self._reads.close()


class StandbyStarts:
    """Opens standby tasks, and finds what they are to follow.

    :param opener: takes the locks of tasks and opens their engines, for active tasks too.
    :param restores: finds what stores lack.
    :param snapshots: copies the snapshots with which those without state begin.
    """

    def __init__(
        self,
        application_id: str,
        admin: Admin,
        opener: TaskOpener,
        restores: TaskRestores,
        snapshots: SnapshotStarts,
    ) -> None:
        self._application = application_id
        self._admin = admin
        self._snapshots = snapshots
        self.opener = opener
        self.restores = restores

    def request_mark(self, id_: TaskId) -> int:
        """Returns a number that changes when another thread or process wants the files of a task."""
        return self.opener.directory.wanted_mark(id_)

    def is_ready(self, task: Task) -> bool:
        """Whether a task need not wait for a snapshot, which is copied else.

        :raises RetryableError: if no broker answers.
        """
        return bool(self._snapshots.ready([task], self._admin.log_ends))

    def stop(self, id_: TaskId) -> None:
        """Gives up the snapshot of a task."""
        self._snapshots.stop(id_)

    def jobs(self, task: Task) -> list[RestoreJob]:
        """Returns the changelogs of a task, to be followed from where its stores are.

        :raises StreamsError: if the cluster cannot be asked, or a store cannot be read or written.
        """
        note_states(task, self._admin.topic_states(topics_of([task])))
        committed = self._admin.group_offsets(self._application, task.plan.partitions(task.id.partition))
        if lost := replaced_changelogs(task, committed):
            # What is here may be all that is left of the store, if the task becomes active here.
            raise RetryableError(
                f"the copy of task {task.id} stays as it is: the changelog of store {lost[0]!r} was deleted and made"
                " again, and the owner of the task has not written the store into it yet",
                task=str(task.id),
            )
        keep_changelog_ids(task)
        find_truncated([task], committed, self._admin)
        return self.restores.plan_standby(task, committed)


@dataclass
class _NextTimes:
    """The times before which a thread does nothing of these for its copies."""

    requests: float = 0.0
    open: float = 0.0
    look: float = 0.0
    complete: float = 0.0


NO_LAGS: Mapping[TaskId, int] = MappingProxyType({})


def _lags(copies: Iterable[_Copy], followed: Mapping[TopicPartition, FollowedChangelog]) -> dict[TaskId, int]:
    found: dict[TaskId, int] = {}
    for copy in copies:
        each = [followed.get(partition) for partition in copy.task.stores.changelog_partitions()]
        if all(one is not None and one.is_end_known for one in each):
            found[copy.task.id] = sum(one.lag for one in each if one is not None)
    return found


class StandbyTasks:
    """Holds the standby tasks of one stream thread. Used by that thread, unless a method says so."""

    def __init__(self, starts: StandbyStarts, follower: Follower, marks: MarkReader, clock: Clock) -> None:
        self._starts = starts
        self._follower = follower
        self._marks = marks
        self._clock = clock
        self._repeated = RepeatedLines(log, clock)
        self._wanted: frozenset[TaskId] = frozenset()
        self._warm_ups: frozenset[TaskId] = frozenset()
        self._lags: Mapping[TaskId, int] = {}
        self._copies: dict[TaskId, _Copy] = {}
        self._not_before: dict[TaskId, float] = {}
        self._next = _NextTimes()

    # ------------------------------------------------------------------ which there are

    def want(self, tasks: frozenset[TaskId], *, warm_ups: frozenset[TaskId] = frozenset()) -> None:
        """Sets which standby tasks the thread is to have; they are opened and closed later, in its loop.

        :param warm_ups: those among them that are to move here.
        """
        self._wanted, self._warm_ups = tasks, warm_ups
        self._next.open = 0.0

    def copies(self) -> list[StandbyCopy]:
        """Lists the standby tasks that are open; any thread may call it."""
        followed: dict[TaskId, dict[str, FollowedChangelog]] = {}
        for one in self._follower.changelogs().values():
            followed.setdefault(one.job.task, {})[one.job.store] = one
        return [
            StandbyCopy(id_, copy.task.plan, copy.task, followed.get(id_, {}), copy.positions, id_ in self._warm_ups)
            for id_, copy in sorted(self._copies.copy().items())
        ]

    def counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of what the copies have applied; any thread may call it."""
        return self._follower.counters()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do: no copies, and none wanted."""
        return not self._copies and not self._wanted

    @property
    def lags(self) -> Mapping[TaskId, int]:
        """The offsets that all stores of each copy lack, of those whose changelogs have ends that are known; as of the
        last look."""
        return self._lags if self._copies else NO_LAGS

    @property
    def follows_more(self) -> bool:
        """Whether there is more to apply at once."""
        return self._follower.has_more

    def keeps(self, task: Task) -> bool:
        """Whether an active task that goes elsewhere is to stay as a standby."""
        return task.id in self._wanted and bool(task.plan.changelogs)

    # ------------------------------------------------------------------ from and to active

    def promote(self, id_: TaskId) -> Task | None:
        """Gives a standby away that becomes active; returns ``None`` if there is none."""
        copy = self._copies.get(id_)
        if copy is None:
            return None
        self._note_complete([copy])
        self._follower.remove(id_, SuspendReason.PROMOTED)
        del self._copies[id_]  # after the steps that may fail: else no one would close it and release its lock
        log.info("standby task becomes active", extra={"task": str(id_)})
        return copy.task

    def keep(self, task: Task) -> None:
        """Takes over an active task that was taken back to its last commit: its engines stay open."""
        self._copies[task.id] = _Copy(task, self._starts.request_mark(task.id))
        log.info("active task becomes a standby", extra={"task": str(task.id)})

    # ------------------------------------------------------------------ in the loop

    def advance(self, plans: Mapping[int, TaskPlan], active: Collection[TaskId], *, may_open: bool) -> None:
        """Closes copies that belong elsewhere, and opens others.

        :param active: the tasks that the thread is to run.
        :param may_open: whether tasks may be opened now.
        :raises DamagedStateError: if the state of one is damaged.
        """
        now = self._clock.monotonic()
        if now >= self._next.requests and self._copies:
            self._next.requests = now + REQUESTS_INTERVAL_S
            self._release_requested(now)
        if now < self._next.open or not may_open:
            return
        self._next.open = now + OPEN_INTERVAL_S
        for id_ in self._copies.keys() - self._wanted - frozenset(active):
            self._close(id_)
        for id_ in self._not_before.keys() - self._wanted:
            del self._not_before[id_]
        for id_ in self._follower.lost():
            self._begin_again(id_)
        due = [id_ for id_ in sorted(self._wanted.difference(active)) if self._is_due(id_, plans, now)]
        for id_ in due[:OPENED_AT_ONCE]:
            with working_on(id_):
                self._try(id_, plans[id_.subtopology])
        if len(due) > OPENED_AT_ONCE:
            self._next.open = 0.0

    def _is_due(self, id_: TaskId, plans: Mapping[int, TaskPlan], now: float) -> bool:
        copy, plan = self._copies.get(id_), plans.get(id_.subtopology)
        if plan is None or not plan.changelogs or (copy is not None and copy.is_planned):
            return False
        return now >= self._not_before.get(id_, 0.0)

    def _release_requested(self, now: float) -> None:
        for id_, copy in list(self._copies.items()):
            if self._starts.request_mark(id_) != copy.mark:
                self._not_before[id_] = now + AGAIN_S
                self._close(id_)

    def _begin_again(self, id_: TaskId) -> None:
        self._follower.remove(id_, SuspendReason.MIGRATED)
        self._copies[id_].is_planned = False

    def _try(self, id_: TaskId, plan: TaskPlan) -> None:
        """Opens a copy if it is not open, and begins to follow its changelogs."""
        self._not_before[id_] = self._clock.monotonic() + AGAIN_S
        try:
            copy = self._copies.get(id_) or self._open(id_, plan)
            if copy is not None and not self._starts.is_ready(copy.task):
                self._not_before[id_] = self._clock.monotonic() + LOOK_INTERVAL_S
            elif copy is not None:
                self._follower.add(self._starts.jobs(copy.task))
                copy.is_planned = True
                log.debug("standby task follows its changelogs", extra={"task": str(id_)})
                del self._not_before[id_]
        except DamagedStateError:
            raise
        except StreamsError as error:
            self._repeated.log("standby task is not opened yet", task=str(id_), error=error.message)
            if isinstance(error, DiskFullError):
                self._close(id_)

    def _open(self, id_: TaskId, plan: TaskPlan) -> _Copy | None:
        mark = self._starts.request_mark(id_)
        task = self._starts.opener.try_open(plan, id_)
        if task is None:
            return None
        copy = self._copies[id_] = _Copy(task, mark)
        return copy

    def step(self, *, busy: bool) -> None:
        """Applies some records of changelogs, and takes what is known of the group's progress.

        :param busy: whether the thread has records to process.
        """
        for id_ in self._follower.step(busy=busy):
            self._not_before[id_] = self._clock.monotonic() + AGAIN_S
            self._close(id_)
        now = self._clock.monotonic()
        if now < self._next.look or not self._copies:
            return
        self._next.look = now + LOOK_INTERVAL_S
        followed = self._follower.changelogs()
        planned = [copy for copy in self._copies.values() if copy.is_planned]
        self._lags = _lags(planned, followed)
        inputs = [name for copy in planned for name in copy.task.plan.partitions(copy.task.id.partition)]
        marks = self._marks.read(inputs, {name: one.next_offset for name, one in followed.items()})
        for copy in planned:
            if marks is not None:
                self._take_marks(copy, marks, followed)
            if copy.awaited is not None:
                self._reach(copy, copy.awaited, followed)
        if now >= self._next.complete:
            self._next.complete = now + COMPLETE_INTERVAL_S
            self._note_complete(planned)

    def _take_marks(self, copy: _Copy, marks: Marks, followed: Mapping[TopicPartition, FollowedChangelog]) -> None:
        task = copy.task
        inputs = task.plan.partitions(task.id.partition)
        committed = {name: marks.committed[name] for name in inputs if name in marks.committed}
        for partition, store in task.stores.changelog_partitions().items():
            one, end = followed.get(partition), marks.ends.get(partition)
            if one is None or end is None:
                continue
            if store in task.plan.source_changelogs:
                limit = committed[partition].offset if partition in committed else 0
                self._follower.renew(partition, end=max(limit, one.next_offset))
            elif end < marks.positions.get(partition, 0):
                one.lost = True
        for partition, restore in self._starts.restores.renewed(task, committed).items():
            self._follower.renew(partition, restore=restore)
        if copy.awaited is None:
            copy.awaited = Marks(committed, marks.ends)

    @staticmethod
    def _reach(copy: _Copy, awaited: Marks, followed: Mapping[TopicPartition, FollowedChangelog]) -> None:
        """Takes over the offsets of marks once all stores have reached them."""
        for partition, store in copy.task.stores.changelog_partitions().items():
            one = followed.get(partition)
            end = awaited.ends.get(partition, 0)
            if store in copy.task.plan.source_changelogs:
                end = awaited.committed[partition].offset if partition in awaited.committed else 0
            if one is None or one.next_offset < end:
                return
        copy.positions = {name: one.offset for name, one in awaited.committed.items()}
        copy.awaited = None

    def _note_complete(self, copies: Iterable[_Copy]) -> None:
        """Notes of stores that have all of their changelogs as of when that is: they lack no deletion before it."""
        now, followed = self._clock.time_ms(), self._follower.changelogs()
        for copy in copies:
            stores = [
                store
                for partition, store in copy.task.stores.changelog_partitions().items()
                if (one := followed.get(partition)) is not None and one.reached_end
            ]
            try:
                for store in [one for one in stores if not copy.task.stores.progress.reaches_noted_time(one)]:
                    stores.remove(store)
                    self._read_whole(copy.task, store, followed)
                copy.task.stores.progress.note_complete(stores, now)
            except DiskFullError as error:  # the former time stands, which is right too
                self._repeated.log("standby task does not note its time", task=str(copy.task.id), error=str(error))

    def _read_whole(self, task: Task, store: str, followed: Mapping[TopicPartition, FollowedChangelog]) -> None:
        """Has a store that lacks rows of the records before its start follow its changelog from the beginning."""
        self._starts.restores.read_whole(task, store)
        for one in followed.values():
            if one.job.task == task.id and one.job.store == store:
                one.lost = True  # nothing more is written to it until it begins again

    # ------------------------------------------------------------------ closing

    def _close(self, id_: TaskId) -> None:
        copy = self._copies.pop(id_, None)
        if copy is None:
            return
        with ExitStack() as steps:  # from the last to the first, each also after an error of another one
            steps.callback(self._starts.opener.release, id_)
            steps.callback(copy.task.close, dirty=True)
            steps.callback(self._follower.remove, id_, SuspendReason.MIGRATED)
            steps.callback(self._starts.stop, id_)
        log.debug("standby task closed", extra={"task": str(id_)})

    def close(self) -> None:
        """Closes all copies and the clients that they use; errors are logged, as the copies lose nothing by them."""
        for step in (*(lambda id_=id_: self._close(id_) for id_ in list(self._copies)), self._follower.close):
            try:
                step()
            except BaseException as error:
                if passes(error):
                    raise
                found = as_error(error, "while a standby task was closed")
                log.warning("not closed in order", extra={"error": str(found)}, exc_info=error)
        self._marks.close()
