"""Topologies do what Kafka Streams did: the same text, internal topics, records, calls, drops and stores."""

from __future__ import annotations

from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.java_names import translate_config
from golden_support.replay import expected_run, replay
from golden_support.session import Golden, golden
from golden_support.topology_parts import expected_parts, parts


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = golden(metafunc.config)
    cases = [file.data for file in session.of_kind("topology") if file.data["case"] in session.topologies]
    if "run" in metafunc.fixturenames:
        pairs = [(case, run) for case in cases for run in case["runs"]]
        ids = [f"{case['case']}-{run['name']}" for case, run in pairs]
        metafunc.parametrize(("case", "run"), pairs, ids=ids)
    elif "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases, ids=[case["case"] for case in cases])


def test_every_case_has_a_topology(golden: Golden) -> None:
    """Names without one are listed; among the project's own recordings they fail."""
    names = [file.data["case"] for file in golden.of_kind("topology")]
    without = [name for name in names if name not in golden.topologies]
    golden.list_not_built("cases have no topology in tests/golden/topologies", without, fail=True)


def test_topology(golden: Golden, case: dict[str, Any]) -> None:
    """Its text and its internal topics are as recorded, or it cannot be built either."""
    build = golden.topologies[case["case"]]
    settings = translate_config(case["config"])
    expected, applied = golden.differences.apply("topology", {"case": case["case"]}, expected_parts(case))
    report = explain(expected, parts(case, build, settings, settings))
    assert not report, _explained(report, applied)


def test_run(golden: Golden, case: dict[str, Any], run: dict[str, Any]) -> None:
    """Repeating the recorded steps gives the recorded records, calls, drops, errors, stores and metrics."""
    names = {"case": case["case"], "run": run["name"]}
    expected, applied = golden.differences.apply("topology", names, expected_run(run))
    actual = replay(case, run, golden.topologies[case["case"]], translate_config(case["config"]))
    report = explain(expected, actual)
    assert not report, _explained(report, applied)


def _explained(report: str, applied: list[Any]) -> str:
    if not applied:
        return report
    entries = "\n".join(f"  {entry}" for entry in applied)
    return f"{report}\napplied from differences.toml (remove what does not differ any more):\n{entries}"
