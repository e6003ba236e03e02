"""Follows changelogs without an end, for the stores of standby tasks (semantics 99).

It has a consumer of its own, which is made when the first changelog is followed. Restores of active tasks go first:
while there are any, no step is made, and the consumer fetches no more than its buffers hold. Rows are written as those
of commits are, with the log of the engine: what was applied survives the process, and an engine needs nothing before
its task becomes active.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import DamagedStateError, RetryableError, StreamsError
from processor_api.task_id import TaskId, TopicPartition
from state.write_buffer.store_kind import Restore
from streams.kafka.client_errors import HEALED, LOST
from streams.kafka.ports import AT_BEGINNING, ClientUnusable, Consumer
from streams.log import RepeatedLines
from streams.metrics.registry import Metrics
from streams.restore.jobs import RestoreJob
from streams.restore.reports import RestoreCounters

log = logging.getLogger("streams.restore")

STEP_RECORDS = 2000
"""Records that one step applies at most: some ms, for which the other tasks of the thread wait."""
BUSY_SHARE, BUSY_INTERVAL_S = 0.1, 0.02
"""The part of the time of a thread with records to process that it follows changelogs, and how often at most."""
ENDS_INTERVAL_S = 1.0
RENEWAL_WAIT_S = 1.0
"""How long no client is used after one has failed."""
NO_END = 2**63 - 1
"""The end of a changelog that is followed without one."""


class SuspendReason(enum.Enum):
    """The reason for which a standby task no longer follows a changelog (Kafka Streams' SuspendReason).

    ::

        assert SuspendReason.PROMOTED.value == "PROMOTED"
    """

    PROMOTED = "PROMOTED"
    """The task becomes active in the same thread, with the same open stores."""
    MIGRATED = "MIGRATED"
    """The copy is closed: it belongs elsewhere now, its files are wanted by another thread, or the thread ends."""


class StandbyUpdateListener(Protocol):
    """A listener of standby tasks, which is called on the stream thread (Kafka Streams' StandbyUpdateListener).

    Offsets are those of the changelog. A listener may leave methods out.

    ::

        class Copies(StandbyUpdateListener):
            def on_update_suspended(self, partition, store, store_offset, current_end_offset, reason):
                print(f"{store} is followed no more: {reason.value}")

        app.set_standby_update_listener(Copies())
    """

    def on_update_start(self, partition: TopicPartition, store: str, starting_offset: int) -> None:
        """Is called when a standby task begins to follow a changelog, with the first offset to read; -1 if it is the
        first that is there."""
        ...

    def on_batch_loaded(
        self,
        partition: TopicPartition,
        store: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        """Is called after a batch, with the offset of its last record, the number of its records, and the end of the
        changelog as far as it is known."""
        ...

    def on_update_suspended(
        self, partition: TopicPartition, store: str, store_offset: int, current_end_offset: int, reason: SuspendReason
    ) -> None:
        """Is called when the task no longer follows the changelog, with the next offset that the store would
        take."""
        ...


class FollowedChangelog:
    """A changelog that is followed, and how far its store is. Written by the stream thread, read by any.

    :param job: its end is the offset to stop at for now, for a store whose changelog is a source topic.
    """

    def __init__(self, job: RestoreJob) -> None:
        self.job = job
        self.end = 0
        """The end of the changelog, as far as it is known."""
        self._has_end = False
        self.reached_end = False
        """Whether the store had all of its changelog when its end was last known."""
        self.is_assigned = False
        self.lost = False
        """Whether its position is outside of the changelog."""

    @property
    def next_offset(self) -> int:
        """The next offset that the store takes."""
        return self.job.next_offset

    @property
    def lag(self) -> int:
        """The number of offsets that the store is behind, as far as the end is known."""
        return max(0, min(self.end, self.job.end) - self.next_offset)

    def ends_at(self, end: int) -> None:
        """Takes where the changelog ends now."""
        self.end, self._has_end = end, True

    @property
    def is_end_known(self) -> bool:
        """Whether the lag is one: as long as no end is known it is 0."""
        return self._has_end or self.is_at_limit

    @property
    def is_at_limit(self) -> bool:
        """Whether it stands at the offset to stop at."""
        return self.next_offset >= self.job.end


@dataclass
class _Times:
    """The times before which steps of a follower are not made."""

    if_busy: float = 0.0
    renewal: float = 0.0
    """Another client."""
    ends: float = 0.0


class Follower:
    """Follows the changelogs of the standby tasks of one stream thread. Used by that thread.

    :param make_consumer: makes a consumer of committed records, which is in no group.
    """

    def __init__(
        self,
        make_consumer: Callable[[], Consumer],
        clock: Clock,
        listeners: Collection[StandbyUpdateListener],
        metrics: Metrics,
    ) -> None:
        self._make_consumer = make_consumer
        self._clock = clock
        self._listeners = listeners
        self._metrics = metrics
        self._repeated = RepeatedLines(log, clock)
        self._consumer: Consumer | None = None
        self._followed: dict[TopicPartition, FollowedChangelog] = {}
        self._counters: dict[TaskId, RestoreCounters] = {}
        self._times = _Times()
        self.has_more = False
        """Whether the last step found as much as it takes."""
        self._has_unassigned = False

    # ------------------------------------------------------------------ what is followed

    def changelogs(self) -> dict[TopicPartition, FollowedChangelog]:
        """Returns all that is followed; any thread may call it."""
        return self._followed.copy()

    def counters(self) -> dict[TaskId, RestoreCounters]:
        """Returns the counters of each task whose changelogs are followed; any thread may call it."""
        return self._counters.copy()

    def add(self, jobs: Collection[RestoreJob]) -> None:
        """Begins to follow changelogs, from the start of each."""
        for job in jobs:
            self._followed[job.partition] = FollowedChangelog(job)
            if job.task not in self._counters:
                self._counters[job.task] = RestoreCounters(self._metrics)
            for listener in self._listeners:
                listener.on_update_start(job.partition, job.store, job.start)
        self._times.ends, self._has_unassigned = 0.0, True

    def remove(self, task: TaskId, reason: SuspendReason) -> None:
        """Follows the changelogs of a task no more."""
        for partition, one in [(name, one) for name, one in self._followed.items() if one.job.task == task]:
            self._unassign(partition, one)
            del self._followed[partition]
            for listener in self._listeners:
                listener.on_update_suspended(partition, one.job.store, one.next_offset, one.end, reason)
        self._counters.pop(task, None)

    def renew(self, partition: TopicPartition, *, end: int | None = None, restore: Restore | None = None) -> None:
        """Sets the offset to stop at for now, and the function that makes rows of records."""
        one = self._followed.get(partition)
        if one is not None:
            job = one.job
            one.job = replace(job, end=job.end if end is None else end, restore=restore or job.restore)
            self._has_unassigned = True

    def lost(self) -> set[TaskId]:
        """Returns the tasks with a store whose position is outside of its changelog."""
        return {one.job.task for one in self._followed.values() if one.lost}

    # ------------------------------------------------------------------ reading

    def step(self, *, busy: bool) -> frozenset[TaskId]:
        """Applies some records; returns the tasks whose stores could not take them, such as for
        lack of room on the disk.

        :param busy: whether the thread has records to process, of whose time it takes a part only.
        """
        if not self._followed:
            self._rest()
            return frozenset()
        begin = self._clock.monotonic()
        if begin < self._times.renewal or (busy and begin < self._times.if_busy):
            return frozenset()
        failed: set[TaskId] = set()
        try:
            self._assign()
            assert self._consumer is not None
            messages = list(self._consumer.consume(STEP_RECORDS, 0.0))
            self.has_more = len(messages) >= STEP_RECORDS
            if messages:
                failed = self._take_all(messages)
            self._refresh_ends(begin)
        except ClientUnusable as error:
            self._renew_consumer(error)
        except RetryableError as error:
            self._repeated.log("the changelogs of standby tasks cannot be read yet", error=error.message)
        took_s = self._clock.monotonic() - begin
        self._times.if_busy = begin + max(took_s / BUSY_SHARE, BUSY_INTERVAL_S)
        return frozenset(failed)

    def _rest(self) -> None:
        self.has_more = False
        if self._consumer is not None and self._clock.monotonic() >= self._times.ends:
            self._times.ends = self._clock.monotonic() + ENDS_INTERVAL_S
            self._consumer.relieve()

    def _assign(self) -> None:
        """Has the consumer read all that is not at the offset to stop at."""
        if self._consumer is None:
            self._consumer = self._make_consumer()
        if not self._has_unassigned:
            return
        starts: dict[TopicPartition, int] = {}
        for name, one in self._followed.items():
            if not (one.is_assigned or one.lost or one.is_at_limit):
                position = one.job.progress.position
                start = one.job.start if position is None else position
                starts[name] = start if start >= 0 else AT_BEGINNING
        self._consumer.assign(starts)
        for name in starts:
            self._followed[name].is_assigned = True
        self._has_unassigned = False

    def _unassign(self, partition: TopicPartition, one: FollowedChangelog) -> None:
        if one.is_assigned and self._consumer is not None:
            one.is_assigned = False
            self._consumer.unassign([partition])

    def _renew_consumer(self, error: StreamsError) -> None:
        """Closes the consumer, which can no longer be used; the next step makes another one."""
        self._repeated.log("a new client follows the changelogs of standby tasks", error=error.message)
        self._times.renewal, self.has_more = self._clock.monotonic() + RENEWAL_WAIT_S, False
        self._close_consumer()
        self._has_unassigned = True
        for one in self._followed.values():
            one.is_assigned = False

    def _take_all(self, messages: list[Any]) -> set[TaskId]:
        kind, failed = type(messages[0]), set[TaskId]()
        for partition, by_partition in groupby(messages, kind.partition):
            for topic, run in groupby(by_partition, kind.topic):
                if topic is None:
                    for event in run:
                        self._client_event(event.error())
                    continue
                name = TopicPartition(topic, partition)
                one = self._followed.get(name)
                if one is None or one.lost or not one.is_assigned:
                    continue
                try:
                    self._take(name, one, list(run))
                except (ClientUnusable, DamagedStateError):
                    raise
                except StreamsError as error:
                    text = "standby task cannot apply its changelog now; it is opened again later"
                    self._repeated.log(text, **one.job.place(), error=error.message)
                    failed.add(one.job.task)
                    self._unassign(name, one)
        return failed

    def _take(self, name: TopicPartition, one: FollowedChangelog, messages: list[Any]) -> None:
        """Takes records and events of one partition, in their order."""
        for is_event, run in groupby(messages, lambda message: message.error() is not None):
            if is_event:
                for event in run:
                    self._event(name, one, event)
            elif not one.is_at_limit:
                self._write(one, list(run))
        if one.is_at_limit:
            self._unassign(name, one)  # what was read behind it is read again

    def _write(self, one: FollowedChangelog, messages: list[Any]) -> None:
        job = one.job
        rows = job.batch_of(messages)
        job.engine.write(rows.batch)
        job.progress.restored += rows.records
        job.progress.position = rows.last + 1
        one.end = max(one.end, rows.last + 1)
        one.reached_end = False
        counters = self._counters[job.task]
        counters.restored += rows.records
        counters.windows.sample()
        for listener in self._listeners:
            listener.on_batch_loaded(job.partition, job.store, job.task, rows.last, rows.records, one.end)

    def _event(self, name: TopicPartition, one: FollowedChangelog, event: Any) -> None:
        error = event.error()
        assert self._consumer is not None
        if error.code() == self._consumer.partition_eof:
            position = one.job.progress.position
            if event.offset() <= one.job.end:
                one.job.progress.position = max(position or 0, event.offset())
            one.ends_at(max(one.end, event.offset()))
            one.reached_end = True
        elif error.name() in LOST:
            one.lost = True
            self._unassign(name, one)
        else:
            self._client_event(error)

    def _client_event(self, error: Any) -> None:
        if error.name() not in HEALED:
            raise ClientUnusable(error.str())  # the client might skip records
        self._repeated.log("the changelogs of standby tasks cannot be read yet", error=error.str())

    def _refresh_ends(self, now: float) -> None:
        """Takes over the ends of the last fetches, and counts what is behind them."""
        if now < self._times.ends or self._consumer is None:
            return
        self._times.ends = now + ENDS_INTERVAL_S
        remaining: dict[TaskId, int] = dict.fromkeys(self._counters, 0)
        for name, one in self._followed.items():
            end = self._consumer.high_watermark(name) if one.is_assigned else None
            if end is not None and end >= one.next_offset:
                one.ends_at(end)
                one.reached_end = one.reached_end and end <= one.next_offset
            remaining[one.job.task] += one.lag
        for task, offsets in remaining.items():
            self._counters[task].remaining = offsets

    # ------------------------------------------------------------------ the end

    def _close_consumer(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def close(self) -> None:
        """Stops following all changelogs, and closes the consumer."""
        for task in {one.job.task for one in self._followed.values()}:
            self.remove(task, SuspendReason.MIGRATED)
        self._close_consumer()
