"""The task that a thread works on, for the lines that are logged meanwhile, by this library and by the user's code.

Set by the batch, not by the record. Formatters of log lines may read it; in this library only those of the command line
do.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from processor_api.task_id import TaskId

__all__ = ["in_work", "working_on"]


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
