"""The workers of a run: processes of the application, or supervisors with some each."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tools.chaos.cluster import SESSION_S, processes
from tools.chaos.patience import wait_for
from tools.chaos.setups import Setup

__all__ = ["EXTRA", "Crew"]

WRONG_USE = 2
"""The status of `streams run` where it does not understand what it is given."""
MOST_RESTARTS = 4
"""How often a process of a supervisor is killed: one that dies more often within minutes is given up."""
STOPPED = (0, -signal.SIGTERM)
"""The statuses after SIGTERM, which may come before the process has a handler for it."""
EXTRA = 9
"""The number of the worker that is added and leaves again."""


class Crew:
    """Workers by number, each with a state directory, a log and a file that shows when it is ready.

    A worker is one process of its own, or a supervisor with the processes that it has started.
    """

    def __init__(self, folder: Path, bootstrap: str, application: str, setup: Setup, settings: Sequence[str]) -> None:
        self.application = application
        self._ended: dict[int, tuple[int, str]] = {}
        self._folder, self._setup = folder, setup
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._killed_one: dict[int, int] = {}
        self._logged_before: dict[int, int] = {}
        self._settings = [
            f"application.id={application}",
            f"bootstrap.servers={bootstrap}",
            "commit.interval.ms=100",
            "statestore.cache.max.bytes=0",
            f"consumer.session.timeout.ms={int(SESSION_S * 1000)}",
            f"processing.guarantee={setup.guarantee}",
            f"group.protocol={setup.protocol}",
            f"num.stream.threads={setup.threads}",
        ]
        if setup.standbys and setup.protocol != "streams":
            self._settings.append(f"num.standby.replicas={setup.standbys}")
        if setup.snapshots:
            self._settings += [f"state.snapshot.dir={self.snapshots}", "state.snapshot.interval.ms=2000"]
        self._settings += settings

    @property
    def snapshots(self) -> Path:
        return self._folder / "snapshots"

    def log(self, number: int) -> Path:
        return self._folder / f"worker-{number}.log"

    def disk(self, number: int) -> Path:
        return self._folder / f"worker-{number}"

    def _ready_file(self, number: int) -> Path:
        return self._folder / f"worker-{number}.ready"

    def running(self) -> list[int]:
        return sorted(self._workers)

    def start(self, number: int, version: int = 1) -> None:
        """Starts a worker; returns at once."""
        command = [sys.executable, "-m", "streams", "run", "tools/chaos/shop.py", "--log-format", "json"]
        command += ["--workers", str(self._setup.processes), "--ready-file", str(self._ready_file(number))]
        for one in (*self._settings, f"state.dir={self.disk(number)}"):
            command += ["-c", one]
        environment = {**os.environ, "VERSION": str(version), "TOPICS": f"{self.application}."}
        self._ready_file(number).unlink(missing_ok=True)  # one that was killed has left it
        with open(self.log(number), "ab") as log:
            self._logged_before[number] = os.fstat(log.fileno()).st_size
            self._workers[number] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environment
            )
        self._killed_one[number] = 0

    def is_ready(self, number: int) -> bool:
        return self._ready_file(number).exists()

    def has_begun(self, number: int) -> bool:
        """Whether a worker has logged something, which it does when it joins the group."""
        return self.log(number).stat().st_size > self._logged_before[number]

    def is_all_ready(self) -> bool:
        """Whether each worker is ready. One that has ended by itself is started again."""
        self.replace_ended()
        return all(map(self.is_ready, self._workers))

    def parts(self, number: int) -> list[int]:
        """Returns the processes that do the work of a worker."""
        pid = self._workers[number].pid
        if self._setup.processes == 1:
            return [pid]
        return [child for child, (parent, state) in processes().items() if parent == pid and state != "Z"]

    def kill(self, number: int) -> bool:
        """Kills a worker, all its processes at a time; returns whether they ran until then."""
        process = self._workers[number]
        if self._ended_by_itself(number):
            return False
        process.send_signal(signal.SIGSTOP)  # a supervisor starts nothing any more
        wait_for(lambda: _is_in_state(process.pid, "TZ"))
        parts = [pid for pid in self.parts(number) if pid != process.pid]
        for pid in parts:
            with suppress(ProcessLookupError):  # it ends only when its parent, which is stopped, has seen it
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: all(_is_in_state(pid, "Z") for pid in parts))
        process.kill()
        del self._workers[number]
        return process.wait() == -signal.SIGKILL and (self._setup.processes == 1 or bool(parts))

    def stop(self, number: int) -> bool:
        """Stops a worker cleanly, which may take a time; returns whether it ran until then and has done so."""
        if self._ended_by_itself(number):
            return False
        process = self._workers.pop(number)
        process.terminate()
        if not wait_for(lambda: process.poll() is not None):
            self._workers[number] = process
            self.kill(number)
            self._ended[process.pid] = (number, "did not stop")
            return False
        if process.returncode not in STOPPED:
            self._ended[process.pid] = (number, f"stopped with status {process.returncode}")
        return True

    def freeze(self, number: int) -> bool:
        """Stops all processes of a worker where they are; returns whether they stand."""
        pids = self._all(number)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        return wait_for(lambda: all(_is_in_state(pid, "T") for pid in pids), within_s=20)

    def thaw(self, number: int) -> bool:
        """Continues a frozen worker; returns whether it was still frozen, all of it."""
        pids = self._all(number)
        was_frozen = all(_is_in_state(pid, "T") for pid in pids)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return was_frozen

    def _all(self, number: int) -> list[int]:
        return list({self._workers[number].pid, *self.parts(number)})

    def kill_part(self, number: int, which: float) -> bool:
        """Kills one process of a supervisor; returns whether the supervisor has started another one."""
        before = sorted(self.parts(number))
        if len(before) < self._setup.processes or self._killed_one[number] == MOST_RESTARTS:
            return False
        self._killed_one[number] += 1
        os.kill(before[int(which * len(before))], signal.SIGKILL)
        return wait_for(lambda: len(set(self.parts(number)) - set(before)) == 1)

    def kill_supervisor(self, number: int) -> bool:
        """Kills a supervisor alone; returns when its processes have seen that and have ended, whether they have."""
        parts = self.parts(number)
        if self._ended_by_itself(number) or not parts:
            return False
        process = self._workers.pop(number)
        process.kill()
        killed = process.wait() == -signal.SIGKILL
        if wait_for(lambda: all(_is_in_state(pid, "Z") for pid in parts)):
            return killed
        self._ended[process.pid] = (number, "its processes outlived it")
        for pid in parts:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return False

    def replace_ended(self) -> None:
        """Starts those again that have ended by themselves.

        :raises SystemExit: if one could not begin at all, as with a setting that it does not know.
        """
        for number in self.running():
            if self._ended_by_itself(number):
                self.start(number)

    def _ended_by_itself(self, number: int) -> bool:
        process = self._workers[number]
        status = process.poll()
        if status == WRONG_USE:
            lines = self.log(number).read_text(errors="replace").splitlines()
            raise SystemExit(f"worker {number} could not begin: {lines[-1] if lines else 'see its log'}")
        if status is not None:
            self._ended[process.pid] = (number, f"ended with status {status}")
        return status is not None

    def died(self) -> list[tuple[int, str]]:
        """Returns the workers that ended by themselves, each with how, also those that a supervisor has restarted."""
        found = list(self._ended.values())
        for path in sorted(self._folder.glob("worker-*.log")):
            for line in events(path, "worker died, restarting"):
                if line.get("status") != "SIGKILL":
                    found.append((int(path.stem.partition("-")[2]), f"a process died: {line.get('error')}"))
        return found

    def count(self, event: str) -> int:
        """Returns how often the workers have logged an event."""
        return sum(len(events(path, event)) for path in self._folder.glob("worker-*.log"))

    def stop_all(self) -> None:
        """Stops all workers cleanly."""
        for number in self.running():
            self.stop(number)

    def close(self) -> None:
        """Kills all workers that are left."""
        for number in self.running():
            self.kill(number)


def _is_in_state(pid: int, states: str) -> bool:
    """Whether a process has one of these states, or has ended."""
    return processes().get(pid, (0, "Z"))[1] in states + "Z"


def events(log: Path, event: str) -> list[dict[str, object]]:
    """Returns the lines of a log with an event."""
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if event in line:
            with suppress(ValueError):
                fields = json.loads(line)
                if isinstance(fields, dict) and fields.get("event") == event:
                    found.append(fields)
    return found
