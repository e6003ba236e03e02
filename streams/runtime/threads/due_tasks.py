"""Keeps which tasks of a stream thread have something to do, so that a turn of its loop looks at no others.

A task changes only when its thread gives it records, processes or punctuates it, or commits. So what is due is asked of
a task after that, and not in each turn: most of many tasks have nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from processor_api.task_id import TaskId
from streams.runtime.processing.punctuations import NEVER
from streams.runtime.tasks.task import Task


class DueTasks:
    """The tasks of one thread that have records, wait for the wall clock, or need a commit. Used by that thread."""

    def __init__(self) -> None:
        self._tasks: Mapping[TaskId, Task] = {}
        self._numbers: dict[TaskId, int] = {}
        """The place of each task in the order of turns."""
        self._with_records: dict[TaskId, Task] = {}
        self._by_clock: dict[TaskId, int] = {}
        """When the wall clock makes something due; tasks without such a time are left out."""
        self._touched: dict[TaskId, Task] = {}
        """Tasks that may have changed since the last :meth:`committed`."""

    def follow(self, tasks: Mapping[TaskId, Task]) -> None:
        """Looks at the tasks that run now.

        :param tasks: another mapping whenever another task runs than before, or one was opened again.
        """
        if tasks is self._tasks:
            return
        self._tasks = tasks
        self._numbers = {id_: number for number, id_ in enumerate(tasks)}
        self._with_records, self._by_clock, self._touched = {}, {}, {}
        for task in tasks.values():
            self.touched(task)

    def touched(self, task: Task) -> None:
        """Looks at a task again: it has got records, or has worked."""
        id_ = task.id
        if self._tasks.get(id_) is not task:  # the next :meth:`follow` looks at it
            return
        self._touched[id_] = task
        if task.has_records():
            self._with_records[id_] = task
        else:
            self._with_records.pop(id_, None)
        due = task.next_wall_clock_ms
        if due < NEVER:
            self._by_clock[id_] = due
        else:
            self._by_clock.pop(id_, None)

    def got_records(self, task: Task) -> None:
        """Notes that a task was given records; cheaper than to look at it."""
        id_ = task.id
        if self._tasks.get(id_) is task:
            self._touched[id_] = self._with_records[id_] = task

    def committed(self) -> None:
        """Looks again at the tasks that a commit may have changed; those that still need one stay touched."""
        touched = self._touched
        # A copy: to look at a task notes it in the same dictionary.
        for task in [*touched.values()]:
            self.touched(task)
        self._touched = {id_: task for id_, task in touched.items() if task.commit_needed}

    @property
    def touched_tasks(self) -> Iterable[Task]:
        """The tasks that may need a commit."""
        return self._touched.values()

    @property
    def next_wall_clock_ms(self) -> int:
        """When the wall clock makes something due for one of the tasks."""
        return min(self._by_clock.values(), default=NEVER)

    def in_turn(self, now_ms: int, served: TaskId | None) -> list[Task]:
        """Returns the tasks that have something to do now, in the order of their turns.

        :param served: the task that had the last turn, if others had to wait: those behind it go first.
        """
        found = dict(self._with_records)
        if self._by_clock:
            found.update((id_, self._tasks[id_]) for id_, due in self._by_clock.items() if due <= now_ms)
        if len(found) < 2:
            return list(found.values())
        numbers = self._numbers
        last = -1 if served is None else numbers.get(served, -1)
        count = len(numbers)
        return [found[id_] for id_ in sorted(found, key=lambda id_: (numbers[id_] - last - 1) % count)]
