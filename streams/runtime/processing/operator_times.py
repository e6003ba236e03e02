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

from processor_api.record import NO_TIMESTAMP
from streams.kafka.offset_metadata import MOST_TIMES, time_mark

__all__ = ["OperatorTimes"]

log = logging.getLogger("streams.runtime")


class OperatorTimes:
    """Holds the times of the operators of one task, by name."""

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        """The times of the last commit, by the marks of their names."""
        self._current: dict[str, Callable[[], int]] = {}
        self._names: dict[str, str] = {}
        """The name that each mark stands for."""

    def start(self, committed: Iterable[Mapping[str, int]]) -> None:
        """Begins with the times that were committed with the offsets of each partition."""
        self._current.clear()
        self._committed.clear()
        self._names.clear()
        for times in committed:
            for name, time in times.items():
                mark = time_mark(name)
                self._committed[mark] = max(time, self._committed.get(mark, NO_TIMESTAMP))

    def keep(self, name: str, current: Callable[[], int], *, named: bool) -> int:
        """Returns the time that was committed under a name, -1 if none was; each commit takes that of ``current()``.

        :param named: commits it under the name itself, which Kafka Streams reads, while there is room for that.
        """
        mark = time_mark(name)
        while self._names.setdefault(mark, name) != name:  # another name of this task has the same mark
            mark = time_mark(f"{name}{mark}")
        self._current[name if named and mark == time_mark(name) else mark] = current
        return self._committed.get(mark, NO_TIMESTAMP)

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
        times: dict[str, int] = {}
        for name, current in self._current.items():
            time = current()
            if time == NO_TIMESTAMP:
                time = committed.get(time_mark(name), NO_TIMESTAMP)
            if time != NO_TIMESTAMP:
                times[name] = time
        return times
