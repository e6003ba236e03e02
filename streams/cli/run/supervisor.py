"""Keeps a number of worker processes running: one application on several cores (docs/design.md#decisions).

Workers are started as new processes, never forked. Each inherits one end of a pair of sockets whose other end only the
supervisor has (:mod:`streams.cli.run.worker_channel`): when the supervisor dies, in whatever way, each worker reads the
end of the stream and closes. The locks of the state directory decide which slot a worker has, not the supervisor.
"""

from __future__ import annotations

import logging
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from streams.cli.output.causes import CANNOT_RUN, CLEAN, FAILED
from streams.cli.output.failures import READER_GONE
from streams.cli.run.readiness import Readiness
from streams.cli.run.signals import on_stop_signals
from streams.cli.run.worker_channel import ReportedError, WorkerLine
from streams.cli.run.worker_processes import SPARE_REFUSED, Command, RestartPolicy, WorkerProcesses

if TYPE_CHECKING:  # the supervisor needs the client only when a worker has died
    from state.directory.file_lock import HeldLock
    from streams.config import StreamsConfig
    from streams.kafka.ports import Admin

log = logging.getLogger("streams.cli.supervisor")

_SLICE_S = 0.05


_LONGEST_S = 10.0
"""So long a restart waits at most until its predecessor is taken over."""


@dataclass
class _Worker:
    number: int
    process: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0
    """The time to start it, if it has no process and is not done."""
    deaths: deque[float] = field(default_factory=deque)
    done: bool = False
    line: WorkerLine | None = field(default=None, init=False)
    """The sockets to its process."""
    failure: ReportedError | None = field(default=None, init=False)
    """The error by which its last process ended, if it could report one."""
    taken_over: threading.Thread | None = field(default=None, init=False)
    """Ends what its last process has left with the brokers, if that died."""
    has_run: bool = field(default=False, init=False)
    """Whether its last process ran."""
    failed_early: str | None = field(default=None, init=False)
    """The error by which its last process ended before it ran, if trying again does not help."""

    def is_taken_over(self, now: float) -> bool:
        """Whether its restart waits for that: its successor has the same names."""
        return self.taken_over is not None and self.taken_over.is_alive() and now < self.start_at + _LONGEST_S


KILLED = (
    "SIGKILL: another process killed it, or the kernel did because the machine or its container had no memory left"
    " (check dmesg, or the events of the container)"
)
"""The last words of a worker that was ended by SIGKILL, which it cannot say itself."""
KILLED_REMEDY = "give the machine or the container more memory, or start fewer workers"
SEE_LINES = "see the lines of the worker before"


class TakeOvers:
    """Ends what dead workers of an application have left with the brokers, each on a thread of its own.

    :param make_admin: makes the client for one of them; one of librdkafka by default.
    """

    def __init__(
        self, config: StreamsConfig, make_admin: Callable[[], Admin] | None = None, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._make_admin = make_admin or self._librdkafka
        self._clock = clock or SystemClock()
        self._running: list[threading.Thread] = []
        self._prepared = False
        self._supervises: HeldLock | None = None

    @property
    def one_rebalance(self) -> bool:
        """Whether a worker that is restarted at once joins in the rebalance by which others get its tasks. In the
        classic protocol, it does; in the others, its tasks would move a second time while they move."""
        return self._config.group_protocol == "classic"

    def _librdkafka(self) -> Admin:
        from streams.config import clients as client_configs
        from streams.kafka.confluent.clients import ConfluentClients

        return ConfluentClients().admin(client_configs.admin(self._config, f"{self._config.application_id}-supervisor"))

    def prepare(self) -> None:
        """Imports what a take-over needs, on a thread of its own: that takes longer than the take-over. Says if another
        supervisor has workers in the same state directory. To be called when a worker runs."""
        if not self._prepared:
            self._prepared = True
            self._look_for_another()
            threading.Thread(target=self._import, name="take-over-imports", daemon=True).start()

    def begin(self, process: str, threads: int, reason: str, pid: int) -> threading.Thread:
        """Begins to take over a worker; returns the thread that does so.

        :param process: the id of its process at the brokers.
        :param threads: the highest number of a stream thread that it had.
        :param pid: the id of its process on this machine.
        """
        run = partial(self._take_over, process, threads, reason, pid)
        thread = threading.Thread(target=run, name="take-over", daemon=True)
        self._running = [one for one in self._running if one.is_alive()] + [thread]
        thread.start()
        return thread

    def wait(self) -> None:
        """Waits until all that were begun have ended, but not for long."""
        until = self._clock.monotonic() + _LONGEST_S
        for thread in self._running:
            thread.join(max(0.0, until - self._clock.monotonic()))
        if self._supervises is not None:
            self._supervises.release()

    def _look_for_another(self) -> None:
        from state.directory.state_directory import StateDirectory

        config = self._config
        with suppress(StreamsError):  # workers say what is wrong with the directory
            found = StateDirectory.try_supervise(
                config.state_dir, config.application_id, group_write=config.allow_os_group_write_access
            )
            if isinstance(found, str):
                log.warning(
                    "another supervisor has workers of this application in the same state directory: the workers of"
                    " both share the tasks; if you did not mean that, stop one of the two",
                    extra={"supervisor": found, "state_dir": str(config.state_dir)},
                )
            else:
                self._supervises = found

    def _import(self) -> None:
        with suppress(StreamsError):  # a take-over logs it
            self._make_admin().close()

    def _take_over(self, process: str, threads: int, reason: str, pid: int) -> None:
        from streams.kafka.suspects import ProcessMembers, take_over

        try:
            with ExitStack() as held:
                if (successor := self._successor(process, pid, held)) is not None:
                    log.info(
                        "a dead worker is not taken over: another process has its place, and ends what it has left",
                        extra={"process_id": process, "reason": reason, "pid": successor},
                    )
                    return
                admin = held.enter_context(closing(self._make_admin()))
                take_over(admin, ProcessMembers.of(self._config, process, threads), reason, self._clock)
        except StreamsError as error:
            log.warning(
                "a dead worker is not taken over: its tasks wait until its session times out",
                extra={"reason": reason, "error": error.message},
            )

    def _successor(self, process: str, pid: int, held: ExitStack) -> int | None:
        """Returns the process that has the place of a dead one in the state directory already, as a worker of another
        supervisor may. Otherwise the place is held meanwhile, so that no process gets the same names at the brokers.

        A process that the dead one has forked may hold its lock: that one is not meant.
        """
        from state.directory.state_directory import StateDirectory

        config = self._config
        place = (config.state_dir, config.application_id, int(process.rpartition("-")[2]))
        former = StateDirectory.former(*place, group_write=config.allow_os_group_write_access)
        if former is not None:
            held.enter_context(former[1])
            return None
        successor = StateDirectory.slot_taken_by(*place)
        return None if successor == pid else successor


class Supervisor:
    """Starts the workers, restarts those that die, passes signals on, and waits for all. To be used once."""

    def __init__(
        self,
        command: Command,
        workers: int,
        *,
        policy: RestartPolicy | None = None,
        stop_timeout_s: float = 40.0,
        settings: Sequence[str] = (),
        clock: Clock | None = None,
        ready: Readiness = lambda _: None,
    ) -> None:
        """Makes a supervisor; nothing is started yet.

        :param stop_timeout_s: how long workers may take to close before they are killed.
        :param settings: pairs ``key=value`` that each worker gets, but not among its arguments.
        :param ready: called again and again with whether every worker is ready.
        """
        self.failure: ReportedError | None = None
        """Why all was given up, if it was."""
        policy = self._policy = policy or RestartPolicy()
        self._stop_timeout_s = stop_timeout_s
        self._clock = clock or SystemClock()
        self._ready = ready
        self._workers = [_Worker(number) for number in range(workers)]
        self._requests: deque[tuple[str, bool]] = deque()
        self._outcome = CLEAN
        self.processes = WorkerProcesses(command, workers, settings, policy)
        self.take_overs: TakeOvers | None = None
        """Ends what workers that die have left with the brokers; to be set before it runs."""

    def run(self) -> int:
        """Runs until every worker has ended; returns the exit status. To be called on the main thread."""
        try:
            with on_stop_signals(self.on_signal):
                self._run()
        finally:
            for worker in self._workers:
                if worker.process is not None and worker.process.poll() is None:
                    worker.process.kill()
                    worker.process.wait()
                if worker.line is not None:
                    worker.line.close()
            self.processes.kill_spare()
            if self.take_overs is not None:
                self.take_overs.wait()
        return self._outcome

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Asks all workers to close. Safe from a signal handler, from any thread, and before it runs.

        :param at_once: if they were asked before, does not wait for them any longer.
        """
        self._requests.append((reason, at_once))

    def on_signal(self, number: signal.Signals) -> None:
        """A second Ctrl-C ends the workers; SIGTERM may come any number of times, as some tools send it twice."""
        self.stop(number.name, at_once=number is signal.SIGINT)

    def _run(self) -> None:
        deadline: float | None = None
        while True:
            now = self._clock.monotonic()
            if self._outcome != CLEAN and deadline is None:
                self.stop("a worker failed")
            while self._requests:
                reason, at_once = self._requests.popleft()
                if deadline is None:
                    self._end_all(reason)
                    deadline = now + self._stop_timeout_s
                elif at_once:
                    deadline = now
            for worker in self._workers:
                self._watch(worker, now, stopping=deadline is not None)
            ready = deadline is None and all(one.line is not None and one.line.ready for one in self._workers)
            self._ready(ready)
            if self.processes.front is not None:
                self.processes.front.mark([worker.process is not None for worker in self._workers], ready)
            all_run = all(one.line is not None and one.line.ran for one in self._workers)
            self.processes.keep_spare(now, wanted=deadline is None and all_run)
            running = [worker for worker in self._workers if worker.process is not None]
            if not running and all(worker.done for worker in self._workers) and not self.processes.spare_runs():
                return
            if deadline is not None and now >= deadline:
                self._kill(running)
                self.processes.kill_spare()
            self._clock.wait(_SLICE_S)

    def _watch(self, worker: _Worker, now: float, *, stopping: bool) -> None:
        if worker.done:
            return
        if worker.process is None:
            if stopping:
                worker.done = True
            elif now >= worker.start_at and not worker.is_taken_over(now):
                worker.process, worker.line = self.processes.start(worker.number)
            return
        status = worker.process.poll()
        line = self._hear(worker, ended=status is not None)
        if status is None:
            return
        if line is not None and line.refused is not None:
            log.warning(SPARE_REFUSED, extra={"worker": worker.number, "reason": line.refused})
            worker.process = None
            return
        if self.take_overs is not None and status != CLEAN and line is not None and line.process is not None:
            reason = f"worker {worker.number} died: {_status(status)}"
            worker.taken_over = self.take_overs.begin(line.process, line.threads, reason, worker.process.pid)
        worker.process = None
        if stopping or status == CLEAN:
            worker.done = True
            if status not in (CLEAN, -signal.SIGTERM):  # the signal came before the worker had set a handler
                self._outcome = self._outcome or FAILED
            log.info("worker ended", extra={"worker": worker.number, "status": _status(status)})
        else:
            self._died(worker, status, now)

    def _hear(self, worker: _Worker, *, ended: bool) -> WorkerLine | None:
        """Reads the messages of a worker, also the last ones of one that has ended; returns its line."""
        line = worker.line
        if line is None:
            return None
        self.processes.listen(line)
        if line.ran:
            worker.failed_early = None
            if self.take_overs is not None:
                self.take_overs.prepare()
        if ended:
            worker.has_run = line.ran
            failure = worker.failure = line.failure
            is_early = failure is not None and not (line.ran or failure.passes)
            worker.failed_early = failure.text if failure is not None and is_early else None
            line.close()
            worker.line = None
        return line

    def _same_failure(self) -> str | None:
        """Returns the error by which every worker ended before it ran. The numbers in it may differ, since each worker
        has tasks of its own."""
        errors = [worker.failed_early for worker in self._workers]
        kinds = {None if error is None else re.sub(r"\d+", "0", error) for error in errors}
        return errors[0] if len(kinds) == 1 else None

    def _died(self, worker: _Worker, status: int, now: float) -> None:
        fields = {"worker": worker.number, "status": _status(status)}
        failure = worker.failure or (ReportedError(KILLED, KILLED_REMEDY) if status == -signal.SIGKILL else None)
        remedy = SEE_LINES if failure is None else failure.remedy
        if failure is not None:
            fields |= {"error": failure.text, "remedy": remedy}
        while worker.deaths and worker.deaths[0] <= now - self._policy.window_s:
            worker.deaths.popleft()
        worker.deaths.append(now)
        restarts = len(worker.deaths)
        if status == READER_GONE:
            worker.done = True
            self._outcome = READER_GONE
            log.info("the standard output has no reader any more, stopping all", extra=fields)
            return
        if status == CANNOT_RUN or restarts > self._policy.most_restarts:
            worker.done = True
            self._outcome = CANNOT_RUN if status == CANNOT_RUN else FAILED
            reason = "it cannot run" if status == CANNOT_RUN else f"it died {restarts} times"
            log.error("worker given up, stopping all", extra={**fields, "reason": reason})
            if status != CANNOT_RUN:
                ended = "" if failure is None else f", the last time by: {failure.text}"
                text = f"worker {worker.number} died {restarts} times within {self._policy.window_s:g} s{ended}"
                self.failure = ReportedError(text, remedy)
            return
        if (same := self._same_failure()) is not None:
            worker.done = True
            self._outcome = FAILED
            self.failure = ReportedError(f"none of the {len(self._workers)} workers started: {same}", remedy)
            log.error("every worker ended before it ran, by the same error; stopping all", extra=fields)
            return
        at_once = worker.has_run and restarts == 1 and self.take_overs is not None and self.take_overs.one_rebalance
        delay = 0.0 if at_once else self._policy.delay_s(restarts)
        worker.start_at = now + delay
        log.warning("worker died, restarting", extra={**fields, "delay_s": delay, "deaths": restarts})

    def _end_all(self, reason: str) -> None:
        log.info("stopping workers", extra={"reason": reason})
        self.processes.end_spare()
        for worker in self._workers:
            if worker.process is not None:
                worker.process.terminate()

    def _kill(self, running: list[_Worker]) -> None:
        for worker in running:
            if worker.process is not None and worker.process.poll() is None:
                log.error("worker did not close in time, killed", extra={"worker": worker.number})
                self._outcome = self._outcome or FAILED
                worker.process.kill()
                worker.process.wait()


def _status(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else str(status)
