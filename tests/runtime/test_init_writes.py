"""Processors that write when they are initialised, before there is any record."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from waiting import wait_until

S = Serdes.STRING


class Beginning(Processor[Any, Any, Any, Any]):
    """Counts its starts in a store and forwards the count; then what it counted, for each record."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.starts = context.get_state_store("starts")
        self.starts.put("n", (self.starts.get("n") or 0) + 1)
        context.forward(Record("n", f"start {self.starts.get('n')}", 1))

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_value(f"{record.value} in {self.starts.get('n')}"))


def beginning(*, cached: bool = False) -> Topology:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("starts"), S, Serdes.LONG)
    topology = Topology().add_source("source", "in").add_processor("p", Beginning, "source")
    topology.add_state_store(store.with_caching_enabled() if cached else store, "p")
    return topology.add_sink("sink", "out", "p")


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
@pytest.mark.parametrize("updates", ["each", "last"])
@pytest.mark.parametrize("cached", [False, True])
def test_what_was_written_at_the_start_is_committed_without_a_record(
    cluster: Cluster, guarantee: str, updates: str, cached: bool
) -> None:
    """Under exactly-once there was no transaction yet: the thread died of the first write."""
    settings = {"processing.guarantee": guarantee, "changelog.updates": updates}
    app = cluster.app(beginning(cached=cached), settings)
    cluster.until_out("start 1")
    changelog = cluster.broker.topics["app-starts-changelog"].partitions[0]
    wait_until("the store is logged", lambda: len(changelog.read(0, 9, True)[0]) == 1)
    assert app.close(60)
    again = cluster.app(beginning(cached=cached), settings)  # elsewhere: restored
    cluster.send("v")
    cluster.until_out("start 1", "start 2", "v in 2")
    assert again.state is ClientState.RUNNING


def test_an_init_that_fails_leaves_nothing_behind(cluster: Cluster) -> None:
    class Failing(Beginning):
        def init(self, context: Any) -> None:
            super().init(context)
            raise RuntimeError("not today")

    topology = Topology().add_source("source", "in").add_processor("p", Failing, "source")
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("starts"), S, Serdes.LONG)
    topology.add_state_store(store, "p").add_sink("sink", "out", "p")
    app = cluster.app(topology, {"processing.guarantee": "exactly_once_v2", "changelog.updates": "each"})
    cluster.until_state(app, ClientState.ERROR)
    assert cluster.values() == []
    assert cluster.values("app-starts-changelog") == []


def test_where_a_task_starts_is_committed_with_what_it_wrote_at_the_start(cluster: Cluster) -> None:
    """Also without a store on disk, where nothing else says where it started: with "latest" a restart would skip."""
    cluster.send("before")
    topology = Topology().add_source("source", "in")

    class Hello(Processor[Any, Any, Any, Any]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.forward(Record("n", "hello", 1))

        def process(self, record: Record[Any, Any]) -> None:
            self.context.forward(record)

    topology.add_processor("p", Hello, "source").add_sink("sink", "out", "p")
    settings = {"processing.guarantee": "exactly_once_v2", "consumer.auto.offset.reset": "latest"}
    cluster.app(topology, settings)
    cluster.until_out("hello")
    offsets = cluster.broker.groups.group("app").offsets
    wait_until("the start is committed", lambda: TopicPartition("in", 0) in offsets)
    assert offsets[TopicPartition("in", 0)].offset == 1
