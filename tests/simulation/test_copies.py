"""Copies of tasks under kills, freezes and rebalances: standby tasks equal their tasks and take over from what they
have, and workers that come fill copies before they take tasks over."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from simulation_support.scenarios import WITH_COPIES, WITH_WARM_UPS, scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import check_seed, run_seed
from streams.testing.simulation.schedule import Shape


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WITH_COPIES)
def test_workers_with_copies_keep_all_rules(name: str, seed: int) -> None:
    """Copies are compared with their tasks at the end of each run."""
    run = check_seed(scenario_of(seed, name)[1], seed, name)
    assert run.failure is None, Counter(action.kind for action in run.actions)


@pytest.mark.parametrize("name", WITH_WARM_UPS)
def test_workers_that_fill_copies_keep_all_rules(name: str) -> None:
    """No task is open twice, nothing is lost, and tasks are spread evenly at the end."""
    run = check_seed(scenario_of(1, name)[1], 1, name)
    assert run.failure is None, Counter(action.kind for action in run.actions)


EVENTS = {
    "nothing else": [],
    "the owner is killed": [Action("kill", 830, 0, seconds=8.0)],
    "the owner is killed when the other one joins for tasks": [Action("kill", 900, 0, call="commit", seconds=30.0)],
    "the owner stops": [Action("stop", 950, 0, seconds=30.0)],
    "the owner stands still": [Action("freeze", 950, 0, seconds=90.0)],
    "the one that comes is killed": [Action("kill", 900, 1, call="subscribe", seconds=1.0)],
    "the one that comes loses its disk": [Action("kill, empty", 1000, 1, seconds=0.0)],
    "the one that comes stands still": [Action("freeze", 950, 1, call="subscribe", seconds=40.0)],
    "the one that comes has a full disk": [Action("full disk", 850, 1, seconds=100.0)],
    "another one comes": [Action("join", 900), Action("kill", 1200, 2, seconds=1.0)],
    "changelogs are compacted": [Action("clean", 900), Action("truncate", 1000)],
    "no broker answers": [Action("outage", 900, seconds=20.0)],
}


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("name", ["warm-ups-of-numbered", "warm-ups-of-in-memory"])
def test_a_worker_comes_and(name: str, event: str) -> None:
    """Each count is made once, whatever happens while copies are filled."""
    scenario = scenario_of(len(event), name)[1]
    settings = {
        **scenario.settings,
        "processing.guarantee": "exactly_once_v2",
        "acceptable.recovery.lag": 3,
        "max.warmup.replicas": 1,
        "num.standby.replicas": 0,
    }
    shape = Shape(1, 1, 0.1, replaces_threads=True, wraps=False, steps=2500)
    run = run_seed(replace(scenario, settings=settings), len(event), shape, [Action("join", 800), *EVENTS[event]])
    assert run.failure is None
