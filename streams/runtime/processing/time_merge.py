"""Which of a task's inputs comes next: that whose next record has the smallest timestamp; of equal ones the first.

Kafka Streams keeps its partition queues in a priority queue as well (its `PartitionGroup`): the cost of a record does
not grow with the number of inputs, of which most may be empty.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from heapq import heappop, heappush, heapreplace

from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue

__all__ = ["TimeMerge"]


class TimeMerge:
    """Of the queues of one task, in the order of its plan.

    A queue is known by its number: it is in the heap with the timestamp of its head, or among the empty ones. That of
    the record in work stays in the heap, at the top, until it is asked for the next one.
    """

    def __init__(self, queues: Iterable[InputQueue]) -> None:
        self._queues = list(queues)
        self._heap: list[tuple[int, int]] = []
        self._empty = list(range(len(self._queues)))
        self._in_work: int | None = None

    def begin(self, idle: Idling | None) -> bool:
        """Looks at the queues that were empty, as records may have come since.

        :returns: whether there may be a next record: an empty queue that has to be waited for stops all.
        """
        if self._in_work is not None:
            heappop(self._heap)
            insort(self._empty, self._in_work)
            self._in_work = None
        queues, empty = self._queues, self._empty
        still: list[int] = []
        for place, number in enumerate(empty):
            queue = queues[number]
            if queue.head is not None or queue.fill():
                heappush(self._heap, (queue.head[0], number))  # type: ignore[index]
            elif idle is not None and idle.must_wait(queue):
                self._empty = still + empty[place:]
                idle.watch(queues[other] for other in empty[place + 1 :] if not queues[other])
                return False
            else:
                still.append(number)
        self._empty = still
        return True

    def next(self, idle: Idling | None) -> InputQueue | None:
        """The queue whose head is to be processed, and taken out of it; ``None`` if there is none, or if a queue that
        is empty now has to be waited for. One that had not to be waited for is not looked at before the next
        `begin`."""
        heap, number = self._heap, self._in_work
        if number is not None:
            queue = self._queues[number]
            if queue.fill():
                heapreplace(heap, (queue.head[0], number))  # type: ignore[index]
            else:
                heappop(heap)
                insort(self._empty, number)
                self._in_work = None
                if idle is not None and idle.must_wait(queue):
                    return None
        if not heap:
            return None
        self._in_work = number = heap[0][1]
        return self._queues[number]
