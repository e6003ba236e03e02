"""When an empty input partition is waited for (``max.task.idle.ms``; conformance 6, KIP-353, KIP-695)."""

from __future__ import annotations

from processor_api.clock import Clock
from processor_api.task_id import TopicPartition
from streams.runtime.inputs import InputQueue

__all__ = ["Idling"]


class Idling:
    """Of one stream thread.

    :param max_task_idle_ms: -1 never waits; 0 waits until an empty partition was read to its end; more waits that long
        after that.
    """

    def __init__(self, max_task_idle_ms: int, clock: Clock) -> None:
        self._max_ms = max_task_idle_ms
        self._clock = clock
        self._since: dict[TopicPartition, float] = {}

    def must_wait(self, queue: InputQueue) -> bool:
        """Whether the partition, which has nothing buffered, has to be waited for."""
        if self._max_ms < 0:
            return False
        if not queue.caught_up:
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
