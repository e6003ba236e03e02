"""Workers of an application as a user starts them: `python -m streams run`, in processes of their own.

They begin with this project imported (`quick_process`): each start would take most of a second of the processor.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from last_lines import as_text
from quick_process import Quick
from tools.golden.record import RECORDER, TARGET
from tools.maven import build, class_path, java
from waiting import DEADLINE_S, REPORTS, wait_until

ROOT = Path(__file__).resolve().parents[3]
APPS = ROOT / "tests" / "integration" / "apps"


def alive(pid: int) -> bool:
    """Whether the process runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Worker:
    """One `streams run`, whose logs are read as events."""

    def __init__(
        self,
        name: str,
        log: Path,
        command: list[str],
        env: Mapping[str, str],
        *,
        stderr: int | None = None,
        quick: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self.process: Quick | subprocess.Popen[bytes]
        if quick:
            log.touch()
            self.process = Quick(command, APPS, log, log, env)
            return
        with open(log, "wb") as target:
            errors = target if stderr is None else stderr
            self.process = subprocess.Popen(
                command, cwd=APPS, env=dict(env), stdin=subprocess.DEVNULL, stdout=target, stderr=errors
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def tail(self) -> str:
        return "\n".join(line[:500] for line in self.text.splitlines()[-60:])

    @property
    def errors(self) -> list[str]:
        """The lines that a person would see as the reason of the end."""
        return [line for line in as_text(self.text).splitlines() if line.startswith("error: ")]

    def events(self, event: str | None = None, **fields: Any) -> list[dict[str, Any]]:
        """What was logged, of one kind if asked, with these fields."""
        found = []
        for line in self.text.splitlines():
            if not line.startswith("{"):
                continue
            try:
                one = json.loads(line)
            except ValueError:  # the last line is not written to its end yet
                continue
            if (event is None or one["event"] == event) and fields.items() <= one.items():
                found.append(one)
        return found

    def wait_for(self, event: str, deadline_s: float = DEADLINE_S, **fields: Any) -> dict[str, Any]:
        """Waits until something was logged, and gives the first."""

        def logged() -> Any:
            found = self.events(event, **fields)
            if not found and self.process.poll() is not None:
                raise AssertionError(f"{self.name} ended with {self.process.returncode} before {event!r}:\n{self.tail}")
            return found

        return wait_until(f"{self.name} logs {event!r} {fields or ''}", logged, deadline_s=deadline_s)[0]  # type: ignore[no-any-return]

    def wait_running(self) -> Self:
        self.wait_for("state", state="RUNNING")
        return self

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def terminate(self) -> None:
        self.process.terminate()

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        """The exit status."""
        try:
            return self.process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {deadline_s:.0f} s:\n{self.tail}") from None

    def stop(self, deadline_s: float = DEADLINE_S) -> None:
        """Ends it in order."""
        self.terminate()
        status = self.wait(deadline_s)
        assert status == 0, f"{self.name} ended with {status}:\n{self.tail}"


class WorkerOnTerminal(Worker):
    """One whose standard error is a terminal."""

    def __init__(self, name: str, log: Path, command: list[str], env: Mapping[str, str]) -> None:
        self._terminal, theirs = os.openpty()
        self._shown = bytearray()
        super().__init__(name, log, command, env, stderr=theirs)
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # what a terminal says when nobody is at its other end
            while part := os.read(self._terminal, 65536):
                self._shown += part
        os.close(self._terminal)

    @property
    def text(self) -> str:
        return bytes(self._shown).decode(errors="replace")


class Workers:
    """The workers that a test starts; what is left of them is killed at the end."""

    def __init__(self, folder: Path, bootstrap: str, application: str) -> None:
        self.folder = folder
        self.bootstrap = bootstrap
        self.application = application
        self.state_dir = folder / "state"
        self._started: list[Worker] = []
        self._environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
        REPORTS.append(self.told)

    def told(self) -> str:
        """The last lines of each worker's log, for the message of a wait that failed."""
        return "\n".join(f"{one.name}, status {one.process.poll()}:\n{one.tail}" for one in self._started)

    def start(
        self,
        topology: str,
        *words: str,
        settings: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        terminal: bool = False,
        forks: bool = False,
    ) -> Worker:
        """Starts a worker; ``words`` are further options of the command.

        :param terminal: its standard error is a terminal.
        :param forks: it starts processes, so it is begun by the system and not forked from one that has imported.
        """
        name = f"worker-{len(self._started)}"
        given = {"state.dir": self.state_dir, **(settings or {})}
        command = [sys.executable, "-m", "streams", "run", topology, "--application-id", self.application]
        command += ["--bootstrap-servers", self.bootstrap, "--log-format", "json"]
        command += ["--log-level", "debug"]  # tests wait for steps of single tasks
        for setting, value in given.items():
            command += ["-c", f"{setting}={value}"]
        log, environment = self.folder / f"{name}.log", {**self._environment, **(env or {})}
        command += words
        worker = (
            WorkerOnTerminal(name, log, command, environment)
            if terminal
            else Worker(name, log, command if forks else command[1:], environment, quick=not forks)
        )
        self._started.append(worker)
        return worker

    def start_java(self, program: str, *arguments: str) -> Worker:
        """Starts a program of the recorder's project, which logs as a worker does."""
        name = f"java-{len(self._started)}"
        quiet = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-XX:TieredStopAtLevel=1"]
        command = [java(), *quiet, "-cp", class_path(build(RECORDER, TARGET)), program, *arguments]
        worker = Worker(name, self.folder / f"{name}.log", command, self._environment)
        self._started.append(worker)
        return worker

    def close(self) -> None:
        """Kills what still runs. A supervisor is asked first, since it alone knows its workers."""
        if self.told in REPORTS:
            REPORTS.remove(self.told)
        with ExitStack() as all_of_them:
            for worker in self._started:
                if worker.process.poll() is None:
                    all_of_them.callback(self._end, worker)

    def _end(self, worker: Worker) -> None:
        workers = supervised(worker)
        worker.kill()
        for pid in workers:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def supervised(supervisor: Worker) -> list[int]:
    """The processes that a supervisor has started."""
    return [event["pid"] for event in supervisor.events("worker started")]
