"""The test driver: piping to the topic of a global store updates it at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from processor_api.errors import DeserializationError, ProcessingError, TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from streams.testing import TopologyTestDriver

S = Serdes.STRING
STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
TO_STRINGS: Produced[str, str] = Produced(key_serde=S, value_serde=S)


class LookUp(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        found = self.context.get_state_store("g").get(record.key)
        self.context.forward(record.with_value("none" if found is None else f"{found.value}@{found.timestamp}"))


def build(engine: str = "rocksdb", *, feeds_itself: bool = False) -> Topology:
    builder = StreamsBuilder()
    builder.global_table("global", STRINGS, materialized=Materialized(name="g", store_type=engine))
    builder.stream("in", STRINGS).process(LookUp).to("out", TO_STRINGS)
    if feeds_itself:
        builder.stream("changes", STRINGS).to("global", TO_STRINGS)
    return builder.build()


@pytest.fixture(name="driver", params=["rocksdb", "memory"])
def driver_fixture(request: pytest.FixtureRequest) -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(build(request.param, feeds_itself=True)) as driver:
        yield driver


def ask(driver: TopologyTestDriver, key: str) -> str:
    driver.create_input_topic("in", S, S).pipe_input(key, "?", 0)
    return str(driver.create_output_topic("out", S, S).read_value())


def test_a_piped_record_is_in_the_store_at_once(driver: TopologyTestDriver) -> None:
    table = driver.create_input_topic("global", S, S)
    table.pipe_input("a", "1", 5)
    assert driver.get_state_store("g").get("a") == ValueAndTimestamp("1", 5)
    assert ask(driver, "a") == "1@5"
    table.pipe_input("a", None, 6)
    assert driver.get_state_store("g").get("a") is None
    assert ask(driver, "a") == "none"
    assert driver.produced_topic_names() == {"out"}


def test_what_the_topology_writes_to_the_topic_is_in_the_store_too(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("changes", S, S).pipe_input("a", "2", 7)
    assert ask(driver, "a") == "2@7"
    assert driver.create_output_topic("global", S, S).read_key_values() == [("a", "2")]


def test_what_a_test_puts_into_the_store_is_there_for_tasks(driver: TopologyTestDriver) -> None:
    assert list(driver.get_all_state_stores()) == ["g"]
    driver.get_state_store("g").put("b", ValueAndTimestamp("put", 1))
    assert ask(driver, "b") == "put@1"


def test_records_without_a_key_are_dropped(driver: TopologyTestDriver) -> None:
    driver.create_input_topic("global", S, S).pipe_input(None, "1", 5)
    assert driver.metrics()["dropped-records-total"] == 1


def test_errors_of_global_stores_reach_the_test() -> None:
    builder = StreamsBuilder()
    builder.global_table("global", Consumed(key_serde=S, value_serde=Serdes.LONG))
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(DeserializationError, match="KSTREAM-SOURCE"):
        driver.create_input_topic("global", S, S).pipe_input("a", "x", 5)


class Writes(Processor[str, str, str, str]):
    def process(self, record: Record[str, str]) -> None:
        self.context.get_state_store("g").put(record.key, record.value)


def test_a_task_that_writes_a_global_store_is_refused() -> None:
    topology = build()
    topology.add_source("s", "more", key_serde=S, value_serde=S).add_processor("writer", Writes, "s")
    with TopologyTestDriver(topology) as driver:
        with pytest.raises(ProcessingError, match="node 'writer' can only read store 'g', not write to it"):
            driver.create_input_topic("more", S, S).pipe_input("a", "x", 5)
        assert driver.get_state_store("g").get("a") is None


def test_an_operator_reads_a_global_store_without_being_connected() -> None:
    """What joins with global tables need."""

    class Join:
        def bind(self, context: Any) -> Any:
            get, forward = context.store("g").get, context.forward

            def process(key: Any, value: Any, timestamp: int, headers: Any) -> None:
                found = get(value)
                forward(key, "none" if found is None else found[0], timestamp, headers)

            return process

    topology = build()
    topology.add_source("s", "left", key_serde=S, value_serde=S).add_processor("join", Join(), "s")
    topology.add_sink("joined", "joined", "join", key_serde=S, value_serde=S)
    with TopologyTestDriver(topology) as driver:
        left, joined = driver.create_input_topic("left", S, S), driver.create_output_topic("joined", S, S)
        left.pipe_input("k", "a", 1)
        driver.create_input_topic("global", S, S).pipe_input("a", "found", 2)
        left.pipe_input("k", "a", 3)
        assert joined.read_values() == ["none", "found"]


def test_a_store_that_is_neither_connected_nor_global_is_refused() -> None:
    class Asks(Writes):
        def init(self, context: Any) -> None:
            context.get_state_store("t")

    plain = Stores.key_value_store_builder(Stores.in_memory_key_value_store("t"), S, S)
    topology = build().add_source("s", "more", key_serde=S, value_serde=S)
    topology.add_processor("p", Asks, "s").add_state_store(plain)
    with pytest.raises(TopologyError, match="store 't' is not connected to node 'p'"):
        TopologyTestDriver(topology)


def test_a_read_only_store_is_updated_by_its_processor() -> None:
    """KIP-813."""

    class Keep(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.get_state_store("r").put(record.key, record.value)

    plain = Stores.key_value_store_builder(Stores.persistent_key_value_store("r"), S, S)
    topology = Topology().add_read_only_state_store(plain, "rs", "ref", "rp", Keep, key_serde=S, value_serde=S)
    with TopologyTestDriver(topology) as driver:
        driver.create_input_topic("ref", S, S).pipe_input("a", "1", 5)
        assert driver.get_state_store("r").get("a") == "1"
        assert driver.produced_topic_names() == frozenset()
