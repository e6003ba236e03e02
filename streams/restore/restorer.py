"""Restores stores from their changelogs, with a consumer of its own, in large batches, a little at a time.

It ends by position, not by the last record seen, so that transaction markers count (conformance 97). While a store
restores, the thread goes on with its other tasks: each call does a bounded amount of work.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import StateError
from processor_api.task_id import TaskId, TopicPartition
from state.engine import OFFSETS, Engine
from state.kind import Restore
from state.offsets import write_offset
from streams.kafka.ports import AT_BEGINNING, Consumer
from streams.metrics.registry import Metrics
from streams.restore.counters import RestoreCounters

__all__ = ["RestoreJob", "Restorer", "StateRestoreListener", "plan_restore"]

log = logging.getLogger("streams.restore")

BATCH = 10_000
PROGRESS_INTERVAL_S = 10.0


class StateRestoreListener(Protocol):
    """Told of restores, on the stream thread (Kafka Streams' StateRestoreListener). Offsets are those of the changelog;
    ``restored`` counts records."""

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None: ...

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None: ...

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None: ...

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None:
        """The task went elsewhere, or the application closes, before the store was complete."""
        ...


@dataclass
class RestoreJob:
    """One changelog partition to be read into one store."""

    task: TaskId
    store: str
    partition: TopicPartition
    engine: Engine
    restore: Restore
    start: int
    """First offset to read; `AT_BEGINNING` for all."""
    end: int
    """Offset to reach."""
    offset_key: bytes
    """Where the engine keeps the offset of the last record that the store holds."""
    from_source: bool = False
    """Whether a source topic serves as the changelog: its records may have no key, and those are not for the store."""
    restored: int = 0
    position: int | None = None
    started_at: float = 0.0


def plan_restore(
    stored: int | None, beginning: int, end: int, store: str, task: TaskId, *, has_rows: bool
) -> tuple[int, bool]:
    """Where to start, and whether what is there must be thrown away; rows that are thrown away are told of.

    :param stored: offset of the last record that the store holds.
    """
    if stored is not None and beginning <= stored + 1 <= end:
        return stored + 1, False
    reason = "its offset is outside of the changelog" if stored is not None else "it has rows and no offset"
    if stored is not None or has_rows:
        log.error(
            "store is rebuilt from its changelog: %s",
            reason,
            extra={"store": store, "task": str(task), "offset": stored, "beginning": beginning, "end": end},
        )
    return beginning, True


class Restorer:
    """Of one stream thread."""

    def __init__(
        self,
        consumer: Consumer,
        clock: Clock,
        listeners: Collection[StateRestoreListener] = (),
        metrics: Metrics | None = None,
    ) -> None:
        self._consumer = consumer
        self._clock = clock
        self._listeners = listeners
        self._jobs: dict[TopicPartition, RestoreJob] = {}
        self._next_progress = 0.0
        self._metrics = metrics or Metrics(clock.time_ms)
        self._counters: dict[TaskId, RestoreCounters] = {}
        self.records_restored = 0

    @property
    def active(self) -> bool:
        return bool(self._jobs)

    def jobs(self) -> list[RestoreJob]:
        """What is being restored; any thread may ask."""
        return list(self._jobs.values())

    def add(self, jobs: Collection[RestoreJob]) -> None:
        """Starts reading."""
        now = self._clock.monotonic()
        for job in jobs:
            job.started_at = now
            self._jobs[job.partition] = job
            for listener in self._listeners:
                listener.on_restore_start(job.partition, job.store, job.start, job.end)
            log.info(
                "restoring",
                extra={
                    "task": str(job.task),
                    "store": job.store,
                    "changelog": str(job.partition),
                    "from": job.start,
                    "to": job.end,
                },
            )
        for task in {job.task for job in jobs}:
            self._counters.setdefault(task, RestoreCounters(self._metrics))
            self._count(task)
        self._consumer.assign({job.partition: job.start if job.start >= 0 else AT_BEGINNING for job in jobs})

    def counters(self) -> dict[TaskId, RestoreCounters]:
        """What was restored of each task that is here; any thread may ask."""
        return self._counters.copy()

    def _count(self, task: TaskId, records: int = 0) -> None:
        counters = self._counters[task]
        counters.restored += records
        counters.remaining = sum(_left(job) for job in list(self._jobs.values()) if job.task == task)
        counters.windows.sample()

    def remove(self, task: TaskId) -> None:
        """Stops restoring a task that went elsewhere."""
        gone = [partition for partition, job in self._jobs.items() if job.task == task]
        for partition in gone:
            self._suspend(self._jobs.pop(partition))
        self._counters.pop(task, None)
        self._consumer.unassign(gone)

    def _suspend(self, job: RestoreJob) -> None:
        for listener in self._listeners:
            listener.on_restore_suspended(job.partition, job.store, job.restored)

    def pending(self, task: TaskId) -> bool:
        return any(job.task == task for job in self._jobs.values())

    def step(self, wait_s: float) -> bool:
        """Reads and writes one batch; tells whether there was anything.

        :param wait_s: how long to wait for the first record.
        """
        messages = self._consumer.consume(BATCH, 0.0)
        if not messages:
            first = self._consumer.poll(wait_s)
            if first is None:
                self._look_at_positions()
                return False
            messages = [first, *self._consumer.consume(BATCH, 0.0)]
        kind = type(messages[0])
        for _, by_partition in groupby(messages, kind.partition):
            for _, run in groupby(by_partition, kind.topic):
                self._take(list(run))
        self._report_progress()
        return True

    def _look_at_positions(self) -> None:
        """Ends what is at its end without an event: librdkafka loses some when other partitions are removed."""
        for job in list(self._jobs.values()):
            position = self._consumer.position(job.partition)
            if position is not None and position >= job.end:
                job.position = position
                self._finish(job)

    def _take(self, messages: list[Any]) -> None:
        first = messages[0]
        partition = TopicPartition(first.topic(), first.partition())
        job = self._jobs.get(partition)
        if job is None:
            return
        kind = type(first)
        events = [message for message in messages if message.error() is not None]
        if events:
            for event in events:
                self._event(job, event)
            messages = [message for message in messages if message.error() is None]
        if messages:
            self._write(job, messages, kind)
        if job.position is not None and job.position >= job.end:
            self._finish(job)

    def _event(self, job: RestoreJob, event: Any) -> None:
        error = event.error()
        if error.code() == self._consumer.partition_eof:
            job.position = max(job.position or 0, event.offset())
            return
        raise StateError(
            f"the changelog of store {job.store!r} cannot be read: {error.str()}",
            topic=job.partition.topic,
            partition=job.partition.partition,
            store=job.store,
            task=str(job.task),
        )

    def _write(self, job: RestoreJob, messages: list[Any], kind: Any) -> None:
        last = messages[-1].offset()
        if job.from_source:  # what comes after the end was not processed, and what has no key is not for the store
            last = min(last, job.end - 1)
            messages = [message for message in messages if message.offset() <= last and message.key() is not None]
        batch = job.engine.batch()
        stamps = (stamp for _, stamp in map(kind.timestamp, messages))
        job.restore(batch, map(kind.key, messages), map(kind.value, messages), stamps, map(kind.headers, messages))
        batch.put(job.offset_key, write_offset(last), job.engine.family(OFFSETS).handle)
        job.engine.load(batch)
        job.restored += len(messages)
        job.position = last + 1
        self.records_restored += len(messages)
        self._count(job.task, len(messages))
        for listener in self._listeners:
            listener.on_batch_restored(job.partition, job.store, last, len(messages))

    def _finish(self, job: RestoreJob) -> None:
        del self._jobs[job.partition]
        self._count(job.task)
        self._consumer.unassign([job.partition])
        job.engine.flush()
        elapsed_ms = int((self._clock.monotonic() - job.started_at) * 1000)
        log.info(
            "restored",
            extra={"task": str(job.task), "store": job.store, "records": job.restored, "elapsed_ms": elapsed_ms},
        )
        for listener in self._listeners:
            listener.on_restore_end(job.partition, job.store, job.restored)

    def _report_progress(self) -> None:
        now = self._clock.monotonic()
        if not self._jobs or now < self._next_progress:
            return
        first, self._next_progress = self._next_progress == 0.0, now + PROGRESS_INTERVAL_S
        if first:
            return
        left = {str(job.partition): _left(job) for job in self._jobs.values()}
        log.info("restoring goes on", extra={"records_left": sum(left.values()), "changelogs": len(left)})

    def close(self) -> None:
        for job in self._jobs.values():
            self._suspend(job)
        self._jobs.clear()
        self._counters.clear()
        self._consumer.close()


def _left(job: RestoreJob) -> int:
    """Offsets that are still to be read."""
    return max(0, job.end - (job.position if job.position is not None else max(job.start, 0)))
