"""Topologies do what Kafka Streams did: the same text, internal topics, records, calls, drops and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.differences import Difference
from golden_support.java_names import config_of, unknown_classes
from golden_support.replay import expected_run, replay, start_driver, start_forgetful_driver
from golden_support.session import Golden, golden
from golden_support.topology_parts import expected_parts, parts

NO_TOPOLOGY = "cases have no topology in tests/golden/topologies"
NO_SETTING = "cases have settings without a counterpart in tests/support/golden_support/java_names.py"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = golden(metafunc.config)
    cases = [file.data for file in session.of_kind("topology") if not _missing(session, file.data)]
    if "run" in metafunc.fixturenames:
        pairs = [(case, run) for case in cases for run in case["runs"]]
        ids = [f"{case['case']}-{run['name']}" for case, run in pairs]
        metafunc.parametrize(("case", "run"), pairs, ids=ids)
    elif "case" in metafunc.fixturenames:
        metafunc.parametrize("case", cases, ids=[case["case"] for case in cases])


def _missing(session: Golden, case: dict[str, Any]) -> str | None:
    """What a case needs and is not there."""
    if case["case"] not in session.topologies:
        return NO_TOPOLOGY
    if unknown_classes(case["config"]):
        return NO_SETTING
    return None


@pytest.mark.parametrize("what", [NO_TOPOLOGY, NO_SETTING], ids=["topology", "settings"])
def test_every_case_is_built(golden: Golden, what: str) -> None:
    """Names of those that are not are listed; among the project's own recordings they fail."""
    cases = [file.data for file in golden.of_kind("topology")]
    golden.list_not_built(what, [case["case"] for case in cases if _missing(golden, case) == what], fail=True)


def test_topology(golden: Golden, case: dict[str, Any]) -> None:
    """Its text and its internal topics are as recorded, or it cannot be built either."""
    build = golden.topologies[case["case"]]
    expected, applied = golden.differences.apply("topology", {"case": case["case"]}, expected_parts(case))
    golden.settle(explain(expected, parts(case, build, config_of(case["config"]))), applied)


def test_run(golden: Golden, case: dict[str, Any], run: dict[str, Any]) -> None:
    """Repeating the recorded steps gives the recorded records, calls, drops, errors, stores and metrics; or it does so
    once versioned stores forget what Java's do, where that is a difference."""
    report, applied = _replayed(golden, case, run)
    if report and any(entry.whole == "versions" for entry in applied):
        forgetful, _ = _replayed(golden, case, run, start_forgetful_driver)
        report = forgetful and f"{report}\nand with versioned stores that forget deletions:\n{forgetful}"
    golden.settle(report, applied)


def _replayed(
    golden: Golden, case: dict[str, Any], run: dict[str, Any], driver_of: Callable[..., Any] = start_driver
) -> tuple[str, list[Difference]]:
    """What differs, and the entries that were applied."""
    names = {"case": case["case"], "run": run["name"]}
    expected, applied = golden.differences.apply("topology", names, expected_run(run), source=run)
    actual = replay(case, run, golden.topologies[case["case"]], config_of(case["config"]), driver_of)
    wholes = {entry.whole for entry in applied}
    if "more" in wholes:
        expected = _allowing_more(expected, actual)
    if "until_more" in wholes:
        expected, actual = _until_more(expected, actual)
    return explain(expected, actual), applied


def _allowing_more(expected: dict[str, Any], actual: dict[str, Any]) -> dict[str, Any]:
    """What is expected, where records that were not recorded may come beside those that were, in order."""
    steps = [_with_more(step, ours) for step, ours in zip(expected["steps"], actual["steps"], strict=False)]
    return {**expected, "steps": [*steps, *expected["steps"][len(steps) :]]}


def _with_more(step: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    return {**step, **{field: ours[field] for field in ("out", "internal") if _is_part(step[field], ours[field])}}


def _is_part(some: list[Any], all_of_them: list[Any]) -> bool:
    rest = iter(all_of_them)
    return all(any(not explain(one, other) for other in rest) for one in some)


def _until_more(expected: dict[str, Any], actual: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The steps before the first in which records came that were not recorded; all, if there is none."""
    for number, (step, ours) in enumerate(zip(expected["steps"], actual["steps"], strict=False)):
        if explain(step, ours) and not explain(_with_more(step, ours), ours):
            return {"steps": expected["steps"][:number]}, {"steps": actual["steps"][:number]}
    return expected, actual


def test_versioned_stores_that_forget_make_a_difference(golden: Golden) -> None:
    """The entries about them are stale when no run of the project's own recordings differs without them."""
    if not golden.recordings.is_default:
        pytest.skip("the differences are held against the project's own recordings")
    cases = [file.data for file in golden.of_kind("topology")]
    for entry in golden.differences.entries:
        if entry.whole == "versions":
            runs = [
                (case, run)
                for case in cases
                for run in case["runs"]
                if entry.matches({"case": case["case"], "run": run["name"]})
            ]
            assert any(_replayed(golden, case, run)[0] for case, run in runs), f"remove from differences.toml: {entry}"
