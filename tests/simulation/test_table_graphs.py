"""Graphs of tables that are drawn at random end with the rows that follow from their sources, whatever happens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pytest

from simulation_support.scenarios import scenario_of
from simulation_support.table_graphs import Change, Node, check_rows, drawn_graph, rows_of
from streams.testing.simulation.run import check_seed, plan, run_seed
from streams.testing.simulation.scenario import InputRecord, Outcome, OutputRecord

NAME = "table-graphs"


def test_the_last_rows_follow_from_the_sources() -> None:
    """Where nothing goes wrong besides: it is about caches, commits and the order in which tables change."""
    for seed in range(10):
        _, scenario = scenario_of(seed, NAME)
        run = run_seed(scenario, seed, plan(seed, kinds=())[0], ())
        assert run.failure is None, f"seed {seed}: {run.failure}"


def test_the_last_rows_follow_from_the_sources_after_crashes_and_deployments() -> None:
    for seed in range(1000, 1008):
        _, scenario = scenario_of(seed, NAME)
        check_seed(scenario, seed, NAME)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 12_000, 100))
def test_the_last_rows_of_many_graphs_follow_from_their_sources(first: int) -> None:
    for seed in range(first, first + 100):
        _, scenario = scenario_of(seed, NAME)
        check_seed(scenario, seed, NAME)


def test_graphs_of_all_kinds_are_drawn() -> None:
    """With each operator and source, deployments that change them, and both engines."""
    made = [drawn_graph(Random(seed)) for seed in range(60)]
    assert 10 < sum(scenario.deployed is not None for scenario in made) < 50
    assert {scenario.settings["default.dsl.store"] for scenario in made} == {"rocksDB", "in_memory"}
    assert len({scenario.settings["statestore.cache.max.bytes"] for scenario in made}) > 4


# ---------------------------------------------------------------------------- the recomputation itself

GRAPH = (Node("table"), Node("table"), Node("left_join", 0, 1, "cached"), Node("filter", 2), Node("sum", 3))


def record(key: str, value: int | None, time: int) -> InputRecord:
    return InputRecord(key, None if value is None else value.to_bytes(8, "big"), time)


INPUTS: Mapping[str, Sequence[InputRecord]] = {
    "in0": [record("k1", 5, 0), record("k2", 2, 1), record("k2", None, 2), record("k3", 1, 3)],
    "in1": [record("k1", 9, 0), record("k1", 4, 1), record("k3", 6, 2), record("k3", None, 3)],
}


def test_rows_are_recomputed_from_the_last_ones_of_the_sources() -> None:
    rows = rows_of(GRAPH, INPUTS)
    assert rows[:2] == [{"k1": 5, "k3": 1}, {"k1": 4}]
    assert rows[2] == {"k1": 5 * 7 + 4 * 3 + 1, "k3": 8}
    assert rows[3] == {"k3": 8}, "48 is divided by 3"
    assert rows[4] == {"k0": 8}


@pytest.mark.parametrize(
    ("kind", "times", "expected"),
    [
        ("tumbling", (0, 4999, 5000), {"k1@0-5000": 2, "k1@5000-10000": 1}),
        ("hopping", (2999, 3000), {"k1@0-6000": 2, "k1@3000-9000": 1}),
        ("sessions", (3000, 0, 6001), {"k1@0-3000": 2, "k1@6001-6001": 1}),
        ("sessions", (6000, 0, 3000), {"k1@0-6000": 3}),
        ("counted", (0, 7, 7), {"k1": 3}),
    ],
)
def test_counts_of_windows_are_recomputed(kind: str, times: Sequence[int], expected: Mapping[str, int]) -> None:
    assert rows_of([Node(kind)], {"in0": [record("k1", 1, time) for time in times]}) == [expected]


@pytest.mark.parametrize("wrong", [{}, {"k1": 48, "k3": 7}, {"k1": 48, "k3": 8, "k4": 1}])
@pytest.mark.parametrize("topic", ["out2", "simulated-s2-changelog"])
def test_a_row_that_is_missing_or_wrong_or_too_many_fails(topic: str, wrong: Mapping[str, int]) -> None:
    """As it was sent, and as the changelog of its store has it."""
    rows = rows_of(GRAPH, INPUTS)
    right = {f"out{number}": row for number, row in enumerate(rows)} | {"simulated-s2-changelog": rows[2]}
    check = check_rows(GRAPH, rows, Change(tuple(range(len(GRAPH)))))
    check(outcome(right))
    with pytest.raises(AssertionError, match="table 2"):
        check(outcome({**right, topic: wrong}))


def outcome(tables: Mapping[str, Mapping[str, int]]) -> Outcome:
    topics = {
        topic: [
            OutputRecord(key.encode(), value.to_bytes(8, "big"), 0, 0, offset, None)
            for offset, (key, value) in enumerate(rows.items())
        ]
        for topic, rows in tables.items()
    }
    return Outcome(True, INPUTS, topics)
