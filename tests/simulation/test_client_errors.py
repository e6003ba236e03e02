"""Errors that clients meet around a pause of a broker end no application: each renews what it depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulation_support.scenarios import scenario_of
from streams.testing.simulation import Action
from streams.testing.simulation.network import ERRORS, FAULTS, UNKNOWN_ERROR
from streams.testing.simulation.run import run_seed
from streams.testing.simulation.schedule import Shape

SHAPE = Shape(2, 1, 0.1, replaces_threads=False, wraps=False, steps=2500)
MET = [*ERRORS, "is fenced by itself"]
EVENTS = ["FENCED_LEADER_EPOCH", "_DESTROY_BROKER", "_STATE", UNKNOWN_ERROR]


def failure(actions: list[Action], guarantee: str, seed: int = 1, application: str = "count") -> str:
    """What the run of a schedule found; empty if nothing. Threads that fail are not replaced."""
    _, scenario = scenario_of(seed, application)
    settings = {**scenario.settings, "processing.guarantee": guarantee}
    found = run_seed(replace(scenario, settings=settings), seed, SHAPE, actions).failure
    return "" if found is None else str(found)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("kind", MET)
def test_an_error_of_a_pause_ends_no_application(kind: str, guarantee: str) -> None:
    """Each call that may meet it does, at a start and again later."""
    times = [(at, worker) for at in (20, 400, 900) for worker in (0, 1)]
    actions = [Action("fault", at, worker, call, 2.0, kind) for at, worker in times for call in FAULTS[kind]]
    assert failure(actions, guarantee) == ""


@pytest.mark.parametrize("kind", [kind for kind in ERRORS if "end_offsets" in ERRORS[kind]])
def test_an_error_of_a_pause_leaves_global_stores_filled(kind: str) -> None:
    """Their thread asks where their topics end when the application starts, before the stream threads ask anything."""
    calls = [call for call in ("beginning_offsets", "end_offsets") if call in ERRORS[kind]]
    actions = [Action("fault", 0, worker, call, 2.0, kind) for worker in (0, 1) for call in calls]
    assert failure(actions, "at_least_once", application="global-table") == ""


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_a_pause_leaves_global_stores_up_to_date(name: str) -> None:
    """Their consumer goes on, or a new one does where it was; whichever consumer polls next gets an event."""
    actions = [Action("event", at, detail=name) for at in range(20, 1500, 12)]
    assert failure(actions, "at_least_once", application="global-table") == ""


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_a_pause_ends_no_application(name: str, guarantee: str) -> None:
    """One that is not known is for new clients, since records might be skipped after it."""
    actions = [Action("event", at, detail=name) for at in (50, 300, 600, 900, 1200)]
    assert failure(actions, guarantee) == ""


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_pause_of_the_broker_with_all_that_comes_with_it(guarantee: str) -> None:
    """Brokers are away for longer than sessions and transactions last; after it epochs are old, brokers are dropped, a
    member is fenced by its own late request, and transactions are aborted late."""
    actions = [
        Action("outage", 400, seconds=20.0),
        Action("expire", 410, 0),
        Action("evict", 420, 1),
        *(
            Action("fault", 430, worker, call, 0.0, "FENCED_LEADER_EPOCH")
            for worker in (0, 1)
            for call in ("end_offsets",)
        ),
        Action("fault", 430, 0, "consume", 0.0, "is fenced by itself"),
        Action("fault", 430, 1, "log_ends", 0.0, "_DESTROY_BROKER"),
        Action("fault", 430, 1, "send_offsets", 0.0, "_STATE"),
        Action("event", 430, detail="_DESTROY_BROKER"),
    ]
    assert failure(actions, guarantee) == ""
