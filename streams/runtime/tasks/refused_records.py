"""Tasks with records that were refused, or need a service that is away: each goes back alone, waits, and then continues
in small steps."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from processor_api.clock import Clock
from processor_api.errors import RetryableError, UnreachableError
from processor_api.task_id import TaskId
from streams.log import retry_level
from streams.runtime.tasks.retry import Retry
from streams.runtime.tasks.task import Task

log = logging.getLogger("streams.task")

LONGEST_WAIT_MS = 10_000
LARGE_STEP = 2000
"""A task that commits this many records together is treated like any other."""


@dataclass
class _GoneBack:
    retry: Retry
    opens_at: float
    step: int = 1
    """The most records that it processes before a commit."""
    processed: int = 0
    """Records since the last commit."""


class RefusedRecords:
    """The tasks of one stream thread that went back because of their records, for as long as the thread lives.

    What is processed between two commits is written again when the task goes back again. So the first step is one
    record, which is committed, and the next is twice as large, up to the record that is refused, which then is alone.

    :param backoff_ms: the wait after the first refusal; it doubles with each further one without progress, to ten
        seconds.
    :param timeout_ms: how long a task may be without progress.
    """

    def __init__(self, clock: Clock, backoff_ms: int, timeout_ms: int) -> None:
        self._clock = clock
        self._backoff_ms = backoff_ms
        self._timeout_ms = timeout_ms
        self._tasks: dict[TaskId, _GoneBack] = {}
        self.outages = 0
        """How often tasks went back because a service that a record needs, such as a schema registry, was away; any
        thread may read it."""

    def record(self, error: RetryableError, tasks: Collection[TaskId]) -> None:
        """Records that tasks go back.

        :raises TaskTimeoutError: once one has been without progress for ``task.timeout.ms``.
        """
        now = self._clock.monotonic()
        for id_ in sorted(tasks):
            retry = Retry(self._clock, self._backoff_ms, LONGEST_WAIT_MS, self._timeout_ms)
            found = self._tasks.setdefault(id_, _GoneBack(retry, now))
            wait_s = found.retry.record_failure(error)
            found.opens_at, found.step, found.processed = now + wait_s, 1, 0
            if isinstance(error, UnreachableError):
                level = logging.WARNING
                text = (
                    "a service that a record needs cannot be reached; its task goes back to its last commit, and waits"
                )
            else:
                level, text = retry_level(), "a record was refused; its task goes back to its last commit, and waits"
            log.log(
                level,
                text,
                extra={"task": str(id_), "error": str(error), "waits_s": round(wait_s, 1)},
            )

    def keep(self, owned: Collection[TaskId]) -> None:
        """Forgets the tasks that the thread no longer owns."""
        for id_ in [id_ for id_ in self._tasks if id_ not in owned]:
            del self._tasks[id_]

    def waits(self, id_: TaskId) -> bool:
        """Whether a task is not to be opened yet."""
        found = self._tasks.get(id_)
        return found is not None and self._clock.monotonic() < found.opens_at

    def limit(self, id_: TaskId, limit: int) -> int:
        """Returns how many records the task may process in this turn."""
        found = self._tasks.get(id_)
        return limit if found is None else min(limit, max(0, found.step - found.processed))

    def processed(self, id_: TaskId, count: int) -> None:
        """Counts records that a task has processed."""
        if self._tasks and (found := self._tasks.get(id_)) is not None:
            found.processed += count

    def wants_commit(self, running: Iterable[Task]) -> bool:
        """Whether a task has made its step, or has nothing left for it.

        A task that went back for another reason, or was opened again, begins its step again: it has nothing to commit.
        """
        wants = False
        for task in running if self._tasks else ():
            found = self._tasks.get(task.id)
            if found is None or not found.processed:
                continue
            if not task.commit_needed:
                found.processed = 0
            elif found.processed >= found.step or not task.has_records():
                wants = True
        return wants

    def committed(self) -> None:
        """Notes that all that was processed is committed: steps become larger, and waits begin at the first one."""
        for id_, found in list(self._tasks.items()):
            if found.processed:
                found.retry.reset()
                found.step, found.processed = 2 * found.step, 0
                if found.step > LARGE_STEP:
                    del self._tasks[id_]
