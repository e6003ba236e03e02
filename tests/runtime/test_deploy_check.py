"""A version without the topics of the one before does not start over records that are unread (semantics 167)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from processor_api.errors import TopologyError
from processor_api.topology.topology import Topology
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster
from streams import StreamsBuilder
from streams.app.states import ClientState
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

OLD, NEW = "app-old-repartition", "app-new-repartition"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, partitions=2) as made:
        yield made


def counts(name: str) -> Topology:
    builder = StreamsBuilder()
    counted = builder.stream("in").group_by(lambda key, value: value, name).count(materialized=name)
    counted.to_stream().map_values(str).to("out")
    return builder.build()


def run(cluster: Cluster, name: str, guarantee: str) -> None:
    """Runs a version until it has counted two values, and closes it."""
    app = cluster.app(counts(name), processing_guarantee=guarantee)
    before = len(cluster.values())
    cluster.send("a", "b")
    wait_until("both are counted", lambda: len(cluster.values()) >= before + 2)
    assert app.close(CLOSE_TIMEOUT)


def add_unread(cluster: Cluster, topic: str, count: int = 3) -> None:
    """Writes records that the version before has not read when it was stopped."""
    producer = EmbeddedClients(cluster.broker).producer({})
    for number in range(count):
        producer.produce(topic, b"a", b"a", 1, None, None, number, None)
    producer.flush()
    producer.close()


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_renamed_repartition_with_unread_records_is_refused(cluster: Cluster, guarantee: str) -> None:
    """It began at 0, and the records stayed where they were, without a word."""
    run(cluster, "old", guarantee)
    add_unread(cluster, OLD)
    app = cluster.app(counts("new"), processing_guarantee=guarantee)
    cluster.until_state(app, ClientState.ERROR)
    assert isinstance(app.failure, TopologyError)
    assert f"hold records that were not read: '{OLD}' (3)" in str(app.failure)
    assert "give it its former name, or run the former version until it has read them" in str(app.failure)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_renamed_repartition_that_was_read_is_not(
    cluster: Cluster, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Behind the last record there are markers of transactions. That the counts begin at 0 is said."""
    run(cluster, "old", guarantee)
    with caplog.at_level(logging.WARNING, "streams.topics"):
        run(cluster, "new", guarantee)
    (warned,) = [one.getMessage() for one in caplog.records if one.name == "streams.topics"]
    assert "remain: app-old-changelog. A renamed store starts empty" in warned


def test_the_former_version_reads_them_and_the_new_one_starts(cluster: Cluster) -> None:
    run(cluster, "old", "at_least_once")
    add_unread(cluster, OLD)
    former = cluster.app(counts("old"))
    wait_until("they are counted", lambda: "3" in cluster.values())
    assert former.close(CLOSE_TIMEOUT)
    run(cluster, "new", "at_least_once")


def test_topics_that_are_deleted_are_not_missed(cluster: Cluster) -> None:
    run(cluster, "old", "at_least_once")
    add_unread(cluster, OLD)
    cluster.broker.delete_topic(OLD)
    run(cluster, "new", "at_least_once")


def test_topics_of_another_application_are_left_alone(cluster: Cluster) -> None:
    """Whose id begins as this one's, and whose group may be gone: this one has never read them."""
    for name in ("app-more-repartition", "app-more-sums-repartition"):
        cluster.broker.create_topic(name, 2)
        add_unread(cluster, name)
    run(cluster, "new", "at_least_once")


def test_the_new_version_waits_until_the_workers_of_the_former_have_left(cluster: Cluster) -> None:
    """Which read what there is."""
    former = cluster.app(counts("old"))
    cluster.until_state(former, ClientState.RUNNING)
    app = cluster.app(counts("new"))
    cluster.send("a", "b")
    wait_until("both are counted", lambda: len(cluster.values()) >= 2)
    assert former.close(CLOSE_TIMEOUT)
    cluster.send("c")
    cluster.until_state(app, ClientState.RUNNING)
