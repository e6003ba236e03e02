"""When an empty input partition is waited for (``max.task.idle.ms``; conformance 6, KIP-353, KIP-695).

That a partition was read to its end is told by the consumer. librdkafka may lose that event when other partitions are
taken from the same consumer, so after a while the end is asked for.
"""

from __future__ import annotations

import logging

from processor_api.clock import Clock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer
from streams.runtime.inputs import InputQueue

__all__ = ["Idling"]

log = logging.getLogger("streams.idling")

ASK_INTERVAL_S = 1.0
"""How long nothing was heard of a partition before its end is asked for, and how often."""
ASK_TIMEOUT_S = 0.5


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

    def idle_s(self, partition: TopicPartition) -> float | None:
        """For how long the partition has been waited for since it was read to its end; ``None`` if it is not."""
        since = self._since.get(partition)
        return None if since is None else self._clock.monotonic() - since

    def arrived(self, partition: TopicPartition) -> None:
        """Records came: the wait starts again when it is empty the next time."""
        self._since.pop(partition, None)
        self._ask_at.pop(partition, None)

    def _read_to_end(self, queue: InputQueue) -> bool:
        """Asks, now and then, whether everything was handed over that the partition holds."""
        if self._consumer is None:
            return False
        now, partition = self._clock.monotonic(), queue.partition
        if now < self._ask_at.setdefault(partition, now + ASK_INTERVAL_S):
            return False
        self._ask_at[partition] = now + ASK_INTERVAL_S
        try:
            position = self._consumer.position(partition)
            end = self._consumer.end_offsets([partition], ASK_TIMEOUT_S)[partition]
        except StreamsError as error:
            log.debug("the end is not known", extra={"partition": str(partition), "error": str(error)})
            return False
        position = queue.next_offset if position is None else position
        if position is None or position < end:
            return False
        queue.at_end(position)
        return True
