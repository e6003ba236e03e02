"""Stores answer, log and restore as Kafka Streams' stores do, call by call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from golden_support.cache_ends import ends
from golden_support.compare import count_untold, explain
from golden_support.session import Golden, golden
from golden_support.state_harness import StateHarness, is_built, on_every_engine
from golden_support.store_traces import calls_not_built, replay_trace
from golden_support.versions_harness import VersionsHarness
from samples import sample_of
from state_support.forgetful_versions import forget_deletions
from state_support.versions_model import DEFECTS_OF_JAVA, NO_DEFECTS, Defects


def _traces(session: Golden) -> list[tuple[str, dict[str, Any]]]:
    return [(file.name, trace) for file in session.of_kind("store") for trace in file.data["traces"]]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "versioned_trace" in metafunc.fixturenames:
        versioned = _versioned(golden(metafunc.config))
        ids = [f"{name}-{trace['name']}" for name, trace in versioned]
        metafunc.parametrize(("versioned_store", "versioned_trace"), versioned, ids=ids)
    if "trace" in metafunc.fixturenames:
        built = [
            (name, {**trace, "store": store})
            for name, trace in _traces(golden(metafunc.config))
            if is_built(trace["store"])
            for store in on_every_engine(trace["store"])
        ]
        cases = [(name, trace, False) for name, trace in built]
        cases += [(name, trace, True) for name, trace in built if not trace["store"]["caching"]]
        cases = sample_of(cases, 2, "stores", lambda case: _id(*case), lambda case: (case[0], case[1]["name"]))
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


@pytest.mark.sampled
def test_store(golden: Golden, store: str, trace: dict[str, Any], commits: bool, tmp_path: Path) -> None:
    """Every result, changelog record and forwarded change; then its contents, and those of a store restored from the
    changelog. Once with a commit after every call, and once with none, so that engine and buffer both answer."""
    expected, applied = golden.expected_of_store(store, trace)
    if trace["store"]["kind"] == "versioned":
        expected = replay_trace(trace, VersionsHarness(trace["store"], NO_DEFECTS))
    harness = StateHarness(trace["store"], tmp_path, commits=commits)
    try:
        actual = replay_trace(trace, harness)
    finally:
        harness.close()
    if any(entry.whole == "ends" for entry in applied):
        if not explain(expected, actual) and golden.recordings.is_default:
            pytest.fail(f"this does not differ from Java any more, remove from differences.toml: {applied}")
        expected, actual = ends(expected), ends(actual)
    golden.settle(explain(expected, actual), applied, untold=count_untold(expected))


# ------------------------------------------------------------------ versioned stores


def _versioned(session: Golden) -> list[tuple[str, dict[str, Any]]]:
    return [(name, trace) for name, trace in _traces(session) if _is_modelled(trace["store"])]


def _is_modelled(store: Mapping[str, Any]) -> bool:
    return store["kind"] == "versioned" and is_built(store)


def _by_model(trace: Mapping[str, Any], defects: Defects) -> dict[str, Any]:
    return replay_trace(trace, VersionsHarness(trace["store"], defects))


def test_versions_are_recorded_as_the_model_with_javas_defects_says(
    golden: Golden, versioned_store: str, versioned_trace: dict[str, Any]
) -> None:
    """So that these, and nothing else, are what a recording and a store of this project may differ in: `test_store`
    holds ours against the model without them."""
    expected, applied = golden.expected_of_store(versioned_store, versioned_trace)
    golden.settle(explain(expected, _by_model(versioned_trace, DEFECTS_OF_JAVA)), applied)


@pytest.mark.parametrize("defect", [field.name for field in fields(Defects)])
def test_every_defect_of_versions_is_in_a_recording(golden: Golden, defect: str) -> None:
    """One that is not shows nowhere: the model then knows too much of Java."""
    if not golden.recordings.is_default:
        pytest.skip("the defects are held against the project's own recordings")
    without = replace(DEFECTS_OF_JAVA, **{defect: False})
    assert any(_by_model(trace, without) != _by_model(trace, DEFECTS_OF_JAVA) for _, trace in _versioned(golden))


def test_forgetful_stores_are_the_model_with_that_defect(
    golden: Golden, versioned_store: str, versioned_trace: dict[str, Any], tmp_path: Path
) -> None:
    """Topologies on versioned stores are held against recordings with them."""
    model = _by_model(versioned_trace, Defects(forgets_deletions=True))
    harness = StateHarness(versioned_trace["store"], tmp_path, commits=False)
    assert forget_deletions(harness.facade)
    try:
        actual = replay_trace(versioned_trace, harness)
    finally:
        harness.close()
    parts = ("ops", "contents", "changelog")  # what is restored is written in another way
    assert explain({part: model[part] for part in parts}, {part: actual[part] for part in parts}) == ""
