"""Topologies do what Kafka Streams did: the same text, internal topics, records, calls, drops and stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.counts_below import with_counts_of_more_removals
from golden_support.differences import Difference
from golden_support.java_names import config_of, unknown_classes
from golden_support.more_records import with_more
from golden_support.recordings import Recording
from golden_support.replay import expected_run, replay, start_driver, start_forgetful_driver
from golden_support.session import Golden, golden, is_composed
from golden_support.topology_parts import expected_parts, parts
from samples import sample_of

NO_TOPOLOGY = "cases have no topology in tests/golden/topologies"
NO_SETTING = "cases have settings without a counterpart in tests/support/golden_support/java_names.py"


OTHER_ORDER = {
    "session-emit-final": "sessions in memory come by time first; Java emits nothing from those",
    "session-emit-final-no-throttle": "as session-emit-final",
    "headers-store-session-count": "as session-emit-final; Java's store in memory keeps the headers of other records",
    "sliding-emit-final": "windows in memory come by time first",
    "self-join-optimized-asymmetric": "a store in memory drops a late record when it is put, not with its segment",
}
"""Cases that Java does not do alike on both engines, and why: here one engine is compared with the other."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = golden(metafunc.config)
    files = [file for file in session.of_kind("topology") if not _missing(session, file.data)]
    if metafunc.function is test_run_in_memory:
        files = sample_of(in_memory_as_on_rocksdb(session, files), 4, "in memory", lambda file: file.name)
    if metafunc.function is test_both_engines_do_the_same:
        files = [file for file in files if file.name in OTHER_ORDER]
    if "run" in metafunc.fixturenames:
        pairs = [(file, run) for file in files for run in file.data["runs"]]
        ids = [f"{file.name}-{run['name']}" for file, run in pairs]
        metafunc.parametrize(("case", "run"), [(file.data, run) for file, run in pairs], ids=ids)
    elif "case" in metafunc.fixturenames:
        metafunc.parametrize("case", [file.data for file in files], ids=[file.name for file in files])


def in_memory_as_on_rocksdb(session: Golden, files: list[Recording]) -> list[Recording]:
    """Those that leave it to the configuration where their stores are, and give the same on both in Java. The project's
    own have a recording ``NAME.memory`` where they do not; what others would give is not known. Of drawn ones some are
    recorded in memory, and none in both."""
    if not session.recordings.is_default:
        return []
    names = {file.name for file in files}
    return [
        file
        for file in files
        if any(run.get("stores") for run in file.data["runs"])
        and not {"default.dsl.store", "dsl.store.suppliers.class"} & file.data["config"].keys()
        and f"{file.name}.memory" not in names
        and not is_composed(file)
        and file.name not in OTHER_ORDER
    ]


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
    settle(golden, case, run)


@pytest.mark.sampled
def test_run_in_memory(golden: Golden, case: dict[str, Any], run: dict[str, Any]) -> None:
    """It gives the same with stores in memory."""
    settle(golden, case | {"config": case["config"] | {"default.dsl.store": "in_memory"}}, run)


def test_both_engines_do_the_same(golden: Golden, case: dict[str, Any], run: dict[str, Any]) -> None:
    """Each step sends the same records, in some order. A join meets records that are later than its window and grace as
    long as its store has them, and one in memory forgets them earlier."""
    sent = []
    for engine in ("rocksdb", "in_memory"):
        config = config_of(case["config"] | {"default.dsl.store": engine})
        document = replay(case, run, golden.topologies[case["case"]], config)
        sent.append([sorted(step["out"], key=str) for step in document["steps"]])
    assert any(sent[0])
    if case["case"] == "self-join-optimized-asymmetric":
        sent[0] = [[record for record in out if record in other] for out, other in zip(*sent, strict=True)]
    assert not explain(*sent)


def settle(golden: Golden, case: dict[str, Any], run: dict[str, Any]) -> None:
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
    expected, applied = golden.differences.apply("topology", names, expected_run(run), source=case | run)
    actual = replay(case, run, golden.topologies[case["case"]], config_of(case["config"]), driver_of)
    wholes = {entry.whole for entry in applied}
    if "more" in wholes:
        expected = {**expected, "steps": with_more(case, run, expected["steps"])}
    if "counts_below" in wholes:
        expected = with_counts_of_more_removals(case, run, expected, actual)
    return explain(expected, actual), applied


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
