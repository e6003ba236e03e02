"""Topics that are deleted while they are read."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from integration_support.topics import Topics
from integration_support.workers import Workers
from waiting import wait_until

COMMIT_MS = 4000
"""Longer than it takes to read a result and to delete a topic."""


@pytest.mark.parametrize(
    "protocol",
    ["classic", pytest.param("streams", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once_v2", marks=pytest.mark.slow)])
def test_what_else_a_pattern_matches_is_processed_and_committed(
    kafka: str, topics: Topics, workers: Workers, protocol: str, guarantee: str
) -> None:
    """Records of the deleted topic were processed and not committed yet; brokers refuse their offsets from then on."""
    stem = topics.create("read", 1)
    env = {"PATTERN": f"{stem}.*", "OUTPUT": topics.create("copies", 1)}
    settings = {
        "processing.guarantee": guarantee,
        "commit.interval.ms": COMMIT_MS,
        "group.protocol": protocol,
        "metadata.max.age.ms": 500,
        "state.dir": workers.state_dir,
    }
    topics.create_named(f"{stem}-more", 1)
    worker = workers.start("copy_values:matching", settings=settings, env=env).wait_running()
    with topics.reader(env["OUTPUT"], committed_only=False) as reader:
        topics.send(stem, [("k", "a")], 1)
        topics.send(f"{stem}-more", [("more", "a")], 1)
        reader.until("both are copied", lambda found: found.values.keys() == {"k", "more"})
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([f"{stem}-more"])[f"{stem}-more"].result(30)
    topics.send(stem, [("k", "b")], 1)
    wait_until("both are committed", lambda: topics.committed(workers.application, stem) == {0: 2})
    topics.send(stem, [("k", "c")], 1)
    wait_until("a third one is", lambda: topics.committed(workers.application, stem) == {0: 3})
    worker.stop()
