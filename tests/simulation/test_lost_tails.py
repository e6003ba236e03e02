"""Changelogs that lose their last records and grow again: stores, copies and changelogs agree in the end."""

from __future__ import annotations

from random import Random

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation.run import plan, run_seed
from streams.testing.simulation.schedule import Action


def with_lost_tails(seed: int) -> str:
    """Runs a seed in which leaders without the last records are elected, in the middle of what else it draws."""
    _, scenario = scenario_of(seed, "lost-tail")
    shape, drawn = plan(seed)
    chance = Random(seed)
    lost = [Action("lost tail", at=chance.randrange(200, shape.steps)) for _ in range(chance.choice((1, 1, 2, 3)))]
    found = run_seed(scenario, seed, shape, sorted([*drawn, *lost], key=lambda action: action.at))
    return "" if found.failure is None else f"{found.failure}; {'; '.join(found.happened)}"


@pytest.mark.parametrize("seed", range(25))
def test_stores_and_changelogs_agree_though_changelogs_lose_records(seed: int) -> None:
    assert with_lost_tails(seed) == ""
