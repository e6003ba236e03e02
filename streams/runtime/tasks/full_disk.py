"""The disk of a stream thread that is full: what waits for room, and when it is tried again."""

from __future__ import annotations

import enum
import logging
import math
from collections.abc import Callable, Collection
from functools import partial

from processor_api.clock import Clock
from processor_api.errors import DiskFullError
from streams.config import StreamsConfig
from streams.log import FIRST_REPEAT_S, LAST_REPEAT_S
from streams.platform import Platform
from streams.runtime.engines.state_recovery import clear_tracebacks
from streams.runtime.tasks.retry import Retry

log = logging.getLogger("streams.state")

LOOK_S = 0.1
"""How long a thread that does nothing else waits between two looks at whether it may try again, or is to end."""
REOPEN_AFTER_S = 15.0
"""How long there may be room without a write that succeeds. RocksDB checks every five seconds whether it can
continue."""


class Waiting(enum.Enum):
    """The work that waits for room."""

    COMMIT = "the commit"
    OPENING = "the opening of tasks"
    FILLING = "the filling of global stores"
    START = "the start of the application"


class _FullDiskLog:
    """Says that a disk is full: once, then seldomer and seldomer, and when it has room again."""

    def __init__(self, name: str, directory: str) -> None:
        self._place = {"directory": directory, "thread_name": name}
        self._since = 0.0
        self._tries = 0
        self._next_line, self._interval_s = 0.0, FIRST_REPEAT_S

    def begin(self, now: float) -> None:
        """Begins to count: the disk had room before."""
        self._since, self._tries = now, 0
        self._next_line, self._interval_s = now, FIRST_REPEAT_S

    def tried(self, waiting: Collection[Waiting], error: DiskFullError, now: float) -> None:
        """Counts a try in vain, and logs a line if one is due."""
        self._tries += 1
        if now < self._next_line:
            return
        times = {} if self._tries == 1 else {"times": self._tries, "waited_s": round(now - self._since)}
        waits = ", ".join(sorted(work.value for work in waiting))
        log.warning(
            "the disk is full: free some space there, and processing goes on by itself; nothing is lost",
            extra={**self._place, "waits": waits, "error": str(error), **times},
        )
        self._next_line, self._interval_s = now + self._interval_s, min(2 * self._interval_s, LAST_REPEAT_S)

    def ended(self, now: float) -> None:
        """Logs that there is room again."""
        log.warning(
            "the disk has room again: processing goes on",
            extra={**self._place, "waited_s": round(now - self._since)},
        )


class FullDisk:
    """Knows what of a thread waits for room on its disk; until that is done the thread takes no other step of its kind.

    :param name: the thread's, for lines of the log.
    :param directory: whose disk it is, for lines of the log.
    :param retry: says how long to wait before each try, and when to give up.
    :param has_room: whether the disk takes a little more now.
    """

    def __init__(self, name: str, directory: str, clock: Clock, retry: Retry, has_room: Callable[[], bool]) -> None:
        self._log = _FullDiskLog(name, directory)
        self._clock = clock
        self._retry = retry
        self._has_room = has_room
        self._waiting: set[Waiting] = set()
        self._error: DiskFullError | None = None
        self._try_at = 0.0
        self._room_since: float | None = None

    @classmethod
    def of(cls, name: str, config: StreamsConfig, platform: Platform) -> FullDisk:
        """Returns that of a thread under a configuration."""
        directory = config.state_dir / config.application_id
        retry = Retry.of(config, platform.clock)
        return cls(name, str(directory), platform.clock, retry, partial(platform.has_room, directory))

    def holds(self, work: Waiting) -> bool:
        """Whether some work waits for room."""
        return work in self._waiting

    @property
    def commit_at(self) -> float:
        """The time before which no commit is tried, in seconds of the clock."""
        return self._try_at if Waiting.COMMIT in self._waiting else -math.inf

    def met(self, error: DiskFullError, work: Waiting) -> None:
        """Takes that some work has found the disk full, and says so: once, and then how often it was tried.

        :raises TaskTimeoutError: once that has lasted for ``task.timeout.ms``.
        """
        now = self._clock.monotonic()
        if not self._waiting:
            self._room_since = None
            self._log.begin(now)
        self._waiting.add(work)
        clear_tracebacks(error)  # what they hold would keep a database from being closed
        self._error = error
        self._wait(error)

    def may_try(self) -> bool:
        """Whether to try again now: the wait is over, and the disk has room.

        :raises TaskTimeoutError: once there was none for ``task.timeout.ms``.
        """
        if self._clock.monotonic() < self._try_at:
            return False
        if self._has_room():
            if self._room_since is None:
                self._room_since = self._clock.monotonic()
            return True
        self._room_since = None
        assert self._error is not None
        self._wait(self._error)
        return False

    def wait_unless(self, ends: Callable[[float], bool]) -> bool:
        """Waits until to try again, for a thread that does nothing else meanwhile.

        :param ends: the number of seconds to wait for a request to end; returns whether there is one.
        :returns: false if the thread is to end before that.
        :raises TaskTimeoutError: once there was no room for ``task.timeout.ms``.
        """
        while not self.may_try():
            if ends(LOOK_S):
                return False
        return True

    @property
    def is_stuck(self) -> bool:
        """Whether there is room for some time, but what failed fails all the same: it must be opened again."""
        return self._room_since is not None and self._clock.monotonic() - self._room_since >= REOPEN_AFTER_S

    def _wait(self, error: DiskFullError) -> None:
        now = self._clock.monotonic()
        self._log.tried(self._waiting, error, now)
        self._try_at = now + self._retry.record_failure(error)

    def passed(self, work: Waiting) -> None:
        """Takes that some work was done."""
        if work not in self._waiting:
            return
        self._waiting.remove(work)
        if not self._waiting:
            self._retry.reset()
            self._error = None
            self._log.ended(self._clock.monotonic())
