"""Retries of what may succeed later: how long to wait before the next try, and when to give up (KIP-572)."""

from __future__ import annotations

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from streams.config import StreamsConfig
from streams.config import clients as client_configs

MOST_OF_ONE_TRY = 0.5
"""Part of the time-out that counts between two errors: a process that stood still for hours has not tried for hours."""


class TaskTimeoutError(StreamsError):
    """Raised when nothing was committed for ``task.timeout.ms`` because of errors that might have passed.

    Fix the cause that the message names, then start again: nothing is lost, and processing continues from the last
    commit.
    """

    @classmethod
    def after(cls, error: StreamsError, timeout_s: float) -> TaskTimeoutError:
        """Returns the error to raise after the last one, with the place of that."""
        text = f"no progress for {timeout_s:g} s (task.timeout.ms); the last error was: {error.message}"
        return cls(text, **error.place())


class Retry:
    """Keeps the back-off of a stream thread, from the first error until a commit succeeds or nothing is left to commit.

    :param backoff_ms: the wait after the first error; it doubles with each further one.
    :param backoff_max_ms: the longest wait.
    :param timeout_ms: how long errors may last.
    """

    def __init__(self, clock: Clock, backoff_ms: int, backoff_max_ms: int, timeout_ms: int) -> None:
        self._clock = clock
        self._first_s = backoff_ms / 1000
        self._longest_s = max(backoff_ms, backoff_max_ms) / 1000
        self._timeout_s = timeout_ms / 1000
        self._next_s = self._first_s
        self._last_failure: float | None = None
        self._failing_for_s = 0.0

    @classmethod
    def of(cls, config: StreamsConfig, clock: Clock) -> Retry:
        """Returns that of a thread under a configuration."""
        return cls(clock, *client_configs.retry_backoff_ms(config), config.task_timeout_ms)

    @property
    def is_failing(self) -> bool:
        """Whether a failure was recorded since the last reset."""
        return self._last_failure is not None

    def backoff_s(self) -> float:
        """Returns how long to wait now, in seconds, and doubles the next wait."""
        wait_s, self._next_s = self._next_s, min(2 * self._next_s, self._longest_s)
        return wait_s

    def record_failure(self, error: StreamsError) -> float:
        """Records an error; returns how long to wait before the next try, in seconds.

        :raises TaskTimeoutError: once ``task.timeout.ms`` has passed since the first; at once if that is 0.
        """
        now = self._clock.monotonic()
        if self._last_failure is not None:
            self._failing_for_s += min(now - self._last_failure, MOST_OF_ONE_TRY * self._timeout_s)
        self._last_failure = now
        if self._failing_for_s >= self._timeout_s:
            raise TaskTimeoutError.after(error, self._timeout_s) from error
        return self.backoff_s()

    def wait_after(self, error: StreamsError) -> float:
        """Returns how long to wait after an error before the next try, in seconds.

        :raises StreamsError: if the error does not allow one.
        """
        if not isinstance(error, RetryableError):
            raise error
        return self.record_failure(error)

    def reset(self) -> None:
        """Forgets the errors: a commit has succeeded, or nothing is left to be committed."""
        self._last_failure, self._failing_for_s, self._next_s = None, 0.0, self._first_s
