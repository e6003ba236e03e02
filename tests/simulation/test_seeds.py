"""Seeds of the simulation, over applications of every kind. ``make simulate SEEDS=n FIRST=k`` runs others."""

from __future__ import annotations

import os

import pytest

from simulation_support.scenarios import SCENARIOS, scenario_of
from streams.testing.simulation.run import check_seed

SEEDS = 50
BLOCK = 25


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_goes_wrong(first: int) -> None:
    for seed in range(first, first + BLOCK):
        name, scenario = scenario_of(seed)
        check_seed(scenario, seed, name)


def test_every_application_is_run() -> None:
    assert {scenario_of(seed)[0] for seed in range(SEEDS)} == set(SCENARIOS)


@pytest.mark.slow
def test_nothing_goes_wrong_in_many_seeds() -> None:
    for seed in range(SEEDS, int(os.environ.get("STREAMS_TEST_SEEDS", "3000"))):
        name, scenario = scenario_of(seed)
        check_seed(scenario, seed, name)
