"""A member that another one has replaced while it stood still, and that goes on where it stood."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.held_restores import HeldRestores
from runtime_support.running_app import Cluster, JumpingClock, counting
from streams.app.kafka_streams import KafkaStreams
from streams.app.states import ClientState
from waiting import wait_until

S = Serdes.STRING
EOS = {"processing.guarantee": "exactly_once_v2"}
LONGER_THAN_A_SESSION_S = 60.0


class Gate:
    """Where one member stands still, in user code, from when it is closed until it is opened."""

    def __init__(self) -> None:
        self.closed = False
        self.reached = threading.Event()
        self._opened = threading.Event()

    def pass_through(self) -> None:
        if self.closed:
            self.reached.set()
            assert self._opened.wait(30.0)

    def open(self) -> None:
        self.closed = False
        self._opened.set()


class Ticking(Processor[Any, Any, Any, Any]):
    """Counts its punctuations in a store, and forwards each count with the member's name."""

    def __init__(self, name: str, gate: Gate) -> None:
        self._name, self._gate = name, gate

    def init(self, context: Any) -> None:
        super().init(context)
        self.store = context.get_state_store("ticks")
        context.schedule(30, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self._gate.pass_through()
        count = (self.store.get("n") or 0) + 1
        self.store.put("n", count)
        self.context.forward(Record("n", f"{self._name}:{count}", now_ms))

    def process(self, record: Record[Any, Any]) -> None:
        pass


def ticking(name: str, gate: Gate) -> Topology:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("ticks"), S, Serdes.LONG)
    topology = Topology().add_source("source", "in").add_processor("p", lambda: Ticking(name, gate), "source")
    return topology.add_state_store(store, "p").add_sink("sink", "out", "p")


@pytest.mark.parametrize("records", [0, 1])
def test_what_a_replaced_member_punctuated_is_not_committed(records: int, tmp_path: Path) -> None:
    """Its transaction held no offset that had changed, so that the group was not asked whether it is a member: the
    output was there twice, and its changelog ended in a value of the past."""
    clock, gate = JumpingClock(), Gate()
    cluster = Cluster(tmp_path, clock=clock)
    try:
        settings = {**EOS, "commit.interval.ms": 0}
        cluster.send(*["v"] * records)
        first = cluster.app(ticking("first", gate), settings)
        wait_until("the first has ticked", lambda: len(cluster.values()) >= 2)
        gate.closed = True
        assert gate.reached.wait(20.0)
        second = cluster.app(ticking("second", Gate()), settings)
        clock.ahead_s += LONGER_THAN_A_SESSION_S
        wait_until("the second ticks", lambda: sum(v.startswith("second") for v in cluster.values()) >= 3)
        gate.open()
        wait_until("the first is a member again", lambda: first.state is ClientState.RUNNING)
        seen = len(cluster.values())
        wait_until("one of them ticks on", lambda: len(cluster.values()) > seen + 3)
    finally:
        gate.open()
        cluster.close()
    counts = [int(value.split(":")[1]) for value in cluster.values()]
    assert counts == list(range(1, len(counts) + 1)), cluster.values()
    logged = cluster.broker.records("app-ticks-changelog", read_committed=True)
    assert [int.from_bytes(record.value() or b"", "big") for record in logged] == counts
    assert second.state is ClientState.NOT_RUNNING


def committed(cluster: Cluster, partition: int) -> int | None:
    found = cluster.broker.groups.group("app").offsets.get(TopicPartition("in", partition))
    return None if found is None else found.offset


def tasks(app: KafkaStreams) -> list[Any]:
    return [task for owned in app.tasks().values() for task in owned]


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_task_that_moved_away_while_it_was_restored_leaves_no_offset_behind(guarantee: str, tmp_path: Path) -> None:
    """Its former owner remembered where it was to start, and committed that anew after 12 hours: 13 became 3."""
    cluster = Cluster(tmp_path, partitions=2)
    try:
        check_moved_away(cluster, {"processing.guarantee": guarantee})
    finally:
        cluster.close()


def check_moved_away(cluster: Cluster, settings: Mapping[str, Any]) -> None:
    for partition in (0, 1):
        cluster.send("a", "a", "a", partition=partition)
    before = cluster.app(counting(), settings)
    wait_until("all is committed", lambda: [committed(cluster, n) for n in (0, 1)] == [3, 3])
    assert before.close(60)
    clients, clock = HeldRestores(cluster), JumpingClock()
    former = cluster.app(counting(), settings, clients=clients, clock=clock)
    wait_until("it restores both", lambda: len(clients.held[0].assignment()) == 2)
    owner = cluster.app(counting(), settings)
    wait_until("one has moved", lambda: owner.state is ClientState.RUNNING and len(tasks(owner)) == 1)
    moved = tasks(owner)[0].partition
    cluster.send(*["a"] * 10, partition=moved)
    wait_until("it goes on", lambda: committed(cluster, moved) == 13)
    clients.let_go.set()
    wait_until("the former owner runs", lambda: former.state is ClientState.RUNNING)
    cluster.broker.groups.group("app").offsets.pop(TopicPartition("in", 1 - moved))
    clock.ahead_s += 13 * 3600.0
    wait_until("it commits anew what it has", lambda: committed(cluster, 1 - moved) == 3)
    assert committed(cluster, moved) == 13
