"""Notices topics that have changed since the application started (semantics 105).

A source topic may have another partition count: stores and their changelogs were made for the counts at the start, and
keys may be in other partitions now. Any topic may have been deleted and made again. The application cannot go on then,
and ends. Added partitions that no store depends on are no such change: `streams.app.topics.TopicWatch` has them read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from processor_api.clock import Clock
from processor_api.errors import StreamsError, TopologyError
from streams.kafka.ports import Admin
from streams.kafka.topics.internal import RESET_HINT
from streams.runtime.start.topic_ids import check_same
from streams.runtime.tasks.task import Task
from streams.threads import SYSTEM_THREADS, Helper, Pending, Threads

log = logging.getLogger("streams.topics")


def partition_count_changed(topic: str, before: int, now: int, why: str = "") -> TopologyError:
    """Returns the error for a source topic whose partition count does not fit the application any more."""
    return TopologyError(
        f"source topic {topic!r} has {now} partitions now and had {before} when this worker started: the tasks and"
        " internal topics of the application do not fit it any more, and keys may have moved between partitions"
        f"{why}. Nothing is lost. {RESET_HINT}",
        topic=topic,
    )


class PartitionWatch:
    """Checks the topics of a stream thread's tasks from time to time, on a thread of its own.

    :param interval_ms: how often.
    """

    def __init__(self, admin: Admin, clock: Clock, interval_ms: int, threads: Threads = SYSTEM_THREADS) -> None:
        self._admin = admin
        self._clock = clock
        self._interval_s = interval_ms / 1000
        self._next = clock.monotonic() + self._interval_s
        self._threads = threads
        self._worker: Helper | None = None
        self._check: Pending | None = None

    def run(self, tasks: Collection[Task]) -> None:
        """Starts a check if one is due.

        :raises TopologyError: if the last check found another partition count.
        :raises StateError: if it found that a topic was deleted and made again.
        """
        if self._check is not None and self._check.done():
            check, self._check = self._check, None
            check.result()
        now = self._clock.monotonic()
        if now < self._next or self._check is not None:
            return
        self._next = now + self._interval_s
        known = {
            topic: (count, task.plan.may_grow)
            for task in tasks
            for topic, count in task.plan.partition_counts.items()
            if topic not in task.plan.repartition_topics
        }
        if known:
            ids = {topic: id_ for task in tasks for topic, id_ in task.topic_ids.items()}
            self._worker = self._worker or self._threads.helper("partition-watch")
            self._check = self._worker.submit(self._compare, known, ids)

    def _compare(self, known: dict[str, tuple[int, bool]], ids: dict[str, str]) -> None:
        try:
            found = self._admin.topics(known)
            found_ids = self._admin.topic_ids(ids)
        except StreamsError as error:
            log.warning(
                "the partitions of source topics could not be checked",
                extra={"error": str(error)},
            )
            return
        check_same(ids, found_ids)
        for topic, (before, may_grow) in known.items():
            now = found[topic].partitions if topic in found else 0
            if now and (now < before or (now > before and not may_grow)):
                raise partition_count_changed(topic, before, now)

    def close(self) -> None:
        """Ends the checks, without waiting for one that is under way."""
        if self._worker is not None:
            self._worker.shutdown(wait=False, cancel_futures=True)
            self._worker = None
