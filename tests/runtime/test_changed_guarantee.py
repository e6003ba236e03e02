"""A deploy that changes the guarantee: what was rolled back before is not read at least once (semantics 166)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.topology.topology import Topology
from runtime_support.kept_cluster import INPUTS, OUTPUTS, drawn, expected
from runtime_support.kept_cluster import run as run_all
from runtime_support.running_app import CLOSE_TIMEOUT, Cluster
from streams import StreamsBuilder
from streams.testing import EmbeddedKafka
from streams.testing.broker import EmbeddedClients
from waiting import wait_until

REPARTITION, CHANGELOG = "app-counts-repartition", "app-counts-changelog"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as made:
        yield made


def counts() -> Topology:
    builder = StreamsBuilder()
    by_value = builder.stream("in").group_by(lambda key, value: value, "counts")
    counted = by_value.count(materialized="counts")
    counted.to_stream().map_values(str).to("out")
    return builder.build()


def roll_back(cluster: Cluster, topic: str, key: bytes, value: bytes, times: int = 5) -> None:
    """Writes records to an internal topic in a transaction that is then aborted, as a worker that loses its tasks."""
    producer = EmbeddedClients(cluster.broker).producer({"transactional.id": "another-worker"})
    producer.init_transactions()
    producer.begin_transaction()
    for _ in range(times):
        producer.produce(topic, value, key, 0, None, None, 5, None)
    producer.flush()
    producer.abort_transaction()
    producer.close()


def run(cluster: Cluster, *values: str, last: str, **settings: Any) -> list[str]:
    """Runs the application until its last output is there, and closes it."""
    app = cluster.app(counts(), statestore_cache_max_bytes=0, **settings)
    cluster.send(*values)
    wait_until("all is counted", lambda: last in cluster.values())
    assert app.close(CLOSE_TIMEOUT)
    return cluster.values()


@pytest.mark.parametrize("then", ["at_least_once", "exactly_once_v2"])
def test_what_was_rolled_back_is_not_counted_at_least_once(cluster: Cluster, then: str) -> None:
    """Workers at least once counted the records that those before them had rolled back in repartition topics."""
    assert run(cluster, "a", "a", last="2", processing_guarantee="exactly_once_v2") == ["1", "2"]
    roll_back(cluster, REPARTITION, b"a", b"a")
    found = run(cluster, "a", last="3", processing_guarantee=then)
    assert found == ["1", "2", "3"]
    roll_back(cluster, REPARTITION, b"a", b"a")
    assert run(cluster, "a", last="4", processing_guarantee="exactly_once_v2")[3:] == ["4"]


def test_what_was_rolled_back_is_not_restored_at_least_once(cluster: Cluster) -> None:
    """Nor are rows of changelogs, on a machine that has none of them yet."""
    assert run(cluster, "a", "a", last="2", processing_guarantee="exactly_once_v2") == ["1", "2"]
    roll_back(cluster, CHANGELOG, b"a", (100).to_bytes(8) + (7).to_bytes(8))
    assert run(cluster, "a", last="3") == ["1", "2", "3"]


def test_uncommitted_records_are_read_where_that_is_set(cluster: Cluster) -> None:
    """Which shows that the records are there."""
    assert run(cluster, "a", last="1", processing_guarantee="exactly_once_v2") == ["1"]
    roll_back(cluster, REPARTITION, b"a", b"a", times=1)
    settings = {"consumer.isolation.level": "read_uncommitted"}
    app = cluster.app(counts(), settings, statestore_cache_max_bytes=0)
    cluster.send("a")
    wait_until("all is counted", lambda: "3" in cluster.values())
    assert app.close(CLOSE_TIMEOUT)


ONCE, TWICE = "exactly_once_v2", "at_least_once"


@pytest.mark.parametrize("guarantees", [(TWICE, ONCE, TWICE), (ONCE, TWICE, ONCE)])
def test_all_operators_go_on_over_the_state_of_another_guarantee(guarantees: tuple[str, ...], tmp_path: Path) -> None:
    """Forth and back over the same state directory, topics and offsets: the results are those of the test driver."""
    given = [*drawn(0), *drawn(1)]
    parts = [given[:100], given[100:200], given[200:]]
    with EmbeddedKafka(tmp_path / "unused") as kafka:
        for name in (*INPUTS, *OUTPUTS):
            kafka.create_topics(name, partitions=2)
        for guarantee, part in zip(guarantees, parts, strict=True):
            found = run_all(kafka, tmp_path / "state", part, processing_guarantee=guarantee)
    assert found == expected(given)
