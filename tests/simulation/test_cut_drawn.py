"""A run that a crash cuts gives what one gives that runs through, for topologies that are drawn at random.

They read one topic, and each of their subtopologies reads one, so that the order of records does not depend on when
they come. There is no cache: what it holds back depends on when commits are. Nor is there a left or outer join of
streams, whose unmatched records may leave at another record after a restart (semantics 57).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from golden_support.calls import take
from golden_support.composed import drawn_of_one_topic, topology_of
from processor_api.errors import TopologyError
from processor_api.topology.subtopology import task_subtopologies
from simulation_support.stateful import EMITS, STRINGS, InputRecord
from streams import StreamsConfig
from streams.testing.simulation import Action
from streams.testing.simulation.run import run_seed
from streams.testing.simulation.scenario import Outcome, Scenario
from streams.testing.simulation.schedule import Shape

KINDS = ("kill", "kill, empty", "power", "stop")
CALLS = ("", "", "commit_transaction", "commit_transaction done", "flush", "write database", "produce")
SETTINGS: Mapping[str, Any] = {
    **STRINGS,
    **EMITS,
    "application.id": "cut",
    "bootstrap.servers": "simulated:1",
    "processing.guarantee": "exactly_once_v2",
    "max.poll.records": 3,
    "statestore.cache.max.bytes": 0,
}
NAMES_OFFSETS = re.compile(r"SUPPRESS|-n[0-9]+-store-|SUBSCRIPTION|Buffer")
"""Changelogs whose values have the offsets of records, and those of rolled-back transactions count in them."""


def built(text: str, settings: Mapping[str, Any]) -> Any:
    return topology_of(text)(StreamsConfig.of(dict(settings)))


def settings_of(program: Mapping[str, Any], chance: Random) -> dict[str, Any] | None:
    """Its settings, or ``None`` if it cannot be built, or the order of its records depends on more than the input."""
    if any(node["op"] in ("join.stream_left", "join.stream_outer") for node in program["nodes"]):
        return None
    settings = {**program["config"], **SETTINGS, "commit.interval.ms": chance.choice([50, 500])}
    try:
        topology = built(json.dumps(program), settings)
    except (TopologyError, ValueError):
        return None
    return settings if all(len(part.topics) <= 1 for part in task_subtopologies(topology)) else None


def outcome_of(program: Mapping[str, Any], settings: Mapping[str, Any], actions: list[Action]) -> Outcome:
    outcomes: list[Outcome] = []
    (topic,) = program["inputs"]
    steps = [step for step in program["steps"] if step.get("key") is not None]
    scenario = Scenario(
        topology=lambda: built(json.dumps(program), settings),
        inputs={topic: [InputRecord(step["key"], step["value"], step["at"], 0) for step in steps]},
        checks=[outcomes.append],
        topics=dict.fromkeys([topic, *program["outputs"]], 1),
        settings=dict(settings),
        restores=False,
        feeding="before",
    )
    run = run_seed(scenario, 0, Shape(1, 1, 0.1, replaces_threads=True, wraps=False, steps=600), actions)
    take()
    if run.failure is not None:
        raise run.failure
    return outcomes[0]


def check(seed: int) -> bool:
    """Returns whether the topology of a seed could be compared."""
    chance = Random(f"crashes of {seed}")
    program = drawn_of_one_topic(seed)
    settings = settings_of(program, chance)
    if settings is None:
        return False
    actions = [
        Action(
            kind=chance.choice(KINDS),
            at=chance.randint(20, 600),
            call=chance.choice(CALLS),
            seconds=chance.choice([0.0, 1.0]),
        )
        for _ in range(chance.randint(1, 2))
    ]
    whole, cut = (outcome_of(program, settings, some) for some in ([], actions))
    for name in program["outputs"]:
        expected, found = ([(one.key, one.value, one.timestamp) for one in each.records(name)] for each in (whole, cut))
        assert found == expected, (seed, name, actions)
    for name in whole.topics:
        if name.endswith("-changelog") and not NAMES_OFFSETS.search(name):
            expected_rows, rows = (sorted(each.table(name).values()) for each in (whole, cut))
            assert rows == expected_rows, (seed, name, actions)
    return True


def test_drawn_topologies_that_are_cut_give_what_they_give_without() -> None:
    assert sum(check(seed) for seed in range(80)) > 30


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(20))
def test_many_drawn_topologies_that_are_cut_give_what_they_give_without(hundred: int) -> None:
    assert sum(check(seed) for seed in range(1000 + 100 * hundred, 1100 + 100 * hundred)) > 35
