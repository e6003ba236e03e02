"""The threads, locks and events of a simulation (`streams.threads.Threads`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams.testing.simulation.scheduler import FOREVER, ProcessKilled, Scheduler, SimulatedThread, SimulationStuck
from streams.threads import Condition, Event, Helper, Thread


class ThreadsOfSimulation:
    """Makes simulated threads and locks; a new thread belongs to the process of the thread that makes it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    run_beside_each_other = False

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        return SimulatedThread(self._scheduler, self._scheduler.process(), run, name)

    def helper(self, name: str) -> Helper:
        return SimulatedHelper(self._scheduler, self, name)

    def current(self) -> Any:
        return self._scheduler.this()

    def lock(self) -> SimulatedLock:
        return SimulatedLock(self._scheduler)

    def event(self) -> Event:
        return SimulatedEvent(self._scheduler)

    def condition(self, lock: Any = None) -> Condition:
        return SimulatedCondition(self._scheduler, self.lock() if lock is None else lock)


class SimulatedHelper:
    """Makes calls one after the other, each on a thread of its own."""

    def __init__(self, scheduler: Scheduler, threads: ThreadsOfSimulation, name: str) -> None:
        self._scheduler = scheduler
        self._threads = threads
        self._name = name
        self._waiting: list[SimulatedCall] = []
        self._running: Any = None

    def submit(self, call: Callable[..., Any], /, *args: Any) -> SimulatedCall:
        pending = SimulatedCall(lambda: call(*args))
        self._waiting.append(pending)
        if self._running is None:
            self._running = self._threads.thread(self._run, self._name)
            self._running.start()
        return pending

    def _run(self) -> None:
        while self._waiting:
            self._waiting.pop(0).make()
        self._running = None

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        if cancel_futures:
            self._waiting.clear()
        if wait and self._running is not None:
            self._running.join()


class SimulatedCall:
    """A call that a helper was given."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None

    def make(self) -> None:
        try:
            self._result = self._call()
        except Exception as error:
            self._error = error
        self._done = True

    def done(self) -> bool:
        return self._done

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result


class SimulatedLock:
    """A lock that its holder may take again. Taking a free one is not a step."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._owner: Any = None
        self._depth = 0
        self._waiting: list[SimulatedThread] = []

    def __enter__(self) -> SimulatedLock:
        me: Any = self._scheduler.this()
        if self._owner is not None and self._owner is not me:
            self._wait(me)
        self._owner = me
        self._depth += 1
        return self

    def _wait(self, me: SimulatedThread | None) -> None:
        if me is None:
            raise SimulationStuck("a thread outside of the simulation waits for a lock of it")
        while self._owner is not None:
            if not me.process.alive:  # its holder may be a thread of the same process, and never release it
                raise ProcessKilled(me.process.name)
            self._waiting.append(me)
            try:
                self._scheduler.wait_until(FOREVER, "a lock")
            finally:
                if me in self._waiting:
                    self._waiting.remove(me)

    def __exit__(self, *_: object) -> None:
        if self._owner is not self._scheduler.this():
            return  # of a killed process, which was waiting to take it back
        self._depth -= 1
        if self._depth == 0:
            self._free()

    def _free(self) -> None:
        self._owner = None
        for thread in self._waiting:
            self._scheduler.wake(thread)

    def release_all(self) -> int:
        """Releases the lock however often it was taken; returns that number."""
        depth, self._depth = self._depth, 0
        self._free()
        return depth

    def take_back(self, depth: int) -> None:
        """Takes it as often as it was taken before :meth:`release_all`."""
        with self:
            self._depth += depth


class SimulatedEvent:
    """A flag to wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[SimulatedThread] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        for thread in self._waiting:
            self._scheduler.wake(thread)

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        scheduler.step("wait")
        end = FOREVER if timeout is None else scheduler.now + max(0.0, timeout)
        me = scheduler.this()
        while not self._set and scheduler.now < end and me is not None:
            self._waiting.append(me)
            try:
                scheduler.wait_until(end, "an event")
            finally:
                self._waiting.remove(me)
        return self._set


class SimulatedCondition:
    """A lock with a queue of waiting threads."""

    def __init__(self, scheduler: Scheduler, lock: SimulatedLock) -> None:
        self._scheduler = scheduler
        self._lock = lock
        self._waiting: list[list[Any]] = []

    def __enter__(self) -> Any:
        return self._lock.__enter__()

    def __exit__(self, *_: Any) -> None:
        self._lock.__exit__()

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = self._scheduler
        end = FOREVER if timeout is None else scheduler.now + max(0.0, timeout)
        entry = [scheduler.this(), False]
        self._waiting.append(entry)
        depth = self._lock.release_all()
        try:
            while not entry[1] and scheduler.now < end:
                scheduler.wait_until(end, "a condition")
        finally:
            self._waiting.remove(entry)
            self._lock.take_back(depth)
        return bool(entry[1])

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        end = FOREVER if timeout is None else self._scheduler.now + max(0.0, timeout)
        while not predicate():
            if self._scheduler.now >= end:
                return False
            self.wait(None if end == FOREVER else end - self._scheduler.now)
        return True

    def notify_all(self) -> None:
        for entry in self._waiting:
            entry[1] = True
            self._scheduler.wake(entry[0])
