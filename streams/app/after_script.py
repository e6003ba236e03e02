"""Keeps the process alive for applications that run when the script ends.

In Java the threads of Kafka Streams keep the process alive, so that a program may end with ``start()``. Threads here
end with the process. Therefore the main thread looks for running applications once it has done everything else: before
Python waits for other threads, and before it shuts down the executors that user code may have.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from weakref import WeakMethod

log = logging.getLogger("streams.client")

AFTER_SCRIPT_SLICE_S = 0.5
CLOSE_AFTER_SCRIPT_MS = 30_000


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
