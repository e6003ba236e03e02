"""Callbacks by time (semantics 90 to 92)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Protocol

from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_ms


class PunctuationType(enum.Enum):
    """The time that a punctuation follows.

    ::

        class Hourly(Processor):
            def init(self, context):
                super().init(context)
                context.schedule(timedelta(hours=1), PunctuationType.WALL_CLOCK_TIME, self.send)

            def process(self, record): ...

            def send(self, time):
                self.context.forward(Record("it is", time, time))

        times = orders.process(Hourly)
    """

    STREAM_TIME = "stream-time"
    """The task's stream time: the largest timestamp processed. It does not advance without records."""
    WALL_CLOCK_TIME = "wall-clock-time"
    """The worker's clock: fires without records too."""


Punctuator = Callable[[int], None]
"""Called with the current stream time or wall-clock time in ms, not the time it was due."""


class Cancellable(Protocol):
    """A scheduled punctuation.

    ::

        class Once(Processor):
            def init(self, context):
                super().init(context)
                self.handle = context.schedule(timedelta(minutes=1), PunctuationType.STREAM_TIME, self.send)

            def process(self, record): ...

            def send(self, time):
                self.context.forward(Record("first", 1, time))
                self.handle.cancel()

        first = orders.process(Once)
        # ("ann", "tea") @ 0, ("ann", "tea") @ 60_000 -> ("first", 1) @ 0
    """

    def cancel(self) -> None:
        """Stops it; also from inside its own callback. Calling it again does nothing."""
        ...


def check_schedule(what: str, interval_ms: int, kind: Any, start: Any) -> int | None:
    """Checks when a punctuation is to run; returns the ms of its start, if it has one.

    :param what: the start of the error's sentence, such as the name of the node.
    :raises ValueError: if the interval is below 1 ms, or the start negative.
    :raises TypeError: if the kind is none of :class:`PunctuationType`, or the start no point in time.
    """
    if interval_ms < 1:
        raise ValueError(f"{what} interval must be at least 1 ms, got {interval_ms}")
    if not isinstance(kind, PunctuationType):
        raise TypeError(
            f"{what} kind must be a PunctuationType, such as PunctuationType.STREAM_TIME, got {repr_of(kind)}"
        )
    if start is None:
        return None
    start_ms = whole_ms(start)
    if start_ms is None:
        raise TypeError(
            f"{what} start time must be a whole number of ms or a datetime with a zone, got {repr_of(start)}"
        )
    if start_ms < 0:
        raise ValueError(f"{what} start time must not be negative, got {repr_of(start)}")
    return start_ms
