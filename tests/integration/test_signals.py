"""SIGTERM and Ctrl-C end an application in order, whatever it is doing: status 0, and nothing is lost."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from integration_support.counting import WAITS
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers, alive, supervised
from tools.kafka.broker import HOST
from waiting import wait_until

RECORDS = 200
CHANGELOG_RECORDS = 60_000
NEVER_MS = 3_600_000
SETTINGS = {"commit.interval.ms": NEVER_MS, "restore.consumer.max.partition.fetch.bytes": 1000}


class Scene:
    """An application, its topics, and how to bring it into a state."""

    def __init__(self, topics: Topics, workers: Workers, folder: Path, stack: ExitStack) -> None:
        self.topics, self.workers = topics, workers
        self.source, self.output = topics.create("lines"), topics.create("counts")
        self.reached, self.go_on = folder / "reached", folder / "go-on"
        self._stack = stack

    def start(self, *words: str, wait_at: str = "", version: int = 1) -> Worker:
        environment = {
            "INPUTS": self.source,
            "OUTPUT": self.output,
            "WAIT_AT": wait_at,
            "REACHED": str(self.reached),
            "GO_ON": str(self.go_on),
            "VERSION": str(version),
        }
        return self.workers.start("slow:topology", *words, settings=SETTINGS, env=environment)

    def send(self) -> None:
        self.topics.send(self.source, [(None, f"word-{number}") for number in range(RECORDS)])

    def importing(self) -> Worker:
        worker = self.start(wait_at="import")
        wait_until("the module is loaded", self.reached.exists)
        return worker

    def starting(self) -> Worker:
        """A broker that takes connections and says nothing."""
        silent = self._stack.enter_context(socket.socket())
        silent.bind((HOST, 0))
        silent.listen()
        worker = self.start("--bootstrap-servers", f"{HOST}:{silent.getsockname()[1]}")
        worker.wait_for("state", state="REBALANCING")
        return worker

    def waiting_for_the_group(self) -> Worker:
        self.running()
        worker = self.start(version=2)
        worker.wait_for(WAITS)
        return worker

    def restoring(self) -> Worker:
        changelog = f"{self.workers.application}-counts-changelog"
        self.topics.create_named(changelog, 1, {"cleanup.policy": "compact"})
        self.topics.send(changelog, ((f"word-{number}", "\0" * 7 + "\1") for number in range(CHANGELOG_RECORDS)))
        worker = self.start()
        worker.wait_for("restoring")
        return worker

    def running(self) -> Worker:
        """It has processed all, and committed nothing."""
        self.send()
        worker = self.start().wait_running()
        with self.topics.reader(self.output, committed_only=False) as reader:
            reader.until("all is processed", lambda found: len(found.records) == RECORDS)
        return worker

    def supervising(self) -> Worker:
        worker = self.start("--workers", "2")
        wait_until("its workers run", lambda: len(worker.events("state", state="RUNNING")) >= 1)
        return worker


STATES: dict[str, Callable[[Scene], Worker]] = {
    "import": Scene.importing,
    "start": Scene.starting,
    "waiting for the group": Scene.waiting_for_the_group,
    "restore": Scene.restoring,
    "running": Scene.running,
    "supervising": Scene.supervising,
}


@pytest.fixture
def scene(topics: Topics, workers: Workers, tmp_path: Path) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(topics, workers, tmp_path, stack)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("state", STATES)
def test_a_signal_ends_it_in_order(state: str, number: signal.Signals, scene: Scene) -> None:
    worker = STATES[state](scene)
    worker.process.send_signal(number)
    assert worker.wait() == 0, worker.tail
    assert worker.errors == [], worker.tail
    assert "Traceback" not in worker.text
    assert not any(alive(pid) for pid in supervised(worker))
    if state == "running":
        assert scene.topics.committed(scene.workers.application, scene.source) == {0: RECORDS}
    if state == "restore":  # what came after is not begun; the next start goes on
        scene.send()
        with scene.topics.reader(scene.output) as reader:
            again = scene.start()
            reader.until("all is counted", lambda found: len(found.records) == RECORDS)
            assert set(reader.latest.values()) == {"\0" * 7 + "\2"}
        again.stop()


def test_sigterm_while_it_closes_changes_nothing(scene: Scene) -> None:
    """It may come twice; the first counts."""
    scene.send()
    worker = scene.start(wait_at="closing").wait_running()
    with scene.topics.reader(scene.output, committed_only=False) as reader:
        reader.until("all is processed", lambda found: len(found.records) == RECORDS)
    worker.terminate()
    wait_until("it closes", scene.reached.exists)
    worker.terminate()
    scene.go_on.touch()
    assert worker.wait() == 0, worker.tail
    assert scene.topics.committed(scene.workers.application, scene.source) == {0: RECORDS}


def test_a_second_ctrl_c_ends_it_at_once(scene: Scene) -> None:
    """What was committed stays; the rest is done again at the next start."""
    worker = scene.start(wait_at="closing").wait_running()
    worker.process.send_signal(signal.SIGINT)
    wait_until("it closes", scene.reached.exists)
    worker.process.send_signal(signal.SIGINT)
    assert worker.wait() == 130, worker.tail
    assert "error: ended at once by a second Ctrl-C" in worker.errors
