"""A worker is killed, and its tasks go on from the copies that other workers have kept."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from streams.kafka.membership.standby_places import SETTLED_S
from waiting import wait_until

COMMON = {"consumer.session.timeout.ms": 6000, "consumer.heartbeat.interval.ms": 500, "commit.interval.ms": 100}
PARTITIONS = 6
WORDS = [f"word-{number}" for number in range(200)]


def tasks_of(worker: Worker) -> set[str]:
    """Returns the tasks that it has by its last assignment; none before the first."""
    return {task for event in worker.events("assignment")[-1:] for task in event["owned"].split()}


def followed_by(worker: Worker) -> set[str]:
    """Returns the tasks of which it has begun to keep copies."""
    return {event["task"] for event in worker.events("standby task follows its changelogs")}


@pytest.mark.parametrize(
    ("guarantee", "count"),
    [
        ("exactly_once_v2", 2),
        pytest.param("at_least_once", 2, marks=pytest.mark.slow),
        pytest.param("exactly_once_v2", 3, marks=pytest.mark.slow),
    ],
)
def test_the_copies_of_a_killed_worker_lack_only_the_tail(
    topics: Topics, workers: Workers, tmp_path: Path, guarantee: str, count: int
) -> None:
    source, output = topics.create("lines", PARTITIONS), topics.create("counts", PARTITIONS)
    running = [
        workers.start(
            "word_count:topology",
            settings={
                **COMMON,
                "processing.guarantee": guarantee,
                "num.standby.replicas": 1,
                "state.dir": str(tmp_path / f"state-{number}"),
            },
            env={"INPUTS": source, "OUTPUT": output},
        )
        for number in range(count)
    ]
    for worker in running:
        worker.wait_running()
    stateful = {f"1_{number}" for number in range(PARTITIONS)}
    wait_until("all tasks are owned", lambda: stateful <= set().union(*map(tasks_of, running)))
    wait_until("and copied", lambda: stateful <= set().union(*map(followed_by, running)))
    rounds = 6
    with topics.reader(output) as reader:
        for number in range(1, rounds + 1):
            topics.send(source, ((None, word) for word in WORDS), PARTITIONS)
            due = number if guarantee == "exactly_once_v2" else 1
            reader.until("all are counted", lambda found, due=due: _least(found.latest) >= due)  # type: ignore[misc]
        killed, left = running[0], running[1:]
        lost = tasks_of(killed) & stateful
        if count > 2:  # copies count as filled when the group has rested
            wait_until("the group rests", lambda: min(map(_rested_s, running)) > SETTLED_S + 1)
        copies = {task: [worker for worker in left if task in followed_by(worker)] for task in lost}
        before = [len(worker.events("restored")) for worker in left]
        killed.kill()
        topics.send(source, ((None, word) for word in WORDS), PARTITIONS)
        reader.until("the others count on", lambda found: _least(found.latest) >= rounds + 1)
        if guarantee == "exactly_once_v2":  # nothing was counted twice
            assert set(reader.latest.values()) == {str(rounds + 1)}
    promoted = {event["task"] for worker in left for event in worker.events("standby task becomes active")}
    assert lost
    if count > 2:  # the group has given them to any worker; members have exchanged them since
        wait_until(
            "each is where its copy was",
            lambda: all(any(task in tasks_of(worker) for worker in copies[task]) for task in lost),
        )
        return
    assert lost <= promoted
    restored = [
        event["records"]
        for worker, earlier in zip(left, before, strict=True)
        for event in worker.events("restored")[earlier:]
        if event["task"] in lost
    ]
    assert sum(restored) <= len(WORDS), restored  # each word was logged six times and more


def _rested_s(worker: Worker) -> float:
    """Returns for how long its assignment has not changed."""
    last = datetime.fromisoformat(worker.events("assignment")[-1]["timestamp"])
    return (datetime.now(UTC) - last).total_seconds()


def _least(latest: dict[str, str]) -> int:
    return min((int(latest.get(word, 0)) for word in WORDS), default=0)
