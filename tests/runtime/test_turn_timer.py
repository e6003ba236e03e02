"""Records that become slow in the middle of a run: the turn ends behind the one that is being processed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.clock import ManualClock, SystemClock
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from runtime_support.task_kit import TaskKit
from streams.runtime.processing.pace import Pace
from streams.runtime.tasks.turn_timer import SLOW_RECORD_S, TurnTimer
from streams.threads import SYSTEM_THREADS, SystemThreads, Thread
from waiting import DEADLINE_S, wait_until

FAST = 3000


def passing_on(function: Any, *, branches: int = 1) -> Topology:
    builder = StreamsBuilder(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    for number in range(branches):
        builder.stream(f"in{number or ''}").map_values(function).to("out")
    return builder.build()


def lines(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [one for one in caplog.records if one.msg.startswith("a record takes long")]


def test_a_turn_ends_behind_the_record_that_another_thread_has_seen_to_take_long(tmp_path: Path) -> None:
    """Sixteen more records were processed, and a transaction that was over by then was rolled back."""
    clock = ManualClock()
    pace = Pace(clock, 10.0, 300.0)
    seen: list[str] = []

    def asks(value: str) -> str:
        seen.append(value)
        if value.startswith("slow"):
            clock.advance(1000)
            pace.look()  # as the other thread does
        return value

    with TaskKit(passing_on(asks), tmp_path, pace=pace) as kit:
        for number in range(FAST):
            kit.add("in", b"k", b"fast-%d" % number, 1)
        pace.begin_turn(1e9)
        while kit.task.has_records():
            kit.task.process(FAST)
        for number in range(20):
            kit.add("in", b"k", b"slow-%d" % number, 1)
        for number in range(20):
            before = len(seen)
            pace.begin_turn(1e9)
            assert kit.task.process(100) == 1
            assert pace.over
            assert seen[before:] == [f"slow-{number}"]
            slowest = pace.calls.slowest
            assert slowest is not None
            assert (slowest.seconds, slowest.records, slowest.place["offset"]) == (1.0, 1, FAST)
        assert len(seen) == FAST + 20


def test_a_record_that_takes_long_is_named_while_it_does(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entered, release = threading.Event(), threading.Event()

    def waits(value: str) -> str:
        if value == "slow":
            entered.set()
            assert release.wait(DEADLINE_S)
        return value

    with caplog.at_level(logging.WARNING, "streams"), Cluster(tmp_path, topics={"in": 1, "out": 1}) as kit:
        kit.start(passing_on(waits))
        kit.send("quick", "slow", "quick again")
        assert entered.wait(DEADLINE_S)
        wait_until("the record is named", lambda: bool(lines(caplog)))
        release.set()
        kit.until(lambda: len(kit.values("out")) == 3)
        (line,) = lines(caplog)
        assert (line.topic, line.partition, line.offset) == ("in", 0, 1)
        assert line.seconds >= SLOW_RECORD_S
    assert not [one for one in threading.enumerate() if one.name == "turn-timer"]


def test_a_stop_waits_for_the_record_that_is_processed_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Those behind it in the run were processed too, however long each took."""
    entered, release = threading.Event(), threading.Event()
    seen: list[str] = []

    def waits(value: str) -> str:
        seen.append(value)
        if value == "slow":
            entered.set()
            assert release.wait(DEADLINE_S)
        return value

    with caplog.at_level(logging.WARNING, "streams"), Cluster(tmp_path, topics={"in": 1, "out": 1}) as kit:
        app = kit.start(passing_on(waits))
        kit.send(*(f"fast-{number}" for number in range(FAST)))
        kit.until(lambda: len(kit.values("out")) == FAST)
        kit.send("slow", *(f"behind-{number}" for number in range(50)))
        assert entered.wait(DEADLINE_S)
        closing = threading.Thread(target=app.close)
        closing.start()
        wait_until("the thread is asked to end", lambda: app.state.name == "PENDING_SHUTDOWN")
        caplog.clear()
        wait_until("the timer has looked", lambda: bool(lines(caplog)))
        release.set()
        closing.join(DEADLINE_S)
        assert not closing.is_alive()
        assert [one for one in seen if one.startswith("behind")] == []


class OneAtATime(SystemThreads):
    """Threads as those of a simulation."""

    run_beside_each_other = False

    def thread(self, run: Callable[[], None], name: str) -> Thread:
        raise AssertionError(name)


def test_nothing_is_looked_at_where_threads_do_not_run_beside_each_other() -> None:
    TurnTimer(OneAtATime(), ManualClock()).watch(Pace(ManualClock(), None, 300.0), "a thread")


def test_the_thread_ends_with_the_last_one_that_it_looks_at() -> None:
    timer, pace = TurnTimer(SYSTEM_THREADS, SystemClock()), Pace(SystemClock(), None, 300.0)

    def is_there() -> bool:
        return any(one.name == "turn-timer" for one in threading.enumerate())

    for _ in range(2):
        timer.watch(pace, "one")
        timer.watch(pace, "two")
        wait_until("it has looked", lambda: bool(pace.calls.late))
        timer.forget("one")
        assert is_there()
        timer.forget("two")
        timer.forget("two")
        wait_until("it has ended", lambda: not is_there())
        pace.begin_turn(1e9)
