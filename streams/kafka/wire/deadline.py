"""A time limit for a call with several steps."""

from __future__ import annotations

from processor_api.clock import Clock


class Deadline:
    """A deadline in a clock's monotonic time."""

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._clock = clock
        self._end_s = clock.monotonic() + timeout_s

    def left_s(self) -> float:
        """The seconds until the deadline; 0 when it is over."""
        return max(0.0, self._end_s - self._clock.monotonic())

    def share(self, steps: int) -> Deadline:
        """Returns an earlier deadline, for the first of so many steps that divide the rest of the time."""
        return Deadline(self.left_s() / steps, self._clock)

    def wait(self, seconds: float) -> bool:
        """Waits, and returns whether any time is left; returns at once if none would be."""
        if self.left_s() <= seconds:
            return False
        self._clock.wait(seconds)
        return True
