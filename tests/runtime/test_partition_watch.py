"""Source topics whose partition counts change while an application runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import RetryableError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from runtime_support.failing_clients import Trap, no_trap, trapped
from runtime_support.running_app import Cluster
from streams.app.states import ClientState

Run = Callable[..., Cluster]
S = Serdes.STRING


class PassesOn(Processor[str, str, str, str]):
    """Has a store, which it does not use."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record)


def copying(*topics: str) -> Topology:
    topology = Topology()
    for topic in topics:
        topology.add_source(topic, topic, key_serde=S, value_serde=S)
    store = Stores.key_value_store_builder(Stores.in_memory_key_value_store("unused"), S, S).with_logging_disabled()
    topology.add_processor("p", PassesOn, *topics).add_state_store(store, "p")
    return topology.add_sink("sink", "out", "p", key_serde=S, value_serde=S)


@pytest.fixture(name="run")
def run_fixture(tmp_path: Path) -> Iterator[Run]:
    started: list[Cluster] = []

    def run(trap: Trap = no_trap, **config: Any) -> Cluster:
        topics = {"a": 2, "b": 4, "out": 1}
        settings = {"metadata_max_age_ms": 20, "max_task_idle_ms": -1, "retry_backoff_ms": 10, **config}
        running = Cluster(tmp_path / str(len(started)), topics=topics, clients=trapped(trap))
        started.append(running)
        running.app(copying("a", "b"), **settings)
        return running

    yield run
    for each in started:
        each.close()


@pytest.mark.parametrize(("topic", "before", "now"), [("a", 2, 4), ("b", 4, 6), ("b", 4, 3)])
def test_another_partition_count_ends_the_application(topic: str, before: int, now: int, run: Run) -> None:
    """With one error that names the topic and both counts; what was read before is committed."""
    running = run()
    other = "b" if topic == "a" else "a"
    running.send("1", topic=other)
    running.until(lambda: running.committed(other) == 1)
    running.broker.gives_ids = False
    running.broker.delete_topic(topic)
    running.broker.create_topic(topic, now)
    error = running.failed()
    assert isinstance(error, TopologyError)
    assert f"source topic '{topic}' has {now} partitions now and had {before} when this worker started" in str(error)
    assert "reset the application" in str(error)
    assert running.committed(other) == 1
    assert running.values() == ["1"]


def test_what_cannot_be_looked_at_is_looked_at_later(run: Run) -> None:
    """A broker that does not answer, or a topic that is not to be seen, ends nothing."""
    fails = False
    looked = 0

    def trap(call: str) -> None:
        nonlocal looked
        looked += call == "topics"
        if fails and call == "topics":
            raise RetryableError("no broker answers")

    running = run(trap)
    running.until(lambda: running.last.state is ClientState.RUNNING)
    fails = True
    before = looked
    running.until(lambda: looked >= before + 3)
    fails = False
    before = looked
    running.until(lambda: looked >= before + 3)
    assert running.last.state is ClientState.RUNNING


def test_looks_are_far_between(run: Run) -> None:
    """Nobody asks the cluster at every commit."""
    looked: list[str] = []
    running = run(looked.append, metadata_max_age_ms=3_600_000)
    running.until(lambda: running.last.state is ClientState.RUNNING)
    before = looked.count("topics")
    for number in range(5):
        running.send("1", topic="a")
        running.until(lambda number=number: running.committed("a") == number + 1)
    assert looked.count("topics") == before
