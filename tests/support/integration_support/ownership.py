"""Which tasks ran on which workers, as their logs say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

from integration_support.workers import Worker

ENDS = ("task closed", "active task becomes a standby")
"""The events by which a worker does not run a task any more."""


def open_tasks(*workers: Worker) -> set[str]:
    """The tasks that run, as their workers' logs tell."""
    found: set[str] = set()
    for worker in workers:
        own: set[str] = set()
        for event in worker.events():
            if event["event"] == "task runs":
                own.add(event["task"])
            elif event["event"] in ENDS:
                own.discard(event["task"])
        found |= own
    return found


def shared_tasks(workers: Sequence[Worker]) -> list[tuple[str, str, str]]:
    """Tasks that two workers ran at one time, from their logs; of workers that closed all their tasks in order."""
    spans = defaultdict(list)
    for worker in workers:
        begun: dict[str, datetime] = {}
        for event in worker.events():
            at = datetime.fromisoformat(event["timestamp"])
            if event["event"] == "task runs":
                begun[event["task"]] = at
            elif event["event"] in ENDS and event["task"] in begun:
                spans[event["task"]].append((begun.pop(event["task"]), at, worker.name))
        assert begun == {}, f"{worker.name} did not close all tasks"
    found = []
    for task, of_task in spans.items():
        ordered = sorted(of_task)
        for (_, end, first), (begin, _, second) in pairwise(ordered):
            if begin < end:
                found.append((task, first, second))
    return found
