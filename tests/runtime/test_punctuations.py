"""Callbacks by stream time and by wall clock (semantics 90 to 92)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.punctuation import PunctuationType
from streams.runtime.processing.punctuations import NEVER, Punctuations, Schedule

STREAM, WALL = PunctuationType.STREAM_TIME, PunctuationType.WALL_CLOCK_TIME


class Runs:
    """What ran, as ``(node, now)``; a callback is called as the task does it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.punctuations = Punctuations(self._run)

    def _run(self, schedule: Schedule, now: int) -> None:
        self.seen.append((schedule.node, now))
        schedule.callback(now)

    def schedule(self, node: str, interval: int, kind: PunctuationType = STREAM, **more: Any) -> Schedule:
        more.setdefault("now_ms", -1 if kind is STREAM else 0)
        return self.punctuations.schedule(node, interval, kind, more.pop("callback", lambda now: None), **more)

    def at(self, now: int, kind: PunctuationType = STREAM) -> list[tuple[str, int]]:
        self.seen.clear()
        ran = self.punctuations.punctuate(kind, now)
        assert ran is bool(self.seen)
        return list(self.seen)


def test_stream_time_starts_at_the_first_record_on_a_grid_from_zero() -> None:
    """It gets the time that is, not the time that was due; what was missed is skipped."""
    runs = Runs()
    runs.schedule("n", 20)
    assert runs.punctuations.next_stream_time == 0
    assert runs.at(5) == [("n", 5)]
    assert runs.at(19) == []
    assert runs.at(20) == [("n", 20)]
    assert runs.at(95) == [("n", 95)]
    assert runs.punctuations.next_stream_time == 100


def test_the_wall_clock_starts_an_interval_from_now() -> None:
    runs = Runs()
    runs.schedule("n", 20, WALL, now_ms=105)
    assert (runs.punctuations.next_wall_clock, runs.punctuations.next_stream_time) == (125, NEVER)
    assert runs.at(124, WALL) == []
    assert runs.at(131, WALL) == [("n", 131)]
    assert runs.punctuations.next_wall_clock == 145


@pytest.mark.parametrize(
    ("start", "now", "due"), [(100, 0, 100), (100, 100, 100), (100, 101, 110), (100, 110, 110), (0, 7, 10), (3, -1, 3)]
)
@pytest.mark.parametrize("kind", [STREAM, WALL])
def test_an_anchored_one_skips_times_that_are_past(kind: PunctuationType, start: int, now: int, due: int) -> None:
    """It starts at the anchor, or on the anchor's grid from now on."""
    runs = Runs()
    runs.schedule("n", 10, kind, now_ms=now, start=start)
    assert runs.at(due - 1, kind) == []
    assert runs.at(due, kind) == [("n", due)]
    assert runs.at(due + 9, kind) == []
    assert runs.at(due + 10, kind) == [("n", due + 10)]


@pytest.mark.parametrize(("interval", "start"), [(0, None), (-5, None), (10, -1)])
def test_an_impossible_interval_or_start_names_the_node(interval: int, start: int | None) -> None:
    with pytest.raises(ValueError, match=f"node 'mine': .* got {interval if start is None else start}"):
        Runs().schedule("mine", interval, start=start)


def test_the_one_due_first_runs_first() -> None:
    """Of those due at the same time, the one scheduled first."""
    runs = Runs()
    runs.schedule("late", 50, now_ms=-1, start=50)
    runs.schedule("early", 10, start=10)
    runs.schedule("second", 10, start=10)
    assert runs.at(60) == [("early", 60), ("second", 60), ("late", 60)]


def test_cancelled_ones_do_not_run() -> None:
    """Also when one cancels another that is due in the same round; cancelling twice does nothing."""
    runs = Runs()
    second: list[Schedule] = []
    first = runs.schedule("first", 10, callback=lambda now: second[0].cancel())
    second.append(runs.schedule("second", 10))
    assert runs.at(0) == [("first", 0)]
    first.cancel()
    first.cancel()
    assert runs.at(100) == []
    assert runs.punctuations.next_stream_time == NEVER


def test_cancelling_inside_of_the_callback_ends_it() -> None:
    runs = Runs()
    own: list[Schedule] = []
    own.append(runs.schedule("n", 10, callback=lambda now: own[0].cancel()))
    assert runs.at(5) == [("n", 5)]
    assert runs.at(50) == []


def test_a_callback_may_schedule_more() -> None:
    """A new one by the wall clock waits for its interval; one by stream time is due at once."""
    runs = Runs()

    def more(now: int) -> None:
        if len(runs.seen) == 1:
            runs.schedule("wall", 10, WALL, now_ms=now)
            runs.schedule("stream", 10, STREAM, now_ms=now)

    runs.schedule("first", 1000, callback=more)
    assert runs.at(5) == [("first", 5), ("stream", 5)]
    assert runs.at(14, WALL) == []
    assert runs.at(15, WALL) == [("wall", 15)]


@given(
    interval=st.integers(1, 50),
    start=st.none() | st.integers(0, 200),
    first_now=st.integers(-1, 100),
    steps=st.lists(st.integers(0, 120), max_size=30),
)
def test_it_runs_once_when_at_least_one_grid_point_was_passed(
    interval: int, start: int | None, first_now: int, steps: list[int]
) -> None:
    """Held against counting grid points, for stream time."""
    runs = Runs()
    runs.schedule("n", interval, now_ms=first_now, start=start)
    grid = range(start or 0, 100_000, interval)
    done = -1 if start is None else first_now - 1
    now = max(first_now, 0)
    for step in steps:
        now += step
        passed = any(done < point <= now for point in grid[: (now // interval) + 2])
        assert runs.at(now) == ([("n", now)] if passed else [])
        done = max(done, now)
        assert runs.punctuations.next_stream_time == next(point for point in grid if point > done)
