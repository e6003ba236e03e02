"""How many records go between two looks at the clock, and when a turn is over."""

from __future__ import annotations

import pytest

from processor_api.clock import ManualClock
from streams.runtime.processing.pace import CHECK_INTERVAL_S, DRAIN_S, RUN_MAX, TURN_MIN_S, TURN_S, Pace


class Time(ManualClock):
    """As fine as is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


class Kit:
    def __init__(self, transaction_timeout_s: float | None = None, poll_interval_s: float = 300.0) -> None:
        self.time = Time()
        self.full = self.stops = False
        self.pace = Pace(self.time, transaction_timeout_s, poll_interval_s, lambda: self.full)
        self.pace.stopping = lambda: self.stops
        self.run = 1

    def process(self, seconds: float, records: int = 10_000) -> list[int]:
        """Records of so many seconds each, until the turn is over; the lengths of the runs."""
        runs: list[int] = []
        while not self.pace.over and sum(runs) < records:
            self.time.now += seconds * self.run
            runs.append(self.run)
            self.run = self.pace.check(self.run, lambda: ("a record", {"offset": sum(runs) - 1}))
        return runs


@pytest.mark.parametrize(("seconds", "longest"), [(1e-6, 128), (2e-6, 64), (1e-9, RUN_MAX), (1e-5, 16), (1e-3, 1)])
def test_a_run_takes_about_as_long_as_is_worth_a_look(seconds: float, longest: int) -> None:
    kit = Kit()
    kit.pace.begin_turn(commit_due=1e9)
    runs = kit.process(seconds, 500)
    assert runs[0] == 1
    assert max(runs) == longest
    assert max(runs) * seconds <= max(CHECK_INTERVAL_S, seconds)  # a run has one record at least


def test_what_becomes_slow_is_looked_at_after_each_record_at_once() -> None:
    kit = Kit()
    kit.pace.begin_turn(commit_due=1e9)
    kit.process(1e-6, 500)
    assert kit.process(0.02)[1:] == []  # the turn is over with the run that was slow
    kit.pace.begin_turn(commit_due=1e9)
    assert set(kit.process(0.02)) == {1}


@pytest.mark.parametrize(
    ("due", "expected"), [(0.0, TURN_MIN_S), (0.05, 0.05), (1e9, TURN_S)], ids=["overdue", "soon", "later"]
)
def test_a_turn_is_over_when_a_commit_is_due(due: float, expected: float) -> None:
    kit = Kit()
    kit.pace.begin_turn(due)
    kit.process(0.001)
    assert kit.time.now == pytest.approx(expected, abs=0.0011)


def test_a_turn_is_over_with_a_stop_or_when_memory_is_full() -> None:
    for name in ("stops", "full"):
        kit = Kit()
        kit.pace.begin_turn(commit_due=1e9)
        kit.process(0.001, 5)
        setattr(kit, name, True)
        assert kit.process(0.001) == [1]


def test_short_time_outs_shorten_turns() -> None:
    kit = Kit(transaction_timeout_s=0.1)
    kit.pace.begin_turn(commit_due=1e9)
    kit.process(0.001)
    assert kit.time.now == pytest.approx(0.025, abs=0.0011)


def test_a_drain_bounds_what_is_processed_before_the_next() -> None:
    kit = Kit()
    kit.pace.drains.processed(100)
    kit.pace.record_drain(2.0)
    kit.pace.committed()
    assert kit.pace.drains.records_left == DRAIN_S / 0.02
    after = Kit().pace.drains
    after.learn_from(kit.pace.drains)
    assert after.records_left == DRAIN_S / 0.02
    kit.pace.drains.processed(100)
    kit.pace.record_drain(0.0)
    kit.pace.committed()
    assert kit.pace.drains.records_left > 1_000_000


def test_the_slowest_call_is_told_with_its_place() -> None:
    kit = Kit(poll_interval_s=5.0)
    kit.pace.begin_turn(commit_due=1e9)
    kit.process(0.2, 1)
    kit.pace.calls.record(0.3, "a punctuation of node 'n'", {"node": "n"})
    kit.pace.calls.record(0.25, "another", {})
    assert str(kit.pace.calls.slowest) == "a punctuation of node 'n' took 0.3 s"
    assert not kit.pace.poll_is_late
    kit.pace.calls.record(5.0, "a third", {"node": "m"})
    assert kit.pace.poll_is_late
    kit.pace.committed()
    assert kit.pace.calls.slowest is None
    assert kit.pace.calls.committed == {"a punctuation of node 'n'", "another", "a third"}
