"""``statestore.uncommitted.max.bytes``: what waits for a commit asks for one before its time (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.processor import Processor
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.task_id import TopicPartition
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster, JumpingClock
from streams.app.states import ClientState
from waiting import wait_until

S = Serdes.STRING
LIMIT = 10_000
NEVER = 600_000
GUARANTEES = ["at_least_once", "exactly_once_v2"]


class Spread(Processor[Any, Any, Any, Any]):
    """Puts as many rows of 100 bytes as the record says."""

    def process(self, record: Any) -> None:
        name, _, rows = record.value.partition(":")
        store = self.context.get_state_store("s")
        for number in range(int(rows)):
            store.put(f"{name}-{number}", "v" * 100)
        self.context.forward(record.with_value(str(sum(1 for _ in store.all()))))


def topology(*, caching: bool) -> Topology:
    builder = Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), S, S)
    made = Topology().add_source("source", "in").add_processor("p", Spread, "source").add_sink("sink", "out", "p")
    return made.add_state_store(builder.with_caching_enabled() if caching else builder, "p")


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("cache", [0, 100_000_000])
def test_a_record_that_writes_far_more_than_the_limit_works(
    guarantee: str, caching: bool, cache: int, cluster: Cluster
) -> None:
    """And is committed with its effects at once, long before the interval is over."""
    settings = {
        "processing.guarantee": guarantee,
        "commit.interval.ms": NEVER,
        "producer.transaction.timeout.ms": NEVER,
        "statestore.uncommitted.max.bytes": LIMIT,
        "statestore.cache.max.bytes": cache,
    }
    app = cluster.app(topology(caching=caching), settings)
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("a:2000")
    cluster.until_out("2000")
    cluster.send("b:3000")
    cluster.until_out("2000", "5000")
    assert app.failure is None


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("inputs", [("in",), ("in", "in-too")])
def test_large_values_that_come_together_do_not_go_far_beyond_the_limit(
    guarantee: str, inputs: tuple[str, ...], tmp_path: Path
) -> None:
    """It was looked at once a round of up to 2,000 records: a whole fetch was written before it counted."""
    clock = JumpingClock()
    cluster = Cluster(tmp_path, clock=clock)
    try:
        check_large_values(cluster, clock, guarantee, inputs)
    finally:
        cluster.close()


def check_large_values(cluster: Cluster, clock: JumpingClock, guarantee: str, inputs: tuple[str, ...]) -> None:
    waiting: list[int] = []

    class Keep(Processor[Any, Any, Any, Any]):
        def process(self, record: Any) -> None:
            clock.ahead_s += 0.001  # as it takes with values of some MiB
            self.context.get_state_store("s").put(record.value[:8], record.value)
            offset = cluster.broker.groups.group("app").offsets.get(TopicPartition("in", 0))
            waiting.append(self.context.record_metadata.offset - (0 if offset is None else offset.offset))

    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), S, S)
    made = Topology().add_source("source", *inputs).add_processor("p", Keep, "source")
    made.add_state_store(builder, "p")
    cluster.broker.create_topic("in-too")
    cluster.send(*[f"{number:08d}" + "v" * 1000 for number in range(100)])
    settings = {
        "processing.guarantee": guarantee,
        "commit.interval.ms": NEVER,
        "producer.transaction.timeout.ms": NEVER,
        "statestore.uncommitted.max.bytes": LIMIT,
        "max.task.idle.ms": -1,
    }
    app = cluster.app(made, settings)
    wait_until("all were processed", lambda: len(waiting) == 100)
    assert app.failure is None
    assert max(waiting) <= LIMIT // 1000, waiting
