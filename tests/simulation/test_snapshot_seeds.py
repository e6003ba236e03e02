"""Workers that lose their disks and begin with snapshots: what comes out is what the whole changelogs would give.

The place of snapshots fails now and then, and writers and readers of snapshots are killed and frozen at any step.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import plan, run_seed

APPLICATIONS = ["count", "windows", "sessions", "versioned", "numbered", "expiring", "punctuated"]
SNAPSHOTS = {"state.snapshot.dir": "/snapshots", "state.snapshot.interval.ms": 700}
CALLS = ["copy database", "write snapshot", "snapshot written", "read snapshot", "replace database", "delete snapshot"]


def run(seed: int) -> tuple[str, int]:
    """Runs a seed with workers that lose their disks; returns what went wrong, and how many snapshots were taken."""
    name, scenario = scenario_of(seed, APPLICATIONS[seed % len(APPLICATIONS)])
    shape, drawn = plan(seed)
    shape = replace(shape, steps=4000)
    chance = Random(seed)
    for _ in range(chance.randint(2, 5)):
        call = chance.choice(CALLS) if chance.random() < 0.5 else ""
        kind = chance.choice(("kill, empty", "kill, empty", "kill, empty", "freeze"))
        seconds = chance.choice((0.0, 1.0, 8.0, 40.0))
        drawn.append(Action(kind, chance.randrange(200, shape.steps), chance.randrange(shape.workers), call, seconds))
    actions = sorted(drawn, key=lambda action: action.at)
    found = run_seed(replace(scenario, settings={**scenario.settings, **SNAPSHOTS}), seed, shape, actions)
    why = "" if found.failure is None else f"seed {seed}, {name}: {found.failure}\n" + "\n".join(found.happened)
    return why, sum(line.endswith("with a snapshot") for line in found.happened)


def test_snapshots_give_what_changelogs_give() -> None:
    found = [run(seed) for seed in range(14)]
    assert [why for why, _ in found if why] == []
    assert sum(taken for _, taken in found) >= 10


@pytest.mark.slow
def test_snapshots_give_what_changelogs_give_in_many_seeds() -> None:
    assert [why for why, _ in map(run, range(14, 400)) if why] == []
