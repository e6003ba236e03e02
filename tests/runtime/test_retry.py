"""Retries: how long errors may last, and how long each wait is."""

from __future__ import annotations

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError
from streams.runtime.tasks.retry import Retry, TaskTimeoutError

ERROR = RetryableError("no broker answers", topic="t", partition=3)


def test_the_waits_double_up_to_the_longest() -> None:
    retry = Retry(ManualClock(0), 100, 1000, 60_000)
    assert [retry.record_failure(ERROR) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    retry.reset()
    assert retry.record_failure(ERROR) == 0.1
    assert retry.backoff_s() == 0.2


def test_a_first_wait_above_the_longest_is_the_longest() -> None:
    retry = Retry(ManualClock(0), 500, 100, 60_000)
    assert [retry.backoff_s() for _ in range(3)] == [0.5, 0.5, 0.5]


def test_errors_that_last_are_one_error_with_the_place_of_the_last_one() -> None:
    clock = ManualClock(0)
    retry = Retry(clock, 100, 1000, 60_000)
    for _ in range(2):
        retry.record_failure(ERROR)
        clock.advance(29_999)
    retry.record_failure(ERROR)
    assert retry.is_failing
    clock.advance(2)
    with pytest.raises(TaskTimeoutError, match="no progress for 60 s") as e:
        retry.record_failure(ERROR)
    assert (e.value.topic, e.value.partition) == ("t", 3)
    assert e.value.__cause__ is ERROR


def test_a_process_that_stood_still_for_hours_has_not_tried_for_hours() -> None:
    clock = ManualClock(0)
    retry = Retry(clock, 100, 1000, 60_000)
    for _ in range(4):
        retry.record_failure(ERROR)
        clock.advance(100)
    clock.advance(13 * 3_600_000)
    retry.record_failure(ERROR)
    clock.advance(29_000)
    retry.record_failure(ERROR)
    clock.advance(701)
    with pytest.raises(TaskTimeoutError, match="no progress for 60 s"):
        retry.record_failure(ERROR)


def test_a_time_out_of_0_fails_at_the_first_error() -> None:
    with pytest.raises(TaskTimeoutError, match="no progress for 0 s"):
        Retry(ManualClock(0), 100, 1000, 0).record_failure(ERROR)


def test_errors_before_a_reset_do_not_count() -> None:
    clock = ManualClock(0)
    retry = Retry(clock, 100, 1000, 60_000)
    for _ in range(3):
        retry.record_failure(ERROR)
        clock.advance(50_000)
        retry.reset()
        assert not retry.is_failing
        clock.advance(50_000)
