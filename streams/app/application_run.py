"""One run of an application: what it has opened, its stream threads, and what the end of one of these means."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from processor_api.errors import StreamsError, TopologyError
from processor_api.texts import plain_str
from processor_api.topology.topology import Topology
from streams.app.after_script import ScriptProcess
from streams.app.opening import ApplicationParts, ApplicationResources, open_application, when_there_is_room
from streams.app.states import ENDED, ClientState, StateMachine
from streams.app.uncaught import StreamsUncaughtExceptionHandler, StreamThreadExceptionResponse, verdict
from streams.config import StreamsConfig
from streams.config import clients as client_configs
from streams.runtime.engines.memory import BufferMemory
from streams.runtime.tasks.full_disk import FullDisk
from streams.runtime.threads.gc_tuning import relax_collector, restore_collector
from streams.runtime.threads.process_resources import StateListeners
from streams.runtime.threads.stream_thread import StreamThread, ThreadCallbacks
from streams.runtime.threads.thread_state import ThreadMetadata, ThreadState
from streams.runtime.tracing.tracer import warn_if_unseen
from streams.threads import SYSTEM_THREADS, Thread, Threads
from streams.user_exits import as_error, passes

log = logging.getLogger("streams.client")


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
        self.failed = 0
        """How many have failed since the start."""

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
        """Returns the thread to remove: the caller if it is a stream thread, otherwise the newest live thread."""
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

    def all_run(self) -> bool:
        """Whether every thread runs all of its tasks."""
        return all(thread.state is ThreadState.RUNNING for thread in self)

    def metadata(self) -> frozenset[ThreadMetadata]:
        """Returns what the threads do now, without those that have no clients yet."""
        found = (thread.metadata() for thread in self if thread.state is not ThreadState.DEAD)
        return frozenset(one for one in found if one is not None)

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


class ApplicationRun:
    """Runs an application once, from the opening of what it needs to its close.

    The states of the application say where it is; any thread may ask for the end.
    """

    def __init__(self, parts: ApplicationParts) -> None:
        threads = parts.platform.threads
        self.parts = parts
        self.states = StateMachine(threads)
        self.handler: StreamsUncaughtExceptionHandler | None = None
        self.listeners = StateListeners()
        self.paused = False
        self._tasks_logged: int | None = None
        """The number of tasks in the last line about what runs; ``None`` before the application has run."""
        self.failure: Exception | None = None
        """The error that ended the application, or the close; ``None`` if there was none."""
        self.resources: ApplicationResources | None = None
        self.threads: StreamThreads | None = None
        self.unfinished = ExitStack()
        """Removes what a start has made that has not returned."""
        self.script = ScriptProcess(self.states, self.close, getattr(parts.clients, "ends_with_process", False))
        self._end = _RunEnd(threads, self._finish)

    @property
    def has_run(self) -> bool:
        """Whether the application has been RUNNING, however short."""
        return self._tasks_logged is not None

    @property
    def state(self) -> ClientState:
        """The state of the application now."""
        return self.states.state

    # ------------------------------------------------------------------ start

    def start(self) -> None:
        """Opens everything, fills the global stores and starts the threads (:meth:`KafkaStreams.start`)."""
        if not self.states.become(ClientState.REBALANCING, only_from=ClientState.CREATED):
            raise StreamsError(f"an application can be started only once, and it is {self.state}: create another one")
        self.script.begin(outlives=self.parts.platform.threads is SYSTEM_THREADS)
        try:
            self._start()
        finally:
            self._end.started.set()

    def _start(self) -> None:
        warn_if_unseen(self.parts.config)
        try:
            resources = self.resources = self._open()
            if (
                resources is not None and self.state is ClientState.REBALANCING
            ):  # otherwise it was closed in the meantime
                resources.global_stores.fill()
            if resources is None or self.state is not ClientState.REBALANCING:
                return
            memory = resources.process.state.memory
            self.threads = StreamThreads(self._make_thread, memory, self.parts.platform.threads)
            threads = [self.threads.add() for _ in range(self._thread_count(resources))]
        except BaseException as error:
            self.failure = error if isinstance(error, Exception) else None
            self._release()
            if self.states.become(ClientState.PENDING_ERROR):  # otherwise another thread is closing it
                self.states.become(ClientState.ERROR)
            raise
        resources.closing.callback(restore_collector, relax_collector())
        resources.keep_house(lambda: self.state is ClientState.RUNNING)
        for thread in threads:
            if thread is not None:
                thread.start()
        if not threads:  # there are only global stores
            self._all_run()

    def _open(self) -> ApplicationResources | None:
        def open_all() -> ApplicationResources:
            return open_application(self.parts, self.listeners, self._global_thread_failed, self.unfinished)

        def ends(seconds: float) -> bool:
            self.states.wait(seconds, ClientState.PENDING_SHUTDOWN)
            return self.state is not ClientState.REBALANCING

        full_disk = FullDisk.of("start", self.parts.config, self.parts.platform)
        return when_there_is_room(open_all, full_disk, ends)

    def _thread_count(self, resources: ApplicationResources) -> int:
        if resources.process.plans.current.tasks:
            return self.parts.config.num_stream_threads
        if self.parts.topology.global_stores:
            return 0
        raise TopologyError("the topology has no source: add a source or a global store")

    def _make_thread(self, number: int) -> StreamThread:
        assert self.resources is not None
        self.parts.platform.on_thread(str(self.resources.identity), number)
        name, make_resources = self.resources.thread(number, self.parts.endpoint)
        callbacks = ThreadCallbacks(self._thread_changed, self._thread_failed, lambda: self.paused)
        parts = self.parts
        return StreamThread(name, make_resources, parts.config, parts.platform, callbacks, parts.metrics)

    # ------------------------------------------------------------------ called by the threads

    def _thread_changed(self, thread: StreamThread, state: ThreadState) -> None:
        threads = self.threads
        if threads is None:
            return
        if state is ThreadState.DEAD:
            if thread.failure is None:
                threads.discard(thread)
            elif thread.replaced:
                successor = threads.replace(thread)
                if successor is not None:
                    successor.replace(thread)
                    successor.start()
                else:
                    thread.leave_group()
            else:
                self._end_by_error()
        elif state in (ThreadState.PARTITIONS_REVOKED, ThreadState.PARTITIONS_ASSIGNED):
            self.states.become(ClientState.REBALANCING)
        if threads.all_run() and self.state is ClientState.REBALANCING:
            self._all_run()

    def _all_run(self) -> None:
        """Goes to state RUNNING, and logs what runs: once, and again with its first tasks if it had none before."""
        if not self.states.become(ClientState.RUNNING) or self._tasks_logged:
            return
        found = self.threads.metadata() if self.threads is not None else ()
        tasks = sum(len(thread.active_tasks) for thread in found)
        if tasks == self._tasks_logged:
            return
        self._tasks_logged = tasks
        log.info("%s", running_line(self.parts.topology, self.parts.config, tasks, len(found)))

    def _thread_failed(self, thread: StreamThread, error: Exception) -> bool:
        if self.threads is not None:
            self.threads.failed += 1
        if not self.state.is_running_or_rebalancing():
            self.failure = self.failure or error
            return False
        answer = verdict(self.handler, error)
        if answer is StreamThreadExceptionResponse.REPLACE_THREAD:
            log.warning("a new thread replaces the one that failed", extra={"thread_name": thread.name})
            return True
        self.failure = self.failure or error
        if answer is StreamThreadExceptionResponse.SHUTDOWN_APPLICATION:
            try:
                thread.request_shutdown(f"{thread.name} failed: {plain_str(error)}")
            except StreamsError as refused:
                log.error("only this process shuts down", extra={"error": str(refused)})
        return False

    def _global_thread_failed(self, error: Exception) -> None:
        """Ends the application: tasks cannot continue without the global thread, which is not replaced."""
        self.failure = self.failure or error
        answer = verdict(self.handler, error)
        if answer is not StreamThreadExceptionResponse.SHUTDOWN_CLIENT:
            log.error("the thread of global stores failed: only this process shuts down", extra={"asked": answer.name})
        self._end_by_error()

    def _end_by_error(self) -> None:
        if self.state.is_running_or_rebalancing():
            self.states.become(ClientState.PENDING_ERROR)
            self._end.request()

    # ------------------------------------------------------------------ stop

    def close(self, timeout_s: float | None, *, remain: bool | None = None) -> bool:
        """Ends the run and waits for that; returns whether it has ended (:meth:`KafkaStreams.close`).

        :param remain: whether static members remain in the group, for the session timeout; by default they do if the
            application was given a ``group.instance.id``.
        """
        if self.script.is_of_parent():
            return False
        if self.state is ClientState.CREATED:
            self.states.become(ClientState.PENDING_SHUTDOWN)
            self.states.become(ClientState.NOT_RUNNING)
            return True
        if remain is None:
            remain = client_configs.group_instance_id(self.parts.config) is not None
        if self.states.become(ClientState.PENDING_SHUTDOWN):
            if self.resources is not None:
                self.resources.global_stores.give_up()
            self._end.request(remain=remain)
        if self.states.is_notifying_here() or (self.threads is not None and self.threads.is_one_of_them()):
            return self.state in ENDED
        return self.states.wait(timeout_s, None)

    def _finish(self, remain: bool) -> None:
        if self.threads is not None:
            self.threads.stop(remain=remain)
            self.threads.join()
        self._release()
        failed = self.state is ClientState.PENDING_ERROR
        self.states.become(ClientState.ERROR if failed else ClientState.NOT_RUNNING)

    def _release(self) -> None:
        if self.resources is None:
            return
        try:
            self.resources.release()
        except BaseException as error:  # of a processor that fills a global store
            if passes(error):
                raise
            log.warning("not closed in order", extra={"error": plain_str(error)}, exc_info=error)
            self.failure = self.failure or as_error(error, "while the application was closed")


class _RunEnd:
    """Ends a run once, on a thread of its own, when its start is over: it may be asked to close while it starts.

    :param finish: takes whether static members remain in the group.
    """

    def __init__(self, threads: Threads, finish: Callable[[bool], None]) -> None:
        self._threads = threads
        self._finish = finish
        self._closer: Thread | None = None
        self._closing = threads.lock()
        self.started = threads.event()
        """Set when the start is over, however it ended."""

    def request(self, *, remain: bool = False) -> None:
        """Begins the end; does nothing the second time."""
        with self._closing:
            if self._closer is not None:
                return
            self._closer = self._threads.thread(lambda: self._run(remain), "close")
        self._closer.start()

    def _run(self, remain: bool) -> None:
        self.started.wait()
        self._finish(remain)


def running_line(topology: Topology, config: StreamsConfig, tasks: int, threads: int) -> str:
    """Returns the line that is logged once, when all tasks of this process run for the first time.

    It says how long a user has to wait for results: a cached store forwards them at a commit, and under exactly-once
    readers of committed records see nothing before.

    :param tasks: the tasks of this process.
    :param threads: its stream threads.
    """
    if threads == 0:
        return "running: global stores only, which need no task"
    on_threads = f"{threads} thread{'s' if threads != 1 else ''}"
    every = f"every {_duration(config.commit_interval_ms)} (commit.interval.ms)"
    if tasks == 0:
        return (
            f"running: no task on {on_threads} so far: those there are belong to other members, or read what does not"
            f" exist yet; commits are {every}"
        )
    what = f"running: {tasks} task{'s' if tasks != 1 else ''} on {on_threads}"
    cached = config.statestore_cache_max_bytes > 0 and any(store.caching for store in topology.stores.values())
    if config.exactly_once or cached:
        return f"{what}; results show at each commit, {every}"
    return f"{what}; results show at once, commits are {every}"


def _duration(ms: int) -> str:
    return f"{ms // 1000} s" if ms % 1000 == 0 and ms else f"{ms} ms"
