"""Periodic jobs of a process, on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from processor_api.clock import Clock
from processor_api.texts import plain_str
from streams.threads import SYSTEM_THREADS, Event, Threads

log = logging.getLogger("streams.client")

SHORTEST_S = 0.05
LONGEST_NAP_S = 1.0


@dataclass
class _Job:
    """Holds a function and when to call it."""

    interval_s: float
    run: Callable[[], None]
    due: float
    wanted: Event | None


class Housekeeper:
    """Runs each job at its interval. What a job raises is logged, and it runs again the next time."""

    def __init__(self, name: str, clock: Clock, threads: Threads = SYSTEM_THREADS) -> None:
        self._clock = clock
        self._jobs: list[_Job] = []
        self._threads = threads
        self._stopping = threads.event()
        self._thread = threads.thread(self._run, name)

    def every(self, interval_ms: int, run: Callable[[], None], *, wanted: Event | None = None) -> None:
        """Adds a job; to be called before the start.

        :param wanted: when it is set, the job runs at once; it is cleared then.
        """
        interval_s = max(SHORTEST_S, interval_ms / 1000)
        self._jobs.append(_Job(interval_s, run, self._clock.monotonic() + interval_s, wanted))

    def start(self) -> None:
        """Starts the thread, if there are any jobs."""
        if self._jobs:
            self._thread.start()

    def stop(self) -> None:
        """Ends the thread; returns when no job runs any more."""
        self._stopping.set()
        if self._thread.ident is not None and self._threads.current() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            now = self._clock.monotonic()
            for job in self._jobs:
                if job.wanted is not None and job.wanted.is_set():
                    job.wanted.clear()
                    job.due = now
                if job.due <= now and not self._stopping.is_set():
                    job.due = now + job.interval_s
                    self._do(job)
            nap_s = min(job.due for job in self._jobs) - self._clock.monotonic()
            self._stopping.wait(min(LONGEST_NAP_S, max(SHORTEST_S, nap_s)))

    def _do(self, job: _Job) -> None:
        try:
            job.run()
        except Exception as error:
            log.warning("housekeeping failed; it is tried again", extra={"error": plain_str(error)}, exc_info=error)
