"""Threads, locks and events: a port, and its implementation by the operating system.

Code that waits for another thread takes them from here, so that a simulation (`streams.testing.simulation`) can decide
which thread runs next and for how long a wait lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol


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
