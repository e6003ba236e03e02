"""The scheduler of a simulation: one thread at a time, one clock.

Simulated threads are threads of the operating system that hand a baton on. The thread that has it runs until its next
step, which is a call of a port, or until it waits; the scheduler then picks the next one by the seed and by the number
of the step, so that a seed replays exactly. When all threads wait, the clock jumps to the next time at which one wakes.

A process is a group of threads that can be frozen and killed. Threads of a killed process run to their ends at once:
each of their steps raises `ProcessKilled`, so that nothing they do reaches the outside.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any
from zlib import crc32

from streams.threads import ThreadKilled

FOREVER = float("inf")
TRACED_STEPS = 60
STUCK_S = 60.0
"""How long, in real time, a thread may run without a step."""
_MASK = (1 << 64) - 1


class ProcessKilled(ThreadKilled):
    """Raised in the threads of a process that is killed: each must end, and its actions no longer count."""


class SimulationStuck(Exception):
    """Raised when a simulated thread does not come back, or all of them wait for ever."""


class SimulatedProcess:
    """A simulated process: a worker, or the outside world."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.frozen_until = 0.0

    def __repr__(self) -> str:
        return self.name


class SimulatedThread:
    """A thread of a simulation; see `streams.threads.Thread`."""

    def __init__(self, scheduler: Scheduler, process: SimulatedProcess, run: Callable[[], None], name: str) -> None:
        self.name = name
        self.process = process
        self.deadline = 0.0
        """The time at which it wakes by itself; a time that has passed if it can run."""
        self.done = False
        self._run = run
        self._scheduler = scheduler
        self._baton = threading.Lock()
        self._baton.acquire()
        self._thread: threading.Thread | None = None
        self.heir: SimulatedThread | None = None
        """The thread that gets the baton when this one ends, where the scheduler must not choose it."""
        self.waiting_for = ""
        self.number = 0

    @property
    def ident(self) -> int | None:
        return None if self._thread is None else self._thread.ident

    def start(self) -> None:
        self._scheduler.check_alive(self.process)
        if self._thread is not None:
            raise RuntimeError("threads can only be started once")
        self._thread = threading.Thread(target=self._body, name=self.name, daemon=True)
        self.deadline = self._scheduler.now
        self._scheduler.roster.add(self)
        self._thread.start()

    def join(self, timeout: float | None = None) -> None:
        if self._thread is None:
            raise RuntimeError("cannot join thread before it is started")
        scheduler = self._scheduler
        end = FOREVER if timeout is None else scheduler.now + timeout
        while not self.done and scheduler.now < end:
            scheduler.wait_until(end, f"the end of {self.name}", [self])

    def is_alive(self) -> bool:
        return self._thread is not None and not self.done

    def _body(self) -> None:
        self._baton.acquire()
        scheduler = self._scheduler
        scheduler.roster.register(self)
        if scheduler.watch is not None:
            sys.setprofile(scheduler.watch)
        try:
            scheduler.check_alive(self.process)
            self._run()
        except ProcessKilled:
            pass
        except BaseException as error:
            scheduler.crashed(self, error)
        finally:
            scheduler.ended(self)

    def give(self) -> None:
        """Hands the baton to this thread."""
        self._baton.release()

    def take(self) -> None:
        """Waits for the baton."""
        self._baton.acquire()

    def end_for_real(self) -> None:
        """Waits for the end of the operating system's thread, once it is done here."""
        if self._thread is not None:
            self._thread.join()


class Steps:
    """The steps of a run, and the chance that is drawn at each: a seed and a step always give the same."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.count = 0
        self.digest = 0
        """A digest of every step and the thread that made it: the same in each run of a seed."""
        self.last: deque[tuple[int, float, str, str]] = deque(maxlen=TRACED_STEPS)
        """The last steps: number, time, thread and call."""
        self._drawn = 0

    def add(self, now: float, thread: SimulatedThread, call: str) -> None:
        self.count += 1
        self._drawn = 0
        self.digest = crc32(call.encode(), self.digest + thread.number)
        self.last.append((self.count, now, thread.name, call))

    def draw(self) -> int:
        """Returns 64 bits that depend on the seed, the step and how often it was drawn at this step."""
        self._drawn += 1
        z = self._seed * 0x9E3779B97F4A7C15 + self.count * 0xBF58476D1CE4E5B9 + self._drawn * 0x94D049BB133111EB
        z &= _MASK
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return z ^ (z >> 31)


class ClockOfSimulation:
    """The simulation's time as a clock (`processor_api.clock.Clock`).

    :param start_ms: the wall clock at the start.
    :param wait: lets time pass for the thread that calls.
    """

    def __init__(self, start_ms: int, wait: Callable[[float], None]) -> None:
        self._start_ms = start_ms
        self.wait = wait
        self.now = 0.0
        self.leapt = 0.0
        """Seconds that passed at once."""
        self.skew_ms = 0
        """How far the wall clock was set off."""

    def time_ms(self) -> int:
        return self._start_ms + self.skew_ms + int(self.now * 1000)

    def monotonic(self) -> float:
        return self.now

    def leap(self, seconds: float) -> None:
        """Lets time pass at once, for all threads."""
        self.now += seconds
        self.leapt += seconds

    def __repr__(self) -> str:
        return f"ClockOfSimulation(now={self.now!r})"


class Roster:
    """The simulated threads that have started and not ended, in the order in which they started."""

    def __init__(self) -> None:
        self.threads: list[SimulatedThread] = []
        self._by_ident: dict[int, SimulatedThread] = {}
        self._numbers = count(1)

    def add(self, thread: SimulatedThread) -> None:
        self.threads.append(thread)
        thread.number = next(self._numbers)

    def register(self, thread: SimulatedThread) -> None:
        """Takes the calling thread of the operating system for a simulated one."""
        self._by_ident[threading.get_ident()] = thread

    def remove(self, thread: SimulatedThread) -> None:
        """Removes a thread, which is the one that calls."""
        self.threads.remove(thread)
        self._by_ident.pop(threading.get_ident(), None)

    def this(self) -> SimulatedThread | None:
        """Returns the simulated thread that calls; ``None`` for any other."""
        return self._by_ident.get(threading.get_ident())


class Scheduler:
    """Decides which thread runs; also the factory of the simulation's threads and locks.

    :param seed: decides everything.
    :param switching: how often, from 0 to 1, another thread continues after a step.
    :param start_ms: the wall clock at the start.
    :param patience_s: how long, in real time, a thread may run without a step.
    """

    def __init__(self, seed: int, switching: float, start_ms: int, patience_s: float = STUCK_S) -> None:
        self._patience_s = patience_s
        self._limit = int(switching * 65536)
        self.steps = Steps(seed)
        self.clock = ClockOfSimulation(start_ms, self.sleep)
        self.roster = Roster()
        self.world = SimulatedProcess("world")
        self.on_step: Callable[[SimulatedThread, str], None] = lambda thread, call: None
        self.on_crash: Callable[[SimulatedThread, BaseException], None] = lambda thread, error: None
        self.watch: Any = None
        """A profile function for all threads (`sys.setprofile`)."""
        self.failure: BaseException | None = None
        self.current: SimulatedThread | None = None
        self._over = threading.Event()

    @property
    def now(self) -> float:
        return self.clock.now

    def draw(self) -> int:
        return self.steps.draw()

    def this(self) -> SimulatedThread | None:
        """Returns the simulated thread that calls; ``None`` for any other."""
        return self.roster.this()

    def process(self) -> SimulatedProcess:
        """Returns the process of the thread that calls; the outside world where it is not simulated."""
        thread = self.roster.this()
        return self.world if thread is None else thread.process

    def sleep(self, seconds: float) -> None:
        """Lets time pass for the thread that calls."""
        end = self.now + max(0.0, seconds)
        self.step("sleep")
        while self.now < end:
            self.wait_until(end, "time to pass")

    # ------------------------------------------------------------------ running

    def run(self, main: Callable[[], None]) -> None:
        """Runs ``main`` as the first thread; returns when it has ended and everything else is killed.

        :raises SimulationStuck: if a thread does not come back, or all wait for ever.
        """
        first = SimulatedThread(self, self.world, main, "director")
        first.start()
        self.current = first
        first.give()
        seen = -1
        while not self._over.wait(self._patience_s):
            if seen == self.steps.count:
                raise SimulationStuck(self._stuck_text())
            seen = self.steps.count
        for thread in self.roster.threads:
            thread.end_for_real()
        if self.failure is not None:
            raise self.failure

    def _stuck_text(self) -> str:
        thread = self.current
        found = sys._current_frames().get(thread.ident or -1) if thread is not None else None
        where = "".join(traceback.format_stack(found)[-14:]) if found is not None else "  (no stack)\n"
        name = thread.name if thread is not None else "nobody"
        return (
            f"thread {name!r} has not come back for {self._patience_s:g} s of real time: it computes, sleeps, or waits"
            " for something that is not simulated, such as a lock, a thread or a socket of its own:\n" + where
        )

    def check_alive(self, process: SimulatedProcess) -> None:
        """Checks that a process is alive.

        :raises ProcessKilled: if it is not."""
        if not process.alive:
            raise ProcessKilled(process.name)

    def step(self, call: str) -> None:
        """Marks a call of a port: other threads may run here, time passes a little, and the schedule may act."""
        thread = self.roster.this()
        if thread is None:
            return
        process, steps, clock = thread.process, self.steps, self.clock
        if not process.alive:
            raise ProcessKilled(process.name)
        steps.add(clock.now, thread, call)
        bits = steps.draw()
        clock.now += (bits & 0xFF) * 2e-6
        self.on_step(thread, call)
        if not process.alive:
            raise ProcessKilled(process.name)
        if process.frozen_until > clock.now or (bits >> 8) & 0xFFFF < self._limit:
            thread.deadline = clock.now
            self._hand_on(thread)

    def wait_until(self, deadline: float, what: str, done: list[SimulatedThread] | None = None) -> None:
        """Waits for a time, or until :meth:`wake`; other threads run meanwhile.

        :param done: wakes when these threads have ended, too.
        """
        thread = self.roster.this()
        if thread is None:
            raise SimulationStuck(f"a thread outside of the simulation waits for {what}")
        self.check_alive(thread.process)
        if done and all(one.done for one in done):
            return
        thread.deadline, thread.waiting_for = deadline, what
        self._hand_on(thread)
        thread.waiting_for = ""

    def wake(self, thread: SimulatedThread) -> None:
        """Ends the waiting of a thread."""
        thread.deadline = min(thread.deadline, self.now)

    def _hand_on(self, thread: SimulatedThread) -> None:
        """Hands the baton to the next thread, and waits for it."""
        chosen = self._next()
        if chosen is not thread:
            self.current = chosen
            chosen.give()
            thread.take()
        if not thread.process.alive:
            raise ProcessKilled(thread.process.name)
        if self.failure is not None and thread.process is self.world:
            raise self.failure

    def _next(self) -> SimulatedThread:
        """Returns the thread that runs next; the clock moves on if none can."""
        threads, now = self.roster.threads, self.clock.now
        ready = [one for one in threads if one.deadline <= now and one.process.frozen_until <= now]
        if not ready:
            now = min((max(one.deadline, one.process.frozen_until) for one in threads), default=FOREVER)
            if now == FOREVER:
                return self._deadlock()
            self.clock.now = now
            ready = [one for one in threads if one.deadline <= now and one.process.frozen_until <= now]
        return ready[0] if len(ready) == 1 else ready[self.draw() % len(ready)]

    def _deadlock(self) -> SimulatedThread:
        waits = "; ".join(f"{one.name} waits for {one.waiting_for}" for one in self.roster.threads)
        self.failure = self.failure or SimulationStuck(f"every thread waits for ever: {waits}")
        director = next((one for one in self.roster.threads if one.process is self.world), None)
        if director is None:
            raise self.failure
        return director

    def crashed(self, thread: SimulatedThread, error: BaseException) -> None:
        """Handles a thread that ended with an error that was not caught."""
        if thread.process is self.world:
            self.failure = self.failure or error
        else:
            self.on_crash(thread, error)

    def ended(self, thread: SimulatedThread) -> None:
        thread.done = True
        self.roster.remove(thread)
        for one in self.roster.threads:
            if one.waiting_for.endswith(thread.name):
                self.wake(one)
        if thread.heir is not None:
            self.current = thread.heir
            thread.heir.give()
        elif thread.name == "director":
            self._over.set()
        else:
            self.current = chosen = self._next()
            chosen.give()

    # ------------------------------------------------------------------ processes

    def kill(self, process: SimulatedProcess) -> None:
        """Ends a process at once; its threads run to their ends, and none of their steps has an effect.

        If the caller is one of them, its next step ends it."""
        process.alive = False
        process.frozen_until = 0.0
        me = self.this()
        assert me is not None
        for thread in [one for one in self.roster.threads if one.process is process and one is not me]:
            thread.heir = me
            self.current = thread
            thread.give()
            me.take()
        self.current = me

    def freeze(self, process: SimulatedProcess, seconds: float) -> None:
        """Stops a process for a time; its threads then continue from the very next instruction."""
        process.frozen_until = max(process.frozen_until, self.now + seconds)

    def thaw(self, process: SimulatedProcess) -> None:
        process.frozen_until = 0.0
