"""Seeds of the simulation over applications whose members speak other protocols of groups than the classic one: that of
streams (KIP-1071), and that of consumers (KIP-848)."""

from __future__ import annotations

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import check_seed, run_seed
from streams.testing.simulation.schedule import Shape

STREAMS, CONSUMER = "streams-group", "consumer-protocol"


@pytest.mark.parametrize(("name", "first", "last"), [(STREAMS, 0, 8), (STREAMS, 8, 16), (CONSUMER, 0, 6)])
def test_nothing_goes_wrong(name: str, first: int, last: int) -> None:
    for seed in range(first, last):
        _, scenario = scenario_of(seed, name)
        check_seed(scenario, seed, name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "first", "last"), [(STREAMS, 16, 400), (CONSUMER, 6, 300)])
def test_nothing_goes_wrong_in_many_seeds(name: str, first: int, last: int) -> None:
    for seed in range(first, last):
        _, scenario = scenario_of(seed, name)
        check_seed(scenario, seed, name)


@pytest.mark.parametrize(
    ("name", "seed"), [*((STREAMS, seed) for seed in range(4)), *((CONSUMER, seed) for seed in range(3))]
)
def test_a_frozen_worker_commits_nothing_over_the_next_owner(name: str, seed: int) -> None:
    """Its session has ended when it goes on, in the middle of a commit."""
    _, scenario = scenario_of(seed, name)
    freeze = Action("freeze", at=200 + 40 * seed, worker=seed % 2, call="commit", seconds=90.0)
    found = run_seed(scenario, seed, Shape(2, 1, 0.1, True, True, 2500), [freeze])
    assert found.failure is None, str(found.failure)
