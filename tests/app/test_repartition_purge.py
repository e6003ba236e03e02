"""Records of repartition topics are deleted once they are processed and committed (semantics 134)."""

from __future__ import annotations

import pytest

from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.testing.broker.partition_log import PartitionLog
from waiting import wait_until

INPUT, AGAIN = TopicPartition("in", 0), TopicPartition("app-again", 0)


def through_repartition() -> Topology:
    topology = Topology().add_source("source", "in").add_repartition_topic(RepartitionTopic(name="again"))
    topology.add_sink("to-again", "again", "source").add_source("from-again", "again")
    return topology.add_sink("sink", "out", "from-again")


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_they_are_deleted_by_the_interval(guarantee: str, cluster: Cluster) -> None:
    """Up to what was committed; nothing of the user's own topics is."""
    settings = {"repartition.purge.interval.ms": 50, "processing.guarantee": guarantee}
    cluster.app(through_repartition(), settings)
    cluster.send("a", "b", "c")
    cluster.until_out("a", "b", "c")

    def log() -> PartitionLog:
        return cluster.broker.log(AGAIN)

    wait_until("they are deleted", lambda: log().start_offset >= 3)
    committed = cluster.broker.groups.group("app").offsets[AGAIN].offset
    assert log().start_offset <= committed
    assert cluster.broker.log(INPUT).start_offset == 0
    cluster.send("d")
    cluster.until_out("a", "b", "c", "d")
    offsets = cluster.broker.groups.group("app").offsets
    wait_until("the next is deleted", lambda: log().start_offset == offsets[AGAIN].offset > committed)


def test_they_stay_until_the_interval_is_over(cluster: Cluster) -> None:
    app = cluster.app(through_repartition(), {"repartition.purge.interval.ms": 3_600_000})
    cluster.send("a")
    cluster.until_out("a")
    assert app.close(60)
    assert cluster.broker.groups.group("app").offsets[AGAIN].offset == 1
    assert cluster.broker.log(AGAIN).start_offset == 0
