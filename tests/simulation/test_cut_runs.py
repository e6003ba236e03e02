"""A run that a crash cuts gives what one gives that runs through, for every stateful operator.

Whatever the input, wherever the process dies, whether its disk is kept or lost, and with a cache or without: under
exactly-once the same results come out, in the same order, and the changelogs have the same rows in the end as those of
a run without a cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation_support.operators import OPERATORS, Operator
from simulation_support.stateful import (
    EMITS,
    PARTITIONS,
    STRINGS,
    InputRecord,
    Inputs,
    check_results,
    ends,
    of_partition,
    scenario_results,
)
from streams import StreamsBuilder
from streams.testing.simulation import Action
from streams.testing.simulation.run import run_seed
from streams.testing.simulation.scenario import Outcome, Scenario
from streams.testing.simulation.schedule import Shape

UNCACHED = {"statestore.cache.max.bytes": 0}
KINDS = ("kill", "kill, empty", "power", "stop")
CALLS = ("", "", "commit_transaction", "commit_transaction done", "flush", "write database", "produce")

records = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["k0", "k1", "k2"]),
        st.none() | st.sampled_from(["x0", "x1", "y2"]),
        st.integers(0, 60),
        st.integers(1, 2),
    ),
    min_size=1,
    max_size=25,
)
"""Topic, key, value, time and how often it comes: in any order, late, doubled, with tombstones."""
crashes = st.lists(
    st.builds(
        Action,
        kind=st.sampled_from(KINDS),
        at=st.integers(20, 600),
        call=st.sampled_from(CALLS),
        seconds=st.sampled_from([0.0, 1.0]),
    ),
    min_size=1,
    max_size=2,
)


def inputs_of(operator: Operator, given_records: list[Any]) -> Inputs:
    """The records of each topic, at times of its own, behind them some that close all windows."""
    found: dict[str, list[InputRecord]] = {topic: [] for topic in operator.topics}
    for topic, key, value, time, times in given_records:
        name = topic if topic in found else "a"
        found[name] += [InputRecord(key, value, 2 * time + "ab".index(name), of_partition(key))] * times
    for number, (name, rows) in enumerate(found.items()):
        rows += ends(name, number=number, times=1)
    return found


def outcome_of(operator: Operator, inputs: Inputs, actions: list[Action], config: Mapping[str, Any]) -> Outcome:
    """The topics after a run of the whole application with these crashes."""

    def topology() -> Any:
        builder = StreamsBuilder()
        operator.build(builder)
        return builder.build({**STRINGS, **EMITS, **config})

    outcomes: list[Outcome] = []
    scenario = Scenario(
        topology=topology,
        inputs=inputs,
        checks=[outcomes.append],
        topics={**dict.fromkeys(inputs, PARTITIONS), "out": PARTITIONS},
        settings={**STRINGS, **EMITS, "processing.guarantee": "exactly_once_v2", "max.poll.records": 3, **config},
        restores=False,
        feeding="before",
    )
    run = run_seed(scenario, 0, Shape(1, 1, 0.1, replaces_threads=True, wraps=False, steps=600), actions)
    if run.failure is not None:
        raise run.failure
    return outcomes[0]


def check_cut(
    operator: Operator, given_records: list[Any], actions: list[Action], cache: int, engine: str, commit_ms: int
) -> None:
    inputs = inputs_of(operator, given_records)
    config = {"statestore.cache.max.bytes": cache, "default.dsl.store": engine, "commit.interval.ms": commit_ms}
    found = outcome_of(operator, inputs, actions, config)
    expected = scenario_results(operator.build, inputs, together=operator.together, **config)
    check_results(found, expected, operator.cached if cache else operator.sure)
    whole = outcome_of(operator, inputs, [], {**config, **UNCACHED})
    for name in whole.topics:
        buffer = cache > 0 and "-store-" in name  # It has the old value of the last change: a cache left changes out.
        free = buffer or "SUBSCRIPTION" in name  # whether an answer was asked for depends on what a cache held back
        if name.endswith("-changelog") and not free:
            assert sorted(found.table(name).values()) == sorted(whole.table(name).values()), name


draws = st.tuples(
    records,
    crashes,
    st.sampled_from([0, 1_000, 1_000_000]),
    st.sampled_from(["rocksDB", "in_memory"]),
    st.sampled_from([50, 500]),
)


@pytest.mark.parametrize("name", OPERATORS)
@given(draws)
@settings(max_examples=3, deadline=None)
def test_a_run_that_is_cut_gives_what_one_gives_that_runs_through(name: str, drawn: Any) -> None:
    check_cut(OPERATORS[name], *drawn)


@pytest.mark.parametrize("name", ["sessions", "cogroup in sessions"])
def test_an_expired_session_that_a_cache_shows_is_joined_after_a_crash_too(name: str) -> None:
    rows = [("k0", 0)] * 8 + [("k1", 26), ("k0", 33), ("k1", 28)]
    kill = Action(kind="kill", at=20, seconds=0.0)
    check_cut(OPERATORS[name], [("a", key, None, time, 1) for key, time in rows], [kill], 1_000, "rocksDB", 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
@given(draws)
@settings(max_examples=60, deadline=None)
def test_many_runs_that_are_cut_give_what_one_gives_that_runs_through(name: str, drawn: Any) -> None:
    check_cut(OPERATORS[name], *drawn)
