"""Runs one application in this process until it is told to stop, fails, or loses its supervisor."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from processor_api.errors import StreamsError
from streams.cli.failures import FAILED

__all__ = ["Application", "StopRequest", "run_until_stopped", "stop_on_signals", "stop_with_supervisor"]

log = logging.getLogger("streams.cli")

_SLICE_S = 0.2
_MOST_GRACE_S = 5.0


class Application(Protocol):
    """What the command needs of `KafkaStreams`."""

    @property
    def state(self) -> str: ...

    @property
    def failure(self) -> BaseException | None: ...

    def start(self) -> None: ...

    def wait(self, timeout_s: float) -> bool:
        """Whether it came to a terminal state within the time."""
        ...

    def close(self, timeout: int | None = None, /) -> bool:
        """Whether it closed within the time, in ms."""
        ...


class StopRequest:
    """Made by a signal or by the supervisor's end; the main thread looks at it between slices of waiting."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.closed = threading.Event()
        """The application is closed: no thread of it runs."""
        self.reason = ""

    def ask(self, reason: str) -> None:
        """The first reason counts."""
        if not self.asked.is_set():
            self.reason = reason
            self.asked.set()


def run_until_stopped(application: Application, stop: StopRequest, *, close_timeout_ms: int) -> None:
    """Starts it and returns when it is closed, cleanly.

    :raises StreamsError: if it failed, or did not close in time; ``stop.closed`` tells whether threads still run.
    """
    try:
        application.start()
        while not application.wait(_SLICE_S):
            if stop.asked.is_set():
                log.info("closing", extra={"reason": stop.reason, "timeout_ms": close_timeout_ms})
                break
    finally:
        if application.close(close_timeout_ms):
            stop.closed.set()
    if application.failure is not None:
        raise application.failure
    if not stop.closed.is_set():
        raise StreamsError(f"the application did not close within {close_timeout_ms} ms and was ended hard")
    if application.state == "ERROR":
        raise StreamsError("the application ended in state ERROR; its log tells why")


@contextmanager
def stop_on_signals(stop: StopRequest) -> Iterator[None]:
    """SIGTERM and SIGINT (Ctrl-C) ask to stop; a second one ends the process at once. For the main thread only."""

    def on_signal(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if stop.asked.is_set():
            os.write(2, f"error: ended at once by a second {name}\n".encode())
            os._exit(128 + number)
        stop.ask(name)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_with_supervisor(
    descriptor: int, stop: StopRequest, *, close_timeout_ms: int, end: Callable[[int], None] = os._exit
) -> threading.Thread:
    """Asks to stop when the other end of a pipe is gone, which is when the supervisor has died, however it did.

    If the application is still open some time after that, the process is ended: no orphan holds a task.

    :param descriptor: the read end; nothing is ever written to it.
    """

    def wait_for_the_end() -> None:
        while os.read(descriptor, 1):
            pass
        stop.ask("the supervisor died")
        timeout_s = close_timeout_ms / 1000
        if not stop.closed.wait(timeout_s + min(timeout_s, _MOST_GRACE_S)):
            sys.stderr.write("error: the supervisor died and the application did not close in time; ended hard\n")
            sys.stderr.flush()
            end(FAILED)

    thread = threading.Thread(target=wait_for_the_end, name="supervisor-watch", daemon=True)
    thread.start()
    return thread
