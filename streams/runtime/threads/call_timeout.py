"""Slow user code: what was not committed in time because of it, and when trying again cannot mend that."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from processor_api.errors import RetryableError, StreamsError
from streams.runtime.processing.pace import DRAIN, Pace, SlowCall
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.task import Task

__all__ = ["Overdue"]

TRANSACTION = "producer.transaction.timeout.ms"
POLL = "consumer.max.poll.interval.ms"


class _Life(Protocol):
    committer: Committer
    pace: Pace


class Overdue:
    """Of one stream thread, over all its lives.

    The call that took longest before a commit that came too late is suspected. If it is one for a record, that is
    processed in a transaction of its own the next time; if it takes too long there again, nothing will mend it.
    """

    def __init__(self) -> None:
        self._suspect: SlowCall | None = None

    def of(self, life: _Life, error: StreamsError) -> StreamsError | None:
        """What is to be said in place of an error that ends a transaction or a membership; ``None`` if it was not slow
        user code that did.

        :returns: a `RetryableError` to try again after, else what the thread dies of.
        """
        pace = life.pace
        open_s, limit_s = life.committer.open_s(), pace.transaction_timeout_s
        if open_s is not None and limit_s is not None and open_s >= limit_s:
            name, what = TRANSACTION, "the broker rolls back its transaction"
            told = f"the transaction was rolled back, since it was open for {open_s:.1f} s"
        elif pace.poll_is_late:
            name, limit_s, what = POLL, pace.poll_interval_s, "the group gives its task to another member"
            told = "the member was thrown out of its group"
        else:
            return None
        before, slow = self._suspect, pace.slowest
        if slow is None:
            return RetryableError(f"{told}, longer than {name} allows ({limit_s * 1000:.0f})")
        if before is not None and before.holds(slow) and slow.seconds >= limit_s:
            return slow.too_slow(name, limit_s, what)
        self._suspect = slow if slow.what != DRAIN else None  # of many calls, of which there will be fewer
        pace.slowest = None  # one call may be met by several errors, and is only proven slow by another
        return RetryableError(f"{told}; {name} is {limit_s * 1000:.0f} and {slow}", **slow.place)

    # ------------------------------------------------------------------ a record that is suspected

    @property
    def commits_at_once(self) -> bool:
        """Whether each turn ends in a commit, so that the record that is suspected comes into a transaction alone."""
        return self._suspect is not None and self._suspect.partition is not None

    def limit(self, task: Task, limit: int) -> int:
        """How many records the task may process in this turn."""
        before = self._before(task)
        return limit if before is None else min(limit, max(1, before))

    def turn(self, tasks: list[Task]) -> list[Task]:
        """The tasks that have a turn: the record that is suspected has one of its own."""
        for task in tasks:
            before = self._before(task)
            if before is not None and before <= 0 and task.has_records():
                return [task]
        return tasks

    def _before(self, task: Task) -> int | None:
        """How many records of the task come before the one that is suspected; ``None`` if that is none of its."""
        suspect = self._suspect
        if suspect is None or suspect.partition is None:
            return None
        queue = task.queues.get(suspect.partition)
        if queue is None or queue.next_offset is None:
            return None
        return suspect.offsets.start - queue.next_offset

    def committed(self, pace: Pace, tasks: Collection[Task]) -> None:
        """A commit has succeeded: what is suspected may be in it."""
        suspect = self._suspect
        if suspect is None:
            return
        if suspect.partition is None:
            if suspect.what not in pace.committed_calls:
                return
        elif any(
            (queue := task.queues.get(suspect.partition)) is not None
            and queue.next_offset is not None
            and queue.next_offset < suspect.offsets.stop
            for task in tasks
        ):
            return
        self._suspect = None
