"""Reports of restores: lines of the log, calls of listeners, counters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Protocol

from processor_api.task_id import TaskId, TopicPartition
from streams.metrics.registry import Metrics
from streams.restore.jobs import RestoreJob

log = logging.getLogger("streams.restore")

PROGRESS_INTERVAL_S = 10.0


class StateRestoreListener(Protocol):
    """A listener of restores, which is called on the stream thread (Kafka Streams' StateRestoreListener).

    Offsets are those of the changelog; ``restored`` counts records. A listener may leave methods out.

    ::

        class Restores(StateRestoreListener):
            def on_restore_end(self, partition, store, restored):
                print(f"{store} is restored: {restored} records")

        app.set_global_state_restore_listener(Restores())
    """

    def on_restore_start(self, partition: TopicPartition, store: str, start: int, end: int) -> None:
        """Is called when a restore starts, with the first offset to read and the offset to reach."""
        ...

    def on_batch_restored(self, partition: TopicPartition, store: str, end_offset: int, restored: int) -> None:
        """Is called after a batch, with the offset of its last record and the number of its records."""
        ...

    def on_restore_end(self, partition: TopicPartition, store: str, restored: int) -> None:
        """Is called when the store is complete, with the number of all records restored."""
        ...

    def on_restore_suspended(self, partition: TopicPartition, store: str, restored: int) -> None:
        """Is called when the task moves or the application closes before the store is complete."""
        ...


class RestoreCounters:
    """Counts what was restored of one task. Written by the thread that restores, read by any."""

    def __init__(self, metrics: Metrics) -> None:
        self.restored = 0
        """Records since the task was opened."""
        self.remaining = 0
        """Offsets still to be read."""
        self.windows = metrics.windows(self, ("restored",))


class RestoreLog:
    """Counts what is restored from the first changelog that is begun until all are done. Used by one thread.

    :param what: what is restored, for the lines.
    """

    def __init__(self, what: str = "stores") -> None:
        self._what = what
        self._started_at: float | None = None
        self._changelogs = self._records = 0

    def begin(self, remaining: Collection[int], now: float) -> None:
        """Logs that changelogs are read.

        :param remaining: the records of each that are still to be read; a changelog without any is not counted.
        :param now: the monotonic time, in seconds.
        """
        wanted = [records for records in remaining if records]
        if not wanted:
            return
        if self._started_at is None:
            self._started_at, self._changelogs, self._records = now, 0, 0
        self._changelogs += len(wanted)
        log.info("restoring %s", self._what, extra={"changelogs": len(wanted), "records": sum(wanted)})

    def restored(self, records: int) -> None:
        """Counts records."""
        self._records += records

    def end(self, now: float) -> None:
        """Logs that all are done, if any had records to read."""
        if self._started_at is not None:
            elapsed_ms = int((now - self._started_at) * 1000)
            counts = {"changelogs": self._changelogs, "records": self._records, "elapsed_ms": elapsed_ms}
            log.info("%s restored", self._what, extra=counts)
        self._started_at = None

    def stop(self) -> None:
        """Forgets what was begun and will not be done."""
        self._started_at = None


class RestoreReports:
    """Reports the progress of a stream thread's restores to the log, the listeners and the metrics. Used by that
    thread.

    :param now: the monotonic time, in seconds.
    """

    def __init__(self, listeners: Collection[StateRestoreListener], metrics: Metrics, now: Callable[[], float]) -> None:
        self._listeners = listeners
        self._metrics = metrics
        self._now = now
        self._log = RestoreLog()
        self._counters: dict[TaskId, RestoreCounters] = {}
        self._next_progress = 0.0

    def counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of each task that was opened here; any thread may call it."""
        return self._counters.copy()

    def began(self, jobs: Collection[RestoreJob]) -> None:
        """Tells that changelogs are read."""
        self._log.begin([job.remaining for job in jobs], self._now())
        for job in jobs:
            for listener in self._listeners:
                listener.on_restore_start(job.partition, job.store, job.start, job.end)
            log.debug(
                "restoring",
                extra={
                    "task": str(job.task),
                    "store": job.store,
                    "changelog": str(job.partition),
                    "from": job.start,
                    "to": job.end,
                },
            )
            self._counters.setdefault(job.task, RestoreCounters(self._metrics))

    def count(self, task: TaskId, remaining: int, records: int = 0) -> None:
        """Counts records of a task.

        :param remaining: how many offsets are still to be read for it.
        """
        counters = self._counters[task]
        counters.restored += records
        counters.remaining = remaining
        counters.windows.sample()

    def wrote(self, job: RestoreJob, last: int, records: int) -> None:
        """Tells that a batch was written, up to an offset."""
        for listener in self._listeners:
            listener.on_batch_restored(job.partition, job.store, last, records)

    def goes_on(self, jobs: Collection[RestoreJob]) -> None:
        """Logs from time to time how much is left."""
        now = self._now()
        if not jobs or now < self._next_progress:
            return
        first, self._next_progress = self._next_progress == 0.0, now + PROGRESS_INTERVAL_S
        if first:
            return
        remaining = [job.remaining for job in jobs]
        log.info("restoring goes on", extra={"records_left": sum(remaining), "changelogs": len(remaining)})

    def suspended(self, job: RestoreJob, *, last: bool) -> None:
        """Tells that a restore was given up.

        :param last: whether nothing else is restored.
        """
        if last:
            self._log.stop()
        for listener in self._listeners:
            listener.on_restore_suspended(job.partition, job.store, job.progress.restored)

    def ended(self, job: RestoreJob, *, last: bool) -> None:
        """Tells that a store is complete.

        :param last: whether nothing else is restored.
        """
        now, progress = self._now(), job.progress
        log.debug(
            "restored",
            extra={
                "task": str(job.task),
                "store": job.store,
                "records": progress.restored,
                "elapsed_ms": int((now - progress.started_at) * 1000),
            },
        )
        for listener in self._listeners:
            listener.on_restore_end(job.partition, job.store, progress.restored)
        self._log.restored(progress.restored)
        if last:
            self._log.end(now)

    def forget(self, task: TaskId) -> None:
        """Forgets the counters of a task that is no longer of this thread."""
        self._counters.pop(task, None)

    def close(self) -> None:
        """Forgets the counters of every task."""
        self._counters.clear()
