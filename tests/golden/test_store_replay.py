"""Replaying notices all that a recorded trace tells: each part of some traces is changed, and the replay differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden_support.changed import changed, without
from golden_support.compare import explain
from golden_support.recordings import read_json
from golden_support.session import GOLDEN
from golden_support.state_harness import StateHarness
from golden_support.store_traces import calls_not_built, expected_trace, replay_trace

TRACES = [
    ("kv.memory.scenarios", "basics"),
    ("kv.memory.scenarios", "iterating"),
    ("timestamped-kv.memory.scenarios", "queries"),
    ("headers-window.memory.scenarios", "headers"),
    ("cached-kv.memory.scenarios", "cache"),
]


def recorded(store: str, name: str) -> dict[str, Any]:
    data = read_json(GOLDEN / "recordings" / "stores" / f"{store}.json.gz")
    return next(trace for trace in data["traces"] if trace["name"] == name)  # type: ignore[no-any-return]


def happens(trace: dict[str, Any], folder: Path) -> dict[str, Any]:
    harness = StateHarness(trace["store"], folder, commits=False)
    try:
        return replay_trace(trace, harness)
    finally:
        harness.close()


@pytest.mark.parametrize(("store", "name"), TRACES)
def test_any_other_result_is_noticed(store: str, name: str, tmp_path: Path) -> None:
    """Of each call, at its own place; so are other changes that a cache forwards, other records on the changelog, other
    contents, and others of a second store that is restored."""
    trace = recorded(store, name)
    actual = happens(trace, tmp_path)
    report = explain(expected_trace(trace), actual)
    others = [*changed(trace, "changelog"), *without(trace, "changelog")]
    for part, field in (("ops", "result"), ("ops", "forwarded"), ("contents", "result"), ("restored", "result")):
        for number, call in enumerate(trace[part]):
            if call.get(field) is not None and "error" not in str(call[field]):
                others += changed(trace, part, number, field)
    for place, other in others:
        assert explain(expected_trace(other), actual) != report, place
    assert len(others) > len(trace["ops"])


def test_errors_are_noticed(tmp_path: Path) -> None:
    """One that does not come, and one that was not recorded."""
    trace = recorded(*TRACES[0])
    actual = happens(trace, tmp_path)
    errors = 0
    for number, op in enumerate(trace["ops"]):
        fails = isinstance(op["result"], dict) and "error" in op["result"]
        errors += fails
        other = {**trace, "ops": [*trace["ops"]]}
        other["ops"][number] = {**op, "result": "a value" if fails else {"error": "IllegalStateException"}}
        assert f"/ops/{number}/result: " in explain(expected_trace(other), actual)
    assert errors


def test_calls_that_are_not_built_are_named() -> None:
    """Their results are not compared."""
    trace = recorded(*TRACES[0])
    unknown = {**trace["ops"][0], "op": "flush"}
    assert calls_not_built(trace) == set()
    assert calls_not_built({**trace, "ops": [*trace["ops"], unknown]}) == {"flush"}
