"""Few records gather before the next turn of a thread; a record after a silence waits for nothing."""

from __future__ import annotations

import pytest

from processor_api.clock import ManualClock
from streams.runtime.threads.intake import LIKELY, MANY, Gathering


@pytest.mark.parametrize(
    ("records", "passed_ms", "most_s", "waited_ms"),
    [
        (LIKELY, 0, 1.0, 8),
        (MANY - 1, 0, 1.0, 8),
        (MANY, 0, 1.0, 0),
        (LIKELY - 1, 0, 1.0, 0),  # too few are likely to come
        (LIKELY, 3, 1.0, 5),  # the turn has taken some of it
        (LIKELY, 8, 1.0, 0),
        (LIKELY, 50, 1.0, 0),
        (LIKELY, 0, 0.002, 2),  # something else is due before
        (LIKELY, 0, 0.0, 0),
    ],
)
def test_the_next_turn_waits_for_the_rest_of_the_moment(
    records: int, passed_ms: int, most_s: float, waited_ms: int
) -> None:
    clock = ManualClock(1000)
    gathering = Gathering(clock, 8)
    gathering.found(1)
    clock.advance(7)
    gathering.found(records)
    clock.advance(passed_ms)
    begin = clock.time_ms()
    gathering.wait(lambda: most_s)
    assert clock.time_ms() - begin == pytest.approx(waited_ms, abs=1)  # of a float, cut


def test_a_moment_is_waited_for_once() -> None:
    """A turn that found nothing is followed by the next without a wait: that one waits for the client."""
    clock = ManualClock(0)
    gathering = Gathering(clock, 8)
    gathering.wait(lambda: 1.0)
    gathering.found(50)  # after a silence
    gathering.wait(lambda: 1.0)
    assert clock.time_ms() == 0
    gathering.found(1)
    gathering.wait(lambda: 1.0)
    gathering.wait(lambda: 1.0)
    assert clock.time_ms() == 8


def test_zero_never_waits() -> None:
    clock = ManualClock(5)
    gathering = Gathering(clock, 0)
    gathering.found(1)
    gathering.found(50)
    gathering.wait(lambda: 1.0)
    assert clock.time_ms() == 5
