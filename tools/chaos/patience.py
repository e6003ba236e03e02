"""Deadlines that a loaded machine makes longer: they are counted in the time of a machine with nothing else to do."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable

__all__ = ["PATIENCE_S", "Patience", "wait_for"]

PATIENCE_S = 60.0
"""How long a wait lasts in which nothing moves, in seconds of a quiet machine."""
SAMPLE_S = 0.25
WORK = b"\0" * (1 << 20)
SMOOTHING = 0.2
SAY_S = 30.0
LONGEST = 20
"""How many times the patience a wait lasts if something moves all the time."""


class Patience:
    """A clock that goes slower while the machine is busy.

    A thread repeats a short computation. The time that it takes, divided by the processor time that it needs, is how
    many times slower this machine is than one that has nothing else to do.
    """

    def __init__(self) -> None:
        self.slowness = 1.0
        self._quiet_s = 0.0
        self._last = time.monotonic()
        self._lock = threading.Lock()
        threading.Thread(target=self._measure, daemon=True, name="patience").start()

    def now(self) -> float:
        """Returns the seconds since some moment, as a quiet machine would have counted them."""
        with self._lock:
            now = time.monotonic()
            self._quiet_s += (now - self._last) / self.slowness
            self._last = now
            return self._quiet_s

    def _measure(self) -> None:
        while True:
            began, used = time.perf_counter(), time.thread_time()
            for _ in range(8):  # several slices of the scheduler; without Python's lock
                hashlib.sha256(WORK)
            took, used = time.perf_counter() - began, time.thread_time() - used
            self.observe(max(1.0, took / max(used, 1e-6)))
            time.sleep(SAMPLE_S)

    def observe(self, slowness: float) -> None:
        """Takes how slow the machine is now; the clock follows in some steps."""
        self.now()
        with self._lock:
            self.slowness += SMOOTHING * (slowness - self.slowness)


_shared: Patience | None = None


def _patience() -> Patience:
    global _shared
    if _shared is None:
        _shared = Patience()
    return _shared


def wait_for(
    condition: Callable[[], bool],
    *,
    within_s: float = PATIENCE_S,
    progress: Callable[[], float | None] = lambda: None,
    pause_s: float = 0.1,
    what: str = "",
    patience: Patience | None = None,
) -> bool:
    """Waits until a condition holds; returns whether it does.

    :param within_s: when to give up, in seconds of a quiet machine.
    :param what: is printed from time to time, if it is given.
    :param progress: returns a number, or None if it is not known now; the deadline starts again each time it rises.
    """
    clock = patience or _patience()
    began = since = clock.now()
    best, say_at = None, time.monotonic() + SAY_S
    while not condition():
        now, reached = clock.now(), progress()
        if reached is not None and (best is None or reached > best):
            since, best = now, reached
        if now - since > within_s or now - began > LONGEST * within_s:
            return False
        if what and time.monotonic() > say_at:
            print(f"  {time.strftime('%H:%M:%S')} waiting: {what}", flush=True)
            say_at += SAY_S
        time.sleep(pause_s)
    return True
