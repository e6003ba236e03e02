"""Callbacks by time (semantics 90 to 92)."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Protocol

__all__ = ["Cancellable", "PunctuationType", "Punctuator"]


class PunctuationType(enum.Enum):
    """The time that a punctuation follows."""

    STREAM_TIME = "stream-time"
    """The task's stream time: the largest timestamp processed. It stands still without records."""
    WALL_CLOCK_TIME = "wall-clock-time"
    """The worker's clock: fires without records too."""


Punctuator = Callable[[int], None]
"""Called with the current stream time or wall-clock time in ms, not the time it was due."""


class Cancellable(Protocol):
    """A scheduled punctuation."""

    def cancel(self) -> None:
        """Stops it; also from inside its own callback. Calling it again does nothing."""
        ...
