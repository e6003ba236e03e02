"""Tells of tasks that wait for the lock of their directory: who holds it, and what to do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from processor_api.clock import Clock
from processor_api.task_id import TaskId

__all__ = ["LockWaits"]

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

    def waits(self, task: TaskId) -> None:
        """Takes that a task could not have its lock just now; says so if that has lasted for seconds, and again each
        minute."""
        now = self._clock.monotonic()
        since = self._since.setdefault(task, now)
        if now < self._next_notice.setdefault(task, now + QUIET_S):
            return
        self._next_notice[task] = now + AGAIN_S
        log.warning(
            "a task waits for the lock of its directory: it starts when the holder has closed the task, or has ended",
            extra={"task": str(task), "waited_s": round(now - since), "held_by": self._holder(task)},
        )

    def opened(self, task: TaskId) -> None:
        """Takes that a task has its lock."""
        since = self._since.pop(task, None)
        if since is not None and self._next_notice.pop(task) > since + QUIET_S:
            waited_s = round(self._clock.monotonic() - since)
            log.info("a task has the lock that it waited for", extra={"task": str(task), "waited_s": waited_s})

    def keep(self, wanted: Collection[TaskId]) -> None:
        """Forgets tasks that are not wanted any more."""
        for task in self._since.keys() - wanted:
            del self._since[task], self._next_notice[task]
