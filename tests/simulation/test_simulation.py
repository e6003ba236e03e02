"""The simulation itself: it replays, finds what is wrong, tells it shortly, and refuses what it cannot repeat."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology
from simulation_support.scenarios import of_processor, scenario_of
from streams import StreamsBuilder
from streams.testing.simulation import KINDS, Action, InputRecord, Outcome, SimulationError, SimulationFailure, simulate
from streams.testing.simulation.run import plan, run_seed
from streams.testing.simulation.scheduler import Scheduler, SimulationStuck
from streams.testing.simulation.threads import ThreadsOfSimulation

S = Serdes.STRING
ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"default.key.serde": S, "default.value.serde": S, "processing.guarantee": "exactly_once_v2"}
INPUTS = {"in": [InputRecord(f"k{n}", f"v{n}", n) for n in range(40)]}


def passed() -> Any:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder


def each_once(outcome: Outcome) -> None:
    found = Counter(record.value for record in outcome.records("out"))
    assert found == Counter(str(one.value).encode() for one in INPUTS["in"])


@pytest.mark.slow
def test_a_seed_does_the_same_whatever_the_order_of_sets_is() -> None:
    script = (
        "from simulation_support.scenarios import scenario_of\n"
        "from streams.testing.simulation.run import plan, run_seed\n"
        "print([run_seed(scenario_of(n)[1], n, *plan(n)).digest for n in range(100, 114)])\n"
    )
    found = set()
    for hashes in ("1", "77"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hashes,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")]),
        }
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_a_report_says_what_was_done() -> None:
    report = simulate(passed, INPUTS, [each_once], seeds=range(12), topics={"in": 2, "out": 1}, settings=SETTINGS)
    assert report.seeds == 12
    assert report.steps > 12 * 1000
    assert {"kill", "fault"} <= set(report.actions) <= set(KINDS)


class Forgetful(Processor[str, str, str, str]):
    """Counts in a variable, which no restart brings back."""

    def __init__(self) -> None:
        self.count = 0

    def process(self, record: Record[str, str]) -> None:
        self.count += 1
        self.context.forward(record.with_value(f"{self.count}"))


def test_an_application_that_keeps_state_outside_of_stores_is_found_and_the_schedule_made_short() -> None:
    def in_order(outcome: Outcome) -> None:
        assert [int(record.value or b"") for record in outcome.records("out")] == list(range(1, 41))

    with pytest.raises(SimulationFailure) as caught:
        simulate(
            of_processor(Forgetful, "in"),
            INPUTS,
            [in_order],
            seeds=range(200),
            topics={"in": 1, "out": 1},
            settings=SETTINGS,
            kinds=("kill", "freeze", "clock", "event"),
        )
    run = caught.value.run
    assert len(run.actions) == 1, "one action is enough to show it"
    text = str(caught.value)
    assert f"seeds=[{run.seed}], keep=[" in text
    assert "everything heals" in text


def test_a_written_schedule_can_be_given() -> None:
    kill = Action("kill", at=200, worker=0, call="commit_transaction done", seconds=1.0)
    report = simulate(passed, INPUTS, [each_once], seeds=range(5), actions=[kill], settings=SETTINGS)
    assert report.actions == {"kill": 5}


def test_actions_that_there_are_not_are_refused_with_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match="there is no action 'explode'; there are kill"):
        Action("explode")
    with pytest.raises(ValueError, match="no call 'produce' can meet the fault 'is late'"):
        Action("fault", call="produce", detail="is late")


class Timed(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_timestamp(int(time.time())))


class Sleeping(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        time.sleep(0)
        self.context.forward(record)


class Threaded(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        threading.Thread(target=lambda: None).start()
        self.context.forward(record)


@pytest.mark.parametrize(
    ("processor", "call", "hint"),
    [
        (Timed, "time", "take the time from the record"),
        (Sleeping, "sleep", "schedule a punctuation"),
        (Threaded, "start_new_thread", "do not start threads"),
    ],
)
def test_user_code_that_looks_at_the_real_world_is_refused(processor: Any, call: str, hint: str) -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(of_processor(processor, "in"), INPUTS, topics={"out": 1}, settings=SETTINGS, seeds=range(1))
    text = str(caught.value)
    assert f"{processor.__name__}.process calls {call}" in text
    assert "test_simulation.py:" in text
    assert hint in text


class Random(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        for _ in range(random.randrange(4)):
            self.context.forward(record)


def test_user_code_that_draws_lots_is_refused() -> None:
    with pytest.raises(SimulationError, match="depends on something besides its records"):
        simulate(of_processor(Random, "in"), INPUTS, topics={"out": 1}, settings=SETTINGS, seeds=range(1))


def test_a_thread_that_does_not_come_back_is_named_with_its_place() -> None:
    forever = threading.Event()

    def waits_for_ever() -> None:
        forever.wait()

    scheduler = Scheduler(1, 0.5, 0, patience_s=0.5)
    with pytest.raises(SimulationStuck, match="thread 'director' has not come back") as caught:
        scheduler.run(waits_for_ever)
    assert "in waits_for_ever\n" in str(caught.value)
    forever.set()


def test_threads_that_all_wait_for_ever_are_told() -> None:
    scheduler = Scheduler(1, 0.5, 0)
    threads = ThreadsOfSimulation(scheduler)

    def main() -> None:
        threads.event().wait()

    with pytest.raises(SimulationStuck, match="every thread waits for ever: director waits for an event"):
        scheduler.run(main)


def test_time_passes_only_when_everybody_waits() -> None:
    scheduler = Scheduler(1, 0.5, 1000)
    threads = ThreadsOfSimulation(scheduler)
    seen: list[float] = []

    def main() -> None:
        other = threads.thread(lambda: scheduler.sleep(3600), "other")
        other.start()
        other.join()
        seen.append(scheduler.now)
        assert scheduler.clock.time_ms() >= 1000 + 3_600_000

    begin = time.monotonic()
    scheduler.run(main)
    assert seen[0] >= 3600
    assert time.monotonic() - begin < 3600


def test_one_seed_differs_from_the_next() -> None:
    runs = [run_seed(scenario_of(n, "count")[1], n, *plan(n)) for n in range(6)]
    assert len({run.digest for run in runs}) == 6


def test_an_unclean_topology_is_told_at_once() -> None:
    with pytest.raises(SimulationFailure, match="MissingTopicError"):
        simulate(lambda: Topology().add_source("s", "missing"), {}, seeds=range(1), settings=SETTINGS)
