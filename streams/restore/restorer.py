"""Restores stores from their changelogs, with a consumer of its own, in large batches.

A restore ends by position, not by the last record seen, so that transaction markers count (semantics 97). While a
store restores, the thread goes on with its other tasks: each call does a bounded amount of work.

A changelog may be truncated while it is read. The store may then hold rows that are no longer in its changelog, so it
is emptied and restored again (KIP-892). Errors that the client recovers from by itself are only logged, until they have
lasted for ``task.timeout.ms``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StateError
from processor_api.task_id import TaskId, TopicPartition
from state.engine.port import OFFSETS, Engine
from state.formats.offsets import write_offset
from state.write_buffer.store_kind import Restore
from streams.kafka.client_errors import HEALED, LOST, Renewal, renewal
from streams.kafka.ports import AT_BEGINNING, ClientUnusable, Consumer
from streams.kafka.producing.zero_timestamps import ZERO_SENT, as_written
from streams.log import RepeatedLines
from streams.metrics.registry import Metrics
from streams.restore.counters import RestoreCounters
from streams.restore.restore_log import RestoreLog

log = logging.getLogger("streams.restore")

BATCH = 10_000
PROGRESS_INTERVAL_S = 10.0
POSITIONS_INTERVAL_S = 0.05
REST_INTERVAL_S = 1.0
TASK_TIMEOUT_MS = 300_000
"""The timestamp that a client sends in place of 0, if it cannot send 0."""


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


@dataclass
class RestoreProgress:
    """Holds how far the restore of one store is."""

    restored: int = 0
    """Records restored so far."""
    position: int | None = None
    """The next offset to read; ``None`` before the first batch."""
    started_at: float = 0.0
    lost: bool = False
    """Whether the client has stopped reading, because the position is outside of the changelog."""
    failing_since: float | None = None
    """When the client began to report errors, if no record has come since."""
    last_error: str = ""


@dataclass(frozen=True, eq=False)
class RestoreJob:
    """Names the part of a changelog partition that is to be read into a store."""

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
    """The key under which the engine keeps the offset of the last record that the store holds."""
    from_source: bool = False
    """Whether a source topic serves as the changelog: records in it without a key are not for the store."""
    progress: RestoreProgress = field(default_factory=RestoreProgress)

    @property
    def next_offset(self) -> int:
        """The next offset that the store takes."""
        position = self.progress.position
        return max(self.start, 0) if position is None else position

    @property
    def remaining(self) -> int:
        """The number of offsets that are still to be read."""
        return max(0, self.end - self.next_offset)

    def place(self) -> dict[str, Any]:
        """Returns where this happens, for errors and logs."""
        topic, partition = self.partition
        return {"topic": topic, "partition": partition, "store": self.store, "task": str(self.task)}


def plan_restore(
    stored: int | None, beginning: int, end: int, store: str, task: TaskId, *, has_rows: bool
) -> tuple[int, bool]:
    """Returns where to start reading a changelog, and whether the store's rows must be removed first.

    Logs an error if the store has rows to remove.

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
        self._repeated = RepeatedLines(log, clock)
        self._listeners = listeners
        self._task_timeout_s = task_timeout_ms / 1000
        self._jobs: dict[TopicPartition, RestoreJob] = {}
        self._of_task: dict[TaskId, set[TopicPartition]] = {}
        self._truncated: dict[TopicPartition, RestoreJob] = {}
        self._failing = False
        self._next_progress = 0.0
        self._next_positions = self._next_rest = 0.0
        self._metrics = metrics or Metrics(clock.time_ms)
        self._counters: dict[TaskId, RestoreCounters] = {}
        self.records_restored = 0
        self._log = RestoreLog()

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
        self._log.begin([job.remaining for job in jobs], now)
        for job in jobs:
            job.progress.started_at = now
            self._jobs[job.partition] = job
            self._of_task.setdefault(job.task, set()).add(job.partition)
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
        for task in {job.task for job in jobs}:
            self._counters.setdefault(task, RestoreCounters(self._metrics))
            self._count(task)
        self._consumer.assign({job.partition: job.start if job.start >= 0 else AT_BEGINNING for job in jobs})

    def counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of each task that was opened here; any thread may call it."""
        return self._counters.copy()

    def _count(self, task: TaskId, records: int = 0) -> None:
        counters = self._counters[task]
        counters.restored += records
        counters.remaining = sum(self._jobs[name].remaining for name in self._of_task.get(task, ()))
        counters.windows.sample()

    def remove(self, task: TaskId) -> None:
        """Stops restoring a task that is not of this thread any more."""
        gone = list(self._of_task.get(task, ()))
        for partition in gone:
            self._suspend(self._drop(partition))
        self._counters.pop(task, None)
        self._consumer.unassign(gone)

    def _drop(self, partition: TopicPartition) -> RestoreJob:
        job = self._jobs.pop(partition)
        self._truncated.pop(partition, None)
        remaining = self._of_task[job.task]
        remaining.discard(partition)
        if not remaining:
            del self._of_task[job.task]
        return job

    def _suspend(self, job: RestoreJob) -> None:
        if not self._jobs:
            self._log.stop()
        for listener in self._listeners:
            listener.on_restore_suspended(job.partition, job.store, job.progress.restored)

    def pending(self, task: TaskId) -> bool:
        """Whether stores of a task are being restored."""
        return task in self._of_task

    # ------------------------------------------------------------------ truncated changelogs

    def truncated(self) -> list[RestoreJob]:
        """Lists the jobs whose position is outside of the changelog, or whose changelog ended too early.

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
        self._suspend(self._drop(job.partition))
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
        if self._failing:
            self._check_failing()
        try:
            messages = self._read(wait_s)
        except RetryableError as error:
            for job in self._jobs.values():
                self._record_failure(job, error.message)
            return False
        if not messages:
            return False
        kind = type(messages[0])
        for _, by_partition in groupby(messages, kind.partition):
            for _, run in groupby(by_partition, kind.topic):
                self._take(list(run))
        self._report_progress()
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
                    raise StateError(text, **job.place())
                raise ClientUnusable(text, **job.place())  # the client might skip records
            self._record_failure(job, error.str())

    def _record_failure(self, job: RestoreJob, why: str) -> None:
        if job.progress.failing_since is None:
            job.progress.failing_since, self._failing = self._clock.monotonic(), True
        job.progress.last_error = why
        self._repeated.log("the changelog cannot be read yet", **job.place(), error=why)

    def _check_failing(self) -> None:
        now, limit_s = self._clock.monotonic(), self._task_timeout_s
        failing = [(job, since) for job in self._jobs.values() if (since := job.progress.failing_since) is not None]
        self._failing = bool(failing)
        for job, since in failing:
            if now - since >= limit_s:
                raise StateError(
                    f"store {job.store!r} is not restored: no record of its changelog came for {limit_s:g} s"
                    f" (task.timeout.ms), the last error was: {job.progress.last_error}",
                    **job.place(),
                )

    def _write(self, job: RestoreJob, messages: list[Any]) -> None:
        kind, last = type(messages[0]), messages[-1].offset()
        if job.from_source:  # records after the end were not processed, those without a key are not for the store
            last = min(last, job.end - 1)
            messages = [message for message in messages if message.offset() <= last and message.key() is not None]
        batch = job.engine.batch()
        stamps: Sequence[int] = [stamp for _, stamp in map(kind.timestamp, messages)]
        headers: Iterable[Any] = map(kind.headers, messages)
        if ZERO_SENT in stamps and not job.from_source:
            stamps, headers = as_written(stamps, headers)
        job.restore(batch, map(kind.key, messages), map(kind.value, messages), stamps, headers)
        batch.put(job.offset_key, write_offset(last), job.engine.family(OFFSETS).handle)
        job.engine.load(batch)
        progress = job.progress
        progress.restored += len(messages)
        progress.position = last + 1
        progress.failing_since = None
        self.records_restored += len(messages)
        self._count(job.task, len(messages))
        for listener in self._listeners:
            listener.on_batch_restored(job.partition, job.store, last, len(messages))

    def _finish(self, job: RestoreJob) -> None:
        self._drop(job.partition)
        self._count(job.task)
        self._consumer.unassign([job.partition])
        job.engine.flush()
        progress = job.progress
        elapsed_ms = int((self._clock.monotonic() - progress.started_at) * 1000)
        log.debug(
            "restored",
            extra={
                "task": str(job.task),
                "store": job.store,
                "records": progress.restored,
                "elapsed_ms": elapsed_ms,
            },
        )
        for listener in self._listeners:
            listener.on_restore_end(job.partition, job.store, job.progress.restored)
        self._log.restored(progress.restored)
        if not self._jobs:
            self._log.end(self._clock.monotonic())

    def _report_progress(self) -> None:
        now = self._clock.monotonic()
        if not self._jobs or now < self._next_progress:
            return
        first, self._next_progress = self._next_progress == 0.0, now + PROGRESS_INTERVAL_S
        if first:
            return
        remaining = [job.remaining for job in self._jobs.values()]
        log.info("restoring goes on", extra={"records_left": sum(remaining), "changelogs": len(remaining)})

    def close(self) -> None:
        """Stops every restore and closes the consumer."""
        for job in self._jobs.values():
            self._suspend(job)
        for jobs in (self._jobs, self._of_task, self._truncated, self._counters):
            jobs.clear()
        self._consumer.close()
