"""Restores stores from their changelogs, with a consumer of its own, in large batches.

A restore ends by position, not by the last record seen, so that transaction markers count (semantics 97). While a
store restores, the thread continues with its other tasks: each call does a bounded amount of work.

A changelog may be truncated while it is read. The store may then hold rows that are no longer in its changelog, so it
is emptied and restored again (KIP-892). Errors that the client recovers from by itself are only logged, until they have
lasted for ``task.timeout.ms``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import groupby
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StateError
from processor_api.task_id import TaskId, TopicPartition
from streams.kafka.client_errors import HEALED, LOST, Renewal, renewal
from streams.kafka.ports import AT_BEGINNING, ClientUnusable, Consumer
from streams.log import RepeatedLines
from streams.metrics.registry import Metrics
from streams.restore.jobs import RestoreJob
from streams.restore.reports import RestoreReports, StateRestoreListener

log = logging.getLogger("streams.restore")

BATCH = 10_000
POSITIONS_INTERVAL_S = 0.05
REST_INTERVAL_S = 1.0
TASK_TIMEOUT_MS = 300_000


class ReadFailures:
    """Knows since when the client has reported errors of changelogs, and gives up in time.

    :param timeout_ms: how long it may report them without reading a record.
    """

    def __init__(self, clock: Clock, timeout_ms: int) -> None:
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._repeated = RepeatedLines(log, clock)
        self._failing = False

    def record(self, job: RestoreJob, why: str) -> None:
        """Records an error, and logs it."""
        if job.progress.failing_since is None:
            job.progress.failing_since, self._failing = self._clock.monotonic(), True
        job.progress.last_error = why
        self._repeated.log("the changelog cannot be read yet", **job.place(), error=why)

    def check(self, jobs: Collection[RestoreJob]) -> None:
        """Checks for how long jobs have failed.

        :raises StateError: if that was too long.
        """
        if not self._failing:
            return
        now, limit_s = self._clock.monotonic(), self._timeout_s
        failing = [(job, since) for job in jobs if (since := job.progress.failing_since) is not None]
        self._failing = bool(failing)
        for job, since in failing:
            if now - since >= limit_s:
                raise StateError(
                    f"store {job.store!r} is not restored: no record of its changelog arrived for {limit_s:g} s"
                    f" (task.timeout.ms); the last error was: {job.progress.last_error}",
                    **job.place(),
                ).may_pass()


class Restorer:
    """Restores the stores of one stream thread.

    :param task_timeout_ms: how long the client may report errors of a changelog without reading a record of it.
    """

    def __init__(
        self,
        consumer: Consumer,
        clock: Clock,
        listeners: Collection[StateRestoreListener] = (),
        metrics: Metrics | None = None,
        task_timeout_ms: int = TASK_TIMEOUT_MS,
    ) -> None:
        self._consumer = consumer
        self._clock = clock
        self._jobs: dict[TopicPartition, RestoreJob] = {}
        self._of_task: dict[TaskId, set[TopicPartition]] = {}
        self._truncated: dict[TopicPartition, RestoreJob] = {}
        self._next_positions = self._next_rest = 0.0
        self._failures = ReadFailures(clock, task_timeout_ms)
        self.reports = RestoreReports(listeners, metrics or Metrics(clock.time_ms), clock.monotonic)

    @property
    def active(self) -> bool:
        """Whether anything is being restored."""
        return bool(self._jobs)

    def jobs(self) -> list[RestoreJob]:
        """Lists what is being restored; any thread may call it."""
        return list(self._jobs.values())

    def add(self, jobs: Collection[RestoreJob]) -> None:
        """Starts restoring stores."""
        now = self._clock.monotonic()
        for job in jobs:
            job.progress.started_at = now
            self._jobs[job.partition] = job
            self._of_task.setdefault(job.task, set()).add(job.partition)
        self.reports.began(jobs)
        for task in {job.task for job in jobs}:
            self._count(task)
        self._consumer.assign({job.partition: job.start if job.start >= 0 else AT_BEGINNING for job in jobs})

    def _count(self, task: TaskId, records: int = 0) -> None:
        remaining = sum(self._jobs[name].remaining for name in self._of_task.get(task, ()))
        self.reports.count(task, remaining, records)

    def remove(self, task: TaskId) -> None:
        """Stops restoring a task that is no longer of this thread."""
        gone = list(self._of_task.get(task, ()))
        for partition in gone:
            self.reports.suspended(self._drop(partition), last=not self._jobs)
        self.reports.forget(task)
        self._consumer.unassign(gone)

    def _drop(self, partition: TopicPartition) -> RestoreJob:
        job = self._jobs.pop(partition)
        self._truncated.pop(partition, None)
        remaining = self._of_task[job.task]
        remaining.discard(partition)
        if not remaining:
            del self._of_task[job.task]
        return job

    def pending(self, task: TaskId) -> bool:
        """Whether stores of a task are being restored."""
        return task in self._of_task

    # ------------------------------------------------------------------ truncated changelogs

    def truncated(self) -> list[RestoreJob]:
        """Lists the jobs whose position is outside of the changelog, whose changelog ended too early, or whose store
        needs records before their start.

        The owner of the stores looks up what the changelog holds now, and calls `resume` or `start_over`.
        """
        return list(self._truncated.values())

    def resume(self, job: RestoreJob) -> None:
        """Reads on from where the job is: all that it has to read is there."""
        del self._truncated[job.partition]
        if job.progress.lost:
            job.progress.lost = False
            self._consumer.unassign([job.partition])
            position = job.progress.position
            self._consumer.assign({job.partition: job.start if position is None else position})

    def start_over(self, job: RestoreJob, replacement: RestoreJob) -> None:
        """Restores a store from the beginning, after its rows were removed."""
        self._consumer.unassign([job.partition])
        self.reports.suspended(self._drop(job.partition), last=not self._jobs)
        self.add([replacement])
        if replacement.start >= replacement.end:
            self._finish(replacement)

    # ------------------------------------------------------------------ reading

    def rest(self) -> None:
        """Looks after the consumer; to be called again and again while nothing is restored."""
        now = self._clock.monotonic()
        if now >= self._next_rest:
            self._next_rest = now + REST_INTERVAL_S
            self._consumer.relieve()

    def step(self, wait_s: float) -> bool:
        """Reads and writes one batch; returns whether there was one.

        :param wait_s: how long to wait for the first record.
        :raises StateError: if a changelog cannot be read.
        """
        self._failures.check(self._jobs.values())
        try:
            messages = self._read(wait_s)
        except RetryableError as error:
            for job in self._jobs.values():
                self._failures.record(job, error.message)
            return False
        if not messages:
            return False
        kind = type(messages[0])
        for _, by_partition in groupby(messages, kind.partition):
            for _, run in groupby(by_partition, kind.topic):
                self._take(list(run))
        self.reports.goes_on(self._jobs.values())
        return True

    def _read(self, wait_s: float) -> list[Any]:
        messages = self._consumer.consume(BATCH, 0.0)
        if messages:
            return list(messages)
        first = self._consumer.poll(wait_s)
        if first is not None:
            return [first, *self._consumer.consume(BATCH, 0.0)]
        now = self._clock.monotonic()
        if now >= self._next_positions:
            self._next_positions = now + POSITIONS_INTERVAL_S
            self._check_positions()
        return []

    def _check_positions(self) -> None:
        """Finishes jobs that are at their end without an event: librdkafka loses some when partitions are removed."""
        for job in list(self._jobs.values()):
            position = None if job.partition in self._truncated else self._consumer.position(job.partition)
            if position is not None and position >= job.end:
                job.progress.position = position
                self._finish(job)

    def _take(self, messages: list[Any]) -> None:
        """Takes records and events of one partition, or of none, in their order."""
        first = messages[0]
        if first.topic() is None:
            for event in messages:
                self._client_event(event.error(), list(self._jobs.values()))
            return
        job = self._jobs.get(TopicPartition(first.topic(), first.partition()))
        if job is None or job.partition in self._truncated:
            return
        events = [message for message in messages if message.error() is not None]
        if events:
            for is_event, run in groupby(messages, lambda message: message.error() is not None):
                if is_event:
                    for event in run:
                        self._event(job, event)
                else:
                    self._write(job, list(run))
        else:
            self._write(job, messages)
        position = job.progress.position
        if position is not None and position >= job.end:
            self._finish(job)

    def _event(self, job: RestoreJob, event: Any) -> None:
        error, progress = event.error(), job.progress
        if error.code() == self._consumer.partition_eof:
            progress.failing_since = None
            progress.position = max(progress.position or 0, event.offset())
            if progress.position < job.end:
                self._truncated[job.partition] = job
        elif error.name() in LOST:
            progress.lost, self._truncated[job.partition] = True, job
        else:
            self._client_event(error, [job])

    def _client_event(self, error: Any, jobs: list[RestoreJob]) -> None:
        for job in jobs:
            if error.name() not in HEALED:
                text = f"the changelog of store {job.store!r} cannot be read: {error.str()}"
                if renewal(error.name()) is Renewal.FINAL:
                    raise StateError(text, **job.place()).may_pass()
                raise ClientUnusable(text, **job.place())  # the client might skip records
            self._failures.record(job, error.str())

    def _write(self, job: RestoreJob, messages: list[Any]) -> None:
        rows = job.batch_of(messages)
        job.engine.load(rows.batch)
        progress = job.progress
        progress.restored += rows.records
        progress.position = rows.last + 1
        progress.failing_since = None
        self._count(job.task, rows.records)
        self.reports.wrote(job, rows.last, rows.records)

    def _finish(self, job: RestoreJob) -> None:
        job.engine.flush()
        if not job.is_enough():
            self._truncated[job.partition] = job
            return
        self._drop(job.partition)
        self._count(job.task)
        self._consumer.unassign([job.partition])
        self.reports.ended(job, last=not self._jobs)

    def close(self) -> None:
        """Stops every restore and closes the consumer."""
        for job in self._jobs.values():
            self.reports.suspended(job, last=False)
        for jobs in (self._jobs, self._of_task, self._truncated):
            jobs.clear()
        self.reports.close()
        self._consumer.close()
