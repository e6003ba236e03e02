"""Callbacks by time (semantics 90 to 92)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

__all__ = ["Cancellable", "PunctuationType", "Punctuator"]


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
    """The task's stream time: the largest timestamp processed. It stands still without records."""
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
