"""Ends the turns of stream threads in time, and names the record that takes long, from a thread beside them.

A stream thread reads the clock between short runs of records, whose length follows from the records before
(:mod:`streams.runtime.processing.pace`). When records become slow in the middle of a run, it does not: this thread sets
a flag, which the stream thread looks at after each record.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any

from processor_api.clock import Clock
from streams.runtime.processing.pace import Pace
from streams.threads import Event, Thread, Threads

log = logging.getLogger("streams.thread")

TICK_S = 0.1
"""The time between two looks."""
SLOW_RECORD_S = 3.0
"""A record that takes longer is named, and again after twice the time."""


@dataclass
class _Watched:
    pace: Pace
    thread_name: str
    message: Any = None
    """The record that was processed at the last look."""
    since: float = 0.0
    """When it was first seen."""
    due_s: float = SLOW_RECORD_S


class TurnTimer:
    """Looks at the stream threads of a process from time to time, while there are any.

    It does nothing where threads do not run beside each other, as in a simulation.
    """

    def __init__(self, threads: Threads, clock: Clock) -> None:
        self._threads, self._clock = threads, clock
        self._lock = threads.lock()
        self._watched: dict[str, _Watched] = {}
        self._thread: Thread | None = None
        self._ended = threads.event()

    def watch(self, pace: Pace, thread_name: str) -> None:
        """Looks at a thread from now on, with the pace that it has now."""
        if not self._threads.run_beside_each_other:
            return
        with self._lock:
            self._watched[thread_name] = _Watched(pace, thread_name)
            if self._thread is None:
                self._ended = self._threads.event()
                self._thread = self._threads.thread(partial(self._run, self._ended), "turn-timer")
                self._thread.start()

    def forget(self, thread_name: str) -> None:
        """Looks at a thread no more, which ends."""
        with self._lock:
            self._watched.pop(thread_name, None)
            if not self._watched:
                self._ended.set()
                self._thread = None

    def _run(self, ended: Event) -> None:
        while not ended.wait(TICK_S):
            with self._lock:
                watched = list(self._watched.values())
            for one in watched:
                one.pace.look()
                self._look(one)

    def _look(self, one: _Watched) -> None:
        now, message = self._clock.monotonic(), one.pace.calls.message
        if message is None or message is not one.message:
            one.message, one.since, one.due_s = message, now, SLOW_RECORD_S
        elif now - one.since >= one.due_s:
            one.due_s *= 2
            log.warning(
                "a record takes long: it is still being processed. Results and commits of its thread wait for it. Make"
                " the function quicker, or give what it asks a time limit",
                extra={
                    "thread_name": one.thread_name,
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "seconds": round(now - one.since, 1),
                },
            )
