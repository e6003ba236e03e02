"""The times that operators keep from one run of their task to the next: they are committed with the offsets.

An operator's stream time, and the close time of the windows that it emitted last, are in no store. They stand in the
metadata of the committed offsets of all input partitions of the task (formats 8), so that a commit and they are one,
whether the task's state is there after a restart or not; the largest of the partitions' holds (semantics 3 and 51).

A time goes by the name of the operator's store, since that is what a deployment keeps: names of nodes are numbered, and
mean other nodes once an operator is added.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from processor_api.clock import Clock
from processor_api.record import NO_TIMESTAMP
from streams.kafka.offset_metadata import MOST_TIMES, time_mark
from streams.runtime.processing.held_records import HeldRecords, HeldResults
from streams.runtime.processing.pace import Pace

# Sends on the results that a record of a task makes due, in parts, before the next record.
#
# One record may make a million results due. Between two parts the thread looks at the clock, so that it can poll and
# commit. The rest is not a list: it is rows of a store, which a commit holds like all others, so that a task that is
# opened again continues with them.


class Remainders:
    """The operators of one task that have more to send on.

    :param task: its id, for messages.
    :param pace: says when the turn of the task is over; ``None`` where nothing but processing is ever due.
    """

    def __init__(self, task: str, pace: Pace | None) -> None:
        self._task = task
        self._pace = pace
        self._left: dict[Callable[[], bool], None] = {}
        self.meets_again: Callable[[str], bool] = lambda node: False
        """Says whether a record may meet the results of a node by another branch: then none may be left."""

    def __bool__(self) -> bool:
        return bool(self._left)

    def __contains__(self, send: Callable[[], bool]) -> bool:
        return send in self._left

    def add(self, send: Callable[[], bool]) -> None:
        """Has the rest sent on before the next record.

        :param send: sends a part on, and returns whether there is more.
        """
        # A dictionary, for its order: who has waited longest sends first.
        self._left[send] = None

    def send(self) -> bool:
        """Sends parts on until all is sent, or the turn is over; returns whether all is."""
        pace = self._pace
        while self._left:
            send = next(iter(self._left))
            if pace is not None:
                pace.begin_run()
            if not send():
                self._left.pop(send, None)
            if pace is not None:
                pace.check(1, lambda: ("a part of the results that were due", {"task": self._task}))
                if pace.over:
                    break
        return not self._left

    def clear(self) -> None:
        """Forgets the operators."""
        self._left.clear()


log = logging.getLogger("streams.runtime")


class TaskOperators:
    """Holds what the operators of one task keep and share, and what they want to have called."""

    def __init__(self, task: str, clock: Clock, pace: Pace | None) -> None:
        self.times = OperatorTimes()
        self.held = HeldRecords(task, clock, pace)
        self.held_results = HeldResults()
        self.remainders = Remainders(task, pace)
        self.shared: dict[str, Any] = {}
        """Objects that several operators use, by name."""
        self.committers: list[Callable[[], None]] = []
        """Functions that run behind each commit."""
        self.enders: list[Callable[[], bool]] = []
        """Functions that send on what waits for later records, nodes downstream first."""

    def start(self, committed: Iterable[Mapping[str, int]]) -> None:
        """Begins with the times that were committed with the offsets of each partition, before the operators are
        made."""
        self.times.start(committed)
        self.enders.clear()
        self.committers.clear()

    def stop(self) -> None:
        """Forgets what is held and left."""
        self.held.clear()
        self.held_results.clear()
        self.remainders.clear()

    def committed(self) -> None:
        """Notes that all that was processed is committed."""
        self.times.committed()
        for note in self.committers:
            note()


class OperatorTimes:
    """Holds the times of the operators of one task, by name."""

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        """The times of the last commit, by the marks of their names."""
        self._current: dict[str, Callable[[], int]] = {}
        self._of_stores: dict[str, Callable[[], int]] = {}
        """The times of stores, by marks: they get the room that those of operators leave."""
        self._names: dict[str, str] = {}
        """The name that each mark stands for."""
        self._parts: list[dict[str, int]] = []
        """The times of the last commit of each partition."""
        self._progress: dict[str, tuple[Callable[[], int], int]] = {}
        """The numbers of :meth:`keep_progress`, with those that were committed."""

    def start(self, committed: Iterable[Mapping[str, int]]) -> None:
        """Begins with the times that were committed with the offsets of each partition."""
        self._current.clear()
        self._of_stores.clear()
        self._committed.clear()
        self._names.clear()
        self._progress.clear()
        self._parts = [{time_mark(name): time for name, time in times.items()} for times in committed]
        for times in self._parts:
            for mark, time in times.items():
                self._committed[mark] = max(time, self._committed.get(mark, NO_TIMESTAMP))

    def keep(self, name: str, current: Callable[[], int], *, named: bool) -> int:
        """Returns the time that was committed under a name, -1 if none was; each commit takes that of ``current()``.

        :param named: commits it under the name itself, which Kafka Streams reads, while there is room for that.
        """
        mark = self._mark_of(name)
        self._current[name if named and mark == time_mark(name) else mark] = current
        return self._committed.get(mark, NO_TIMESTAMP)

    def keep_of_store(self, name: str, current: Callable[[], int]) -> None:
        """Has each commit take the time of a store whose operators keep none."""
        self._of_stores[self._mark_of(name)] = current

    def keep_progress(self, name: str, current: Callable[[], int], *, since: str) -> int:
        """Returns the number that was committed beside the latest of the times under another name, 0 if none was; each
        commit takes that of ``current()``, which grows until that time moves and is 0 then.

        A partition without records since then may have an older number beside an older time.
        """
        mark = self._mark_of(name)
        at = time_mark(since)
        latest = max((times.get(at, NO_TIMESTAMP) for times in self._parts), default=NO_TIMESTAMP)
        numbers = [times.get(mark, 0) for times in self._parts if times.get(at, NO_TIMESTAMP) == latest]
        committed = max(numbers, default=0)
        self._progress[mark] = current, committed
        return committed

    def _mark_of(self, name: str) -> str:
        mark = time_mark(name)
        while self._names.setdefault(mark, name) != name:  # another name of this task has the same mark
            mark = time_mark(f"{name}{mark}")
        return mark

    @property
    def progressed(self) -> bool:
        """Whether one of the numbers of :meth:`keep_progress` has changed, which needs no record."""
        return any(current() != committed for current, committed in self._progress.values())

    def committed(self) -> None:
        """Notes that the present numbers are committed."""
        self._progress = {mark: (current, current()) for mark, (current, _) in self._progress.items()}

    def warn_of_too_many(self, task: str) -> None:
        """Warns when the chain is built if there may be no room for the times of all operators."""
        if len(self._current) > MOST_TIMES:
            log.warning(
                "a subtopology has so many windowed operators that the times of some may have no room beside the"
                " committed offsets: after a restart these begin at -1, as in Kafka Streams; split it by repartition()",
                extra={"task": task, "operators": len(self._current), "room_for": MOST_TIMES},
            )

    def current(self) -> dict[str, int]:
        """Returns the times for a commit: those of the operators of this topology, and of no others."""
        committed = self._committed
        times = {
            mark: number for mark, (now, _) in self._progress.items() if (number := now())
        }  # first: they have room
        for name, current in self._current.items():
            time = current()
            if time == NO_TIMESTAMP:
                time = committed.get(time_mark(name), NO_TIMESTAMP)
            if time != NO_TIMESTAMP:
                times[name] = time
        times.update((mark, time) for mark, now in self._of_stores.items() if (time := now()) != NO_TIMESTAMP)
        return times
