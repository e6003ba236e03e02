"""Opens tasks: takes the lock of the task's directory, then opens the engines of its stores."""

from __future__ import annotations

from collections.abc import Callable

from processor_api.clock import Clock
from processor_api.task_id import TaskId
from state.directory.state_directory import StateDirectory, TaskLock
from state.write_buffer.memory_budget import Budget
from streams.runtime.plan.task_plan import TaskPlan
from streams.runtime.processing.environment import Environment, TaskSettings, TaskThread
from streams.runtime.processing.error_policy import ErrorPolicy
from streams.runtime.tasks.task import Task
from streams.runtime.tasks.task_stores import EngineOpener, TaskStores
from streams.runtime.tasks.traced_task import make_task

__all__ = ["TaskOpener"]


class TaskOpener:
    """Opens the tasks of one stream thread, and holds the locks of their directories.

    :param budget: the memory for the write buffers of the thread.
    :param error_policy: ``(task, line_of=...)`` to the error policy of a task; the second finds the lines of nodes.
    """

    def __init__(
        self,
        settings: TaskSettings,
        thread: TaskThread,
        budget: Budget,
        *,
        directory: StateDirectory,
        open_engine: EngineOpener,
        error_policy: Callable[..., ErrorPolicy],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._thread = thread
        self._budget = budget
        self._directory = directory
        self._open_engine = open_engine
        self._error_policy = error_policy
        self._clock = clock
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
            task = self._open(plan, id_)
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        if lock is not None:
            self._locks[id_] = lock
        return task

    def _open(self, plan: TaskPlan, id_: TaskId) -> Task:
        environment = Environment(
            id_,
            self._settings,
            self._error_policy(id_, line_of=plan.topology.line_of),
            clock=self._clock,
            state_dir=self._directory.task_directory(id_),
            thread=self._thread,
        )
        return make_task(plan, environment, TaskStores(plan, id_, environment, self._budget, self._open_engine))

    def release(self, id_: TaskId) -> None:
        """Releases the lock of a task that was closed."""
        lock = self._locks.pop(id_, None)
        if lock is not None:
            lock.release()
