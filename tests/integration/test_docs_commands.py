"""The commands of the pages that need Kafka run as they are written, in the folder where a reader is.

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
from collections.abc import Callable
from pathlib import Path

import pytest

from docs_support.blocks import PAGES, QUICK_START, ROOT, blocks, commands, is_offline, prepare
from integration_support.topics import Topics
from waiting import wait_until

DEADLINE_S = 120.0
PARTITIONS = 2
TOPIC = re.compile(r"Source: .*\(topics: \[(.*)\]\)|Sink: .*\(topic: (.*)\)")
WITH_KAFKA = [
    page
    for page in PAGES
    if any(not block.reason and not all(map(is_offline, commands(block))) for block in blocks(page, "sh"))
]


class Reader:
    """A reader of a page at a terminal, whose commands run one after the other."""

    def __init__(self, page: Path, folder: Path, bootstrap: str, application: str) -> None:
        self.folder = prepare(page, folder)
        self._home = folder
        self._bootstrap = bootstrap
        self._state = folder / "saved"
        self._runs_on = page == QUICK_START
        """Whether an application goes on while the later commands of the page are given."""
        self._running: subprocess.Popen[bytes] | None = None
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_STATE_HOME": str(folder / "home"),
            "STREAMS_BOOTSTRAP_SERVERS": bootstrap,
            "STREAMS_APPLICATION_ID": application,
        }

    def give(self, command: str) -> None:
        words = [self._here(word) for word in shlex.split(command, comments=True)]
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            self.environment[name] = value
        elif words[:2] == ["streams", "run"] or (words[0] == "python" and words[1].endswith(".py")):
            self._run_until_ready(words)
        elif "--follow" in words:
            self._run_until_it_prints(words)
        else:
            self._run(words)

    def _here(self, word: str) -> str:
        for there, here in (
            ("localhost:9092", self._bootstrap),
            ("kafka:9092", self._bootstrap),
            ("/run/secrets", str(self.folder)),
        ):
            word = word.replace(there, here)
        return word

    def _run(self, words: list[str]) -> None:
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
        """Runs a command that goes on until Ctrl-C, which it gets after the first line."""
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
        home, log = self._home / "home", self._home / "log"
        shutil.rmtree(home, ignore_errors=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, open(log, "wb") as target:
            address = self._home / "notify"
            address.unlink(missing_ok=True)
            manager.bind(str(address))
            manager.setblocking(False)
            self._running = process = subprocess.Popen(
                words,
                cwd=self.folder,
                env={**self.environment, "NOTIFY_SOCKET": str(address)},
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=subprocess.STDOUT,
            )

            def ready() -> bool:
                assert process.poll() is None, f"{words} ended with {process.returncode}\n{log.read_text()[-3000:]}"
                try:
                    return manager.recv(1000).startswith(b"READY=1")
                except BlockingIOError:
                    return False

            wait_until(f"{shlex.join(words)} is ready", ready, deadline_s=DEADLINE_S)
        if not self._runs_on:
            self._end()
            shutil.rmtree(self._state, ignore_errors=True)
            shutil.copytree(home, self._state)

    def _end(self) -> None:
        assert self._running is not None
        self._running.send_signal(signal.SIGTERM)
        assert self._running.wait(DEADLINE_S) == 0, (self._home / "log").read_text()[-3000:]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        """Ends the application that runs on as its user would, and one that a failure has left at once."""
        if self._running is not None:
            try:
                if failure is None and self._runs_on:
                    self._end()
            finally:
                self._running.kill()
                self._running.wait()


def topics_of(reader: Reader) -> set[str]:
    """The topics that the scripts in the reader's folder read and write; not those that the application makes."""
    found: set[str] = set()
    for script in sorted(reader.folder.glob("*.py")):
        if "builder" in script.read_text() or "def topology" in script.read_text():
            words = [sys.executable, "-m", "streams", "describe", script.name]
            done = subprocess.run(words, cwd=reader.folder, env=reader.environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            for sources, sink in TOPIC.findall(done.stdout):
                found |= set(re.split(r", ", sources or sink))
    return {name for name in found if not name.endswith("-repartition") and "extractor" not in name}


WITH_KAFKA.sort(key=lambda page: page != ROOT / "examples" / "README.md")  # it makes topics itself
SLOW = [pytest.param(page, marks=() if page == QUICK_START else pytest.mark.slow) for page in WITH_KAFKA]


@pytest.mark.parametrize("page", SLOW, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_run(page: Path, kafka_of_module: str, tmp_path: Path, unique_name: Callable[[str], str]) -> None:
    topics = Topics(kafka_of_module, unique_name)
    with Reader(page, tmp_path, kafka_of_module, unique_name("docs")) as reader:
        for name in sorted(topics_of(reader) - topics.names()):
            topics.create_named(name, PARTITIONS)
        for block in blocks(page, "sh"):
            for command in commands(block) if not block.reason else ():
                if not is_offline(command) or command.startswith("export "):
                    reader.give(command)
