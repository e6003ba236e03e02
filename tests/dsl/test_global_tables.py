"""Global tables and global stores of the DSL: names, numbers, stores, and what does not build."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import Consumed, GlobalKTable, Materialized, StreamsBuilder
from processor_api.errors import TopologyError
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB, StoreSupplier

S, L = Serdes.STRING, Serdes.LONG


class Keep(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        pass


def store_of(builder: StreamsBuilder, config: Any = None) -> Any:
    (store,) = builder.build(config).global_stores.values()
    return store


def test_numbers_are_used_up_as_in_java() -> None:
    """A name for the nodes uses up their two numbers, a name for the store saves its one."""
    builder = StreamsBuilder()
    builder.global_table("a")
    builder.global_table("b", Consumed(name="named"))
    builder.global_table("c", materialized="store")
    builder.add_global_store(
        Stores.key_value_store_builder(Stores.in_memory_key_value_store("d")), "d", Consumed(), Keep
    )
    builder.stream("e")
    stores = builder.build().global_stores
    assert [(name, store.source, store.processor) for name, store in stores.items()] == [
        ("a-STATE-STORE-0000000000", "KSTREAM-SOURCE-0000000001", "KTABLE-SOURCE-0000000002"),
        ("b-STATE-STORE-0000000003", "named-source", "named"),
        ("store", "KSTREAM-SOURCE-0000000006", "KTABLE-SOURCE-0000000007"),
        ("d", "KSTREAM-SOURCE-0000000008", "KTABLE-SOURCE-0000000009"),
    ]
    assert "KSTREAM-SOURCE-0000000010" in builder.build().nodes


def test_only_a_named_store_can_be_queried() -> None:
    builder = StreamsBuilder()
    unnamed: GlobalKTable[Any, Any] = builder.global_table("a")
    assert unnamed.queryable_store_name is None
    assert builder.global_table("b", materialized="b-store").queryable_store_name == "b-store"
    assert repr(unnamed) == "GlobalKTable(KTABLE-SOURCE-0000000002)"


def test_the_store_of_a_global_table_is_a_copy_of_its_topic() -> None:
    """Never logged, never cached, restored without the processor; as are its options for both without effect."""
    builder = StreamsBuilder()
    builder.global_table("a", materialized=Materialized(name="s", topic_config={"a": "b"}, caching=True))
    store = store_of(builder, {"application.id": "app"})
    assert (store.builder.logging, store.builder.caching, store.reprocess) == (False, False, False)
    assert store.builder.kind == "timestamped-key-value"
    assert store.builder.supplier.engine == ROCKSDB


def test_serdes_of_consumed_win() -> None:
    builder = StreamsBuilder()
    given: Materialized[Any, Any] = Materialized(name="s", key_serde=L, value_serde=L)
    builder.global_table("a", Consumed(key_serde=S), materialized=given)
    topology = builder.build()
    store = topology.global_stores["s"]
    source: Any = topology.nodes[store.source]
    assert (store.builder.key_serde, store.builder.value_serde) == (S, L)
    assert (source.key_serde, source.value_serde) == (S, L)


def test_the_engine_is_that_of_the_application() -> None:
    builder = StreamsBuilder()
    builder.global_table("a")
    config = {"application.id": "app", "default.dsl.store": "in_memory"}
    assert store_of(builder, config).builder.supplier.engine == MEMORY


def test_a_global_store_is_restored_by_its_processor() -> None:
    """Its logging is switched off, as in Java's builder."""
    builder = StreamsBuilder()
    logged = Stores.key_value_store_builder(Stores.in_memory_key_value_store("d"), S, S)
    assert builder.add_global_store(logged, "d", None, Keep) is builder
    store = store_of(builder)
    assert (store.builder.logging, store.reprocess) == (False, True)


def test_a_versioned_global_table_is_refused() -> None:
    """KIP-914."""
    supplier = StoreSupplier(
        name="ver", kind="versioned-key-value", engine=ROCKSDB, parameters={"history_retention_ms": 100}
    )
    with pytest.raises(TopologyError, match="cannot be versioned"):
        StreamsBuilder().global_table("a", materialized=Materialized(supplier=supplier))


@pytest.mark.parametrize("topic", ["", None, ["a", "b"]])
def test_a_global_table_reads_one_topic(topic: Any) -> None:
    with pytest.raises(TopologyError, match="one topic"):
        StreamsBuilder().global_table(topic)


def test_a_topic_is_read_by_one_global_table_or_stream() -> None:
    for second in (StreamsBuilder.global_table, StreamsBuilder.table, StreamsBuilder.stream):
        builder = StreamsBuilder()
        builder.global_table("a")
        second(builder, "a")
        with pytest.raises(TopologyError, match="'a' is already read"):
            builder.build()


def test_names_of_stores_without_a_changelog_need_not_be_given() -> None:
    """KIP-1111 is about names that reach the cluster."""
    builder = StreamsBuilder()
    builder.global_table("a")
    builder.build({"application.id": "app", "ensure.explicit.internal.resource.naming": True})
