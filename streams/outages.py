"""Decides for each thread how long a call waits for a service that is away, such as a schema registry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from processor_api.errors import UnreachableError


class CallPatience(Protocol):
    """Decides on one thread how long calls of a service are made again."""

    def waits(self, error: UnreachableError) -> bool:
        """Waits before the next call; returns false if the call is to end with the error."""

    def answered(self) -> None:
        """Receives that the service has answered after an outage."""


class GoesBack:
    """The patience of a stream thread, whose tasks go back to their last commit and wait there: a call that waited
    would hold up the other tasks of the thread, and the open transaction would time out.

    It is also that of the HTTP port, which answers that a request may succeed later.
    """

    def waits(self, error: UnreachableError) -> bool:
        """Returns false: the task waits, and not the call."""
        return False

    def answered(self) -> None:
        """Does nothing."""


class _PatienceOfThread(threading.local):
    patience: CallPatience | None = None


_of_thread = _PatienceOfThread()


def patience_of_thread() -> CallPatience | None:
    """Returns the patience of this thread; ``None`` if calls wait for ``timeout.ms``."""
    return _of_thread.patience


@contextmanager
def patient(patience: CallPatience) -> Iterator[None]:
    """Gives this thread a patience of its own."""
    former, _of_thread.patience = _of_thread.patience, patience
    try:
        yield
    finally:
        _of_thread.patience = former
