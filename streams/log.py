"""Holds what lines of the log depend on: the task that a thread works on, and whether the brokers are away.

The task is for lines that are logged meanwhile, by this library and by the user's code. It is set by the batch, not by
the record. Formatters of log lines may read it; in this library only those of the command line do.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakSet

from processor_api.clock import Clock
from processor_api.task_id import TaskId

FIRST_REPEAT_S, LAST_REPEAT_S = 10.0, 300.0
"""The first and the longest time between two lines about the same; each is twice the one before."""
LINES_MAX = 100
_NUMBER = re.compile(r"\d+(\.\d+)*")


CHATTY = ("httpx", "httpx2", "aiohttp.access", "obstore", "kafka")
"""The loggers of libraries that log each request at level info, also those whose failure is expected."""


def quieten_libraries() -> None:
    """Holds loggers of libraries at ``WARNING``: those whose level is not set, unless the root logger is at ``DEBUG``.

    To be called before a library is used; a level that is set later counts.
    """
    if logging.getLogger().level == logging.DEBUG:
        return
    for name in CHATTY:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


class _InWork(threading.local):
    task: TaskId | None = None


in_work = _InWork()
"""The task that the calling thread works on."""


@contextmanager
def working_on(task: TaskId) -> Iterator[None]:
    """Marks the task that this thread works on, as a context manager."""
    before, in_work.task = in_work.task, task
    try:
        yield
    finally:
        in_work.task = before


class Outage(Protocol):
    """The connection to one cluster, as its clients see it."""

    @property
    def lasts(self) -> bool:
        """Whether none of its brokers answers."""
        ...


_outages: WeakSet[Outage] = WeakSet()


def watch_outage(outage: Outage) -> None:
    """Adds a cluster to those that :func:`retry_level` asks, for as long as something else keeps the object."""
    _outages.add(outage)


def brokers_are_away() -> bool:
    """Returns whether no broker of a cluster of this process answers."""
    return any(outage.lasts for outage in list(_outages))


def retry_level() -> int:
    """Returns the level of a line about a request that failed and is tried again.

    It is ``WARNING``, but ``DEBUG`` while the brokers of a cluster of this process are away: the loss of all brokers
    has a line of its own, and each of these would repeat it.
    """
    return logging.DEBUG if brokers_are_away() else logging.WARNING


@dataclass
class _Line:
    next_at: float
    interval_s: float
    last_at: float
    times: int = 0
    """How often it came since it was logged."""


class RepeatedLines:
    """Logs what may come again and again: an equal line once, and then how often it came, after 10 s, 20 s, 40 s, ...

    Lines are equal if their text and their error are, apart from numbers. One that has not come for as long as the
    interval before it is a new one. To be used by one thread.
    """

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._lines: dict[tuple[str, str], _Line] = {}

    def log(self, text: str, *, level: int | None = None, **extra: Any) -> None:
        """Logs a line, unless an equal one was logged just before; one that came more often has ``times``.

        :param level: :func:`retry_level` if not given; what is below ``INFO`` is not counted.
        :param extra: the fields of the line; the one named ``error`` is compared.
        """
        level = retry_level() if level is None else level
        if level < logging.INFO:
            self._log.log(level, text, extra=extra)
            return
        now, key = self._clock.monotonic(), (text, _NUMBER.sub("#", str(extra.get("error", ""))))
        line = self._lines.get(key)
        if line is None or now - line.last_at > line.interval_s:
            if len(self._lines) >= LINES_MAX:
                self._lines.clear()
            self._lines[key] = _Line(now + FIRST_REPEAT_S, FIRST_REPEAT_S, now)
            self._log.log(level, text, extra=extra)
            return
        line.times += 1
        line.last_at = now
        if now >= line.next_at:
            self._log.log(level, text, extra={**extra, "times": line.times})
            line.times, line.interval_s = 0, min(2 * line.interval_s, LAST_REPEAT_S)
            line.next_at = now + line.interval_s
