"""The page, `streams top` and `/state` of an application whose workers are several real processes."""

from __future__ import annotations

import http.client
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from http_support.asking import ask, free_port
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from streams.cli.main import main
from waiting import wait_until

BAD, GOOD = 18, 30
TOKEN = "correct-horse-battery-staple"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


class Copying:
    """An application that drops each long value, and makes a dead letter of it."""

    def __init__(self, topics: Topics, workers: Workers) -> None:
        self._topics, self._workers = topics, workers
        self.input, self.output = topics.create("in", 2), topics.create("out", 2)
        self.dead = topics.create("dead", 1)

    def start(self, *words: str, **more: object) -> Worker:
        settings = {
            "errors.dead.letter.queue.topic.name": self.dead,
            "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
            "session.timeout.ms": 45_000,
            "http.max.cpu.percent": 100,
            **more,
        }
        env = {"INPUTS": self.input, "OUTPUT": self.output}
        return self._workers.start("copy_values:only_short", *words, settings=settings, env=env)

    def send(self) -> None:
        """All bad records are in one partition, so one worker drops them all."""
        self._topics.send(self.input, [(None, "a value that is too long")] * BAD, 1)
        self._topics.send(self.input, [(None, "short")] * GOOD, 2)


def state(port: int) -> Any:
    try:
        answer = ask(port, "/state", **BEARER)
    except OSError:  # it does not listen yet
        return None
    return answer.json if answer.status == 200 else None


def tasks_by_worker(port: int) -> list[int]:
    found = state(port)
    return [] if found is None else [len(worker["tasks"]) for worker in found["workers"]]


def snapshot(port: int, path: str = "/events") -> Any:
    """The first snapshot of a page that is opened."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers=BEARER)
    with connection.getresponse() as answer:
        found = json.loads(answer.readline().removeprefix(b"data: "))
    connection.close()
    return found


def top(*arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    main(["top", "--once", *arguments])
    return capsys.readouterr().out


def until_top(*arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Waits until the command shows all records: a worker answers again with a view that is less than a second old."""

    def shows_all() -> bool:
        shown = top(*arguments, capsys=capsys)
        return "2 workers, 2 tasks" in shown and f"{BAD} records dropped, {BAD} dead letters" in shown

    wait_until("the command shows all records", shows_all)


def whole(found: Callable[[int], Any], port: int) -> Any:
    """What a port shows when it has the figures of all records: those of a busy worker may be some seconds old."""

    def shown() -> Any:
        seen = found(port)
        is_whole = seen is not None and (seen["totals"]["tasks"], seen["totals"]["processed"]) == (2, BAD + GOOD)
        return seen if is_whole else None

    return wait_until("all records are processed", shown)


def check_dropped(found: Any) -> None:
    totals = found["totals"]
    assert (totals["workers"], totals["dropped"], totals["dead_letters"]) == (2, BAD, BAD)
    assert sorted(task["dropped"] for worker in found["workers"] for task in worker["tasks"]) in ([0, BAD], [])
    assert [(one["reason"], one["count"]) for one in found["drops"]] == [("failed", BAD)]
    assert found["missing"] == []


@pytest.mark.slow
def test_what_one_worker_drops_is_shown_whichever_worker_answers(
    topics: Topics, workers: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    """The page said "Dropped 0" while 18 were dropped on the other worker of a supervisor."""
    copying, port = Copying(topics, workers), free_port()
    supervisor = copying.start("--workers", "2", "--http", f"127.0.0.1:{port}")
    wait_until("each worker has a task", lambda: tasks_by_worker(port) == [1, 1])
    copying.send()
    for _ in range(4):  # each worker in turn
        check_dropped(whole(state, port))
        check_dropped(whole(snapshot, port))
    for number in (0, 1):
        one = snapshot(port, f"/workers/{number}/events?worker=self")
        assert [worker["totals"]["tasks"] for worker in one["workers"]] == [1]
    until_top("--url", f"http://127.0.0.1:{port}", capsys=capsys)
    supervisor.stop()


@pytest.mark.slow
def test_a_stopped_worker_is_named_and_shown_again_when_it_continues(topics: Topics, workers: Workers) -> None:
    copying, port = Copying(topics, workers), free_port()
    supervisor = copying.start("--workers", "2", "--http", f"127.0.0.1:{port}")
    wait_until("each worker has a task", lambda: tasks_by_worker(port) == [1, 1])
    stopped = state(port)["workers"][1]["pid"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        for found in (lambda: state(port), lambda: snapshot(port)):
            wait_until("it is named", lambda found=found: (seen := found()) is not None and seen["missing"] != [])
            seen = found()
            assert [one["worker"] for one in seen["missing"]] == [f"127.0.0.1:{port}/1"]
            assert "not responded for" in seen["missing"][0]["reason"]
            assert (seen["totals"]["workers"], seen["ready"]) == (1, False)
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until("both are shown again", lambda: tasks_by_worker(port) == [1, 1])
    supervisor.stop()


def test_workers_that_only_the_group_connects_show_each_other(
    topics: Topics, workers: Workers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on two machines: each has a port, a state directory and a token file of its own."""
    copying, ports = Copying(topics, workers), [free_port(), free_port()]
    running = []
    for number, port in enumerate(ports):
        (path := tmp_path / f"token-{number}").write_text(TOKEN)
        more = {"http.token.file": path, "state.dir": tmp_path / f"state-{number}"}
        running.append(copying.start("--http", f"127.0.0.1:{port}", **more).wait_running())
    copying.send()
    for port in ports:
        check_dropped(whole(state, port))
        check_dropped(whole(snapshot, port))
        assert ask(port, "/state").status == 401
        until_top("--url", f"http://127.0.0.1:{port}", "--token-file", str(tmp_path / "token-0"), capsys=capsys)
    shown = top("--application-id", workers.application, capsys=capsys)
    assert "only workers of this machine are shown" in shown
    assert "it requires a token; give --token-file" in shown
    running[1].kill()
    wait_until("it is named", lambda: state(ports[0])["missing"] != [])
    assert [one["worker"] for one in state(ports[0])["missing"]] == [f"127.0.0.1:{ports[1]}"]
