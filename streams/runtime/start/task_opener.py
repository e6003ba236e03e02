"""Opens tasks: takes the lock of the task's directory, then opens the engines of its stores.

While another owner has the lock, the task waits for it, and the log tells who that is, and what to do.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory, TaskLock
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.tasks")

QUIET_S = 5.0
"""How long a task may wait without a word: its former owner is closing it."""
AGAIN_S = 60.0


class LockWaits:
    """Knows since when each task of a stream thread waits for its lock.

    :param holder: returns in words who holds the lock of a task.
    """

    def __init__(self, clock: Clock, holder: Callable[[TaskId], str]) -> None:
        self._clock = clock
        self._holder = holder
        self._since: dict[TaskId, float] = {}
        self._next_notice: dict[TaskId, float] = {}
        self._opened: list[TaskId] = []
        """Tasks that have got their locks after a wait that was logged."""

    def waits(self, task: TaskId) -> None:
        """Takes that a task could not have its lock just now."""
        since = self._since.setdefault(task, self._clock.monotonic())
        self._next_notice.setdefault(task, since + QUIET_S)

    def opened(self, task: TaskId) -> None:
        """Takes that a task has its lock."""
        since = self._since.pop(task, None)
        # Later than the first notice would be: so that one was logged.
        if since is not None and self._next_notice.pop(task) > since + QUIET_S:
            self._opened.append(task)

    def keep(self, wanted: Collection[TaskId]) -> None:
        """Forgets tasks that are no longer wanted."""
        for task in self._since.keys() - wanted:
            del self._since[task], self._next_notice[task]

    def log_waits(self) -> None:
        """Logs which tasks have waited for some seconds, and each minute again, in one line for each holder; and which
        of them have their locks now."""
        if self._opened:
            opened, self._opened = self._opened, []
            log.info("tasks have the locks that they waited for", extra={"tasks": " ".join(map(str, opened))})
        now = self._clock.monotonic()
        held: dict[str, list[TaskId]] = defaultdict(list)
        for task, at in self._next_notice.items():
            if now >= at:
                self._next_notice[task] = now + AGAIN_S
                held[self._holder(task)].append(task)
        for holder, tasks in held.items():
            waited_s = round(now - min(self._since[task] for task in tasks))
            log.warning(
                "tasks wait for the locks of their directories: they start when the holder has closed them, or has"
                " ended",
                extra={"tasks": " ".join(map(str, tasks)), "waited_s": waited_s, "held_by": holder},
            )


class TaskOpener:
    """Opens the tasks of one stream thread, and holds the locks of their directories."""

    def __init__(self, assembly: TaskAssembly, directory: StateDirectory) -> None:
        self._assembly = assembly
        self.directory = directory
        self._locks: dict[TaskId, TaskLock] = {}
        self._waits = LockWaits(assembly.clock, directory.holder_of_task)

    def open(
        self, plans: Mapping[int, TaskPlan], wanted: Collection[TaskId], opened: Collection[TaskId]
    ) -> Iterator[Task]:
        """Yields the tasks that it opens now. The others wait: another owner in this state directory has their locks.

        :param wanted: the tasks to open, with those that are open.
        :raises RetryableError: if another process has an engine open.
        :raises StateError: if an engine is damaged or cannot be opened.
        """
        self._waits.keep(wanted)
        for id_ in sorted(set(wanted).difference(opened)):
            task = self.try_open(plans[id_.subtopology], id_)
            if task is None:
                self.directory.want_task(id_)  # its holder may keep a copy only
                self._waits.waits(id_)
            else:
                self._waits.opened(id_)
                yield task
        self._waits.log_waits()

    def try_open(self, plan: TaskPlan, id_: TaskId) -> Task | None:
        """Opens a task; returns ``None`` if another owner in this state directory has its lock.

        :raises StreamsError: as :meth:`open`.
        """
        lock = self.directory.try_lock_task(id_) if plan.stores else None
        if plan.stores and lock is None:
            return None
        try:
            task = self._assembly.task(plan, id_, self.directory.task_directory(id_))
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if lock is not None:
            self._locks[id_] = lock
        return task

    def release(self, id_: TaskId) -> None:
        """Releases the lock of a task that was closed."""
        lock = self._locks.pop(id_, None)
        if lock is not None:
            lock.release()
