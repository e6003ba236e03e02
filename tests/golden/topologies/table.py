"""Topologies of tables, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, KTable, Materialized, Produced, StreamsBuilder, ValueTransformerWithKey
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

Build = Callable[[Any], Topology]

TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
BY_STRING: Grouped[Any, Any] = Grouped(name="g", key_serde=S, value_serde=S)


def kv(name: str, value_serde: Serde[Any], *, caching: bool = True) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde, caching=caching)


def text_table(builder: StreamsBuilder, store: Materialized[str, str] | None = None) -> KTable[str, str]:
    return builder.table("input") if store is None else builder.table("input", materialized=store)


def below_s(key: str, value: str) -> bool:
    return value < "s"


def source(store: Materialized[str, str] | None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        text_table(builder, store).to_stream().to("output")
        return builder.build(config)

    return build


def source_nocache_nolog(config: Any) -> Topology:
    builder = StreamsBuilder()
    store: Materialized[str, str] = Materialized(
        supplier=Stores.in_memory_key_value_store("t"), key_serde=S, value_serde=S, caching=False, logging=False
    )
    table = builder.table("input", Consumed(key_serde=S, value_serde=S, name="src"), materialized=store)
    table.to_stream(name="ts").to("output")
    return builder.build(config)


def source_optimized(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder, kv("t", S)).map_values(str.upper).to_stream().to("output")
    return builder.build(config)


def filter_(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder).filter(below_s).to_stream().to("output")
    return builder.build(config)


def filter_materialized(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder).filter(below_s, name="f", materialized=kv("f-store", S)).to_stream().to("output")
    return builder.build(config)


def filter_source_materialized(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder, kv("t", S)).filter(below_s).to_stream().to("output")
    return builder.build(config)


def filter_then_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = text_table(builder).filter(below_s).group_by(lambda k, v: (v, k), BY_STRING)
    groups.count(materialized=kv("n", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def filter_not_materialized_nocache(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_table(builder, kv("t", S, caching=False))
    table.filter_not(below_s, materialized=kv("f-store", S, caching=False)).to_stream().to("output")
    return builder.build(config)


def in_memory_suppliers(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_table(builder).map_values(lambda v: v + "!", materialized=kv("m", S))
    table.group_by(lambda k, v: (v, k), BY_STRING).count().to_stream().to("output", TO_LONGS)
    return builder.build(config)


def map_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_table(builder).map_values(lambda v: v + "!")
    table.map_values_with_key(lambda k, v: None if k == "b" else k + v).to_stream().to("output")
    return builder.build(config)


def map_values_materialized(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_table(builder).map_values_with_key(
        lambda k, v: ord(v[0]) - ord("a"), name="m", materialized=kv("m-store", L)
    )
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def to_stream_key_mapper(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = text_table(builder).to_stream(lambda k, v: f"gone-{k}" if v is None else v, name="ts")
    stream.group_by_key().count(materialized=kv("n", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def headers_store(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_table(builder, kv("t", S)).map_values(lambda v: v + "!", materialized=kv("m", S))
    table.to_stream().to("output")
    return builder.build(config)


class Seen(ValueTransformerWithKey[str, str, str]):
    """Numbers its calls."""

    calls = 0

    def transform(self, key: str, value: str | None) -> str | None:
        self.calls += 1
        return None if key == "c" else f"{'null' if value is None else value}#{self.calls}"


def transform_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder, kv("t", S)).transform_values(Seen, materialized=kv("tv", S)).to_stream().to("output")
    return builder.build(config)


def transform_values_unmaterialized(config: Any) -> Topology:
    builder = StreamsBuilder()
    text_table(builder).transform_values(Seen).filter(lambda k, v: v[0] != "q").to_stream().to("output")
    return builder.build(config)


CASES: dict[str, Build] = {
    "table-filter": filter_,
    "table-filter-materialized": filter_materialized,
    "table-filter-source-materialized": filter_source_materialized,
    "table-filter-then-aggregate": filter_then_aggregate,
    "table-filternot-materialized-nocache": filter_not_materialized_nocache,
    "table-headers-store": headers_store,
    "table-in-memory-suppliers": in_memory_suppliers,
    "table-mapvalues": map_values,
    "table-mapvalues-materialized": map_values_materialized,
    "table-source": source(None),
    "table-source-materialized": source(kv("t", S)),
    "table-source-materialized-nocache": source(kv("t", S, caching=False)),
    "table-source-nocache-nolog": source_nocache_nolog,
    "table-source-optimized": source_optimized,
    "table-transformvalues": transform_values,
    "table-transformvalues-unmaterialized": transform_values_unmaterialized,
    "table-tostream-keymapper": to_stream_key_mapper,
}
