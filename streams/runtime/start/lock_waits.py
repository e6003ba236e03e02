"""Tells of tasks that wait for the lock of their directory: who holds it, and what to do."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection

from processor_api.clock import Clock
from processor_api.task_id import TaskId

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
        if since is not None and self._next_notice.pop(task) > since + QUIET_S:
            self._opened.append(task)

    def keep(self, wanted: Collection[TaskId]) -> None:
        """Forgets tasks that are not wanted any more."""
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
