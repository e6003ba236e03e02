"""Slow user code: finds the call because of which a commit came too late, and says when retrying cannot help."""

from __future__ import annotations

from collections.abc import Collection

from processor_api.errors import RetryableError, StreamsError
from streams.runtime.processing.pace import DRAIN, Pace, SlowCall
from streams.runtime.tasks.commit import Committer
from streams.runtime.tasks.task import Task

TRANSACTION = "producer.transaction.timeout.ms"
POLL = "consumer.max.poll.interval.ms"


class CallTimeout:
    """Watches the calls of user code on one stream thread, for as long as the thread lives.

    The call that took longest before a commit that came too late is the suspect. If that is the call for a record, the
    record is processed in a transaction of its own the next time. If it takes too long again, retrying cannot help.
    """

    def __init__(self) -> None:
        self._suspect: SlowCall | None = None

    def explain(self, committer: Committer, pace: Pace, error: StreamsError) -> StreamsError | None:
        """Returns the error to report instead of one that ended a transaction or a membership.

        :returns: a `RetryableError` if the work may be tried again, otherwise the error to end the thread with;
            ``None`` if slow user code was not the cause.
        """
        open_s, limit_s = committer.open_s(), pace.transaction_timeout_s
        if open_s is not None and limit_s is not None and open_s >= limit_s:
            name, consequence = TRANSACTION, "the broker aborts its transaction"
            happened = f"the transaction was aborted because it was open for {open_s:.1f} s"
        elif pace.poll_is_late:
            name, limit_s, consequence = POLL, pace.poll_interval_s, "the group assigns its task to another member"
            happened = "the member was removed from its group"
        else:
            return None
        before, slow = self._suspect, pace.calls.slowest
        if slow is None:
            return RetryableError(f"{happened}, longer than {name} allows ({limit_s * 1000:.0f})")
        if before is not None and before.holds(slow) and slow.seconds >= limit_s:
            return slow.too_slow(name, limit_s, consequence)
        self._suspect = slow if slow.what != DRAIN else None  # a drain is many calls, of which there will be fewer
        pace.calls.slowest = None  # several errors may follow one call: only another call proves that it is slow
        return RetryableError(f"{happened}; {name} is {limit_s * 1000:.0f} and {slow}", **slow.place)

    # ------------------------------------------------------------------ a suspected record

    @property
    def commits_at_once(self) -> bool:
        """Whether each turn ends in a commit, so that the suspected record gets a transaction of its own."""
        return self._suspect is not None and self._suspect.partition is not None

    def limit(self, task: Task, limit: int) -> int:
        """Returns how many records the task may process in this turn."""
        before = self._before(task)
        return limit if before is None else min(limit, max(1, before))

    def turn(self, tasks: list[Task]) -> list[Task]:
        """Returns the tasks that have a turn: the suspected record has one of its own."""
        if self._suspect is None:
            return tasks
        for task in tasks:
            before = self._before(task)
            if before is not None and before <= 0 and task.has_records():
                return [task]
        return tasks

    def _before(self, task: Task) -> int | None:
        """Returns how many records of the task come before the suspected one; ``None`` if that is of another task."""
        suspect = self._suspect
        if suspect is None or suspect.partition is None:
            return None
        queue = task.inputs.queues.get(suspect.partition)
        if queue is None or queue.next_offset is None:
            return None
        return suspect.offsets.start - queue.next_offset

    def committed(self, pace: Pace, tasks: Collection[Task]) -> None:
        """Drops the suspect if the commit that has just succeeded holds it."""
        suspect = self._suspect
        if suspect is None:
            return
        if suspect.partition is None:
            if suspect.what not in pace.calls.committed:
                return
        elif any(
            (queue := task.inputs.queues.get(suspect.partition)) is not None
            and queue.next_offset is not None
            and queue.next_offset < suspect.offsets.stop
            for task in tasks
        ):
            return
        self._suspect = None
