"""A worker that is taken over while it lives loses a transaction, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.run import plan, run_seed
from streams.testing.simulation.schedule import Shape

EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}
TWO_WORKERS = Shape(2, 2, 0.1, replaces_threads=False, wraps=False, steps=2500)


@pytest.mark.parametrize("protocol", ["classic", "streams"])
@pytest.mark.parametrize("call", ["commit_transaction", "send_offsets", "produce", "commit_transaction done"])
def test_a_worker_that_lives_is_taken_over(protocol: str, call: str) -> None:
    """At the worst moments, and again when it has just come back."""
    _, scenario = scenario_of(3, "count")
    scenario = replace(scenario, settings={**scenario.settings, **EXACTLY_ONCE, "group.protocol": protocol})
    actions = [Action("suspect", at=at, worker=0, call=call) for at in (300, 450, 600)]
    found = run_seed(scenario, 3, TWO_WORKERS, actions)
    assert found.failure is None
    assert any("worker-0 is taken over: 2 producers, 2 members" in text for text in found.happened), found.happened


@pytest.mark.parametrize("seed", range(12))
def test_suspicions_of_workers_that_are_killed_frozen_and_stopped_are_harmless(seed: int) -> None:
    """They may be late: the worker has been started again."""
    _, scenario = scenario_of(seed)
    shape, actions = plan(seed, kinds=("suspect", "kill", "freeze", "fault", "stop"))
    assert run_seed(scenario, seed, shape, actions).failure is None
