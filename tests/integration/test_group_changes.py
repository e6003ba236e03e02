"""Workers leave, lose their supervisor, or run another version: every task has one owner, and gets one soon."""

from __future__ import annotations

import signal

from integration_support.counting import TASKS, WAITS, Counting
from integration_support.ownership import open_tasks, shared_tasks
from integration_support.topics import Topics
from integration_support.workers import Workers, alive, supervised
from waiting import wait_until

CLOSED = "tasks stay closed: members of the group run another topology; stop them, or this worker"
SOON_S = 90.0
NEVER_MS = 280_000
"""A session timeout that no test waits for."""


def test_workers_end_with_their_supervisor(topics: Topics, workers: Workers) -> None:
    """However it dies: no orphan keeps a task, and the next run has them all."""
    counting = Counting(topics, workers)
    counting.send()
    first = counting.start("--workers", "3", "--close-timeout-ms", "20000")
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        pids = supervised(first)
        assert len(pids) == 3
        first.kill()
        wait_until("its workers have ended", lambda: not any(alive(pid) for pid in pids))
        counting.send()
        second = counting.start("--workers", "2")
        wait_until("all tasks run", lambda: len(open_tasks(second)) == TASKS)
        counting.read_round(reader)
        second.stop()
        counting.check(reader)


def test_a_worker_that_leaves_hands_over_at_once(topics: Topics, workers: Workers) -> None:
    """Its tasks do not wait for the session timeout, and nobody runs them meanwhile."""
    counting = Counting(topics, workers, consumer_session_timeout_ms=NEVER_MS)
    counting.send()
    first, second = counting.start(), counting.start()
    wait_until("both have tasks", lambda: min(len(open_tasks(first)), len(open_tasks(second))) > 0)
    wait_until("all tasks run", lambda: len(open_tasks(first, second)) == TASKS)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        counting.send()
        first.stop()
        wait_until("the other has all tasks", lambda: len(open_tasks(second)) == TASKS, deadline_s=SOON_S)
        counting.read_round(reader)
        second.stop()
        counting.check(reader)
    assert shared_tasks([first, second]) == []


def test_another_version_waits_until_the_first_has_left(topics: Topics, workers: Workers) -> None:
    """It says so; when the last worker of the first has left, it takes over."""
    counting = Counting(topics, workers, consumer_session_timeout_ms=NEVER_MS)
    counting.send()
    old = [counting.start(), counting.start()]
    wait_until("all tasks run", lambda: len(open_tasks(*old)) == TASKS)
    with topics.reader(counting.output) as reader:
        counting.read_round(reader)
        new = counting.start(version=3)
        new.wait_for(WAITS)
        counting.send()
        old[0].stop()
        counting.read_round(reader)
        assert open_tasks(new) == set()
        old[1].stop()
        counting.send()
        wait_until("the new version has all tasks", lambda: len(open_tasks(new)) == TASKS, deadline_s=SOON_S)
        counting.read_round(reader)
        new.stop()
        counting.check(reader)
    assert shared_tasks([*old, new]) == []


def test_two_versions_that_start_together_never_share_a_task(topics: Topics, workers: Workers) -> None:
    """Whoever comes first, and also if both: one of them left, the other has all tasks."""
    counting = Counting(topics, workers, consumer_session_timeout_ms=NEVER_MS)
    counting.send()
    both = [counting.start(), counting.start(version=3)]

    def settled() -> bool:
        told = [worker.events(WAITS) or worker.events(CLOSED) for worker in both]
        return all(told) or len(open_tasks(*both)) == TASKS

    wait_until("one waits for the other", settled)
    with topics.reader(counting.output) as reader:
        both[0].terminate()
        assert both[0].wait() in (0, -signal.SIGTERM)
        wait_until("the other has all tasks", lambda: len(open_tasks(both[1])) == TASKS, deadline_s=SOON_S)
        counting.send()
        counting.read_round(reader)
        both[1].stop()
        counting.check(reader)
    assert shared_tasks(both) == []
