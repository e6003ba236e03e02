"""Replaying notices everything that a recorded run tells: each part of some runs is changed, and the replay differs."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from golden_support.changed import changed, without
from golden_support.compare import explain
from golden_support.java_names import config_of
from golden_support.recordings import read_json
from golden_support.replay import expected_run, replay, start_driver
from golden_support.session import GOLDEN
from golden_support.topologies import load_topologies
from processor_api.errors import ProcessingError, StreamsError

TOPOLOGIES = load_topologies(GOLDEN / "topologies", None)
RUNS = {
    "error-deserialization-continue": "scenario:bad",
    "error-punctuate-continue": "scenario:steps",
    "error-processing-fail-dlq": "scenario:throws",
    "suppress-time-limit-table": "scenario:first-time-counts",
}
"""Together they have every part of a recording."""


def recorded(case: str) -> tuple[dict[str, Any], dict[str, Any]]:
    data = read_json(GOLDEN / "recordings" / "topologies" / f"{case}.json.gz")
    return data, next(run for run in data["runs"] if run["name"] == RUNS[case])


def replayed(case: dict[str, Any], run: dict[str, Any]) -> str:
    """What differs."""
    return explain(expected_run(run), replay(case, run, TOPOLOGIES[case["case"]], config_of(case["config"])))


def changes(run: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """The run with another value in one place, or without a record, a call or a row: the part, the place, the run."""
    for number, step in enumerate(run["steps"]):
        for part in ("out", "internal", "calls"):
            if step.get(part):
                for place, other in (*changed(run, "steps", number, part), *without(run, "steps", number, part)):
                    yield "headers" if "headers" in place else part, place, other
        for part, value in (("dropped", step.get("dropped", 0) + 1), ("throws", ["StreamsException"])):
            other = copy.deepcopy(run)
            if part not in other["steps"][number]:
                other["steps"][number][part] = value
                yield part, ("steps", number, part), other
    for name, store in run.get("stores", {}).items():
        if store.get("entries"):
            for place, other in (*changed(run, "stores", name, "entries"), *without(run, "stores", name, "entries")):
                yield "stores", place, other
        other = copy.deepcopy(run)
        del other["stores"][name]
        yield "stores", ("stores", name), other
    if "metrics" in run:
        for place, other in changed(run, "metrics"):
            yield "metrics", place, other


def test_what_was_recorded_is_what_happens() -> None:
    """Else a change would be noticed by what differs without it."""
    assert {case: replayed(*recorded(case)) for case in RUNS} == dict.fromkeys(RUNS, "")


def test_anything_else_than_recorded_is_noticed() -> None:
    """Records and their headers, calls, drops, errors, stores, metrics."""
    noticed = dict.fromkeys(("out", "internal", "headers", "calls", "dropped", "throws", "stores", "metrics"), 0)
    for name in RUNS:
        case, run = recorded(name)
        for part, place, other in changes(run):
            assert replayed(case, other) != "", (name, place)
            noticed[part] += 1
    assert min(noticed.values()) >= 2, noticed


def test_the_order_of_records_is_noticed() -> None:
    """On one topic, within a step."""
    case, run = recorded("suppress-time-limit-table")
    number, records = max(enumerate(step["out"] for step in run["steps"]), key=lambda found: len(found[1]))
    assert [record["topic"] for record in records] == ["output"] * 3
    for place in (0, 1):
        other = copy.deepcopy(run)
        out = other["steps"][number]["out"]
        out[place], out[place + 1] = out[place + 1], out[place]
        assert f"/steps/{number}/out/{place}" in replayed(case, other)


def test_an_error_that_was_not_recorded_is_raised() -> None:
    """With the step that it happened in."""
    case, run = recorded("error-processing-fail-dlq")
    number = next(number for number, step in enumerate(run["steps"]) if "throws" in step)
    calm = copy.deepcopy(run)
    del calm["steps"][number]["throws"]
    with pytest.raises(ProcessingError, match="boom r") as caught:
        replayed(case, calm)
    assert caught.value.__notes__ == [f"in step {number}: {run['steps'][number]['in']}"]


@pytest.mark.parametrize("name", RUNS)
def test_the_driver_is_closed(name: str) -> None:
    """Also where a step fails."""
    (case, run), drivers = recorded(name), list[Any]()

    def started(*arguments: Any) -> Any:
        drivers.append(start_driver(*arguments))
        return drivers[0]

    replay(case, run, TOPOLOGIES[case["case"]], config_of(case["config"]), started)
    (driver,) = drivers
    with pytest.raises(StreamsError, match="the test driver is closed"):
        driver.advance_wall_clock_time(1)
