"""Deletes records of repartition topics once they are processed (semantics 134), and of windows that have expired."""

from __future__ import annotations

import logging
from collections.abc import Collection

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Admin
from streams.runtime.tasks.expired_windows import ExpiredWindows, Expiry
from streams.runtime.tasks.task import Task
from streams.threads import SYSTEM_THREADS, PeriodicCall, Threads

log = logging.getLogger("streams.purge")

_FAILED = "processed records of repartition topics were not deleted"


class RepartitionPurge:
    """Purges every ``repartition.purge.interval.ms``, after a commit, on a thread of its own."""

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        interval_ms: int,
        expired: ExpiredWindows,
        threads: Threads = SYSTEM_THREADS,
    ) -> None:
        self._admin = admin
        self._expired = expired
        self._interval_s = interval_ms / 1000
        self._purges = PeriodicCall("repartition-purge", clock, threads, (log, _FAILED), StreamsError)
        self._purges.after(self._interval_s)

    def run(self, tasks: Collection[Task]) -> None:
        """Starts a purge up to the committed offsets, if one is due.

        Positions may be ahead of them, past the markers of transactions. The next owner of the task starts from the
        committed offsets, so no record behind them is deleted.
        """
        self._purges.take()
        if not self._purges.is_due:
            return
        before = {
            name: one.offset
            for task in tasks
            for name, one in task.inputs.known_offsets.items()
            if name.topic in task.plan.repartition_topics
        }
        expired = self._expired.due(tasks)
        if before or not expired.is_empty:
            self._purges.start(self._interval_s, self._purge, before, expired)
        else:
            self._purges.after(self._interval_s)

    def _purge(self, before: dict[TopicPartition, int], expired: Expiry) -> None:
        if not expired.is_empty:
            self._expired.purge(expired)
        self._admin.delete_records(before)

    def close(self) -> None:
        """Waits for a purge that runs, and ends."""
        self._purges.close(wait=True)
