"""Topics that are deleted while they are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from integration_support.topics import Topics
from integration_support.workers import Worker, Workers
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


DELETED = "an output topic was deleted while the application runs: records for it wait until it is created again"
MADE_AGAIN = "an output topic was deleted and made again while the application runs: the results that it had are gone"


def start_copying(workers: Workers, source: str, output: str, guarantee: str) -> Worker:
    settings = {"processing.guarantee": guarantee, "commit.interval.ms": 100, "state.dir": workers.state_dir}
    env = {"INPUTS": source, "OUTPUT": output}
    return workers.start("copy_values:topology", settings=settings, env=env).wait_running()


def said(worker: Worker, text: str) -> list[dict[str, Any]]:
    return [one for one in worker.events() if one["event"].startswith(text)]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", pytest.param("at_least_once", marks=pytest.mark.slow)])
def test_an_output_topic_that_is_deleted_is_said(
    on_own_broker: Callable[[Mapping[str, str]], tuple[Topics, Workers]], guarantee: str
) -> None:
    """Its records wait, and arrive when it is there again. The log said that a transaction took too long."""
    topics, workers = on_own_broker({"auto.create.topics.enable": "false"})
    source, output = topics.create("in"), topics.create("out")
    worker = start_copying(workers, source, output, guarantee)
    with topics.reader(output) as reader:
        topics.send(source, [("k", "a")], 1)
        reader.until("it is copied", lambda found: found.values.keys() == {"k"})
    wait_until("it is committed", lambda: topics.committed(workers.application, source) == {0: 1})
    delete(topics, output)
    topics.send(source, [("k", "b")], 1)
    line = wait_until("it is said", lambda: said(worker, DELETED))[0]
    assert (line["level"], line["topic"]) == ("error", output)
    topics.create_named(output, 1)
    with topics.reader(output) as reader:
        reader.until("the record has arrived", lambda found: found.values == {"k": ["b"]})
        topics.send(source, [("k", "c")], 1)
        reader.until("the next one has", lambda found: found.values == {"k": ["b", "c"]})
    worker.wait_for("the output topic that was deleted is there again", topic=output)
    worker.stop()
    assert len(said(worker, DELETED)) == 1
    assert not said(worker, MADE_AGAIN)


def test_an_output_topic_that_brokers_make_again_is_said(topics: Topics, workers: Workers) -> None:
    """The next record makes it, so nothing failed: what readers had not read was gone without a word."""
    source, output = topics.create("in"), topics.create("out")
    worker = start_copying(workers, source, output, "exactly_once_v2")
    with topics.reader(output) as reader:
        topics.send(source, [("k", "a")], 1)
        reader.until("it is copied", lambda found: found.values.keys() == {"k"})
    delete(topics, output)
    topics.create_named(output, 1)

    def said_after_more() -> list[dict[str, Any]]:
        topics.send(source, [("k", "b")], 1)
        return said(worker, MADE_AGAIN)

    line = wait_until("it is said", said_after_more)[0]
    assert (line["level"], line["topic"]) == ("error", output)
    assert line["former_id"] != line["id"]
    worker.stop()
    assert len(said(worker, MADE_AGAIN)) == 1


def delete(topics: Topics, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    admin.delete_topics([name])[name].result(30)
    wait_until("it is gone", lambda: name not in topics.names())
