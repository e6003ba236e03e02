"""Tasks that wait for their locks say who has them, before long and not too often."""

import pytest

from processor_api.clock import ManualClock
from processor_api.task_id import TaskId
from streams.runtime.start.task_opener import LockWaits

A, B = TaskId(0, 1), TaskId(0, 2)


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, int]]:
    found = [(one.levelname, one.tasks, getattr(one, "waited_s", 0)) for one in caplog.records]  # type: ignore[attr-defined]
    caplog.clear()
    return found


def test_the_holder_is_named_after_seconds_and_then_each_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    waits = LockWaits(clock, lambda task: f"who has {task}")
    for _ in range(49):
        waits.waits(A)
        waits.log_waits()
        clock.advance(100)
    assert told(caplog) == []
    clock.advance(100)
    waits.waits(A)
    waits.log_waits()
    assert caplog.records[0].held_by == "who has 0_1"  # type: ignore[attr-defined]
    assert told(caplog) == [("WARNING", "0_1", 5)]
    for _ in range(1200):
        clock.advance(100)
        waits.waits(A)
        waits.log_waits()
    assert told(caplog) == [("WARNING", "0_1", 65), ("WARNING", "0_1", 125)]
    waits.opened(A)
    waits.log_waits()
    assert told(caplog) == [("INFO", "0_1", 0)]


def test_a_holder_of_many_locks_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """A process that was suspended had a line for each of its tasks, each minute."""
    caplog.set_level("INFO")
    clock = ManualClock()
    waits = LockWaits(clock, lambda task: f"of {task.subtopology}")
    tasks = [TaskId(subtopology, partition) for subtopology in (0, 1) for partition in range(50)]
    for _ in range(2):
        for task in tasks:
            waits.waits(task)
        waits.log_waits()
        clock.advance(5000)
    waits.log_waits()
    assert [one.held_by for one in caplog.records] == ["of 0", "of 1"]  # type: ignore[attr-defined]
    assert told(caplog)[0] == ("WARNING", " ".join(map(str, tasks[:50])), 5)
    for task in tasks:
        waits.opened(task)
    waits.log_waits()
    assert told(caplog) == [("INFO", " ".join(map(str, tasks)), 0)]


def test_each_task_waits_for_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    waits = LockWaits(clock, str)
    waits.waits(A)
    clock.advance(4_000)
    waits.waits(B)
    waits.opened(B)
    waits.waits(B)  # it was closed, and waits anew
    clock.advance(1_000)
    waits.waits(A)
    waits.waits(B)
    waits.log_waits()
    assert told(caplog) == [("WARNING", "0_1", 5)]
    waits.keep({B})  # another member has the first one now
    waits.opened(A)
    clock.advance(4_000)
    waits.waits(B)
    waits.log_waits()
    assert told(caplog) == [("WARNING", "0_2", 5)]


def test_a_short_wait_is_no_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    waits = LockWaits(clock, str)
    waits.waits(A)
    clock.advance(1_000)
    waits.opened(A)
    waits.opened(B)
    waits.log_waits()
    assert told(caplog) == []
