"""A batch that a topic does not take costs no record that the topic would take (semantics 151, KIP-126)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.handlers import Response
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, counting, passing_on
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

VALUES = [f"{number:03d}".ljust(200, ".") for number in range(300)]
GUARANTEES = ["at_least_once", "exactly_once_v2"]
LIMIT = {"max.message.bytes": "20000"}


def drop(*_: Any) -> Response:
    return Response.resume()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, topics={"in": 1}) as cluster:
        yield cluster


def settings(guarantee: str, handler: Any = None) -> dict[str, Any]:
    found = {"processing.guarantee": guarantee, "commit.interval.ms": 50}
    return found if handler is None else {**found, "production.exception.handler": handler}


def until_committed(cluster: Cluster, count: int) -> None:
    wait_until(f"{count} records are committed", lambda: cluster.committed() == count or cluster.last.failure)
    assert cluster.last.failure is None


@pytest.mark.parametrize("handler", [None, drop])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_all_records_reach_a_topic_with_a_low_limit(cluster: Cluster, guarantee: str, handler: Any) -> None:
    """Each once and in order: no batch is refused, since the limit is known from the start."""
    cluster.broker.create_topic("out", 1, LIMIT)
    cluster.app(passing_on(), settings(guarantee, handler))
    cluster.send(*VALUES)
    until_committed(cluster, len(VALUES))
    assert cluster.values() == VALUES


def named(topic: str) -> Topology:
    topology = Topology().add_source("source", "in")
    return topology.add_sink("sink", lambda key, value, context: topic, "source")


@pytest.mark.parametrize("handler", [None, drop])
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("shown", [True, False])
def test_all_records_reach_a_topic_whose_limit_was_not_known(
    tmp_path: Path, guarantee: str, handler: Any, shown: bool
) -> None:
    """As that of a topic chosen for each record: what was refused is rolled back, and sent in smaller batches."""

    class Hiding(EmbeddedClients):
        def admin(self, config: Any) -> Any:
            made: Any = super().admin(config)
            if not shown:
                made.topic_settings = lambda names: {}
            return made

    with Cluster(tmp_path, topics={"in": 1}, clients=Hiding) as cluster:
        cluster.broker.create_topic("out", 1, LIMIT)
        cluster.send(*VALUES)
        quickly = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 1}
        cluster.app(named("out"), {**settings(guarantee, handler), **quickly})
        until_committed(cluster, len(VALUES))
        found = cluster.values()
        assert found[-len(VALUES) :] == VALUES
        if guarantee == "exactly_once_v2":
            assert found == VALUES


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_limit_that_is_lowered_meanwhile_is_followed(cluster: Cluster, guarantee: str) -> None:
    cluster.broker.create_topic("out", 1)
    cluster.app(passing_on(), settings(guarantee, drop))
    cluster.send("first")
    until_committed(cluster, 1)
    cluster.broker.topic("out").configure({"max.message.bytes": "20000"})
    cluster.send(*VALUES)
    until_committed(cluster, 1 + len(VALUES))
    cluster.broker.topic("out").configure({"max.message.bytes": "2000"})
    cluster.send(*VALUES)
    until_committed(cluster, 1 + 2 * len(VALUES))
    assert cluster.values()[-len(VALUES) :] == VALUES
    if guarantee == "exactly_once_v2":
        assert cluster.values() == ["first", *VALUES, *VALUES]


def test_a_record_that_is_too_large_by_itself_goes_to_the_handler_alone(cluster: Cluster) -> None:
    """Those around it are written, each once."""
    cluster.broker.create_topic("out", 1, LIMIT)
    asked: list[Any] = []
    handler = lambda *given: (asked.append(given[1].value), Response.resume())[1]  # noqa: E731
    cluster.app(passing_on(), settings("at_least_once", handler))
    values = [*VALUES[:150], "x" * 30_000, *VALUES[150:]]
    cluster.send(*values)
    until_committed(cluster, len(values))
    assert cluster.values() == VALUES
    assert asked == [b"x" * 30_000]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_changelog_with_a_low_limit_gets_all_rows(cluster: Cluster, guarantee: str) -> None:
    cluster.broker.create_topic("out", 1)
    cluster.broker.create_topic("app-counts-changelog", 1, {**LIMIT, "cleanup.policy": "compact"})
    cluster.app(counting(), settings(guarantee))
    for value in VALUES:
        cluster.send(value, key=value)
    until_committed(cluster, len(VALUES))
    rows = cluster.broker.records("app-counts-changelog")
    wait_until("all rows are there", lambda: len({row.key() for row in rows}) == len(VALUES))
