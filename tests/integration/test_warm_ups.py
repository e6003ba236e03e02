"""A worker comes to a group with large stores: it fills copies first, and takes its tasks over when they are near."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
from waiting import wait_until

COMMON = {
    "consumer.session.timeout.ms": 6000,
    "consumer.heartbeat.interval.ms": 500,
    "commit.interval.ms": 100,
    "acceptable.recovery.lag": 500,
}
PARTITIONS = 4
WORDS = [f"word-{number}" for number in range(12_000)]
LINES = [" ".join(WORDS[start : start + 100]) for start in range(0, len(WORDS), 100)]
STATEFUL = {f"1_{number}" for number in range(PARTITIONS)}


def tasks_of(worker: Worker) -> set[str]:
    """Returns the tasks that it has by its last assignment; none before the first."""
    return {task for event in worker.events("assignment")[-1:] for task in event["owned"].split()}


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_tasks_move_when_their_copies_are_near(
    topics: Topics, workers: Workers, tmp_path: Path, guarantee: str
) -> None:
    """The owner counts on while copies are filled; nothing but the tail is restored by the new one."""
    source, output = topics.create("lines", PARTITIONS), topics.create("counts", PARTITIONS)

    def start(number: int) -> Worker:
        state = str(tmp_path / f"state-{number}")
        settings = {**COMMON, "processing.guarantee": guarantee, "state.dir": state}
        return workers.start("word_count:topology", settings=settings, env={"INPUTS": source, "OUTPUT": output})

    first = start(0).wait_running()
    with topics.reader(output) as reader:
        topics.send(source, ((None, line) for line in LINES), PARTITIONS)
        reader.until("all are counted", lambda found: len(found.latest) == len(WORDS))
        second = start(1)
        second.wait_for("fills copies of tasks before it takes them over")
        for number in itertools.count(2):
            topics.send(source, [(None, " ".join(WORDS[:50]))])
            due = number
            reader.until("some are counted again", lambda found, due=due: int(found.latest[WORDS[0]]) >= due)  # type: ignore[misc]
            if len(tasks_of(second) & STATEFUL) == 2 and number >= 9:
                break
        joined = second.events("joins for tasks with state")
        assert [event["reason"] for event in joined] == ["the copies are near"]
        assert tasks_of(first) | tasks_of(second) >= STATEFUL
        topics.send(source, ((None, line) for line in LINES), PARTITIONS)
        if guarantee == "exactly_once_v2":
            wanted = {word: str(number + 1 if word in WORDS[:50] else 2) for word in WORDS}
            reader.until("all are counted", lambda found: found.latest == wanted)
        else:
            reader.until("all are counted", lambda found: all(int(found.latest[word]) >= 2 for word in WORDS))
    restored = sum(event["records"] for event in second.events("restored"))
    assert restored < 1000, second.events("restored")
    promoted = {event["task"] for event in second.events("standby task becomes active")}
    wait_until("they have been copies", lambda: tasks_of(second) & STATEFUL <= promoted)
