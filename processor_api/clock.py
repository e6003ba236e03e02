"""Time is injected: the only place that reads the wall clock or sleeps."""

from __future__ import annotations

import threading
import time
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock"]


class Clock(Protocol):
    """Wall-clock time for records and a monotonic time for intervals and deadlines."""

    def time_ms(self) -> int:
        """Milliseconds since 1970-01-01T00:00Z."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, from an arbitrary start."""
        ...

    def wait(self, seconds: float) -> None:
        """Lets time pass."""
        ...


class SystemClock:
    """The machine's clock."""

    def time_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)

    def wait(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


class ManualClock:
    """A clock that moves only when told, for tests and the test driver."""

    def __init__(self, start_ms: int = 0) -> None:
        self._now_ms = start_ms
        self._lock = threading.Lock()

    def time_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def wait(self, seconds: float) -> None:
        self.advance(int(seconds * 1000))

    def advance(self, ms: int) -> None:
        """Moves the clock forward by ``ms`` milliseconds.

        :raises ValueError: if ``ms`` is negative.
        """
        if ms < 0:
            raise ValueError(f"time does not go back: cannot advance by {ms} ms")
        with self._lock:
            self._now_ms += ms
