"""The order in which the test driver processes records that have the same timestamp: as Kafka Streams' own driver.

That one keeps the queues that have records in Java's ``PriorityQueue``, by the timestamps of their heads alone. Of
queues with equal heads the shape of the heap decides, and so the order in which queues came to have records: of three
that got one each, the first is followed by the third. A worker takes the first in the order of its inputs, since there
records come as the broker delivers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from state.row_format.record_context import Cursor
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.punctuations import Punctuations
from streams.runtime.processing.time_merge import TimeMerge, run_one

T = TypeVar("T")


class TimeHeap(Generic[T]):
    """A binary heap by time, which takes of equal ones the one that Java's ``PriorityQueue`` takes."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, T]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def offer(self, time: int, item: T) -> None:
        """Adds an item at the end; it rises above those of later times."""
        entries, entry = self._entries, (time, item)
        place = len(entries)
        entries.append(entry)
        while place and entries[(place - 1) // 2][0] > time:
            entries[place] = entries[(place - 1) // 2]
            place = (place - 1) // 2
        entries[place] = entry

    def poll(self) -> T:
        """Takes the item at the top; the last one goes there, and sinks below those of earlier times."""
        entries = self._entries
        top, last = entries[0], entries.pop()
        if entries:
            place, size = 0, len(entries)
            while (child := 2 * place + 1) < size:
                if child + 1 < size and entries[child + 1][0] < entries[child][0]:
                    child += 1
                if entries[child][0] >= last[0]:
                    break
                entries[place] = entries[child]
                place = child
            entries[place] = last
        return top[1]


class Arrivals:
    """Holds when each queue that had no record got one."""

    def __init__(self) -> None:
        self._turns: dict[InputQueue, int] = {}
        self._turn = 0

    def add(self, queue: InputQueue, message: Any) -> None:
        """Adds a record to a queue."""
        if not queue:
            self._turn += 1
            self._turns[queue] = self._turn
        queue.messages.append(message)

    def turn(self, queue: InputQueue) -> int:
        """Returns a number that is larger for those that got a record later."""
        return self._turns.get(queue, 0)


class ArrivalMerge(TimeMerge):
    """Merges the queues of the driver's task by time, and of equal ones as Kafka Streams' driver does."""

    def __init__(self, queues: Iterable[InputQueue], arrivals: Arrivals) -> None:
        super().__init__(queues)
        self._turn = arrivals.turn
        self._without = list(self._queues)
        self._filled: TimeHeap[InputQueue] = TimeHeap()
        self._taken: InputQueue | None = None

    def begin(self, idle: Idling | None) -> bool:
        self._put_back()
        for queue in sorted(filter(None, self._without), key=self._turn):
            if queue.fill():
                self._without.remove(queue)
                self._offer(queue)
        if idle is not None:
            for queue in self._without:
                if idle.must_wait(queue):
                    idle.watch(other for other in self._without if other is not queue)
                    return False
        return True

    def next(self, idle: Idling | None) -> InputQueue | None:
        taken = self._taken
        self._put_back()
        if taken is not None and idle is not None and not taken and idle.must_wait(taken):
            return None
        if not self._filled:
            return None
        self._taken = self._filled.poll()
        return self._taken

    def run(self, limit: int, cursor: Cursor, punctuations: Punctuations, punctuate: Callable[[], bool]) -> int:
        """Processes the record that :meth:`next` has chosen, no matter the limit."""
        assert self._taken is not None
        return run_one(self._taken, cursor, punctuations, punctuate)

    def _put_back(self) -> None:
        """Offers the queue of the record that was processed again, if it has one more."""
        queue, self._taken = self._taken, None
        if queue is None:
            return
        if queue.fill():
            self._offer(queue)
        else:
            self._without.append(queue)

    def _offer(self, queue: InputQueue) -> None:
        assert queue.head is not None
        self._filled.offer(queue.head[0], queue)
