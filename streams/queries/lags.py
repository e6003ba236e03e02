"""The lags of the stores of a process behind their changelogs (KIP-535)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from processor_api.task_id import TopicPartition
from streams.queries.local_stores import LocalThread
from streams.runtime.tasks.task import Task, TaskState
from streams.runtime.threads.task_manager import OwnedTask
from streams.runtime.threads.thread_state import ThreadState


class LagInfo(NamedTuple):
    """The lag of one partition of a store, in offsets of its changelog.

    Markers of transactions and records that compaction removed count, so that a lag is about the number of records to
    come.

    ::

        lag = LagInfo(current_offset_position=40, end_offset_position=42)
        assert lag.offset_lag == 2
    """

    current_offset_position: int
    """The next offset that the store takes."""
    end_offset_position: int
    """The end of the changelog, as far as this process knows."""

    @property
    def offset_lag(self) -> int:
        """The number of offsets that the store is behind."""
        return max(0, self.end_offset_position - self.current_offset_position)


def local_lags(threads: Iterable[LocalThread]) -> dict[str, dict[int, LagInfo]]:
    """Returns the lags for `KafkaStreams.all_local_store_partition_lags`."""
    found: dict[str, dict[int, LagInfo]] = {}
    threads = list(threads)
    for thread in threads:
        for owned in thread.list_tasks() if thread.state is not ThreadState.DEAD else ():
            for store in owned.plan.changelogs:
                lag = _lag(owned, store)
                if lag is not None:
                    found.setdefault(store, {})[owned.id.partition] = lag
    for thread in threads:
        for copy in thread.list_standbys() if thread.state is not ThreadState.DEAD else ():
            for store, followed in copy.changelogs.items():
                lag = LagInfo(followed.next_offset, followed.next_offset + followed.lag)
                found.setdefault(store, {}).setdefault(copy.id.partition, lag)
    return found


def _lag(owned: OwnedTask, store: str) -> LagInfo | None:
    task = owned.task
    if task is not None and task.state is TaskState.RUNNING:
        end = _end(task, owned, store)
        return None if end is None else LagInfo(end, end)
    job = owned.restores.get(store)
    if job is not None:
        return LagInfo(job.next_offset, job.end)
    end = owned.changelog_ends.get(store)
    return None if end is None else LagInfo(end, end)


def _end(task: Task, owned: OwnedTask, store: str) -> int | None:
    """Returns the end of the changelog of a running task, which is its only writer."""
    if store in owned.plan.source_changelogs:
        queue = task.inputs.queues.get(TopicPartition(owned.plan.changelogs[store], owned.id.partition))
        return None if queue is None else queue.next_offset or 0
    changelog = task.stores.changelogs.by_store.get(store)
    return None if changelog is None else changelog.end
