"""Chooses the next input of a task: the one whose next record has the smallest timestamp; of equal ones the first.

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
    """Merges the queues of one task by time.

    A queue is known by its number in the order of the plan: it is in the heap with the timestamp of its head, or among
    the empty ones. The queue of the current record remains at the top of the heap until the next record is asked for.
    """

    def __init__(self, queues: Iterable[InputQueue]) -> None:
        self._queues = list(queues)
        self._heap: list[tuple[int, int]] = []
        self._empty = list(range(len(self._queues)))
        self._current: int | None = None

    def begin(self, idle: Idling | None) -> bool:
        """Checks the queues that were empty, since records may have come.

        :returns: whether there may be a next record: an empty queue that has to be waited for holds up all others.
        """
        if self._current is not None:
            heappop(self._heap)
            insort(self._empty, self._current)
            self._current = None
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
        """Returns the queue whose head is to be processed and removed.

        :returns: ``None`` if there is none, or if a queue that is empty now has to be waited for. A queue that did not
            have to be waited for is not checked again before the next `begin`.
        """
        heap, number = self._heap, self._current
        if number is not None:
            queue = self._queues[number]
            if queue.fill():
                heapreplace(heap, (queue.head[0], number))  # type: ignore[index]
            else:
                heappop(heap)
                insort(self._empty, number)
                self._current = None
                if idle is not None and idle.must_wait(queue):
                    return None
        if not heap:
            return None
        self._current = number = heap[0][1]
        return self._queues[number]
