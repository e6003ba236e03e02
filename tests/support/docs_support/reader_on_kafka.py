"""A reader of a page who gives its commands to a real Kafka.

Only addresses and the folder of secrets are those of the test; variables say where Kafka is, and name the application.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from waiting import wait_until

DEADLINE_S = 120.0
PORT = re.compile(r"127\.0\.0\.1:80\d\d")


class ReaderOnKafka:
    """A reader of a page at a terminal, whose commands run one after the other.

    :param folder: where the commands are given.
    :param home: an empty folder for state and logs.
    :param runs_on: whether an application keeps running while later commands are given.
    """

    def __init__(self, folder: Path, home: Path, bootstrap: str, application: str, *, runs_on: bool) -> None:
        self.folder = folder
        self._home = home
        self._bootstrap = bootstrap
        self._state = home / "saved"
        self._runs_on = runs_on
        self._ports: dict[str, str] = {}
        self.running: list[subprocess.Popen[bytes]] = []
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_STATE_HOME": str(home / "home"),
            "STREAMS_BOOTSTRAP_SERVERS": bootstrap,
            "STREAMS_APPLICATION_ID": application,
        }

    def give(self, command: str) -> None:
        words = [self._here(word) for word in shlex.split(command, comments=True)]
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        elif words[:2] == ["streams", "run"] or (words[0] == "python" and len(words) == 2):
            self._run_until_ready(words)
        elif "--follow" in words:
            self._run_until_it_prints(words)
        else:
            self.run(words)

    def _here(self, word: str) -> str:
        for there, here in (
            ("localhost:9092", self._bootstrap),
            ("kafka:9092", self._bootstrap),
            ("/run/secrets", str(self.folder)),
        ):
            word = word.replace(there, here)
        return PORT.sub(self._free_port, word)

    def _free_port(self, named: re.Match[str]) -> str:
        """Returns a port of this machine for one that a page names, each time the same."""
        if named[0] not in self._ports:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                self._ports[named[0]] = f"127.0.0.1:{listener.getsockname()[1]}"
        return self._ports[named[0]]

    def shown(self, command: str) -> str:
        """Gives a command to a shell, and returns what it prints."""
        words = ["bash", "-c", self._here(command)]
        done = subprocess.run(words, cwd=self.folder, env=self.environment, capture_output=True, timeout=DEADLINE_S)
        return done.stdout.decode()

    def run(self, words: list[str]) -> None:
        """Runs a command to its end; one about state finds the state of the last application that ran."""
        home = self._home / "home"
        if words[:2] == ["streams", "state"] and self._state.exists():
            shutil.rmtree(home)
            shutil.copytree(self._state, home)
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, f"{words}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"

    def _run_until_it_prints(self, words: list[str]) -> None:
        """Runs a command that continues until Ctrl-C, which it gets after the first line."""
        with subprocess.Popen(
            words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            timer = threading.Timer(DEADLINE_S, process.kill)
            timer.start()
            line = process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.communicate()
            timer.cancel()
        assert line
        assert process.returncode == 0

    def _run_until_ready(self, words: list[str]) -> None:
        """Runs an application until it says that it is ready, as it does to systemd, and ends it by SIGTERM."""
        home, log = self._home / "home", self._home / f"log-{len(self.running)}"
        if not self.running:
            shutil.rmtree(home, ignore_errors=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(log, "wb") as target:
            address = self._home / "notify"
            address.unlink(missing_ok=True)
            manager.bind(str(address))
            manager.setblocking(False)
            process = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self.environment, "NOTIFY_SOCKET": str(address)},
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
            )
            self.running.append(process)

            def ready() -> bool:
                assert process.poll() is None, f"{words} ended with {process.returncode}\n{log.read_text()[-3000:]}"
                try:
                    return manager.recv(1000).startswith(b"READY=1")
                except BlockingIOError:
                    return False

            wait_until(f"{shlex.join(words)} is ready", ready, deadline_s=DEADLINE_S)
        if not self._runs_on:
            self.end_first()
            shutil.rmtree(self._state, ignore_errors=True)
            shutil.copytree(home, self._state)

    def end_first(self) -> None:
        """Ends the application that has run longest as its user would."""
        process = self.running[0]
        process.send_signal(signal.SIGTERM)
        status = process.wait(DEADLINE_S)
        del self.running[0]
        assert status == 0, "".join(log.read_text()[-3000:] for log in self._home.glob("log-*"))

    def __enter__(self) -> ReaderOnKafka:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Ends the applications that run on as their user would, and those that a failure has left immediately."""
        try:
            while self.running and failure is None:
                self.end_first()
        finally:
            for process in self.running:
                process.kill()
                process.wait()
