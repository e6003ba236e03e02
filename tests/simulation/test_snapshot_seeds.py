"""Workers that lose their disks and begin with snapshots: what comes out is what the whole changelogs would give.

The place of snapshots fails now and then, writers and readers of snapshots are killed and frozen at any step, brokers
are away meanwhile, and workers join and leave while snapshots are written and taken.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from simulation_support.scenarios import KEPT_IN_MEMORY, WITH_COPIES, scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import plan, run_seed

ON_DISK = ["count", "windows", "sessions", "versioned", "numbered", "expiring", "punctuated"]
IN_MEMORY = [
    *KEPT_IN_MEMORY,
    *("count", "expiring", "tumbling", "hopping", "sliding", "session-windows", "final-windows", "suppressed-windows"),
    *("suppressed-table", "table-joined", "streams-joined", "outer-joined", "cogrouped"),
]
COPIES = [name for name in WITH_COPIES if name != "copies-of-custom"]
SNAPSHOTS = {"state.snapshot.dir": "/snapshots", "state.snapshot.interval.ms": 700}
CALLS = ["copy database", "write snapshot", "snapshot written", "read snapshot", "replace database", "delete snapshot"]
CALLS_IN_MEMORY = [*CALLS, "write copy", "read copy"]


def run(seed: int, names: list[str], calls: list[str] = CALLS, **settings: Any) -> tuple[str, int]:
    """Runs a seed with workers that lose their disks; returns what went wrong, and how many snapshots were taken."""
    name, scenario = scenario_of(seed, names[seed % len(names)])
    shape, drawn = plan(seed)
    shape = replace(shape, steps=4000)
    chance = Random(seed)
    for _ in range(chance.randint(2, 5)):
        call = chance.choice(calls) if chance.random() < 0.5 else ""
        kind = chance.choice(("kill, empty", "kill, empty", "kill, empty", "freeze", "outage", "join", "stop"))
        seconds = chance.choice((0.0, 1.0, 8.0, 40.0))
        if kind in ("outage", "join", "stop"):
            call = ""
        drawn.append(Action(kind, chance.randrange(200, shape.steps), chance.randrange(shape.workers), call, seconds))
    actions = sorted(drawn, key=lambda action: action.at)
    given = {**scenario.settings, **SNAPSHOTS, **{key.replace("_", "."): value for key, value in settings.items()}}
    found = run_seed(replace(scenario, settings=given), seed, shape, actions)
    why = "" if found.failure is None else f"seed {seed}, {name}: {found.failure}\n" + "\n".join(found.happened)
    return why, sum(line.endswith("with a snapshot") for line in found.happened)


def run_on_disk(seed: int) -> tuple[str, int]:
    return run(seed, ON_DISK)


def run_in_memory(seed: int) -> tuple[str, int]:
    return run(seed, IN_MEMORY, CALLS_IN_MEMORY, default_dsl_store="in_memory")


def run_with_copies(seed: int) -> tuple[str, int]:
    """Standby tasks begin with snapshots too, and are compared with their tasks at the end."""
    return run(seed, COPIES, CALLS_IN_MEMORY)


RUNS = {"on disk": run_on_disk, "in memory": run_in_memory, "with copies": run_with_copies}


@pytest.mark.parametrize(("what", "least"), [("on disk", 4), ("in memory", 4), ("with copies", 4)])
def test_snapshots_give_what_changelogs_give(what: str, least: int) -> None:
    found = [RUNS[what](seed) for seed in range(5)]
    assert [why for why, _ in found if why] == []
    assert sum(taken for _, taken in found) >= least


@pytest.mark.slow
@pytest.mark.parametrize("what", RUNS)
def test_snapshots_give_what_changelogs_give_in_many_seeds(what: str) -> None:
    assert [why for why, _ in map(RUNS[what], range(5, 200)) if why] == []
