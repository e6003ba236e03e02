"""How long trouble is borne, and how long each wait is."""

from __future__ import annotations

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError
from streams.runtime.tasks.retry import LastingTrouble, Trouble

ERROR = RetryableError("no broker answers", topic="t", partition=3)


def test_the_waits_double_up_to_the_longest() -> None:
    trouble = Trouble(ManualClock(0), 100, 1000, 60_000)
    assert [trouble.met(ERROR) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    trouble.over()
    assert trouble.met(ERROR) == 0.1
    assert trouble.backoff_s() == 0.2


def test_a_first_wait_above_the_longest_is_the_longest() -> None:
    trouble = Trouble(ManualClock(0), 500, 100, 60_000)
    assert [trouble.backoff_s() for _ in range(3)] == [0.5, 0.5, 0.5]


def test_trouble_that_lasts_is_an_error_with_the_place_of_the_last_one() -> None:
    clock = ManualClock(0)
    trouble = Trouble(clock, 100, 1000, 60_000)
    trouble.met(ERROR)
    clock.advance(59_999)
    trouble.met(ERROR)
    assert trouble.lasts
    clock.advance(1)
    with pytest.raises(LastingTrouble, match="no progress for 60 s") as e:
        trouble.met(ERROR)
    assert (e.value.topic, e.value.partition) == ("t", 3)
    assert e.value.__cause__ is ERROR


def test_what_is_over_does_not_count() -> None:
    clock = ManualClock(0)
    trouble = Trouble(clock, 100, 1000, 60_000)
    for _ in range(3):
        trouble.met(ERROR)
        clock.advance(50_000)
        trouble.over()
        assert not trouble.lasts
        clock.advance(50_000)
