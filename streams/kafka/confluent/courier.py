"""Calls of the client that must not hold up their thread, whatever the client makes of its own timeouts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

__all__ = ["Courier", "Overdue"]


class Overdue(Exception):
    """The call has not come back in time. Its thread stays in it, and keeps the client alive."""


class Courier:
    """Makes calls on a thread of its own, one at a time.

    A thread that is inside of the client cannot be interrupted. Whoever waits here can turn away: the thread that made
    the call is left behind, and ends when the call does.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._started = False

    def call(self, function: Callable[[], object], limit_s: float) -> None:
        """Returns when the call has, or raises what it raised.

        :raises Overdue: if it takes longer; no further call may be made.
        """
        if not self._started:
            self._started = True
            threading.Thread(target=_work, args=(self._calls, self._results), name=self._name, daemon=True).start()
        self._calls.put(function)
        try:
            failure = self._results.get(timeout=limit_s)
        except Empty:
            raise Overdue from None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Lets the thread go once it has nothing to do."""
        if self._started:
            self._calls.put(None)


def _work(calls: SimpleQueue[Callable[[], object] | None], results: SimpleQueue[Exception | None]) -> None:
    while (function := calls.get()) is not None:
        failure: Exception | None = None
        try:
            function()
        except Exception as error:
            failure = error
        del function  # it holds the client, which must be free to go while this thread waits
        results.put(failure)
        del failure
