"""Internal topics have Kafka Streams' names, settings and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from golden_support.compare import explain
from golden_support.session import Golden, golden
from golden_support.topic_parts import expected_topics, topic_settings, topics


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    session = golden(metafunc.config)
    if "entry" in metafunc.fixturenames:
        entries = [entry for entry in _entries(session) if _built(session, entry)]
        ids = [
            f"{e['topology']}-{e['application_id']}-{e['named_topology']}-{','.join(e['settings'])}" for e in entries
        ]
        metafunc.parametrize("entry", entries, ids=ids)


def _entries(session: Golden) -> list[dict[str, Any]]:
    entries = [entry for file in session.of_kind("topic_configs") for entry in file.data["topologies"]]
    return entries + [entry for file in session.of_kind("names") for entry in file.data["topics"]]


def _built(session: Golden, entry: dict[str, Any]) -> bool:
    """Named topologies, an internal feature of Kafka Streams, are not supported."""
    return entry["topology"] in session.topologies and entry["named_topology"] is None


def test_every_entry_has_a_topology(golden: Golden) -> None:
    """Names without one are listed."""
    without = [entry["topology"] for entry in _entries(golden) if entry["topology"] not in golden.topologies]
    golden.list_not_built("topologies are not in tests/golden/topologies", without, fail=False)


def test_topics(golden: Golden, entry: dict[str, Any]) -> None:
    """Each subtopology's topics, with their settings where those are recorded."""
    build = golden.topologies[entry["topology"]]
    settings = topic_settings(entry)
    names_only = all(isinstance(part["changelogs"], list) for part in entry["subtopologies"].values())
    report = explain(expected_topics(entry), topics(build, settings, settings, names_only=names_only))
    assert not report, report
