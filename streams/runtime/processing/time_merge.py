"""Chooses the next input of a task: the one whose next record has the smallest timestamp; of equal ones the first.

Kafka Streams keeps its partition queues in a priority queue as well (its `PartitionGroup`): the cost of a record does
not grow with the number of inputs, of which most may be empty.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from heapq import heappop, heappush, heappushpop, heapreplace
from typing import Any

from state.row_format.record_context import Cursor
from streams.runtime.processing.idling import Idling
from streams.runtime.processing.inputs import InputQueue
from streams.runtime.processing.punctuations import NEVER, Punctuations


def run_one(queue: InputQueue, cursor: Cursor, punctuations: Punctuations, punctuate: Callable[[], bool]) -> int:
    """Processes the head of a queue; returns 1 (:meth:`TimeMerge.run`)."""
    head, queue.head = queue.head, None
    queue.run(head)  # type: ignore[arg-type]
    if cursor.stream_time >= punctuations.next_stream_time:
        punctuate()
    return 1


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

        :returns: whether there may be a next record: an empty queue that must be waited for holds up all others.
        """
        if self._current is not None:
            # What comes behind its record is not known yet: until then it is one of the empty ones.
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

        :returns: ``None`` if there is none, or if a queue that is empty now must be waited for. A queue that did not
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

    def run(self, limit: int, cursor: Cursor, punctuations: Punctuations, punctuate: Callable[[], bool]) -> int:
        """Processes records, from the one that :meth:`next` has chosen on, as if each was asked for by :meth:`next`.

        Ends where the next one of an input must be found by that: there is none, it cannot be read, its time needs a
        decision, or its input has a timestamp extractor.

        :param punctuate: runs what stream time has made due; returns whether no further record may be taken.
        :returns: how many were processed, at least one.
        """
        heap, queues, ends = self._heap, self._queues, dict[int, Any]()
        queue = queues[number := heappop(heap)[1]]
        messages, source, read_key, read_value, forward = queue.parts
        latest, stream_time, last, count = queue.reader.time_limit.latest, cursor.stream_time, None, 0
        timestamp, key, value, headers, message = queue.head  # type: ignore[misc]
        queue.head = None
        bound = heap[0][0] if heap else NEVER
        at, cursor.source = timestamp, source
        try:
            while True:
                at = cursor.timestamp = timestamp
                cursor.message = message
                if timestamp > stream_time:
                    cursor.stream_time = stream_time = timestamp
                if timestamp > queue.partition_time:
                    queue.partition_time = timestamp
                forward(key, value, timestamp, headers)
                last = message
                count += 1
                if stream_time >= punctuations.next_stream_time:
                    if punctuate():
                        break
                    cursor.source = source
                if count >= limit or not messages:
                    break
                message = messages[0]
                timestamp = message.timestamp()[1]
                if not 0 <= timestamp <= latest:
                    break
                try:
                    raw = message.key()
                    key = None if raw is None else read_key(raw)
                    raw = message.value()
                    value = None if raw is None else read_value(raw)
                except Exception:  # `next` finds the same error again, and handles it
                    break
                headers = message.headers()
                # Only now: where the record could not be read, it is still there for `next`.
                messages.popleft()
                if timestamp >= bound and (best := heappushpop(heap, (timestamp, number))[1]) != number:
                    queue.head = timestamp, key, value, headers, message
                    ends[number], last, number = last, ends.get(best), best
                    queue = queues[number]
                    messages, source, read_key, read_value, forward = queue.parts
                    timestamp, key, value, headers, message = queue.head  # type: ignore[misc]
                    queue.head = None
                    bound, cursor.source = heap[0][0], source
        finally:
            # Positions are set once for each run, not for each record; also after an error, behind what was processed.
            ends[number] = last
            for place, end in ends.items():
                if end is not None:
                    queues[place].position = end.offset() + 1
            # It comes to the top, where `next` and `begin` expect it: no other queue had an earlier record.
            heappush(heap, (at, number))
            self._current = number
        return count
