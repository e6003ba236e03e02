"""Decides when a task waits for an empty input partition (``max.task.idle.ms``; semantics 6, KIP-353, KIP-695).

The consumer reports that a partition was read to its end. At the end of all partitions that takes half a second, for
which the broker holds back an empty response; so the end offset in the last response is compared first. librdkafka may
lose the event when other partitions are removed from the same consumer, so the end is requested after a while.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer, UnknownPartitionError
from streams.runtime.processing.inputs import InputQueue

log = logging.getLogger("streams.idling")

ASK_INTERVAL_S = 1.0
"""After how long without an event the end of a partition is requested, and how often."""
ASK_TIMEOUT_S = 0.5
ASK_TOGETHER_S = 0.1
"""The ends of partitions that are due within this time are requested in one call."""


class Idling:
    """Decides for a stream thread whether a task waits for an empty partition.

    :param max_task_idle_ms: -1 never waits; 0 waits until an empty partition was read to its end; more waits that long
        after that.
    :param consumer: returns ends that it did not report; ``None`` where every end is reported.
    """

    def __init__(self, max_task_idle_ms: int, clock: Clock, consumer: Consumer | None = None) -> None:
        self._max_ms = max_task_idle_ms
        self._clock = clock
        self._consumer = consumer
        self._ask_at: dict[TopicPartition, float] = {}
        self._waited: dict[TopicPartition, InputQueue] = {}
        self._since: dict[TopicPartition, float] = {}

    def must_wait(self, queue: InputQueue) -> bool:
        """Whether the task has to wait for a partition that has nothing buffered."""
        if self._max_ms < 0:
            return False
        if not queue.caught_up and not self._read_to_end(queue):
            self._since.pop(queue.partition, None)
            return True
        if self._max_ms == 0:
            return False
        now = self._clock.monotonic()
        since = self._since.setdefault(queue.partition, now)
        return (now - since) * 1000 < self._max_ms

    def watch(self, queues: Iterable[InputQueue]) -> None:
        """Adds empty partitions that a task may have to wait for later, so that their ends are requested together."""
        if self._max_ms < 0 or self._consumer is None:
            return
        at = self._clock.monotonic() + ASK_INTERVAL_S
        for queue in queues:
            if not queue.caught_up:
                self._waited[queue.partition] = queue
                self._ask_at.setdefault(queue.partition, at)

    def idle_s(self, partition: TopicPartition) -> float | None:
        """Returns how long a task has waited for a partition that was read to its end; ``None`` if it does not wait."""
        since = self._since.get(partition)
        return None if since is None else self._clock.monotonic() - since

    def arrived(self, partition: TopicPartition) -> None:
        """Ends the wait for a partition that has records; it starts again when the partition is empty the next time."""
        self._since.pop(partition, None)
        if self._ask_at.pop(partition, None) is not None:
            self._waited.pop(partition, None)

    def _read_to_end(self, queue: InputQueue) -> bool:
        """Whether the consumer has delivered all records of the partition; requests its end from time to time."""
        if self._consumer is None:
            return False
        now, partition = self._clock.monotonic(), queue.partition
        end = self._consumer.fetched_end(partition)
        if end is not None and self._reached(queue, end):
            return True
        self._waited[partition] = queue
        if now >= self._ask_at.setdefault(partition, now + ASK_INTERVAL_S):
            self._ask(now)
        return queue.caught_up

    def _ask(self, now: float) -> None:
        assert self._consumer is not None
        assigned = self._consumer.assignment()
        for partition in self._waited.keys() - assigned:
            del self._waited[partition], self._ask_at[partition]
        due = [name for name, queue in self._waited.items() if self._ask_at[name] <= now + ASK_TOGETHER_S]
        for partition in due:
            self._ask_at[partition] = now + ASK_INTERVAL_S
        for partition, end in self._ends(due).items():
            self._reached(self._waited[partition], end)

    def _reached(self, queue: InputQueue, end: int) -> bool:
        """Notes, and returns, whether the consumer has delivered all records before the end."""
        assert self._consumer is not None
        position = self._consumer.position(queue.partition)
        position = queue.next_offset if position is None else position
        # The queue is true while it has records: then there is more to process, and nothing to wait for.
        if position is None or position < end or queue or not self._has_delivered(queue, position):
            return False
        if not queue.caught_up:
            queue.at_end(position)
        return True

    def _has_delivered(self, queue: InputQueue, position: int) -> bool:
        """Whether the consumer has left out nothing but markers and aborted records on its way to a position.

        If so, the position is noted, because the records before it may be deleted as soon as it is committed. If
        records were deleted before they were read, what arrives next shows that.
        """
        assert self._consumer is not None
        delivered = queue.ends.delivered
        if delivered is not None and position > delivered:
            start = self._consumer.log_start(queue.partition)
            if start is not None and start > delivered:
                return False
            queue.ends.delivered = position
        return True

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Requests the ends in one call, or in one for each partition if one of them cannot be read."""
        assert self._consumer is not None
        try:
            return self._consumer.end_offsets(partitions, ASK_TIMEOUT_S)
        except StreamsError as error:
            if len(partitions) > 1 and (
                isinstance(error, UnknownPartitionError) or not isinstance(error, RetryableError)
            ):
                return {name: end for one in partitions for name, end in self._ends([one]).items()}
            log.debug("the end is not known", extra={"partition": str(partitions[0]), "error": str(error)})
            return {}
