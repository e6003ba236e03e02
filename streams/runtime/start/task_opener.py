"""Opens tasks: takes the lock of the task's directory, then opens the engines of its stores."""

from __future__ import annotations

from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory, TaskLock
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.tasks.assembly import TaskAssembly
from streams.runtime.tasks.task import Task


class TaskOpener:
    """Opens the tasks of one stream thread, and holds the locks of their directories."""

    def __init__(self, assembly: TaskAssembly, directory: StateDirectory) -> None:
        self._assembly = assembly
        self._directory = directory
        self._locks: dict[TaskId, TaskLock] = {}

    def open(self, plan: TaskPlan, id_: TaskId) -> Task | None:
        """Opens a task; returns ``None`` while another owner in this state directory holds its lock.

        :raises RetryableError: if another process has an engine open.
        :raises StateError: if an engine is damaged or cannot be opened.
        """
        lock = self._directory.try_lock_task(id_) if plan.stores else None
        if plan.stores and lock is None:
            return None
        try:
            task = self._assembly.task(plan, id_, self._directory.task_directory(id_))
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if lock is not None:
            self._locks[id_] = lock
        return task

    def holder(self, id_: TaskId) -> str:
        """Returns in words who holds the lock of a task that could not be opened."""
        return self._directory.holder_of_task(id_)

    def release(self, id_: TaskId) -> None:
        """Releases the lock of a task that was closed."""
        lock = self._locks.pop(id_, None)
        if lock is not None:
            lock.release()
