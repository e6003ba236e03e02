"""Workers that watch each other over the HTTP port take over those that are dead or silent."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from integration_support.counting import Counting
from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from waiting import wait_until

TAKEN_OVER = "a process is taken over: its transactions are ended and its members leave the group"
WATCHES = "watches another worker"
PROTOCOLS = ["classic", pytest.param("streams", marks=pytest.mark.slow)]


def watching(topics: Topics, workers: Workers, folder: Path, protocol: str, guarantee: str) -> Counting:
    (folder / "token").write_text("a-token-of-the-workers\n")
    (folder / "token").chmod(0o600)
    return Counting(
        topics,
        workers,
        guarantee,
        group_protocol=protocol,
        http_peer_timeout_ms=1500,
        http_listen="127.0.0.1:0",
        http_token_file=folder / "token",
        producer_transaction_timeout_ms=60_000,
    )


def watched_pair(counting: Counting, folder: Path) -> tuple[Worker, Worker]:
    first, second = counting.start_two(folder)
    for worker in (first, second):
        worker.wait_for(WATCHES)
    return first, second


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_killed_worker_is_taken_over_by_another_machine(
    topics: Topics, workers: Workers, tmp_path: Path, protocol: str
) -> None:
    """No one waits for its session of 45 s, nor for its transaction of 60 s."""
    counting = watching(topics, workers, tmp_path, protocol, "exactly_once_v2")
    counting.send()
    first, second = watched_pair(counting, tmp_path)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        counting.send()
        first.kill()
        line = second.wait_for(TAKEN_OVER)
        assert line["reason"].endswith("its machine refuses connections to its port")
        assert line["members"]
        counting.send()
        counting.read_round(reader)
        second.stop()
        counting.check(reader)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_frozen_worker_is_taken_over_and_comes_back(
    topics: Topics, workers: Workers, tmp_path: Path, protocol: str
) -> None:
    """What it continues is rejected, and it joins again."""
    counting = watching(topics, workers, tmp_path, protocol, "exactly_once_v2")
    counting.send()
    first, second = watched_pair(counting, tmp_path)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        counting.send()
        os.kill(first.pid, signal.SIGSTOP)
        assert "it has not responded for" in second.wait_for(TAKEN_OVER)["reason"]
        counting.send()
        counting.read_round(reader)
        os.kill(first.pid, signal.SIGCONT)
        wait_until("it is watched again", lambda: len(second.events(WATCHES)) == 2)
        wait_until("it has tasks again", lambda: first.events("assignment")[-1]["owned"])
        counting.send()
        counting.read_round(reader)
        for worker in (first, second):
            worker.stop()
        counting.check(reader)


def test_a_worker_with_another_token_is_not_watched(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    counting = watching(topics, workers, tmp_path, "classic", "exactly_once_v2")
    first = counting.start(state_dir=tmp_path / "one").wait_running()
    (tmp_path / "other").write_text("a-token-that-the-other-does-not-have\n")
    (tmp_path / "other").chmod(0o600)
    second = counting.start("-c", f"http.token.file={tmp_path / 'other'}", state_dir=tmp_path / "two")
    for worker in (first, second.wait_running()):
        reason = worker.wait_for("a worker is not watched")["reason"]
        assert "does not take the token of this worker (http.token.file)" in reason
    second.kill()
    second = counting.start(state_dir=tmp_path / "two").wait_running()
    assert first.events(TAKEN_OVER) == []
    for worker in (first, second):
        worker.stop()


def test_at_least_once_a_silent_worker_keeps_its_tasks(topics: Topics, workers: Workers, tmp_path: Path) -> None:
    """Nothing would keep it from writing on. One that is gone is taken over."""
    counting = watching(topics, workers, tmp_path, "classic", "at_least_once")
    counting.send()
    first, second = watched_pair(counting, tmp_path)
    with topics.reader(counting.output) as reader:
        counting.read_round_or_more(reader)
        os.kill(first.pid, signal.SIGSTOP)
        second.wait_for(
            "a worker is silent: its tasks wait until its session ends, since at least once it may still write"
        )
        os.kill(first.pid, signal.SIGCONT)
        wait_until("it is watched again", lambda: len(second.events(WATCHES)) == 2)
        assert second.events(TAKEN_OVER) == []
        first.kill()
        second.wait_for(TAKEN_OVER)
        counting.send()
        counting.read_round_or_more(reader)
        second.stop()
