"""Source topics that are given more partitions, while an application runs or between two runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TaskId
from processor_api.topology.nodes import RepartitionTopic
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, counting, passing_on
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import wait_until

SOON = {"metadata.max.age.ms": 20}
S = Serdes.STRING

MakeCluster = Callable[..., Cluster]


def owned(*apps: KafkaStreams) -> list[TaskId]:
    return sorted(task for app in apps for tasks in app.tasks().values() for task in tasks)


def grow(cluster: Cluster, partitions: int, topic: str = "in") -> None:
    """Gives a topic partitions, with a record in each new one."""
    before = len(cluster.broker.topics[topic].partitions)
    cluster.broker.add_partitions(topic, partitions)
    for partition in range(before, partitions):
        cluster.send(f"p{partition}", topic=topic, partition=partition)


def repartitioning(partitions: int | None = None) -> Topology:
    """``in`` through a repartition topic to ``out``."""
    topology = Topology().add_source("source", "in")
    topology.add_repartition_topic(RepartitionTopic(name="again", partitions=partitions))
    topology.add_sink("to-again", "again", "source")
    return topology.add_source("from-again", "again").add_sink("sink", "out", "from-again")


def remembering() -> Topology:
    """``in`` to ``out`` by a processor with a store that is in memory only."""
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("m"), S, S).with_logging_disabled()

    class Remembers(Processor[str, str, str, str]):
        def process(self, record: object) -> None:
            self.context.forward(record)  # type: ignore[arg-type]

    topology = Topology().add_source("source", "in").add_processor("p", Remembers, "source")
    return topology.add_state_store(store, "p").add_sink("sink", "out", "p")


# ------------------------------------------------------------------ without state


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_stateless_application_reads_added_partitions(guarantee: str, make_cluster: MakeCluster) -> None:
    """Was that it ended with an error, and every start after that too."""
    cluster = make_cluster()
    settings = {**SOON, "processing.guarantee": guarantee}
    apps = [cluster.app(passing_on(), settings) for _ in range(2)]
    cluster.send("a")
    cluster.until_out("a")
    grow(cluster, 4)
    cluster.until_out("a", "p1", "p2", "p3")
    wait_until("each has two tasks", lambda: sorted(len(owned(app)) for app in apps) == [2, 2])
    assert owned(*apps) == [TaskId(0, partition) for partition in range(4)]
    for app in apps:
        assert app.close(60)
        assert app.failure is None
    cluster.app(passing_on(), settings)
    cluster.send("b", partition=3)
    cluster.until_out("a", "p1", "p2", "p3", "b")


def test_partitions_that_came_between_two_runs_are_read(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    app = cluster.app(passing_on())
    cluster.send("a")
    cluster.until_out("a")
    assert app.close(60)
    grow(cluster, 3)
    again = cluster.app(passing_on())
    cluster.until_out("a", "p1", "p2")
    assert len(owned(again)) == 3


def test_a_task_reads_the_added_partition_of_its_number(make_cluster: MakeCluster) -> None:
    """Of two topics the narrower one grows: there are as many tasks as before."""
    cluster = make_cluster()
    cluster.broker.create_topic("wide", 3)
    app = cluster.app(passing_on(lambda value: None, "in", "wide"), SOON)
    cluster.send("a", topic="wide", partition=2)
    cluster.until_out("a")
    grow(cluster, 3)
    cluster.until_out("a", "p1", "p2")
    assert len(owned(app)) == 3


def test_a_stateless_part_grows_beside_one_with_state(make_cluster: MakeCluster) -> None:
    """Only what reads the topic matters."""
    cluster = make_cluster()
    cluster.broker.create_topic("plain", 1)
    topology = counting("in").add_source("other", "plain").add_sink("copies", "out", "other")
    app = cluster.app(topology, SOON)
    cluster.send("a")
    cluster.until_out("a=1")
    grow(cluster, 2, "plain")
    cluster.until_out("a=1", "p1")
    assert owned(app) == [TaskId(0, 0), TaskId(1, 0), TaskId(1, 1)]


def test_a_repartition_topic_of_a_fixed_width_lets_its_source_grow(make_cluster: MakeCluster) -> None:
    cluster = make_cluster()
    app = cluster.app(repartitioning(partitions=2), SOON)
    cluster.send("a")
    cluster.until_out("a")
    grow(cluster, 3)
    cluster.until_out("a", "p1", "p2")
    assert len(owned(app)) == 5


# ------------------------------------------------------------------ with state


@pytest.mark.parametrize(
    ("make", "internal"),
    [
        (counting, "'app-counts-changelog' has 1, but needs 2"),
        (repartitioning, "'app-again' has 1, but needs 2"),
        (remembering, "was made for 1 tasks"),
    ],
)
def test_what_depends_on_the_number_of_partitions_is_refused(
    make: Callable[[], Topology], internal: str, make_cluster: MakeCluster
) -> None:
    """With the topic, both counts and what to do, while it runs and at each later start."""
    cluster = make_cluster()
    app = cluster.app(make(), SOON)
    cluster.send("a")
    wait_until("it runs", lambda: cluster.values())
    grow(cluster, 2)
    cluster.until_state(app, ClientState.ERROR)
    for part in ("'in' has 2 partitions now and had 1", "reset the application"):
        assert part in str(app.failure)
    assert isinstance(app.failure, TopologyError)
    again = cluster.app(make(), SOON, start=False)
    with pytest.raises(TopologyError) as refused:
        again.start()
    for part in (internal, "'in' has 2", "reset the application"):
        assert part in str(refused.value)
