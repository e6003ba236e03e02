"""The stream threads of an application: made, added, replaced and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streams.runtime.engines.memory import BufferMemory
from streams.runtime.threads.stream_thread import StreamThread
from streams.runtime.threads.thread_state import ThreadState
from streams.threads import SYSTEM_THREADS, Threads


class StreamThreads:
    """Holds the stream threads of an application. May be used by any thread.

    :param make: makes the thread of a number, which is part of its name and its clients' ids; does not start it.
    """

    def __init__(
        self, make: Callable[[int], StreamThread], memory: BufferMemory, threads: Threads = SYSTEM_THREADS
    ) -> None:
        self._make = make
        self._memory = memory
        self._lock = threads.lock()
        self._threads: dict[int, StreamThread] = {}
        self._ending = False

    def __iter__(self) -> Iterator[StreamThread]:
        with self._lock:
            return iter(list(self._threads.values()))

    def add(self) -> StreamThread | None:
        """Adds a thread under the lowest free number, not started; returns ``None`` if the application ends."""
        with self._lock:
            if self._ending:
                return None
            number = next(n for n in range(1, len(self._threads) + 2) if n not in self._threads)
            thread = self._threads[number] = self._make(number)
            self._memory.share_among(len(self._threads))
            return thread

    def replace(self, dead: StreamThread) -> StreamThread | None:
        """Makes a thread under the name of one that has died, so that it is the same member for the group.

        :returns: the thread, not started; ``None`` if the application ends.
        """
        with self._lock:
            number = self._number(dead)
            if self._ending or number is None:
                return None
            thread = self._threads[number] = self._make(number)
            return thread

    def choose(self) -> StreamThread | None:
        """Returns the thread to remove: the caller if it is a stream thread, else the newest that works."""
        with self._lock:
            working = [one for one in self._threads.values() if one.state is not ThreadState.DEAD]
            return next((one for one in working if one.is_current()), working[-1] if working else None)

    def discard(self, thread: StreamThread) -> None:
        """Removes a thread that has ended and is not replaced: its part of the memory goes to the others."""
        with self._lock:
            number = self._number(thread)
            if number is not None and not self._ending:
                del self._threads[number]
                self._memory.forget(thread.name)
                self._memory.share_among(len(self._threads))

    def _number(self, thread: StreamThread) -> int | None:
        return next((number for number, one in self._threads.items() if one is thread), None)

    def stop(self, *, remain: bool) -> None:
        """Asks all threads to end; from now on no thread is added.

        :param remain: whether static members remain in the group, for the session timeout.
        """
        with self._lock:
            self._ending = True
            for thread in self._threads.values():
                thread.stop(remain=remain)

    def join(self) -> None:
        """Waits until all threads have ended."""
        for thread in self:
            thread.join(None)

    def is_one_of_them(self) -> bool:
        """Whether the caller is a stream thread."""
        return any(thread.is_current() for thread in self)
