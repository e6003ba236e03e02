"""The times that operators keep from one run of their task to the next: they are committed with the offsets.

An operator's stream time, and the close time of the windows that it emitted last, are in no store. They stand in the
metadata of the committed offsets of all input partitions of the task (formats 8), so that a commit and they are one,
whether the task's state is there after a restart or not; the largest of the partitions' holds (semantics 3 and 51).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from processor_api.record import NO_TIMESTAMP

__all__ = ["OperatorTimes"]


class OperatorTimes:
    """Holds the times of the operators of one task, by name."""

    def __init__(self) -> None:
        self._committed: dict[str, int] = {}
        self._current: dict[str, Callable[[], int]] = {}

    def start(self, committed: Iterable[Mapping[str, int]]) -> None:
        """Begins with the times that were committed with the offsets of each partition."""
        self._current.clear()
        self._committed.clear()
        for times in committed:
            for name, time in times.items():
                self._committed[name] = max(time, self._committed.get(name, NO_TIMESTAMP))

    def keep(self, name: str, current: Callable[[], int]) -> int:
        """Returns the time that was committed under a name, -1 if none was; each commit takes that of ``current()``."""
        self._current[name] = current
        return self._committed.get(name, NO_TIMESTAMP)

    def current(self) -> dict[str, int]:
        """Returns the times for a commit: also those that no operator of this topology keeps."""
        if not self._current:
            return self._committed
        times = {name: time for name, current in self._current.items() if (time := current()) != NO_TIMESTAMP}
        return {**self._committed, **times}
