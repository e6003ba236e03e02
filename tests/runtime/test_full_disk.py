"""What waits for room on a disk: when it is tried again, and what is said of it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import DiskFullError
from streams.runtime.tasks.full_disk import REOPEN_AFTER_S, FullDisk, Waiting
from streams.runtime.tasks.retry import Retry, TaskTimeoutError

ERROR = DiskFullError("cannot write to the store at /s/app/0_0: the disk is full")


class Kit:
    """A disk with room or without, and a clock."""

    def __init__(self, timeout_ms: int = 300_000) -> None:
        self.clock = ManualClock(0)
        self.room = False
        self.asked = 0
        retry = Retry(self.clock, 100, 1000, timeout_ms)
        self.disk = FullDisk("thread", "/s/app", self.clock, retry, self._has_room)

    def _has_room(self) -> bool:
        self.asked += 1
        return self.room


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, Any]]:
    found = [(one.getMessage().partition(":")[0], getattr(one, "times", 1)) for one in caplog.records]
    caplog.clear()
    return found


def test_it_is_said_once_and_then_how_often_it_was_tried(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kit = Kit()
    kit.disk.met(ERROR, Waiting.COMMIT)
    [line] = caplog.records
    assert (line.levelname, line.directory, line.waits) == ("WARNING", "/s/app", "the commit")  # type: ignore[attr-defined]
    assert told(caplog) == [("the disk is full", 1)]
    for _ in range(750):
        kit.clock.advance(100)
        assert not kit.disk.may_try()
    assert [text for text, _ in told(caplog)] == ["the disk is full"] * 3  # after 10, 20 and 40 seconds more
    kit.room = True
    kit.clock.advance(1000)
    assert kit.disk.may_try()
    kit.disk.passed(Waiting.COMMIT)
    assert told(caplog) == [("the disk has room again", 1)]
    kit.disk.passed(Waiting.COMMIT)
    assert told(caplog) == []


def test_each_wait_is_longer_up_to_the_longest() -> None:
    kit = Kit()
    kit.disk.met(ERROR, Waiting.COMMIT)
    for _ in range(100):
        kit.clock.advance(100)
        kit.disk.may_try()
    assert kit.asked in (12, 13)  # after 0.1, 0.3, 0.7, 1.5 and then each second
    assert kit.disk.commit_at > 9


def test_each_work_waits_for_itself() -> None:
    kit = Kit()
    kit.disk.met(ERROR, Waiting.OPENING)
    assert not kit.disk.holds(Waiting.COMMIT)
    assert kit.disk.commit_at < 0
    kit.disk.met(ERROR, Waiting.COMMIT)
    kit.disk.passed(Waiting.OPENING)
    assert kit.disk.holds(Waiting.COMMIT)


def test_a_disk_that_stays_full_is_an_error() -> None:
    kit = Kit(timeout_ms=5_000)
    kit.disk.met(ERROR, Waiting.COMMIT)
    while kit.clock.monotonic() < 5:
        kit.clock.advance(100)
        assert not kit.disk.may_try()
    kit.clock.advance(1000)
    with pytest.raises(TaskTimeoutError, match=r"no progress for 5 s .*the disk is full"):
        kit.disk.may_try()


def test_room_without_a_write_that_succeeds_means_to_open_again() -> None:
    kit = Kit()
    kit.disk.met(ERROR, Waiting.COMMIT)
    kit.clock.advance(60_000)
    assert not kit.disk.may_try()
    assert not kit.disk.is_stuck
    kit.room = True
    for second in range(int(REOPEN_AFTER_S)):
        kit.clock.advance(1000)
        assert kit.disk.may_try()
        kit.disk.met(ERROR, Waiting.COMMIT)
        assert not kit.disk.is_stuck, second
    kit.clock.advance(1000)
    assert kit.disk.is_stuck
    kit.room = False
    assert not kit.disk.may_try()
    assert not kit.disk.is_stuck
