"""Internal topics have Kafka Streams' names, settings and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.java_names import config_of
from golden_support.session import Golden, golden
from golden_support.topic_parts import expected_records, expected_topics, is_supported, records, topics


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = golden(metafunc.config)
    if "recorded" in metafunc.fixturenames:
        runs = [entry for entry in _runs(session) if entry["name"] in session.topologies]
        metafunc.parametrize("recorded", runs, ids=[f"{run['name']}-{','.join(run['settings'])}" for run in runs])
    elif "entry" in metafunc.fixturenames:
        entries = [entry for entry in _entries(session) if _built(session, entry)]
        ids = [
            f"{e['topology']}-{e['application_id']}-{e['named_topology']}-{','.join(e['settings'])}" for e in entries
        ]
        metafunc.parametrize("entry", entries, ids=ids)


def _entries(session: Golden) -> list[dict[str, Any]]:
    entries = [entry for file in session.of_kind("topic_configs") for entry in file.data["topologies"]]
    return entries + [entry for file in session.of_kind("names") for entry in file.data["topics"]]


def _runs(session: Golden) -> list[dict[str, Any]]:
    return [entry for file in session.of_kind("internal_topics") for entry in file.data["topologies"]]


def _built(session: Golden, entry: dict[str, Any]) -> bool:
    return entry["topology"] in session.topologies and is_supported(entry)


def test_every_entry_has_a_topology(golden: Golden) -> None:
    """Names without one are listed."""
    without = [entry["topology"] for entry in _entries(golden) if entry["topology"] not in golden.topologies]
    golden.list_not_built("topologies are not in tests/golden/topologies", without, fail=False)


def test_every_run_has_a_topology(golden: Golden) -> None:
    """Names without one are listed."""
    without = [run["name"] for run in _runs(golden) if run["name"] not in golden.topologies]
    golden.list_not_built(
        "topologies of recorded internal records are not in tests/golden/topologies", without, fail=False
    )


def test_records(golden: Golden, recorded: dict[str, Any]) -> None:
    """The raw records on internal topics and sinks, without caches."""
    names = {"case": f"internal_topics-{recorded['name']}", "run": ",".join(recorded["settings"])}
    expected, applied = golden.differences.apply("topology", names, expected_records(recorded))
    config = config_of({"statestore.cache.max.bytes": 0, **recorded["settings"]})
    golden.settle(explain(expected, records(recorded, golden.topologies[recorded["name"]], config)), applied)


def test_topics(golden: Golden, entry: dict[str, Any]) -> None:
    """Each subtopology's topics, with their settings where those are recorded."""
    build = golden.topologies[entry["topology"]]
    config = config_of({"application.id": entry["application_id"], **entry["settings"]})
    names_only = all(isinstance(part["changelogs"], list) for part in entry["subtopologies"].values())
    report = explain(expected_topics(entry), topics(build, config, names_only=names_only))
    assert not report, report
