"""Reads the topics of global stores, with a consumer that is replaced after an error that a new one may not have.

Stream threads make new clients after such errors, and continue from the last commit. Global stores have no commits:
what was read is in the stores, so a new consumer continues after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError, TaskMigratedError
from processor_api.task_id import TopicPartition
from processor_api.texts import plain_str
from streams.kafka.client_errors import LOST, client_event
from streams.kafka.ports import ClientUnusable, Consumer
from streams.log import RepeatedLines
from streams.runtime.tasks.retry import Retry
from streams.threads import Event

log = logging.getLogger("streams.global")

T = TypeVar("T")

_PASSING = (RetryableError, TaskMigratedError)
"""The errors that a new consumer may not have. The second stands for a fatal one: this consumer is in no group."""


class Polled(NamedTuple):
    """The messages of a poll."""

    runs: Sequence[tuple[TopicPartition, list[Any]]]
    """The records, in runs of one partition."""
    events: Sequence[Any]
    """The ends of partitions, and errors of partitions."""


NOTHING = Polled((), ())


class ReaderStopped(StreamsError):
    """The thread was asked to stop while errors lasted."""


class TopicReader:
    """Gives the messages of the topics of global stores, in their order. Used by the thread of these stores only.

    Errors that may pass are tried again until ``task.timeout.ms``, with a new consumer where the former one might skip
    records or can no longer be used. Each method raises `TaskTimeoutError` then, and `ReaderStopped` once the thread
    is asked to stop.

    :param make: makes a consumer without partitions.
    :param retry: keeps how long errors last.
    :param stopping: set when the thread shall end.
    """

    def __init__(self, make: Callable[[], Consumer], retry: Retry, stopping: Event, clock: Clock) -> None:
        self._make = make
        self._retry = retry
        self._stopping = stopping
        self._repeated = RepeatedLines(log, clock)
        self._positions: dict[TopicPartition, int] = {}
        """The next offset of each partition that is read."""
        self._failure: StreamsError | None = None
        """The error after which the next poll needs a new consumer: what came before it is processed first."""
        self._consumer: Consumer | None = None

    # ------------------------------------------------------------------ calls

    def assign(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Adds partitions to read, each from an offset (or `AT_BEGINNING`)."""
        self._positions.update(partitions)
        try:
            self._current().assign(partitions)
        except _PASSING as error:
            self._renew(error)

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Removes partitions."""
        for name in partitions:
            self._positions.pop(name, None)
        try:
            self._current().unassign(partitions)
        except _PASSING as error:
            self._renew(error)

    def position(self, partition: TopicPartition) -> int | None:
        """Returns the offset of the next message; ``None`` while it is not known."""
        return self._ask(lambda consumer: consumer.position(partition))

    def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the offsets of the first records that are still there."""
        return self._ask(lambda consumer: consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Returns the ends, as a reader of committed records sees them."""
        return self._ask(lambda consumer: consumer.end_offsets(partitions))

    def is_end(self, event: Any) -> bool:
        """Whether an event is the end of a partition."""
        return bool(event.error().code() == self._current().partition_eof)

    def poll(self, limit: int, wait_s: float) -> Polled:
        """Returns records and the events of their partitions; all of them are processed before the next poll.

        :raises AuthorizationError: if a right is missing.
        """
        failure, self._failure = self._failure, None
        if failure is not None:
            self._renew(failure)
        try:
            messages = self._take(self._current(), limit, wait_s)
        except _PASSING as error:
            self._renew(error)
            return NOTHING
        if not messages:
            return NOTHING
        events: list[Any] = []
        if any(message.error() is not None for message in messages):
            messages, events = self._until_unusable(messages)
        by_partition = groupby(messages, lambda message: (message.topic(), message.partition()))
        runs = [(TopicPartition(*name), list(run)) for name, run in by_partition]
        self._positions.update((partition, run[-1].offset() + 1) for partition, run in runs)
        if runs or events:
            self._retry.reset()
        return Polled(runs, events)

    @staticmethod
    def _take(consumer: Consumer, limit: int, wait_s: float) -> Sequence[Any]:
        messages = consumer.consume(limit, 0.0)
        if messages:
            return messages
        first = consumer.poll(wait_s)
        return () if first is None else (first, *consumer.consume(limit, 0.0))

    def _until_unusable(self, messages: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Returns records, and events of partitions, up to an event after which the consumer might skip records."""
        records, events = [], []
        for message in messages:
            error = message.error()
            if error is None:
                records.append(message)
            elif self.is_end(message) or error.name() in (*LOST, "UNKNOWN_TOPIC_OR_PART"):
                events.append(message)
            else:
                place = TopicPartition(message.topic() or "", message.partition() or 0)
                try:
                    client_event(error, place, self._repeated)
                except _PASSING as failure:
                    self._failure = failure
                    break
        return records, events

    # ------------------------------------------------------------------ errors

    def _ask(self, ask: Callable[[Consumer], T]) -> T:
        while True:
            try:
                return ask(self._current())
            except (ClientUnusable, TaskMigratedError) as error:
                self._renew(error)
            except RetryableError as error:
                self._repeated.log("the topics of global stores cannot be asked yet", error=str(error))
                self.wait(error)

    def _current(self) -> Consumer:
        if self._consumer is None:
            self._consumer = self._make()
        return self._consumer

    def _renew(self, error: StreamsError) -> None:
        """Continues with a new consumer from the position of the former one."""
        last = error
        while True:
            self._repeated.log("the topics of global stores are read on by a new consumer", error=str(last))
            self.close()
            self.wait(last)
            try:
                self._current().assign(self._positions)
                return
            except _PASSING as again:
                last = again

    def wait(self, error: StreamsError) -> None:
        """Waits until the cluster may be asked again.

        :raises ReaderStopped: if the thread is asked to end.
        :raises TaskTimeoutError: if errors last for too long.
        """
        if self._stopping.wait(self._retry.record_failure(error)):
            raise ReaderStopped(error.message) from error

    def close(self) -> None:
        """Closes the consumer."""
        consumer, self._consumer = self._consumer, None
        if consumer is None:
            return
        try:
            consumer.close()
        except _PASSING as error:  # of one that can no longer be used
            log.debug("not closed in order", extra={"error": plain_str(error)})
