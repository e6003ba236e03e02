"""Starts the processes of workers for their supervisor, and keeps one spare process if it shall.

A spare has imported the application and built its topology, and owns nothing: no task, no place in the group, no slot
of the state directory. The next worker that is started takes it, and so begins behind its imports. One whose code, or
settings, are older than what a fresh process would load is refused.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.cli.run.worker_channel import WorkerLine, without_settings
from streams.cli.working_directory import from_start

log = logging.getLogger("streams.cli.supervisor")

Command = Callable[[int], Sequence[str]]
"""A function that returns the command of a worker, by the descriptor that it inherits."""

SPARE_REFUSED = "the spare process is older than what a worker would load now, and is not used: a fresh one is started"


class WorkersFront(Protocol):
    """The HTTP port of the supervisor, behind which the workers answer."""

    def descriptor(self, number: int) -> int:
        """Returns the descriptor that a worker inherits besides its line."""
        ...

    def settings(self, number: int) -> list[str]:
        """Returns more settings of a worker, as ``key=value``."""
        ...

    def mark(self, alive: Sequence[bool], ready: bool) -> None:
        """Takes which workers have a process, by number, and whether all are ready."""
        ...


@dataclass(frozen=True)
class RestartPolicy:
    """The limits of restarts: how often a worker that died is started again, and how soon."""

    most_restarts: int = 5
    """Most restarts within the window; one more death ends everything."""
    window_s: float = 300.0
    first_delay_s: float = 1.0
    """Doubles with each restart in the window."""
    longest_delay_s: float = 30.0
    spare: bool = False
    """Whether a spare process is kept for them."""

    def delay_s(self, deaths: int) -> float:
        """Returns how long to wait before the start after so many deaths in the window."""
        return min(self.first_delay_s * 2.0 ** (deaths - 1), self.longest_delay_s)


@dataclass
class WorkerProcess:
    """A process, and the line to it."""

    process: subprocess.Popen[bytes]
    line: WorkerLine

    def end(self) -> None:
        """Asks the process to end."""
        self.process.terminate()

    def kill(self) -> None:
        """Ends the process at once."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.line.close()


class WorkerProcesses:
    """Starts processes of workers: fresh ones, or the spare.

    :param command: of a process.
    :param workers: how many there are.
    :param settings: pairs ``key=value`` that each process gets, but not among its arguments.
    :param policy: whether a spare is kept, and how soon one that died is started again.
    """

    def __init__(self, command: Command, workers: int, settings: Sequence[str], policy: RestartPolicy) -> None:
        self.front: WorkersFront | None = None
        """The HTTP port of the workers, if there is one; to be set before the first is started."""
        self._command = command
        self._workers = workers
        self._settings = settings
        self._with_spare = policy.spare
        self._policy = policy
        self._spare: WorkerProcess | None = None
        self._spare_at = 0.0
        self._spare_deaths = 0
        self._refused: list[WorkerProcess] = []
        self._later: list[WorkerLine] = []
        """The lines to workers that were started after the spare."""
        self._have_run = False

    def start(self, number: int) -> tuple[subprocess.Popen[bytes], WorkerLine]:
        """Starts the process of a worker, by its number; returns it with the line to it."""
        given = [] if self.front is None else self.front.settings(number)
        found = self._warm_spare()
        if found is None:
            found = self._begin([number], given)
            self._later.append(found.line)
        else:
            found.line.call(given)
        fields = {"worker": number, "pid": found.process.pid}
        log.info("worker started", extra=fields | ({"spare": True} if found.line.is_spare else {}))
        return found.process, found.line

    def listen(self, line: WorkerLine) -> None:
        """Reads the messages that have come from a process."""
        line.listen()
        self._have_run = self._have_run or line.ran

    def keep_spare(self, now: float, *, wanted: bool) -> None:
        """Looks after the spare, and starts one if there shall be one; to be called again and again.

        :param wanted: whether there is time for its start: the workers run.
        """
        self._later = self._later if self._spare is not None else []
        for old in [one for one in self._refused if one.process.poll() is not None]:
            old.line.close()
            self._refused.remove(old)
        if (spare := self._spare) is not None:
            ended = spare.process.poll() is not None
            was_loading = spare.line.topology is None
            self.listen(spare.line)
            if was_loading and spare.line.topology is not None:
                self._spare_deaths = 0
                log.info("the spare process has loaded the application", extra={"pid": spare.process.pid})
            if ended:
                self._spare_died(spare, now)
        elif wanted and self._with_spare and now >= self._spare_at:
            self._spare, self._later = self._begin(range(self._workers), [], is_spare=True), []
            log.info("a spare process is started", extra={"pid": self._spare.process.pid})

    def end_spare(self) -> None:
        """Asks the spare to end, for good."""
        self._with_spare = False
        if self._spare is not None:
            self._refuse(self._spare)

    def spare_runs(self) -> bool:
        """Whether a spare, or one that was refused, has not ended yet."""
        return self._spare is not None or any(one.process.poll() is None for one in self._refused)

    def kill_spare(self) -> None:
        """Ends the spare at once, if there is one."""
        for one in [*self._refused, *([self._spare] if self._spare is not None else [])]:
            one.kill()
        self._spare, self._refused = None, []

    def _warm_spare(self) -> WorkerProcess | None:
        """Takes the spare, if it is warm and as new as the topology that runs."""
        spare = self._spare
        if spare is None or spare.process.poll() is not None:
            return None
        self.listen(spare.line)
        if spare.line.topology is None:  # it still loads
            return None
        if any(one.topology not in (None, spare.line.topology) for one in self._later):
            log.warning(SPARE_REFUSED, extra={"reason": "a worker that was started later runs another topology"})
            self._refuse(spare)
            return None
        self._spare = None
        return spare

    def _refuse(self, spare: WorkerProcess) -> None:
        spare.end()
        self._spare = None
        self._refused.append(spare)

    def _spare_died(self, spare: WorkerProcess, now: float) -> None:
        self._spare = None
        delay_s = self._policy.delay_s(self._spare_deaths + 1)
        self._spare_at, self._spare_deaths = now + delay_s, self._spare_deaths + 1
        spare.line.close()
        error = None if spare.line.failure is None else spare.line.failure.text
        log.warning(
            "the spare process died; another one is started, and workers go on",
            extra={"status": spare.process.returncode, "delay_s": delay_s, "error": error},
        )

    def _begin(self, numbers: Sequence[int], more: Sequence[str], *, is_spare: bool = False) -> WorkerProcess:
        """Starts a process that has the descriptors of these workers. A spare may become any of them."""
        line = WorkerLine(is_spare=is_spare)
        command = self._command(line.descriptor)
        # A group of its own: Ctrl-C in a terminal reaches the supervisor alone, which passes it on once.
        # Where the supervisor was started: there the same arguments lead to the application.
        passed = [line.descriptor, *([] if self.front is None else map(self.front.descriptor, numbers))]
        process = subprocess.Popen(command, cwd=from_start(), pass_fds=passed, process_group=0)
        # Brokers that have not answered yet may be others: then the start fails, and says so.
        line.send_settings([*self._settings, *more], waits=self._have_run)
        return WorkerProcess(process, line)


def worker_command(arguments: Sequence[str]) -> Command:
    """Returns the command of a worker: this Python, and `streams run` with the same arguments except settings by
    ``-c``."""
    own = [sys.executable, "-m", "streams", "run", *without_settings(arguments), "--workers", "1"]
    return lambda descriptor: [*own, "--supervised-by", str(descriptor)]
