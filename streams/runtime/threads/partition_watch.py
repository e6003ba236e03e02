"""Notices topics that have changed since the application started (semantics 105).

A source topic may have another partition count: stores and their changelogs were made for the counts at the start, and
keys may be in other partitions now. Any topic may have been deleted and made again. The application cannot continue
then, and ends. Added partitions that no store depends on are not such a change: `streams.app.topics.TopicWatch` has
them read.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from processor_api.clock import Clock
from processor_api.errors import StreamsError, TopologyError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Admin
from streams.kafka.topics.internal import RESET_HINT
from streams.runtime.start.topic_ids import check_same
from streams.runtime.tasks.task import Task
from streams.threads import SYSTEM_THREADS, PeriodicCall, Threads

log = logging.getLogger("streams.topics")


def partition_count_changed(topic: str, before: int, now: int, why: str = "") -> TopologyError:
    """Returns the error for a source topic whose partition count no longer fits the application."""
    return TopologyError(
        f"source topic {topic!r} has {now} partitions now and had {before} when this worker started: the tasks and"
        f" internal topics of the application no longer fit it, and keys may have moved between partitions{why}. No"
        f" records are lost. {RESET_HINT}",
        topic=topic,
    )


class PartitionWatch:
    """Checks the topics of a stream thread's tasks from time to time, on a thread of its own.

    :param interval_ms: how often.
    """

    def __init__(self, admin: Admin, clock: Clock, interval_ms: int, threads: Threads = SYSTEM_THREADS) -> None:
        self._admin = admin
        self._interval_s = interval_ms / 1000
        failed = (log, "the partitions of source topics could not be checked")
        self._checks = PeriodicCall("partition-watch", clock, threads, failed, StreamsError)
        self._checks.after(self._interval_s)

    def run(self, tasks: Collection[Task]) -> None:
        """Starts a check if one is due.

        :raises TopologyError: if the last check found another partition count.
        :raises StateError: if it found that an input was deleted and made again.
        :raises TransactionAborted: if a changelog was.
        """
        found: _Topics | None = self._checks.take()
        if found is not None:
            found.check()
            for task in tasks:
                for partition in found.absent(task.inputs.queues):
                    task.inputs.note_absent(partition)
        if not self._checks.is_due:
            return
        known = {
            topic: (count, task.plan.may_grow)
            for task in tasks
            for topic, count in task.plan.partition_counts.items()
            if topic not in task.plan.repartition_topics
        }
        if known:
            ids = {topic: id_ for task in tasks for topic, id_ in task.topic_ids.items()}
            inputs = frozenset().union(*(task.plan.topics for task in tasks))
            self._checks.start(self._interval_s, self._ask, known, ids, inputs)
        else:
            self._checks.after(self._interval_s)

    def _ask(self, known: Mapping[str, tuple[int, bool]], ids: Mapping[str, str], inputs: frozenset[str]) -> _Topics:
        topics = self._admin.topics(known)
        now = {name: info.partitions for name, info in topics.items()}
        return _Topics(known, ids, inputs, now, self._admin.topic_ids(ids))

    def close(self) -> None:
        """Ends the checks, without waiting for one that is under way."""
        self._checks.close()


class _Topics(NamedTuple):
    """The topics of tasks as they were when these were opened, and as they are."""

    known: Mapping[str, tuple[int, bool]]
    """The number of partitions of each, and whether it may grow."""
    ids: Mapping[str, str]
    inputs: frozenset[str]
    """Those that are read; the others are changelogs."""
    partitions: Mapping[str, int]
    found_ids: Mapping[str, str]

    def absent(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Returns those of the partitions whose topics are no longer there."""
        return [one for one in partitions if one.topic in self.known and not self.partitions.get(one.topic, 0)]

    def check(self) -> None:
        """Raises the error of a topic that has changed."""
        check_same(self.ids, self.found_ids, self.inputs)
        for topic, (before, may_grow) in self.known.items():
            now = self.partitions.get(topic, 0)
            if now and (now < before or (now > before and not may_grow)):
                raise partition_count_changed(topic, before, now)
