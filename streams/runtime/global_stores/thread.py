"""The thread that fills the global stores of a process and follows their topics (semantics 94, 130).

It has a consumer of its own that joins no group and reads all partitions; after an error that a new one may not have,
that continues where the former one was (`TopicReader`). What a poll brings is in the stores, with the offsets, before
the next poll. The owner of the thread waits for the state RUNNING, when the stores are filled, and
closes the stores after the last reader.
"""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from processor_api.errors import (
    DiskFullError,
    InternalError,
    MissingTopicError,
    RetryableError,
    StreamsError,
    UnreachableError,
    outage_behind,
)
from processor_api.stores.builder import GlobalStore
from processor_api.task_id import TopicPartition
from processor_api.texts import plain_str
from streams.config import clients as client_configs
from streams.kafka.client_errors import LOST, client_event
from streams.kafka.ports import AT_BEGINNING, Consumer
from streams.log import RepeatedLines
from streams.outages import patient
from streams.runtime.global_stores.restore import GlobalRestore
from streams.runtime.global_stores.task import GlobalTask
from streams.runtime.global_stores.topic_reader import Polled, ReaderStopped, TopicReader
from streams.runtime.tasks.full_disk import FullDisk, Waiting
from streams.runtime.tasks.retry import Retry, TaskTimeoutError
from streams.runtime.threads.parent_only import ParentOnly
from streams.runtime.threads.process_resources import ProcessResources
from streams.runtime.threads.thread_metrics import DropReport
from streams.threads import Event, StoppableThread
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.global")

T = TypeVar("T")

RESTORE_BATCH = 10_000
RESTORE_WAIT_S = 0.02


class GlobalThreadState(enum.Enum):
    """The state of the thread."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


_NEXT = {
    GlobalThreadState.CREATED: {GlobalThreadState.RUNNING, GlobalThreadState.PENDING_SHUTDOWN},
    GlobalThreadState.RUNNING: {GlobalThreadState.PENDING_SHUTDOWN},
    GlobalThreadState.PENDING_SHUTDOWN: {GlobalThreadState.DEAD},
    GlobalThreadState.DEAD: set(),
}


class _OffsetLost(StreamsError):
    """The records at a position were deleted before they were read."""


@dataclass(frozen=True)
class GlobalTopics:
    """Holds the metadata of the topics of global stores, as the cluster has it."""

    partitions: Mapping[str, int]
    """How many partitions each has."""
    ids: Mapping[str, str] = field(default_factory=dict)
    """Their ids, where the cluster knows them."""


class _ReadPartitions:
    """Knows how many partitions of each topic are read, and which were added since."""

    def __init__(self, topics: GlobalTopics) -> None:
        self.topics = topics
        """The topics as they were at the start."""
        self._read = dict(topics.partitions)
        self._found: dict[str, int] = {}

    def grow(self, counts: Mapping[str, int]) -> None:
        """Takes how many partitions each topic has now; any thread may call it."""
        self._found = dict(counts)

    def take_new(self) -> list[TopicPartition]:
        """Returns the partitions that are not read yet, and counts them as read."""
        if not self._found:
            return []
        found, self._found = self._found, {}
        new = [name for name in _partitions(found, found) if name.partition >= self._read[name.topic]]
        self._read |= {name.topic: found[name.topic] for name in new}
        return new


class _WaitsHere:
    """Waits on the thread of global stores while a service that a record needs is away, until ``task.timeout.ms``: it
    has no commit to go back to."""

    def __init__(self, retry: Retry, stopping: Event, lines: RepeatedLines) -> None:
        self._retry, self._stopping, self.lines = retry, stopping, lines
        self.lasting: TaskTimeoutError | None = None
        """The error of an outage that has lasted too long."""

    def waits(self, error: UnreachableError) -> bool:
        """Waits; returns false once the outage has lasted too long, or the thread is asked to end."""
        self.lines.log("global stores wait for a service that is away", error=str(error))
        try:
            wait_s = self._retry.record_failure(error)
        except TaskTimeoutError as lasting:
            self.lasting = lasting
            return False
        return not self._stopping.wait(wait_s)

    def answered(self) -> None:
        """Receives that the service has answered."""
        self._retry.reset()


class GlobalStreamThread:
    """Fills the global stores of a process, and then follows their topics.

    On a thread of its own by :meth:`start`, or on the caller's by :meth:`run`.

    :param task: the stores, opened; the owner of the thread closes them.
    :param on_state: called by the thread at each change of its state.
    """

    def __init__(
        self,
        name: str,
        task: GlobalTask,
        topics: GlobalTopics,
        process: ProcessResources,
        on_state: Callable[[GlobalStreamThread, GlobalThreadState], None],
    ) -> None:
        clock = process.platform.clock
        self.name = name
        self.state = GlobalThreadState.CREATED
        self.failure: Exception | None = None
        self.task = task
        self._process = process
        self._on_state = on_state
        self._drops = DropReport(name)
        self._partitions = _ReadPartitions(topics)
        self._full_disk = FullDisk.of(name, process.config, process.platform)
        self._thread = StoppableThread(process.platform.threads, self.run, name)
        self._reader = TopicReader(self._consumer, Retry.of(process.config, clock), self._thread.stopping, clock)
        self._outages = _WaitsHere(Retry.of(process.config, clock), self._thread.stopping, RepeatedLines(log, clock))
        task.stores.patiently = self._patiently

    # ------------------------------------------------------------------ from outside

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Asks the thread to end after the current poll."""
        self._thread.stopping.set()

    def grow(self, partitions: Mapping[str, int]) -> None:
        """Reads new partitions from their beginnings, after the current poll.

        :param partitions: how many each topic has now.
        """
        self._partitions.grow(partitions)

    def join(self, timeout_s: float | None) -> bool:
        """Waits for the end of the thread; returns whether it has ended."""
        return self._thread.join(timeout_s)

    # ------------------------------------------------------------------ the thread

    def run(self) -> None:
        """Runs until it is stopped, or until an error."""
        try:
            with ParentOnly(), patient(self._outages):
                self.task.start()
                self._restore()
                if not self._thread.stopping.is_set():
                    self._become(GlobalThreadState.RUNNING)
                self._follow()
        except ReaderStopped as error:  # what is not written is read again at the next start
            log.info("stopped while errors lasted", extra={"error": str(error)})
        except BaseException as error:
            if passes(error):
                raise
            outage = outage_behind(error)
            if outage is not None and self._thread.stopping.is_set():
                # What is not written is read again at the next start.
                log.info("stopped while errors lasted", extra={"error": str(outage)})
            else:
                cause = error if outage is None else self._outages.lasting or error
                failure = self.failure = as_error(cause, "in the thread of global stores", **self.task.failed_at)
                text = {"thread_name": self.name, "error": plain_str(failure)}
                log.error("thread dies", extra=text, exc_info=failure)
        self._become(GlobalThreadState.PENDING_SHUTDOWN)
        self._sample(math.inf)
        self._close_reader()
        self._become(GlobalThreadState.DEAD)

    def _patiently(self, write: Callable[[], None]) -> None:
        """Writes to a store; waits for room where the disk is full.

        :raises DiskFullError: if the engine does not continue although there is room: it must be opened again.
        :raises Stopped: if the thread is asked to end before there is any.
        :raises TaskTimeoutError: after ``task.timeout.ms``.
        """
        while True:
            try:
                write()
            except DiskFullError as error:
                self._full_disk.met(error, Waiting.FILLING)
                if self._full_disk.is_stuck:
                    raise
            else:
                self._full_disk.passed(Waiting.FILLING)
                return
            if not self._full_disk.wait_unless(self._thread.stopping.wait):
                raise ReaderStopped("the disk is full")

    def _become(self, state: GlobalThreadState) -> None:
        if state not in _NEXT[self.state]:
            raise InternalError(f"the global thread cannot go from {self.state.value} to {state.value}")
        self.state = state
        self._on_state(self, state)

    def _consumer(self) -> Consumer:
        config = client_configs.global_consumer(self._process.config, f"{self.name}-global-consumer")
        return self._process.cluster.clients.consumer(config)

    def _close_reader(self) -> None:
        try:
            self._reader.close()
        except Exception as error:
            log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)
            self.failure = self.failure or error

    # ------------------------------------------------------------------ filling

    def _restore(self) -> None:
        process = self._process
        restore = GlobalRestore(
            self.task,
            self._reader,
            process.platform.clock,
            process.listeners.restores,
            process.config.task_timeout_ms,
            self._partitions.topics.ids,
            lambda points: self._asked(partial(process.cluster.admin.divergences, points)),
        )
        restore.start(_partitions(self._partitions.topics.partitions, self.task.specs))
        while not restore.done and not self._thread.stopping.is_set():
            self._sample()
            polled = self._reader.poll(RESTORE_BATCH, RESTORE_WAIT_S)
            try:
                for partition, run in polled.runs:
                    restore.take(partition, run)
                for partition, offset in self._ends(polled.events, restoring=True):
                    restore.at_end(partition, offset)
            except _OffsetLost as lost:
                self.task.apply()
                restore.restart(TopicPartition(str(lost.topic), int(lost.partition or 0)))
                continue
            self._check_topics(polled)
            self.task.apply()
            if not (polled.runs or polled.events):
                restore.check_idle()
        if restore.done:
            restore.finish()

    # ------------------------------------------------------------------ following

    def _follow(self) -> None:
        limit, wait_s = client_configs.max_poll_records(self._process.config), self._process.config.poll_ms / 1000
        while not self._thread.stopping.is_set():
            self._sample()
            self._read_new()
            polled = self._reader.poll(limit, wait_s)
            try:
                for partition, run in polled.runs:
                    self.task.process(partition, run)
                for partition, offset in self._ends(polled.events, restoring=False):
                    log.debug("end reached", extra={"partition": str(partition), "offset": offset})
            except _OffsetLost as lost:
                raise self._wiped(lost) from lost
            if polled.runs:
                self._check_topics(polled)
                self.task.apply()

    def _sample(self, now: float | None = None) -> None:
        """Samples the counters, and logs what was dropped, if it is time.

        :param now: of the monotonic clock, in seconds; infinity is always time.
        """
        self.task.sample()
        self._drops.collect(self.task.environment.metrics.drops, self.task.topology)
        self._drops.log(self._process.platform.clock.monotonic() if now is None else now)

    def _read_new(self) -> None:
        if new := self._partitions.take_new():
            self._reader.assign(dict.fromkeys(new, AT_BEGINNING))
            log.info("new partitions are read", extra={"partitions": ", ".join(map(str, new))})

    def _check_topics(self, polled: Polled) -> None:
        """Checks that records which are about to be written are of the topics that the stores are filled from.

        A topic that was deleted, made again and filled past the position is read on as if nothing had happened. Ids
        never return, so an answer that was requested after the records were read is enough.

        :raises StreamsError: if a topic was deleted and made again; its store is emptied.
        """
        known = self._partitions.topics.ids
        wanted = {place.topic: known[place.topic] for place, _ in polled.runs if place.topic in known}
        if not wanted:
            return
        found = self._asked(partial(self._process.cluster.admin.topic_ids, wanted))
        for topic, before in wanted.items():
            if found.get(topic, before) != before:
                raise self._replaced(self.task.specs[topic], before, found[topic])

    def _asked(self, ask: Callable[[], T]) -> T:
        """Asks the cluster about the topics until it answers."""
        while True:
            try:
                return ask()
            except RetryableError as error:
                self._outages.lines.log("the topics of global stores cannot be checked yet", error=str(error))
                self._reader.wait(error)

    def _replaced(self, spec: GlobalStore, before: str, now: str) -> StreamsError:
        """Empties the store of a topic that was replaced: tasks must not read it while it is filled again."""
        self.task.stores.wipe(spec)
        return StreamsError(
            f"topic {spec.topic!r} of global store {spec.name!r} was deleted and created again: its id was {before}"
            f" and is {now}. The store was emptied. Start the application again to fill it from the new topic",
            topic=spec.topic,
            store=spec.name,
        )

    def _wiped(self, lost: _OffsetLost) -> StreamsError:
        """Empties a store; tasks must not read it while it is filled again, so the application must be restarted."""
        spec = self.task.specs[str(lost.topic)]
        GlobalRestore.log_rebuild(spec, TopicPartition(spec.topic, int(lost.partition or 0)), lost.offset)
        self.task.stores.wipe(spec)
        return StreamsError(
            f"records of global store {spec.name!r} were deleted from its topic before they were read, so it was"
            " emptied. Start the application again to fill it from the remaining records",
            topic=lost.topic,
            partition=lost.partition,
            offset=lost.offset,
            store=spec.name,
        )

    # ------------------------------------------------------------------ events

    def _ends(self, events: Sequence[Any], *, restoring: bool) -> list[tuple[TopicPartition, int]]:
        """Returns the partitions whose end was reached, with the end offset of each.

        :raises _OffsetLost: if a position is outside of the topic.
        :raises StreamsError: if a topic cannot be read.
        """
        ends: list[tuple[TopicPartition, int]] = []
        for event in events:
            error = event.error()
            partition = TopicPartition(event.topic() or "", event.partition() or 0)
            if self._reader.is_end(event):
                ends.append((partition, event.offset()))
                continue
            place: dict[str, Any] = {"topic": partition.topic, "partition": partition.partition}
            if error.name() in LOST:
                raise _OffsetLost(error.str(), offset=event.offset(), **place)
            if restoring and error.name() == "UNKNOWN_TOPIC_OR_PART":
                raise MissingTopicError(f"the topic of a global store does not exist: {error.str()}", **place)
            client_event(error, partition, self._outages.lines)
        return ends


def _partitions(counts: Mapping[str, int], topics: Iterable[str]) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in topics for number in range(counts[topic])]
