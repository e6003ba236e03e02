"""The bench of faults deals every kind of fault, waits by what happens, and says what it found."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from itertools import combinations, count, islice, product

import pytest

from tools.chaos.cluster import state_of
from tools.chaos.faults import KINDS, kinds_of
from tools.chaos.patience import LONGEST, Patience, wait_for
from tools.chaos.results import Kind, Problem
from tools.chaos.setups import SETUPS, Setup, dealt_kinds
from tools.chaos.verified import FAULTS, Outcome, Plan, line, main, summary

KINDS_BY_SETUP = {setup.name: kinds_of(setup) for setup in SETUPS}
SEEDS = range(1, 30)


def test_each_pair_of_properties_is_in_a_setup() -> None:
    """Otherwise an error that needs two of them together is not found."""
    properties = {
        "protocol": lambda one: one.protocol,
        "exactly once": lambda one: one.exactly_once,
        "supervisor": lambda one: one.processes > 1,
        "standby copies": lambda one: one.standbys > 0,
        "snapshots": lambda one: one.snapshots,
    }
    for one, other in combinations(properties.values(), 2):
        values = {(one(setup), other(setup)) for setup in SETUPS}
        assert values == set(product(map(one, SETUPS), map(other, SETUPS)))
    assert {setup.threads > 1 for setup in SETUPS} == {True, False}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_has_every_kind_of_fault(seed: int) -> None:
    turns = list(islice(dealt_kinds(KINDS_BY_SETUP, seed), FAULTS // len(SETUPS)))
    assert {kind for turn in turns for kind in turn.values()} == set(KINDS)


def test_a_setup_has_only_faults_that_it_can_have() -> None:
    for seed in SEEDS:
        for turn in islice(dealt_kinds(KINDS_BY_SETUP, seed), 30):
            assert turn.keys() == KINDS_BY_SETUP.keys()
            assert all(kind in KINDS_BY_SETUP[name] for name, kind in turn.items())


def test_kinds_come_about_equally_often() -> None:
    turns = list(islice(dealt_kinds(KINDS_BY_SETUP, 1), 200))
    for name, kinds in KINDS_BY_SETUP.items():
        found = Counter(turn[name] for turn in turns)
        assert found.keys() == set(kinds)


def plan_of(*setups: Setup, faults: int = 1) -> Plan:
    return Plan(setups, faults, None, 1, 100, ())


def test_a_setup_has_the_same_faults_alone_and_however_many_they_are() -> None:
    for setup in SETUPS:
        few = list(islice(plan_of(*SETUPS).kinds(setup, 3), 4))
        many = list(islice(plan_of(setup, faults=9).kinds(setup, 3), 9))
        assert many[:4] == few


def test_a_run_is_each_setup_once_and_with_minutes_again_with_the_next_seeds() -> None:
    assert list(plan_of(*SETUPS).runs()) == [(1, setup) for setup in SETUPS]
    long = Plan(SETUPS, 1, 60.0, 5, 100, ())
    assert [seed for seed, _ in islice(long.runs(), 2 * len(SETUPS))] == [5] * len(SETUPS) + [6] * len(SETUPS)
    assert list(Plan(SETUPS, 1, 0.0, 5, 100, ()).runs()) == []


class Clock(Patience):
    """A clock that goes on by a second at each look."""

    def __init__(self) -> None:
        self._seconds = count()

    def now(self) -> float:
        return next(self._seconds)


def test_a_wait_ends_when_nothing_moves() -> None:
    looks = Counter[str]()

    def never() -> bool:
        looks["condition"] += 1
        return False

    assert not wait_for(never, within_s=10, pause_s=0, patience=Clock())
    assert looks["condition"] == 11


def test_a_wait_goes_on_while_something_moves_but_not_for_ever() -> None:
    moves = count()
    for most, progress in ((10, lambda: 7), (10 * LONGEST, lambda: next(moves))):
        clock = Clock()
        assert not wait_for(lambda: False, within_s=10, progress=progress, pause_s=0, patience=clock)
        assert most < clock.now() <= most + 5
    left = iter(range(30))
    assert wait_for(
        lambda: next(left, None) is None, within_s=10, progress=lambda: next(moves), pause_s=0, patience=Clock()
    )


def test_an_unknown_progress_is_none() -> None:
    assert not wait_for(lambda: False, within_s=10, progress=lambda: None, pause_s=0, patience=Clock())


def test_a_busy_machine_has_more_time() -> None:
    clock, quiet = Patience(), Patience()
    for _ in range(50):
        clock.observe(1000.0)
    began, quiet_began = clock.now(), quiet.now()
    assert wait_for(lambda: quiet.now() - quiet_began > 0.05, pause_s=0.01)
    assert clock.now() - began < (quiet.now() - quiet_began) / 2


def test_a_process_is_seen_to_stand_and_to_have_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        process.send_signal(signal.SIGSTOP)
        assert wait_for(lambda: state_of(process.pid) == "T", pause_s=0.01)
        process.send_signal(signal.SIGCONT)
        assert wait_for(lambda: state_of(process.pid) != "T", pause_s=0.01)
    finally:
        process.kill()
        process.wait()
    assert state_of(process.pid) == ""


def test_the_line_of_a_setup_has_all_that_was_counted() -> None:
    done = Counter({"kill a worker": 2, "freeze a worker": 1})
    counts = {Kind.LOST: 1, Kind.DOUBLED: 2, Kind.WRONG: 0}
    wrong = {"windows": [Problem(Kind.LOST, 1, "window a"), Problem(Kind.DOUBLED, 2, "window b")]}
    setup = SETUPS[0]
    text = line(7, setup, Outcome(done, Counter(), 123, counts, wrong), 9.0)
    assert text.startswith(f"NO  seed 7, {setup.name} (group.protocol=classic, exactly_once_v2, 3 workers, snapshots)")
    assert "3 faults (freeze a worker; kill a worker 2 times); 123 records, 1 lost, 2 doubled, 0 wrong" in text
    assert line(7, setup, Outcome(done, Counter(), 123, dict.fromkeys(Kind, 0)), 9.0).startswith("ok  seed 7")
    assert line(7, setup, Outcome(done, complaints=["worker 1 ended"]), 9.0).startswith("NO  ")


def test_the_summary_names_the_kinds_that_never_took_effect() -> None:
    every = Counter(dict.fromkeys(KINDS, 1))
    assert "never" not in summary([Outcome(every)])
    text = summary([Outcome(every - Counter(["kill a broker"]), Counter(["kill a broker"]))])
    assert "never took effect: kill a broker" in text.splitlines()
    assert text.splitlines()[-1] == "all results are right"
    assert summary([Outcome(every), Outcome(complaints=["worker 1 ended"])]).splitlines()[-1] == "1 runs are wrong"


def test_the_summary_counts_what_at_least_once_allows_apart() -> None:
    doubled = {Kind.LOST: 0, Kind.DOUBLED: 3, Kind.WRONG: 0}
    assert summary([Outcome(counts=doubled)]).startswith("1 runs, 0 faults, 0 records: 0 lost, 3 doubled, 0 wrong\n")
    text = summary([Outcome(counts=doubled, exactly_once=False)])
    assert text.startswith("1 runs, 0 faults, 0 records: 0 lost, 0 doubled, 0 wrong (3 doubled at least once)\n")


@pytest.mark.parametrize("given", [["--faults", "0"], ["--setup", "none"], ["--seed", "x"], ["--minutes", "-1"]])
def test_wrong_arguments_are_said(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(given)
    assert ended.value.code == 2
    assert given[0] in capsys.readouterr().err
