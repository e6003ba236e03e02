"""Seeds of the simulation over applications whose members speak the consumer protocol (KIP-848)."""

from __future__ import annotations

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import check_seed, run_seed
from streams.testing.simulation.schedule import Shape

NAME = "consumer-protocol"


def test_nothing_goes_wrong() -> None:
    for seed in range(6):
        _, scenario = scenario_of(seed, NAME)
        check_seed(scenario, seed, NAME)


@pytest.mark.slow
def test_nothing_goes_wrong_in_many_seeds() -> None:
    for seed in range(6, 300):
        _, scenario = scenario_of(seed, NAME)
        check_seed(scenario, seed, NAME)


@pytest.mark.parametrize("seed", range(3))
def test_a_frozen_worker_commits_nothing_over_the_next_owner(seed: int) -> None:
    """Its session has ended when it goes on, in the middle of a commit."""
    _, scenario = scenario_of(seed, NAME)
    freeze = Action("freeze", at=200 + 40 * seed, worker=seed % 2, call="commit", seconds=90.0)
    found = run_seed(scenario, seed, Shape(2, 1, 0.1, True, True, 2500), [freeze])
    assert found.failure is None, str(found.failure)
