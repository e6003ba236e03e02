"""Queries over HTTP while a worker is killed: 503 for a time, and never a wrong answer."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from typing import Any

import pytest

from http_support.asking import Answer, ask, free_port
from integration_support.counting import PARTITIONS, WORDS, Counting
from integration_support.topics import Topics
from integration_support.workers import Workers, supervised
from waiting import wait_until

KEYS = [f"word-{number}" for number in range(0, WORDS, 50)]
MOST_UNANSWERED_S = 45.0
"""It is two or three seconds on a machine that has nothing else to do."""


class Asking:
    """Asks ports for keys, all the time, until it is stopped."""

    def __init__(self, ports: list[int], value: int) -> None:
        self._ports, self._value = ports, value
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.wrong: list[Any] = []
        self.right = 0
        self.unanswered_s: dict[str, float] = {}
        """The longest time for which each key had no answer."""

    def __enter__(self) -> Asking:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        since: dict[str, float] = {}
        choose = random.Random(1)
        while not self._stop.is_set():
            key, port = choose.choice(KEYS), choose.choice(self._ports)
            answer = asked(port, key)
            if answer is None or answer.status == 503:
                since.setdefault(key, time.monotonic())
                continue
            if key in since:
                waited = time.monotonic() - since.pop(key)
                self.unanswered_s[key] = max(waited, self.unanswered_s.get(key, 0.0))
            if answer.status == 200 and answer.json["value"] == self._value:
                self.right += 1
            else:
                self.wrong.append((key, port, answer))

    def check(self) -> None:
        assert self.wrong == []
        assert self.right > 0
        longest = max(self.unanswered_s.values(), default=0.0)
        print(f"right: {self.right}, keys without an answer for a time: {len(self.unanswered_s)}, {longest:.1f} s")
        assert longest < MOST_UNANSWERED_S


def asked(port: int, key: str) -> Answer | None:
    """The answer; ``None`` if there is none, since the worker is killed."""
    return asked_path(port, f"/stores/counts/get?key={key}")


def asked_path(port: int, path: str) -> Answer | None:
    try:
        return ask(port, path)
    except OSError:
        return None


def here(port: int, worker: str = "") -> list[int]:
    """The partitions of the counts that a worker has."""
    answer = asked_path(port, f"{worker}/stores/counts")
    return [] if answer is None or answer.status != 200 else list(answer.json["here"])


def all_answer(ports: list[int], value: int) -> bool:
    answers = [asked(port, key) for port in ports for key in KEYS]
    return all(one is not None and one.status == 200 and one.json["value"] == value for one in answers)


def check_stopped(port: int, stopped: int, named: str) -> None:
    """Stops a process, and lets it go on: keys of it are 503 for that time, all others are answered as before."""
    os.kill(stopped, signal.SIGSTOP)
    try:
        answers: dict[str, Answer] = {}

        def both() -> bool:
            answers.update({key: ask(port, f"/stores/counts/get?key={key}") for key in KEYS})
            return {answer.status for answer in answers.values()} == {200, 503}

        wait_until("its keys are missed", both, deadline_s=60)  # the first ones are waited for
        for answer in answers.values():
            if answer.status == 503:
                assert answer.headers["Retry-After"] == "1"
                assert f"worker {named} has not responded for" in answer.json["error"]
        right = [key for key, answer in answers.items() if answer.status == 200]
        begun = time.monotonic()
        assert {ask(port, f"/stores/counts/get?key={key}").json.get("value") for key in right * 3} == {1}
        missed = [key for key in KEYS if key not in right]
        assert {ask(port, f"/stores/counts/get?key={key}").status for key in missed * 3} == {503}
        assert time.monotonic() - begun < 20.0  # less than a second on a machine that has nothing else to do
        answer = ask(port, "/stores/counts/range?limit=100000")
        assert answer.status == 503 or "error" in answer.text.splitlines()[-1], answer
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until("all keys are answered again", lambda: all_answer([port], 1))


def test_keys_of_a_stopped_worker_are_503_and_others_are_answered(topics: Topics, workers: Workers) -> None:
    counting = Counting(topics, workers, session_timeout_ms=45_000)
    counting.send()
    ports = [free_port(), free_port()]
    counting.start("--http", f"127.0.0.1:{ports[0]}").wait_running()
    second = counting.start("--http", f"127.0.0.1:{ports[1]}").wait_running()
    wait_until("both have keys", lambda: all(len(here(port)) == PARTITIONS // 2 for port in ports))
    wait_until("both workers answer for all keys", lambda: all_answer(ports, 1))
    check_stopped(ports[0], second.pid, f"127.0.0.1:{ports[1]}")


@pytest.mark.parametrize("requests", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_stopped_worker_of_a_supervisor_is_passed_over(topics: Topics, workers: Workers, requests: int) -> None:
    """Whichever worker has the turn when it stops: the supervisor or the other worker waits for it first."""
    counting = Counting(topics, workers, session_timeout_ms=45_000)
    counting.send()
    port = free_port()
    supervisor = counting.start("--workers", "2", "--http", f"127.0.0.1:{port}")
    wait_until("both are ready", lambda: (one := asked_path(port, "/ready")) is not None and one.status == 200)
    wait_until("both have keys", lambda: all(len(here(port, f"/workers/{n}")) == PARTITIONS // 2 for n in (0, 1)))
    wait_until("all keys are answered", lambda: all_answer([port], 1))
    pids = [one["pid"] for one in ask(port, "/state").json["workers"]]
    for _ in range(requests):
        ask(port, "/topology")
    check_stopped(port, pids[1], "1")
    supervisor.stop()


def test_two_workers_answer_for_all_keys_while_one_is_killed(topics: Topics, workers: Workers) -> None:
    counting = Counting(topics, workers, session_timeout_ms=6000)
    counting.send()
    ports = [free_port(), free_port()]
    first = counting.start("--http", f"127.0.0.1:{ports[0]}").wait_running()
    counting.start("--http", f"127.0.0.1:{ports[1]}").wait_running()
    wait_until("both workers answer for all keys", lambda: all_answer(ports, 1))
    with Asking(ports, 1) as asking:
        first.kill()
        counting.start("--http", f"127.0.0.1:{ports[0]}").wait_running()
        wait_until("both workers answer for all keys again", lambda: all_answer(ports, 1))
    asking.check()


def test_one_port_answers_for_the_workers_of_a_supervisor_while_one_is_killed(topics: Topics, workers: Workers) -> None:
    counting = Counting(topics, workers, session_timeout_ms=6000)
    counting.send()
    port = free_port()
    supervisor = counting.start("--workers", "2", "--http", f"127.0.0.1:{port}")
    wait_until("all keys are answered", lambda: all_answer([port], 1))
    wait_until("both are ready", lambda: ask(port, "/ready").status == 200)
    victim = supervised(supervisor)[0]
    with Asking([port], 1) as asking:
        os.kill(victim, signal.SIGKILL)
        supervisor.wait_for("worker died, restarting")
        wait_until("both are ready again", lambda: ask(port, "/ready").status == 200)
        wait_until("all keys are answered again", lambda: all_answer([port], 1))
    asking.check()
    found = ask(port, "/state").json
    assert (found["totals"]["workers"], found["missing"]) == (2, [])
    supervisor.stop()
