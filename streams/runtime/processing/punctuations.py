"""Punctuations by stream time and by the wall clock (semantics 90 to 92)."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from processor_api.punctuation import PunctuationType, Punctuator, check_schedule
from processor_api.record import NO_TIMESTAMP
from processor_api.user_code.checks import check_function
from processor_api.user_code.durations import Timestamp

NEVER = 1 << 62

Grids = Mapping[str, Sequence[tuple[str, int, int, int]]]
"""The punctuations that each node schedules when it is initialised, in order: kind, interval and next time in ms, and
the place among those that are due at one time."""


class Schedule:
    """A scheduled callback, which its owner may cancel (`processor_api.punctuation.Cancellable`)."""

    __slots__ = ("callback", "cancelled", "interval_ms", "node")

    def __init__(self, node: str, interval_ms: int, callback: Punctuator) -> None:
        self.node = node
        self.interval_ms = interval_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Ends the punctuation."""
        self.cancelled = True


def next_time(due_ms: int, interval_ms: int, now_ms: int) -> int:
    """Returns the next time of a punctuation on its grid after ``now_ms``; times that were missed are skipped."""
    following = due_ms + interval_ms
    return following if now_ms < following else due_ms + ((now_ms - due_ms) // interval_ms + 1) * interval_ms


class Punctuations:
    """Holds the punctuations of one task, and runs those that are due.

    :param former: the punctuations of a task whose work this one continues. What a node schedules again, as the same
        one of its punctuations and with the same kind and interval, runs next when it would have run there.
    """

    def __init__(self, run: Callable[[Schedule, int], None], former: Grids = MappingProxyType({})) -> None:
        self._run = run
        self._former = former
        self._initial: dict[str, list[tuple[PunctuationType, Schedule]]] = {}
        self._initialised = False
        # Of those that are due at one time the first scheduled goes first; schedules themselves cannot be compared.
        places = (one[3] for own in former.values() for one in own)
        self._order = itertools.count(max(places, default=-1) + 1)
        self._due: dict[PunctuationType, list[tuple[int, int, Schedule]]] = {kind: [] for kind in PunctuationType}
        self.next_stream_time = NEVER
        """The stream time of the next punctuation; earlier than any time after :meth:`wake`."""
        self._woken = False
        self.next_wall_clock = NEVER

    def schedule(
        self,
        node: str,
        interval_ms: int,
        kind: PunctuationType,
        callback: Punctuator,
        *,
        now_ms: int,
        start: Timestamp | None = None,
    ) -> Schedule:
        """Adds a punctuation; ``now_ms`` is the current wall-clock or stream time, whichever the kind follows.

        :raises ValueError: if the interval is below 1 ms or the start is negative.
        :raises TypeError: if the kind is none, or the start no point in time.
        :raises TopologyError: if the callback is not a plain function of the timestamp.
        """
        start_ms = check_schedule(f"node {node!r}: a punctuation's", interval_ms, kind, start)
        check_function(callback, "callback", f"schedule of node {node!r}", ("timestamp",), node=node)
        if start_ms is None:
            # The grid of stream time begins at 0, so the first record runs it (semantics 90).
            due = 0 if kind is PunctuationType.STREAM_TIME else now_ms + interval_ms
        elif start_ms >= now_ms:
            due = start_ms
        else:
            # Rounded up: the first point of the grid that is not over.
            due = start_ms + -(-(now_ms - start_ms) // interval_ms) * interval_ms
        schedule, place = Schedule(node, interval_ms, callback), next(self._order)
        if not self._initialised:
            own = self._initial.setdefault(node, [])
            former = self._former.get(node, ())[len(own) : len(own) + 1]
            if former and tuple(former[0][:2]) == (kind.name, interval_ms):
                due, place = former[0][2:]
            own.append((kind, schedule))
        self._push(kind, due, schedule, place)
        return schedule

    def initialised(self) -> None:
        """Notes that all nodes are initialised: what they schedule from now on is not a part of :meth:`grids`."""
        self._initialised = True

    def grids(self) -> dict[str, list[tuple[str, int, int, int]]]:
        """Returns the punctuations that nodes scheduled when they were initialised, for a task that continues."""
        due = {id(schedule): (time, place) for heap in self._due.values() for time, place, schedule in heap}
        never = NEVER, 0
        return {
            node: [(kind.name, one.interval_ms, *(never if one.cancelled else due[id(one)])) for kind, one in own]
            for node, own in self._initial.items()
        }

    def wake(self) -> None:
        """Has the task stop before its next record, as for a punctuation that is due."""
        self._woken = True
        self.next_stream_time = NO_TIMESTAMP

    def slept(self) -> None:
        """Takes :meth:`wake` back."""
        self._woken = False
        self._update_next(PunctuationType.STREAM_TIME)

    def punctuate(self, kind: PunctuationType, now_ms: int, enough: Callable[[], bool] | None = None) -> bool:
        """Runs the punctuations that are due; returns whether any ran.

        :param enough: asked between two of them: whether the rest has to wait for the next call.
        """
        heap = self._due[kind]
        ran = False
        while heap and heap[0][0] <= now_ms:
            due, _, schedule = heapq.heappop(heap)
            if schedule.cancelled:
                continue
            ran = True
            self._run(schedule, now_ms)
            if not schedule.cancelled:
                self._push(kind, next_time(due, schedule.interval_ms, now_ms), schedule, next(self._order))
            if enough is not None and enough():
                break
        self._update_next(kind)
        return ran

    def _push(self, kind: PunctuationType, due_ms: int, schedule: Schedule, place: int) -> None:
        heapq.heappush(self._due[kind], (due_ms, place, schedule))
        self._update_next(kind)

    def _update_next(self, kind: PunctuationType) -> None:
        heap = self._due[kind]
        due = heap[0][0] if heap else NEVER
        if kind is PunctuationType.STREAM_TIME:
            self.next_stream_time = NO_TIMESTAMP if self._woken else due
        else:
            self.next_wall_clock = due
