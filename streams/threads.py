"""Threads, locks and events: a port, and its implementation by the operating system.

Code that waits for another thread takes them from here, so that a simulation (`streams.testing.simulation`) can decide
which thread runs next and for how long a wait lasts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol

from processor_api.clock import Clock
from processor_api.errors import RetryableError, StreamsError
from streams.log import RepeatedLines


class ThreadKilled(BaseException):
    """Raised in a thread that has to end at once, by a simulation whose process is killed: nothing that it does counts
    any more. Code that catches everything passes it on."""


class Thread(Protocol):
    """A thread, with the interface of `threading.Thread`."""

    name: str

    @property
    def ident(self) -> int | None:
        """The identifier of the thread; ``None`` before the start."""
        ...

    def start(self) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...

    def is_alive(self) -> bool: ...


class Event(Protocol):
    """A flag to wait for, with the interface of `threading.Event`."""

    def is_set(self) -> bool: ...

    def set(self) -> None: ...

    def clear(self) -> None: ...

    def wait(self, timeout: float | None = None) -> bool: ...


Lock = AbstractContextManager[Any]
"""A lock that is used by ``with``."""


class Condition(Protocol):
    """A lock with a queue of waiting threads, with the interface of `threading.Condition`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, *_: Any) -> Any: ...

    def wait(self, timeout: float | None = None) -> bool: ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> Any: ...

    def notify_all(self) -> None: ...


class Pending(Protocol):
    """A call that a :class:`Helper` was given, with the interface of `concurrent.futures.Future`."""

    def done(self) -> bool: ...

    def result(self) -> Any:
        """Returns the result of the call, or raises its error."""
        ...


class Helper(Protocol):
    """One thread that makes calls one after the other, with the interface of
    `concurrent.futures.ThreadPoolExecutor`."""

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Pending: ...

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None: ...


class Threads(Protocol):
    """Makes threads, and the locks and events by which they wait for each other."""

    @property
    def run_beside_each_other(self) -> bool:
        """Whether a thread runs while another one computes, and so can watch it."""
        ...

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        """Makes a daemon thread, not started."""
        ...

    def helper(self, name: str) -> Helper:
        """Makes a thread for calls whose results are not waited for; it starts with the first."""
        ...

    def current(self) -> Any:
        """Returns the :class:`Thread` that calls; another object in a thread that was not made here."""
        ...

    def lock(self) -> Lock:
        """Makes a lock that its holder may take again."""
        ...

    def event(self) -> Event: ...

    def condition(self, lock: Any = None) -> Condition:
        """Makes a condition.

        :param lock: one of :meth:`lock`; its own if not given."""
        ...


class SystemThreads:
    """Makes threads of the operating system."""

    run_beside_each_other = True

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        return threading.Thread(target=run, name=name, daemon=True)

    def helper(self, name: str) -> Helper:
        return ThreadPoolExecutor(1, name)

    def current(self) -> Any:
        return threading.current_thread()

    def lock(self) -> Lock:
        return threading.RLock()

    def event(self) -> Event:
        return threading.Event()

    def condition(self, lock: Any = None) -> Condition:
        return threading.Condition(lock)


SYSTEM_THREADS = SystemThreads()


class StoppableThread:
    """One thread that others start, ask to end, and wait for."""

    def __init__(self, threads: Threads, run: Callable[[], None], name: str) -> None:
        self._threads = threads
        self._thread = threads.thread(run, name)
        self.stopping = threads.event()
        """Set when the thread is asked to end."""

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def is_current(self) -> bool:
        """Whether the caller is this thread."""
        return self._threads.current() is self._thread

    def join(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the thread, unless it is the caller; returns whether it has ended."""
        if self._thread.ident is not None and not self.is_current():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()


class PeriodicCall:
    """Makes a call from time to time on a thread of its own, one at a time, for one thread that takes its results.

    The period is counted from the begin of a call. A thread that comes late, as after a pause, makes one call, and not
    those that it has missed; a call that lasts longer than its period delays the next one. A call that cannot be
    answered is logged, an equal line now and then, and made again when its time comes.

    :param name: the name of the helper thread, which starts with the first call.
    :param failed: the line for a call that failed.
    :param tolerated: the errors that are logged so. Others are the caller's.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        threads: Threads,
        failed: tuple[logging.Logger, str],
        tolerated: type[StreamsError] = RetryableError,
    ) -> None:
        self._name, self._clock, self._threads, self._tolerated = name, clock, threads, tolerated
        self._repeated, self._text = RepeatedLines(failed[0], clock), failed[1]
        self._helper: Helper | None = None
        self._pending: Pending | None = None
        self._next = 0.0
        self._is_closed = False
        self.failures = 0
        """How many calls have failed since one did not."""

    @property
    def is_due(self) -> bool:
        """Whether it is time for a call, and none is under way."""
        return not self._is_closed and self._pending is None and self._clock.monotonic() >= self._next

    def start(self, period_s: float, call: Callable[..., Any], *args: Any) -> None:
        """Begins a call; the next one is due after ``period_s``, if :meth:`within` says nothing else. Does nothing
        after :meth:`close`."""
        if self._is_closed:
            return
        self._next = self._clock.monotonic() + period_s
        self._helper = self._helper or self._threads.helper(self._name)
        self._pending = self._helper.submit(call, *args)

    def within(self, seconds: float) -> None:
        """Makes the next call due after this many seconds at the latest."""
        self._next = min(self._next, self._clock.monotonic() + seconds)

    def after(self, seconds: float) -> None:
        """Makes the next call due after this many seconds, not before."""
        self._next = self._clock.monotonic() + seconds

    def take(self) -> Any | None:
        """Returns the result of a call that has ended, once; ``None`` if there is none, or if it failed by an error
        that is tolerated.

        :raises BaseException: any other error of the call.
        """
        if self._pending is None or not self._pending.done():
            return None
        pending, self._pending = self._pending, None
        try:
            found = pending.result()
        except self._tolerated as error:
            self.failures += 1
            self._repeated.log(self._text, error=str(error), failures=self.failures)
            return None
        self.failures = 0
        return found

    def close(self, *, wait: bool = False) -> None:
        """Makes no more calls, and forgets what was not taken.

        :param wait: whether a call that is under way is waited for.
        """
        self._is_closed, self._pending = True, None
        if self._helper is not None:
            self._helper.shutdown(wait=wait, cancel_futures=True)
            self._helper = None
