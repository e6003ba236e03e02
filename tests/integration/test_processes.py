"""Workers as processes of a real system: children that are forked and orphaned."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers, alive
from waiting import wait_until

QUICK = {"commit.interval.ms": 100, "consumer.session.timeout.ms": 6000, "consumer.heartbeat.interval.ms": 500}


class Forking:
    """An application whose workers fork, and its topics."""

    def __init__(self, topics: Topics, workers: Workers, folder: Path) -> None:
        self.topics, self.workers = topics, workers
        self.source, self.output = topics.create("values"), topics.create("counts")
        self.children_file = folder / "children"

    def start(self, *words: str, guarantee: str = "exactly_once_v2") -> Worker:
        environment = {"INPUTS": self.source, "OUTPUT": self.output, "CHILDREN": str(self.children_file)}
        settings = {**QUICK, "processing.guarantee": guarantee}
        return self.workers.start("forking:topology", *words, settings=settings, env=environment, forks=True)

    def send(self, *values: str) -> None:
        self.topics.send(self.source, [(None, value) for value in values])

    def children(self) -> list[int]:
        return [int(pid) for pid in self.children_file.read_text().split()] if self.children_file.exists() else []


@pytest.fixture
def forking(topics: Topics, workers: Workers, tmp_path: Path) -> Iterator[Forking]:
    found = Forking(topics, workers, tmp_path)
    yield found
    for child in found.children():
        if alive(child):
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_a_worker_takes_over_while_the_pool_of_a_killed_one_lives(forking: Forking, guarantee: str) -> None:
    """The children kept the locks of its tasks, and the next worker waited for them without a word."""
    first = forking.start(guarantee=guarantee).wait_running()
    forking.send("a", "b")
    with forking.topics.reader(forking.output) as reader:
        reader.until("both are counted", lambda found: found.latest == {"A": "1", "B": "1"})
        orphans = forking.children()
        first.kill()
        assert all(map(alive, orphans))
        forking.children_file.unlink()
        second = forking.start(guarantee=guarantee)
        forking.send("a", "b", "c")
        reader.until("the next worker goes on", lambda found: found.latest.get("C") == "1")
        assert all(map(alive, orphans))
        assert [reader.latest["A"], reader.latest["B"]] == ["2", "2"]
        second.stop()
    for orphan in orphans:
        os.kill(orphan, signal.SIGKILL)


def test_a_pool_is_ended_and_a_child_exits_under_the_command(forking: Forking) -> None:
    """The children had inherited the handler of SIGTERM, and did not end; one that exited crashed in the client."""
    worker = forking.start().wait_running()
    with forking.topics.reader(forking.output) as reader:
        forking.send("a", "pool", "exit", "b")
        reader.until("all is counted", lambda found: found.latest == {"A": "1", "POOL": "1", "EXIT 7": "1", "B": "1"})
        children = forking.children()
        worker.stop()
    wait_until("the other pool ended with its worker", lambda: not any(map(alive, children)))
    assert worker.errors == []
