"""Runs one application in this process until it is asked to stop, fails, or loses its supervisor."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Protocol

from processor_api.clock import SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.user_code.durations import Timeout
from streams.cli.output.causes import FAILED
from streams.cli.output.failures import report_at_once, report_text
from streams.cli.run.readiness import Readiness
from streams.cli.run.worker_channel import SupervisorLine
from streams.log import RepeatedLines
from streams.user_exits import as_error

log = logging.getLogger("streams.cli")

_SLICE_S = 0.2
_MOST_GRACE_S = 5.0
_START_GRACE_S = 2.0
_AGAIN_S = 1.0


class Application(Protocol):
    """The part of `KafkaStreams` that the command needs."""

    @property
    def state(self) -> str: ...

    def is_ready(self) -> bool: ...

    @property
    def failure(self) -> BaseException | None: ...

    def start(self) -> None: ...

    def wait(self, timeout: Timeout | None = None, /) -> bool:
        """Returns whether it came to a terminal state within the time."""
        ...

    def close(self, timeout: Timeout | None = None, /) -> bool:
        """Returns whether it closed within the time."""
        ...


class Stopped(BaseException):
    """Raised by a signal while there is nothing to close yet, at any place of the main thread."""


class StopRequest:
    """A request to stop, made by a signal or by the end of the supervisor; the main thread checks it while it waits."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.closed = threading.Event()
        """The application is closed: no thread of it runs."""
        self.reason = ""
        self._loading = False

    def ask(self, reason: str) -> None:
        """Requests the stop; the first reason counts."""
        if not self.asked.is_set():
            self.reason = reason
            self.asked.set()

    def on_signal(self, number: signal.Signals) -> None:
        """A second Ctrl-C ends the process at once; SIGTERM may come any number of times, as some tools send it twice.

        :raises Stopped: while loading.
        """
        if number is signal.SIGINT and self.asked.is_set() and not self._loading:
            report_at_once(
                "ended at once by a second Ctrl-C", "none is needed: what was not committed is processed again"
            )
            os._exit(128 + number)
        self.ask(number.name)
        if self._loading:
            raise Stopped

    @contextmanager
    def loading(self) -> Iterator[None]:
        """Makes signals take effect at once while the user's code is loaded, which may take long; a context manager.

        :raises Stopped: if asked to stop, at the latest at the end.
        """
        self._loading = True
        try:
            if self.asked.is_set():
                raise Stopped
            yield
        except Exception:  # Python wraps the exception of the signal at some places, such as the making of a class
            if self.asked.is_set():
                raise Stopped from None
            raise
        finally:
            self._loading = False
            self.closed.set()
        if self.asked.is_set():  # the exception was caught on its way, or the supervisor has died
            raise Stopped
        self.closed.clear()


def run_until_stopped(
    application: Application,
    stop: StopRequest,
    *,
    close_timeout_ms: int,
    running: Callable[[], None] = lambda: None,
    ready: Readiness = lambda _: None,
    shown: Callable[[Application], AbstractContextManager[None]] = lambda _: nullcontext(),
    again: Callable[[], Application] | None = None,
) -> None:
    """Starts the application and returns when it is closed, cleanly.

    :param running: called when it runs, perhaps more than once.
    :param ready: called again and again with whether it is ready, and with false when it begins to close.
    :param shown: is entered while it runs, and lets other processes see what it does.
    :param again: makes the application once more, where its start failed because no broker answered; ``None`` fails.
    :raises StreamsError: if it failed, or did not close in time; ``stop.closed`` is set if no thread is running.
    """
    display = shown(application)  # before the start: it has to import
    started = _started_with_patience(application, stop, close_timeout_ms, again)
    if started is None:
        return
    with display if started is application else shown(started):
        _run(started, stop, close_timeout_ms, running, ready)


def _run(
    application: Application,
    stop: StopRequest,
    close_timeout_ms: int,
    running: Callable[[], None],
    ready: Readiness,
) -> None:
    try:
        while not application.wait(_SLICE_S):
            if application.state == "RUNNING":
                running()
            ready(application.is_ready())
            if stop.asked.is_set():
                log.info("closing", extra={"reason": stop.reason, "timeout_ms": close_timeout_ms})
                break
    finally:
        if getattr(application, "has_run", False):  # perhaps between two looks at its state
            running()
        ready(False)
        if application.close(timedelta(milliseconds=close_timeout_ms)):
            stop.closed.set()
    if application.failure is not None:
        raise application.failure
    if not stop.closed.is_set():
        raise StreamsError(f"the application did not close within {close_timeout_ms} ms and was killed")
    if application.state == "ERROR":
        raise StreamsError("the application ended in state ERROR; its log has the cause")


def _started_with_patience(
    application: Application, stop: StopRequest, close_timeout_ms: int, again: Callable[[], Application] | None
) -> Application | None:
    """Starts the application, if need be again and again until a broker answers; returns the one that runs, and
    ``None`` if it is to stop before."""
    repeated = RepeatedLines(log, SystemClock())
    while True:
        try:
            return application if _started(application, stop, close_timeout_ms) else None
        except RetryableError as error:
            if again is None or not stop.closed.is_set():
                raise
            text = "the application cannot start yet: that is tried again until it can"
            repeated.log(text, level=logging.WARNING, error=error.message)
        if stop.asked.wait(_AGAIN_S):
            return None
        stop.closed.clear()
        application = again()


def _started(application: Application, stop: StopRequest, close_timeout_ms: int) -> bool:
    """Starts the application, and returns whether it runs. It starts on a thread of its own, since requests to a broker
    that does not answer take long, and no signal would be handled meanwhile. An application that is stopped before it
    started has nothing to close."""
    failures: list[Exception] = []

    def start() -> None:
        try:
            application.start()
        except BaseException as error:
            failures.append(as_error(error, "while the application started"))

    thread = threading.Thread(target=start, name="start", daemon=True)
    thread.start()
    while thread.is_alive() and not stop.asked.is_set():
        thread.join(_SLICE_S)
    if thread.is_alive():
        application.close(0)  # this ends a start that fills global stores
    thread.join(_START_GRACE_S)
    if not thread.is_alive() and not failures:
        return True
    if not stop.asked.is_set():
        if application.close(timedelta(milliseconds=close_timeout_ms)):
            stop.closed.set()
        raise failures[0]
    log.info("stopped before it started", extra={"reason": stop.reason})
    if thread.is_alive():
        from streams.app.kafka_streams import discard_start

        discard_start(application)  # the process is ended, since the start does not return
    else:
        stop.closed.set()
    return False


def stop_with_supervisor(
    line: SupervisorLine, stop: StopRequest, *, close_timeout_ms: int, end: Callable[[int], None] = os._exit
) -> threading.Thread:
    """Requests the stop when the supervisor has died.

    If the application is still open some time after that, the process is ended: no orphan holds a task.
    """

    def wait_for_the_end() -> None:
        line.wait_for_the_end()
        log.warning("the supervisor died; the worker closes. See why it ended, and start it again")
        stop.ask("the supervisor died")
        timeout_s = close_timeout_ms / 1000
        if not stop.closed.wait(timeout_s + min(timeout_s, _MOST_GRACE_S)):
            report_text(
                "the supervisor died and the application did not close in time; killed",
                "see why the supervisor ended; start again",
            )
            end(FAILED)

    thread = threading.Thread(target=wait_for_the_end, name="supervisor-watch", daemon=True)
    thread.start()
    return thread
