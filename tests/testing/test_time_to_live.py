"""Tables and stores with a time to live, as the test driver runs them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from processor_api.context import ProcessorContext
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.stores.time_to_live import TimeToLive
from processor_api.topology.topology import Topology
from streams import Consumed, Grouped, Materialized, StreamsBuilder, TopologyTestDriver

S = Serdes.STRING
MINUTE = 60_000
TTL = TimeToLive(timedelta(minutes=1))
CONSUMED: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)


def test_a_count_begins_anew_and_nothing_is_forwarded_when_a_key_goes() -> None:
    for caching in (True, False):
        builder = StreamsBuilder()
        counts: Materialized[str, int] = Materialized(
            name="counts", value_serde=Serdes.LONG, time_to_live=TTL, caching=caching
        )
        grouped = builder.stream("in", CONSUMED).group_by_key(Grouped(key_serde=S, value_serde=S))
        grouped.count(materialized=counts).to_stream().to("out")
        config = {"default.key.serde": S, "default.value.serde": Serdes.LONG}
        with TopologyTestDriver(builder.build(), config) as driver:
            source = driver.create_input_topic("in", S, S)
            target = driver.create_output_topic("out", S, Serdes.LONG)
            for key, time in (("a", 0), ("a", 10), ("b", MINUTE), ("b", MINUTE + 9), ("b", MINUTE + 10), ("a", 99_999)):
                source.pipe_input(key, "x", timestamp=time)
            assert target.read_key_values() == [("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("a", 1)]
            store = driver.get_key_value_store("counts")
            assert store.get("a") == 1
            assert dict(driver.get_timestamped_key_value_store("counts").all())["b"] == ValueAndTimestamp(3, 60_010)


class Look(Processor[str, str, str, str]):
    """Keeps what has a value; asks for the key of what has none."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.store = context.get_state_store("s")

    def process(self, record: Record[str, str]) -> None:
        if record.value is None:
            self.context.forward(record.with_value(self.store.get(record.key) or "gone"))
        else:
            self.store.put(record.key, record.value)


def test_the_drivers_getters_refresh_nothing() -> None:
    """They stand for queries. A read by a processor does."""
    supplier = Stores.persistent_key_value_store("s")
    builder: StoreBuilder[str, str] = Stores.key_value_store_builder(supplier, S, S).with_time_to_live(MINUTE, "access")
    topology = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("look", Look, "source")
    topology.add_state_store(builder, "look").add_sink("sink", "out", "look", key_serde=S, value_serde=S)
    with TopologyTestDriver(topology) as driver:
        source, target = driver.create_input_topic("in", S, S), driver.create_output_topic("out", S, S)
        for key in ("a", "b"):
            source.pipe_input(key, "1", timestamp=0)
        source.pipe_input("a", None, timestamp=MINUTE - 1)
        assert driver.get_key_value_store("s").get("b") == "1"
        assert driver.get_state_store("s").get("b") == "1"
        for key in ("a", "b"):
            source.pipe_input(key, None, timestamp=MINUTE)
        assert target.read_values() == ["1", "1", "gone"]
        assert [key for key, _ in driver.get_state_store("s").all()] == ["a"]


def test_a_table_whose_keys_expire_has_a_changelog_of_its_own() -> None:
    """A source topic takes no tombstones of the store's."""
    builder = StreamsBuilder()
    builder.table("one", CONSUMED, materialized=Materialized(name="one", time_to_live=TTL))
    builder.table("two", CONSUMED, materialized=Materialized(name="two"))
    made = builder.build({"topology.optimization": "reuse.ktable.source.topics"})
    assert dict(made.source_changelogs) == {"two": "two"}
    assert (made.stores["one"].logging, made.stores["one"].time_to_live) == (True, TTL)


def test_what_a_table_cannot_take() -> None:
    with pytest.raises(TopologyError, match=r"time_to_live must be a TimeToLive\(duration, by\), got 5"):
        Materialized(name="t", time_to_live=5)  # type: ignore[arg-type]
    builder = StreamsBuilder()
    supplier = Stores.persistent_versioned_key_value_store("t", 10)
    builder.table("in", CONSUMED, materialized=Materialized(supplier=supplier, time_to_live=TTL))
    with pytest.raises(
        TopologyError, match="store 't' is a versioned-key-value store, which cannot have a time to live"
    ):
        builder.build()
    builder = StreamsBuilder()
    builder.global_table("in", CONSUMED, materialized=Materialized(name="g", time_to_live=TTL))
    with pytest.raises(TopologyError, match="store 'g' cannot have a time to live"):
        builder.build()
