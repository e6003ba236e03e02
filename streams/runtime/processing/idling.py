"""When an empty input partition is waited for (``max.task.idle.ms``; conformance 6, KIP-353, KIP-695).

That a partition was read to its end is told by the consumer, though at the end of all partitions only after the broker
has held back an empty answer for half a second; the end that the last answer named is looked at first. librdkafka may
lose the event when other partitions are taken from the same consumer, so after a while the end is asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer, UnknownPartitionError
from streams.runtime.processing.inputs import InputQueue

__all__ = ["Idling"]

log = logging.getLogger("streams.idling")

ASK_INTERVAL_S = 1.0
"""How long nothing was heard of a partition before its end is asked for, and how often."""
ASK_TIMEOUT_S = 0.5
ASK_TOGETHER_S = 0.1
"""Partitions that are to be asked for within this time are asked for in one call."""


class Idling:
    """Of one stream thread.

    :param max_task_idle_ms: -1 never waits; 0 waits until an empty partition was read to its end; more waits that long
        after that.
    :param consumer: is asked for ends that it did not tell; ``None`` where every end is told.
    """

    def __init__(self, max_task_idle_ms: int, clock: Clock, consumer: Consumer | None = None) -> None:
        self._max_ms = max_task_idle_ms
        self._clock = clock
        self._consumer = consumer
        self._ask_at: dict[TopicPartition, float] = {}
        self._waited: dict[TopicPartition, InputQueue] = {}
        self._since: dict[TopicPartition, float] = {}

    def must_wait(self, queue: InputQueue) -> bool:
        """Whether the partition, which has nothing buffered, has to be waited for."""
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
        """Partitions that have nothing buffered and may be waited for after another one: their ends, if nobody tells
        them, are asked for together."""
        if self._max_ms < 0 or self._consumer is None:
            return
        at = self._clock.monotonic() + ASK_INTERVAL_S
        for queue in queues:
            if not queue.caught_up:
                self._waited[queue.partition] = queue
                self._ask_at.setdefault(queue.partition, at)

    def idle_s(self, partition: TopicPartition) -> float | None:
        """For how long the partition has been waited for since it was read to its end; ``None`` if it is not."""
        since = self._since.get(partition)
        return None if since is None else self._clock.monotonic() - since

    def arrived(self, partition: TopicPartition) -> None:
        """Records came: the wait starts again when it is empty the next time."""
        self._since.pop(partition, None)
        if self._ask_at.pop(partition, None) is not None:
            self._waited.pop(partition, None)

    def _read_to_end(self, queue: InputQueue) -> bool:
        """Asks, now and then, whether everything was handed over that the partition holds."""
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
        """Takes note if everything was handed over that is before the end."""
        assert self._consumer is not None
        position = self._consumer.position(queue.partition)
        position = queue.next_offset if position is None else position
        if position is None or position < end or queue:
            return False
        if not queue.caught_up:
            queue.at_end(position)
        return True

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """One call for all; where a partition spoils it, one for each."""
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
