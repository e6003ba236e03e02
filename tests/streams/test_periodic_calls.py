"""Calls that a thread has made from time to time on another one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, StreamsError, TopologyError
from streams.threads import Helper, PeriodicCall, SystemThreads

LOG = logging.getLogger("test")
PERIOD_S = 3.0


class Call:
    """A call under way, which ends when a test says so."""

    def __init__(self, call: Callable[..., Any], given: tuple[Any, ...]) -> None:
        self._call, self._given = call, given
        self._is_done = False

    def end(self) -> None:
        self._is_done = True

    def done(self) -> bool:
        return self._is_done

    def result(self) -> Any:
        return self._call(*self._given)


class ByHand(SystemThreads):
    """Makes a helper whose calls end when a test says so."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.made: list[str] = []
        self.ended: list[bool] = []
        """Whether each end of a helper has waited for its call."""

    def helper(self, name: str) -> Helper:
        self.made.append(name)
        return self

    def submit(self, call: Callable[..., Any], /, *args: Any) -> Call:
        self.calls.append(Call(call, args))
        return self.calls[-1]

    def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
        assert cancel_futures
        self.ended.append(wait)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def threads() -> ByHand:
    return ByHand()


def periodic(clock: ManualClock, threads: ByHand, tolerated: type[StreamsError] = RetryableError) -> PeriodicCall:
    return PeriodicCall("reader", clock, threads, (LOG, "not read yet"), tolerated)


def turn(calls: PeriodicCall, what: Callable[[], Any] = lambda: 7) -> Any:
    """One turn of the thread that uses it."""
    found = calls.take()
    if calls.is_due:
        calls.start(PERIOD_S, what)
    return found


def failing(error: Exception) -> Callable[[], Any]:
    def call() -> Any:
        raise error

    return call


def test_calls_are_made_once_in_a_period(clock: ManualClock, threads: ByHand) -> None:
    """Each result is given once."""
    calls = periodic(clock, threads)
    assert turn(calls) is None
    assert turn(calls) is None
    threads.calls[0].end()
    assert [turn(calls), turn(calls)] == [7, None]
    clock.advance(2_999)
    turn(calls)
    assert len(threads.calls) == 1
    clock.advance(1)
    turn(calls)
    assert len(threads.calls) == 2
    assert threads.made == ["reader"]


def test_a_pause_of_the_thread_makes_one_call_and_not_those_it_missed(clock: ManualClock, threads: ByHand) -> None:
    """What had ended before the pause is given after it."""
    calls = periodic(clock, threads)
    turn(calls)
    threads.calls[0].end()
    clock.advance(3_600_000)
    assert turn(calls) == 7
    for _ in range(5):
        turn(calls)
    assert len(threads.calls) == 2


def test_a_call_that_hangs_is_alone(clock: ManualClock, threads: ByHand) -> None:
    """Purges of an hour in which a broker stood still were made one after the other when it went on."""
    calls = periodic(clock, threads)
    for _ in range(1200):
        turn(calls)
        clock.advance(3_000)
    assert len(threads.calls) == 1
    threads.calls[0].end()
    assert turn(calls) == 7
    assert len(threads.calls) == 2


def test_tolerated_errors_are_logged_and_counted(
    clock: ManualClock, threads: ByHand, caplog: pytest.LogCaptureFixture
) -> None:
    """Equal ones once, and the next call is made in its time, and not at once."""
    calls = periodic(clock, threads)
    for number in range(3):
        turn(calls, failing(RetryableError("no broker answers")))
        threads.calls[-1].end()
        turn(calls)
        assert len(threads.calls) == number + 1, "its period is not over"
        clock.advance(3_000)
    assert calls.failures == 3
    assert [(one.message, vars(one)["error"], vars(one)["failures"]) for one in caplog.records] == [
        ("not read yet", "no broker answers", 1)
    ]
    turn(calls)
    threads.calls[-1].end()
    assert turn(calls) == 7
    assert calls.failures == 0


def test_other_errors_are_those_of_the_thread(clock: ManualClock, threads: ByHand) -> None:
    """Raised once; the next call is made as if nothing had been."""
    calls = periodic(clock, threads)
    turn(calls, failing(TopologyError("another number of partitions")))
    threads.calls[0].end()
    with pytest.raises(TopologyError):
        calls.take()
    assert calls.take() is None
    clock.advance(3_000)
    turn(calls)
    assert len(threads.calls) == 2
    wide = periodic(clock, threads, StreamsError)
    turn(wide, failing(TopologyError("no")))
    threads.calls[-1].end()
    assert wide.take() is None
    assert wide.failures == 1


def test_the_next_call_can_be_made_sooner_or_later(clock: ManualClock, threads: ByHand) -> None:
    calls = periodic(clock, threads)
    calls.after(10.0)
    clock.advance(9_999)
    assert not calls.is_due
    calls.within(60.0)
    clock.advance(1)
    assert calls.is_due
    calls.start(PERIOD_S, int)
    threads.calls[0].end()
    calls.take()
    calls.within(0.5)
    clock.advance(500)
    assert calls.is_due


@pytest.mark.parametrize("wait", [False, True])
def test_after_the_end_no_call_is_made_and_no_result_given(clock: ManualClock, threads: ByHand, wait: bool) -> None:
    """A turn after it would start a thread that none ends."""
    calls = periodic(clock, threads)
    turn(calls)
    threads.calls[0].end()
    calls.close(wait=wait)
    assert threads.ended == [wait]
    clock.advance(60_000)
    assert turn(calls) is None
    calls.start(PERIOD_S, int)
    assert len(threads.calls) == 1
    calls.close()
    assert threads.made == ["reader"]


def test_one_that_made_no_call_has_no_thread(clock: ManualClock, threads: ByHand) -> None:
    periodic(clock, threads).close(wait=True)
    assert threads.made == []
    assert threads.ended == []
