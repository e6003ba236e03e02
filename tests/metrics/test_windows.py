"""Rates, means and maxima of plain counters, beside Kafka's statistics that record each event."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.clock import ManualClock
from streams.metrics import Rate, WindowedCount
from streams.metrics.registry import Metrics

WINDOW_MS = 30_000


class Counters:
    def __init__(self) -> None:
        self.events, self.seconds, self.longest = 0, 0.0, 0.0

    def count(self, seconds: float) -> None:
        self.events += 1
        self.seconds += seconds
        self.longest = max(self.longest, seconds)


class Kit:
    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.counters = Counters()
        self.windows = Metrics(self.clock.time_ms).windows(self.counters, ("events", "seconds"), ("longest",))


def test_a_rate_is_the_growth_of_the_windows() -> None:
    """It begins without a peak, as Kafka's, and goes back to 0 when nothing happens."""
    kit = Kit()
    for _ in range(60):
        kit.counters.count(0.5)
    assert kit.windows.rate("events") == 60 / 30
    for second in range(1, 121):
        kit.clock.advance(1000)
        kit.windows.sample()
        if second == 30:
            assert kit.windows.rate("events") == 60 / 30
        if second == 60:
            assert kit.windows.rate("events") == 1.0
    assert kit.windows.rate("events") == 0.0
    assert kit.counters.events == 60


def test_a_mean_and_a_maximum_are_of_the_windows_alone() -> None:
    kit = Kit()
    assert math.isnan(kit.windows.mean("seconds", "events"))
    assert math.isnan(kit.windows.largest("longest", "events"))
    kit.counters.count(9.0)
    kit.counters.count(1.0)
    assert kit.windows.mean("seconds", "events") == 5.0
    assert kit.windows.largest("longest", "events") == 9.0
    for _ in range(3):
        kit.clock.advance(WINDOW_MS)
        kit.windows.sample()
        kit.counters.count(2.0)
    assert kit.windows.mean("seconds", "events") == 2.0
    assert kit.windows.largest("longest", "events") == 2.0


def test_without_samples_it_is_the_growth_since_the_last_one() -> None:
    """A thread that hangs takes none, and what it did counts for less and less."""
    kit = Kit()
    kit.counters.count(1.0)
    kit.clock.advance(1_000_000)
    assert kit.windows.rate("events") == 1 / 1000
    assert kit.windows.mean("seconds", "events") == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([100, 500, 3000])), min_size=1, max_size=200))
def test_it_agrees_with_kafkas_rate_but_for_a_window(steps: list[tuple[int, int]]) -> None:
    """Kafka's counts the events of two windows of which the older one goes as a whole; this one does not know at which
    moment of a window an event was. Both lie within what may be counted at all."""
    kit, kafkas = Kit(), Rate(WindowedCount())
    kafkas.sample_by(2, WINDOW_MS)
    times: list[int] = []
    for events, ms in steps:
        for _ in range(events):
            kit.counters.count(1.0)
            kafkas.record(1.0, kit.clock.time_ms())
            times.append(kit.clock.time_ms())
        kit.clock.advance(ms)
        kit.windows.sample()
    now = kit.clock.time_ms()
    most = sum(time > now - 3 * WINDOW_MS - 3000 for time in times)
    least = sum(time > now - WINDOW_MS for time in times)
    found = kit.windows.rate("events")
    assert least / 90 <= found * 1.04
    assert found <= most / 30
    if now - 1_000_000 < WINDOW_MS and times:
        whole = (now - 1_000_000 + WINDOW_MS) / 1000
        assert found == pytest.approx(len(times) / whole)
        assert kafkas.measure(now) >= found


def test_means_are_those_of_each_window() -> None:
    """What lies in none of the windows does not count, and a window without events has no mean."""
    kit = Kit()
    assert kit.windows.means("seconds", "events") == []
    kit.counters.count(1.0)
    kit.clock.advance(WINDOW_MS)
    kit.windows.sample()
    kit.counters.count(2.0)
    kit.counters.count(4.0)
    assert kit.windows.means("seconds", "events") == [1.0, 3.0]
    kit.clock.advance(WINDOW_MS)
    kit.windows.sample()
    assert kit.windows.means("seconds", "events") == [1.0, 3.0]
    kit.clock.advance(WINDOW_MS)
    kit.windows.sample()
    assert kit.windows.means("seconds", "events") == [3.0]
    kit.clock.advance(5 * WINDOW_MS)
    assert kit.windows.means("seconds", "events") == []
