"""Stores answer, log and restore as Kafka Streams' stores do, call by call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.session import Golden, golden
from golden_support.state_harness import StateHarness, is_built, on_every_engine
from golden_support.store_traces import calls_not_built, expected_trace, replay_trace


def _traces(session: Golden) -> list[tuple[str, dict[str, Any]]]:
    return [(file.name, trace) for file in session.of_kind("store") for trace in file.data["traces"]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "trace" in metafunc.fixturenames:
        built = [
            (name, {**trace, "store": store})
            for name, trace in _traces(golden(metafunc.config))
            if is_built(trace["store"])
            for store in on_every_engine(trace["store"])
        ]
        cases = [(name, trace, False) for name, trace in built]
        cases += [(name, trace, True) for name, trace in built if not trace["store"]["caching"]]
        ids = [_id(*case) for case in cases]
        metafunc.parametrize(("store", "trace", "commits"), cases, ids=ids)


def _id(name: str, trace: dict[str, Any], commits: bool) -> str:
    engine = trace["store"]["engine"]
    elsewhere = "" if f".{engine}" in name else f"-{engine}"
    return f"{name}-{trace['name']}{elsewhere}{'-committed' if commits else ''}"


def test_every_kind_of_store_is_built(golden: Golden) -> None:
    """Those that are not are listed; among the project's own recordings they fail."""
    without = [name for name, trace in _traces(golden) if not is_built(trace["store"])]
    golden.list_not_built("recorded stores have no counterpart", without, fail=True)


def test_every_call_is_built(golden: Golden) -> None:
    """Those that are not are listed."""
    names = [call for _, trace in _traces(golden) if is_built(trace["store"]) for call in calls_not_built(trace)]
    golden.list_not_built("calls have no counterpart, their results are not compared", names, fail=False)


def test_store(golden: Golden, store: str, trace: dict[str, Any], commits: bool, tmp_path: Path) -> None:
    """Every result, changelog record and forwarded change; then its contents, and those of a store restored from the
    changelog. Once with a commit after every call, and once with none, so that engine and buffer both answer."""
    expected, applied = golden.differences.apply(
        "store", {"store": store, "trace": trace["name"]}, expected_trace(trace), golden.store_trace
    )
    harness = StateHarness(trace["store"], tmp_path, commits=commits)
    try:
        report = explain(expected, replay_trace(trace, harness))
    finally:
        harness.close()
    golden.settle(report, applied)
