"""Limits how far the time of a record may be ahead of the wall clock (``timestamp.after.max.ms``; semantics 160).

Stream time never goes back, so one record whose time is in microseconds would close all windows for ever, and let every
row with a time to live expire.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import UserCodeError

log = logging.getLogger("streams.tasks")

FAIL, DROP, TAKE = "fail", "drop", "take"
DAY_MS = 86_400_000
MANY_DAYS = 10_000
NEVER = 1 << 63
"""Later than every time of a record."""

_DROPPED = "record dropped: its time is further ahead of the clock than timestamp.after.max.ms"
_TAKEN = "stream time moves to a record that is further ahead of the clock than timestamp.after.max.ms"

_now_ms = SystemClock().time_ms


class TimeLimit:
    """The limit for the records of one task.

    The clock of a test driver or a backfill may stand still, long ago; so the machine's counts too, if it is later.

    :param clock: the task's.
    :param max_ms: how far a record may be ahead; -1 is no limit.
    :param handler: what happens to a record that is: ``fail``, ``drop`` or ``take``.
    """

    def __init__(self, clock: Clock, max_ms: int, handler: str) -> None:
        self._time_ms = clock.time_ms
        self._max_ms = max_ms
        self._handler = handler
        self._met = 0
        self.latest = NEVER
        """The latest time that is allowed, as of the last record that was later: now it may be later still."""
        self._find_latest()

    def _find_latest(self) -> int:
        """Brings :attr:`latest` up to date; returns the time of the clock."""
        now = max(self._time_ms(), _now_ms())
        if self._max_ms >= 0:
            self.latest = now + self._max_ms
        return now

    def leaves_out(self, timestamp: int, place: Mapping[str, Any]) -> bool:
        """Decides on a record that is later than :attr:`latest`; returns whether it is dropped.

        :raises UserCodeError: if it is too late, and such records fail the task.
        """
        now = self._find_latest()
        if timestamp <= self.latest:
            return False
        if self._handler == FAIL:
            raise UserCodeError(self._failure(timestamp, now))
        self._met += 1
        if self._met & (self._met - 1) == 0:
            what = _DROPPED if self._handler == DROP else _TAKEN
            log.warning(what, extra={**place, "time": timestamp, "clock": now, "records": self._met})
        return self._handler == DROP

    def _failure(self, timestamp: int, now: int) -> str:
        ahead = timestamp - now
        by = f"{ahead // DAY_MS} days" if ahead > DAY_MS else f"{ahead} ms"
        unit = "; is it in microseconds or nanoseconds, not milliseconds?" if ahead > MANY_DAYS * DAY_MS else "."
        return (
            f"the time of the record, {timestamp}, is {by} ahead of the clock, more than timestamp.after.max.ms"
            f" ({self._max_ms}){unit} Correct the producer or the timestamp extractor; to go on without such records,"
            " set timestamp.after.max.handler to drop"
        )
