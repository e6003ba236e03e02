"""Holds what lines of the log depend on: the task that a thread works on, and whether the brokers are away.

The task is for lines that are logged meanwhile, by this library and by the user's code. It is set by the batch, not by
the record. Formatters of log lines may read it; in this library only those of the command line do.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakSet

from processor_api.task_id import TaskId

__all__ = ["Outage", "in_work", "retry_level", "watch_outage", "working_on"]


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


def retry_level() -> int:
    """Returns the level of a line about a request that failed and is tried again.

    It is ``WARNING``, but ``DEBUG`` while the brokers of a cluster of this process are away: the loss of all brokers
    has a line of its own, and each of these would repeat it.
    """
    return logging.DEBUG if any(outage.lasts for outage in list(_outages)) else logging.WARNING
