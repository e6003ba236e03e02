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
        entries = [entry for file in session.of_kind("topic_configs") for entry in file.data["topologies"]]
        entries += [entry for file in session.of_kind("names") for entry in file.data["topics"]]
        ids = [
            f"{e['topology']}-{e['application_id']}-{e['named_topology']}-{','.join(e['settings'])}" for e in entries
        ]
        metafunc.parametrize("entry", entries, ids=ids)


def test_topics(golden: Golden, entry: dict[str, Any]) -> None:
    """Each subtopology's topics, with their settings where those are recorded."""
    build = golden.topologies.get(entry["topology"])
    if build is None:
        pytest.skip(f"no topology is named {entry['topology']!r} in tests/golden/topologies")
    if entry["named_topology"] is not None:
        pytest.skip("named topologies are not supported")
    settings = topic_settings(entry)
    names_only = all(isinstance(part["changelogs"], list) for part in entry["subtopologies"].values())
    report = explain(expected_topics(entry), topics(build, settings, settings, names_only=names_only))
    assert not report, report
