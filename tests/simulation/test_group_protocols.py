"""Seeds of the simulation over applications whose groups are of the streams protocol (KIP-1071)."""

from __future__ import annotations

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import check_seed, run_seed
from streams.testing.simulation.schedule import Shape

STREAMS = "streams-group"


@pytest.mark.parametrize(("first", "last"), [(0, 8), (8, 16)])
def test_nothing_goes_wrong(first: int, last: int) -> None:
    for seed in range(first, last):
        _, scenario = scenario_of(seed, STREAMS)
        check_seed(scenario, seed, STREAMS)


@pytest.mark.slow
def test_nothing_goes_wrong_in_many_seeds() -> None:
    for seed in range(16, 400):
        _, scenario = scenario_of(seed, STREAMS)
        check_seed(scenario, seed, STREAMS)


@pytest.mark.parametrize("seed", range(4))
def test_a_frozen_worker_commits_nothing_over_the_next_owner(seed: int) -> None:
    """Its session has ended when it goes on, in the middle of a commit."""
    _, scenario = scenario_of(seed, STREAMS)
    freeze = Action("freeze", at=200 + 40 * seed, worker=seed % 2, call="commit", seconds=90.0)
    found = run_seed(scenario, seed, Shape(2, 1, 0.1, True, True, 2500), [freeze])
    assert found.failure is None, str(found.failure)
