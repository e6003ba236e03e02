"""Trouble that may pass: how long to wait before the next try, and when it has lasted too long (KIP-572)."""

from __future__ import annotations

from processor_api.clock import Clock
from processor_api.errors import StreamsError

__all__ = ["LastingTrouble", "Trouble"]

FEWEST_TRIES = 3
"""Errors before it has lasted: a machine that slept for hours between two tries has not tried for hours."""


class LastingTrouble(StreamsError):
    """What might have passed did not pass within ``task.timeout.ms``. Mend what it names, then start again: nothing is
    lost, and processing goes on from the last commit."""

    @classmethod
    def of(cls, error: StreamsError, timeout_s: float) -> LastingTrouble:
        """With the place of the last error."""
        text = f"no progress for {timeout_s:g} s (task.timeout.ms), the last error was: {error.message}"
        return cls(text, **error.place())


class Trouble:
    """What keeps a stream thread from committing.

    It begins with the first error and is over when a commit has succeeded, or nothing is left to be committed.

    :param backoff_ms: the wait after the first error; it doubles with each further one.
    :param backoff_max_ms: the longest wait.
    :param timeout_ms: how long it may last.
    """

    def __init__(self, clock: Clock, backoff_ms: int, backoff_max_ms: int, timeout_ms: int) -> None:
        self._clock = clock
        self._first_s = backoff_ms / 1000
        self._longest_s = max(backoff_ms, backoff_max_ms) / 1000
        self._timeout_s = timeout_ms / 1000
        self._next_s = self._first_s
        self._since: float | None = None
        self._tries = 0

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def backoff_s(self) -> float:
        """How long to wait now, in seconds."""
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return wait_s

    def met(self, error: StreamsError) -> float:
        """Takes note of an error; returns how long to wait, in seconds.

        :raises LastingTrouble: once ``task.timeout.ms`` has passed since the first, and some tries have failed.
        """
        now = self._clock.monotonic()
        self._tries += 1
        if self._since is None:
            self._since = now
        elif now - self._since >= self._timeout_s and self._tries >= FEWEST_TRIES:
            raise LastingTrouble.of(error, self._timeout_s) from error
        return self.backoff_s()

    def over(self) -> None:
        """A commit has succeeded, or nothing is left to be committed."""
        self._since, self._next_s, self._tries = None, self._first_s, 0
