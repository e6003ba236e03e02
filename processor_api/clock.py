"""The clocks: the only place that reads the time or sleeps. All other code is given a clock."""

from __future__ import annotations

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """A clock with wall-clock time for records and a monotonic time for intervals and deadlines."""

    def time_ms(self) -> int:
        """Returns the wall-clock time in milliseconds since 1970-01-01T00:00Z."""
        ...

    def monotonic(self) -> float:
        """Returns seconds from an arbitrary start; they never go back."""
        ...

    def wait(self, seconds: float) -> None:
        """Returns when that many seconds have passed."""
        ...


class SystemClock:
    """The machine's clock."""

    def time_ms(self) -> int:
        """Returns the wall-clock time in milliseconds since 1970-01-01T00:00Z."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)

    def wait(self, seconds: float) -> None:
        """Sleeps for that many seconds; not at all for a number that is not positive."""
        if seconds > 0:
            time.sleep(seconds)


class ManualClock:
    """A clock that moves only by :meth:`advance` and :meth:`wait`, for tests and the test driver."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._lock = threading.Lock()

    def time_ms(self) -> int:
        """Returns the time that was set, in ms."""
        return self._now_ms

    def monotonic(self) -> float:
        """Returns the same time as :meth:`time_ms`, in seconds."""
        return self._now_ms / 1000

    def wait(self, seconds: float) -> None:
        """Moves the clock forward by that many seconds, at once."""
        self.advance(int(seconds * 1000))

    def advance(self, ms: int) -> None:
        """Moves the clock forward by ``ms`` milliseconds.

        :raises ValueError: if ``ms`` is negative.
        """
        if ms < 0:
            raise ValueError(f"the clock cannot go back: cannot advance by {ms} ms")
        with self._lock:
            self._now_ms += ms
