"""Makes calls of a client on a thread of their own, with a time-out, whatever the client does with its own
time-outs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

WAITING_INTERVAL_S = 5.0


class CallTimedOutError(Exception):
    """Raised when a call has not come back in time. Its thread stays in it, and keeps the client alive."""


class TimedExecutor:
    """Makes calls on a thread of its own, one at a time.

    A thread that is inside of the client cannot be interrupted. When the time has expired, the caller continues; the
    thread ends when its call does.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._results: SimpleQueue[Exception | None] = SimpleQueue()
        self._started = False

    def call(self, function: Callable[[], object], limit_s: float, waiting: Callable[[], None] | None = None) -> None:
        """Returns when the call has returned, or raises the error that it raised.

        :param waiting: called every few seconds while the call is under way. If it raises an error, that of the call is
            not waited for, and no further call may be made.
        :raises CallTimedOutError: if it takes longer; no further call may be made.
        """
        if not self._started:
            self._started = True
            threading.Thread(target=_work, args=(self._calls, self._results), name=self._name, daemon=True).start()
        self._calls.put(function)
        failure = self._result(limit_s, waiting)
        if failure is not None:
            raise failure

    def _result(self, limit_s: float, waiting: Callable[[], None] | None) -> Exception | None:
        left_s = limit_s
        while True:
            part_s = left_s if waiting is None else min(left_s, WAITING_INTERVAL_S)
            try:
                return self._results.get(timeout=part_s)
            except Empty:
                left_s -= part_s
                if left_s <= 0.0:
                    raise CallTimedOutError from None
            if waiting is not None:
                waiting()

    def close(self) -> None:
        """Ends the thread once it has nothing to do."""
        if self._started:
            self._calls.put(None)


def _work(calls: SimpleQueue[Callable[[], object] | None], results: SimpleQueue[Exception | None]) -> None:
    while (function := calls.get()) is not None:
        failure: Exception | None = None
        try:
            function()
        except Exception as error:
            failure = error
        del function  # it references the client, which must not be kept alive while this thread waits
        results.put(failure)
        del failure
