"""Keeps the process alive for applications that run when the script ends.

In Java the threads of Kafka Streams keep the process alive, so that a program may end with ``start()``. Threads here
end with the process. Therefore the main thread looks for running applications once it has done everything else: before
Python waits for other threads, and before it shuts down the executors that user code may have.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from weakref import WeakMethod

from streams.app.states import ENDED, ClientState, StateMachine

log = logging.getLogger("streams.client")

AFTER_SCRIPT_SLICE_S = 0.5
CLOSE_AFTER_SCRIPT_S = 30.0

_waits: set[WeakMethod[Callable[[], None]]] = set()
_error_before: list[object] = []


def outlive_the_script(wait: Callable[[], None]) -> None:
    """Has a method called on the main thread when the script has ended, if its object is still there."""
    if not _error_before:
        _error_before.append(_last_error())
        register: Callable[[Callable[[], None]], None] | None = getattr(threading, "_register_atexit", None)
        if register is not None:
            with suppress(RuntimeError):  # the script has ended already
                register(_after_script)
    _waits.add(WeakMethod(wait, _waits.discard))


def _after_script() -> None:
    for wait in [method() for method in list(_waits)]:
        if wait is not None:
            wait()


def say(text: str) -> None:
    """Logs a line, or writes it to standard error where the script has set up no logging: it is about a process that
    does not end, or ends."""
    if _has_log():
        log.warning(text)
    else:
        with suppress(Exception):  # it may be closed
            sys.stderr.write(f"streams: {text}\n")
            sys.stderr.flush()


def _has_log() -> bool:
    """Whether the script has set up logging; the library's own handler writes nothing."""
    logger: logging.Logger | None = log
    while logger is not None:
        if not all(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent
    return False


def _last_error() -> object:
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def script_failed() -> bool:
    """Whether an error has ended the script, or it is a session of a person at a prompt, who has left it."""
    return _last_error() not in (None, *_error_before) or hasattr(sys, "ps1")


def wait_for_stop_signal(wait: Callable[[], bool]) -> None:
    """Returns when ``wait()`` is true, or when SIGTERM or Ctrl-C has come; a handler of SIGTERM that the script has set
    stays."""
    stopping: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    numbers = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        numbers.append(signal.SIGTERM)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        while not stopping and not wait():
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class ScriptProcess:
    """The process in which an application was started, and whose script it may outlive.

    :param close: closes the application; takes how many seconds to wait for that.
    :param ends_with_process: whether its cluster is in the memory of this process.
    """

    def __init__(self, states: StateMachine, close: Callable[[float], object], ends_with_process: bool) -> None:
        self._states = states
        self._close = close
        self._ends_with_process = ends_with_process
        self.id = os.getpid()

    def begin(self, *, outlives: bool) -> None:
        """Takes this process as the one of the application.

        :param outlives: whether the application runs on when the script has ended.
        """
        self.id = os.getpid()
        if outlives:
            outlive_the_script(self._after_script)

    def is_of_parent(self) -> bool:
        """Whether this process is a child that was forked after the start: no thread of the application is here."""
        return self.id != os.getpid() and self._states.state is not ClientState.CREATED

    def _after_script(self) -> None:
        """Called on the main thread when the script has ended: returns when the application has.

        It runs on, as the threads of Kafka Streams do in Java. It is closed if there is nothing to run on for: the
        script was ended by an error, or the cluster is in the memory of this process.
        """
        if self.is_of_parent() or self._states.state in (ClientState.CREATED, *ENDED):
            return
        if script_failed():
            say("the script was ended while the application ran, which is closed now")
        elif self._ends_with_process:
            say(
                "the script has ended while the application ran on a cluster in memory, which ends with it: end the"
                " script by app.wait()"
            )
        else:
            say("the script has ended, and the application runs on until SIGTERM or Ctrl-C closes it")
            wait_for_stop_signal(lambda: self._states.wait(AFTER_SCRIPT_SLICE_S, None))
        self._close(CLOSE_AFTER_SCRIPT_S)
