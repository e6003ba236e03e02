"""Standby tasks under kills, freezes and rebalances: they equal their tasks, and take over from what they have."""

from __future__ import annotations

from collections import Counter

import pytest

from simulation_support.scenarios import WITH_COPIES, scenario_of
from streams.testing.simulation.run import check_seed


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WITH_COPIES)
def test_workers_with_copies_keep_all_rules(name: str, seed: int) -> None:
    """Copies are compared with their tasks at the end of each run."""
    run = check_seed(scenario_of(seed, name)[1], seed, name)
    assert run.failure is None, Counter(action.kind for action in run.actions)
