"""Tables on versioned stores (KIP-914), beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, KTable, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
BY_STRING: Grouped[Any, Any] = Grouped(name="g", key_serde=S, value_serde=S)


def ver(name: str, history: int, segment: int | None = None, value_serde: Serde[Any] = S) -> Materialized[str, Any]:
    supplier = Stores.persistent_versioned_key_value_store(name, history, segment)
    return Materialized(supplier=supplier, key_serde=S, value_serde=value_serde)


def kv(name: str, value_serde: Serde[Any]) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def below_s(key: str, value: str) -> bool:
    return value < "s"


def source(store: Materialized[str, str]) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        builder.table("input", materialized=store).to_stream().to("output")
        return builder.build(config)

    return build


def filtered(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("input", materialized=ver("ver", 50)).filter(below_s).to_stream().to("output")
    return builder.build(config)


def filtered_into(store: Materialized[str, str]) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        table = builder.table("input", materialized=ver("ver", 50)).filter(below_s, materialized=store)
        groups = table.group_by(lambda k, v: (v, k), BY_STRING)
        groups.count(materialized=kv("n", L)).to_stream().to("output", TO_LONGS)
        return builder.build(config)

    return build


def to_table(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input").map_values(lambda v: None if v is None else v + "!")
    stream.to_table(materialized=ver("tv", 40)).to_stream().to("output")
    return builder.build(config)


def count(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    groups.count(materialized=ver("ver", 100, value_serde=L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def group_by(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("input", materialized=ver("src", 100))
    groups = table.group_by(lambda k, v: (v.split("|")[0], v), BY_STRING)
    groups.count(materialized=kv("counts", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def of_internal_topics(config: Any) -> Topology:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    table = builder.table("left", strings, materialized=ver("versions", 300))
    table.to_stream().to("output", Produced(key_serde=S, value_serde=S))
    return builder.build(config)


CASES: dict[str, Build] = {
    "agg-count-versioned": count,
    "table-groupby-versioned": group_by,
    "table-totable-versioned": to_table,
    "table-versioned": source(ver("ver", 30)),
    "table-versioned-filter": filtered,
    "table-versioned-filter-plain": filtered_into(kv("f-store", S)),
    "table-versioned-filter-versioned": filtered_into(ver("fv", 50)),
    "table-versioned-segments": source(ver("ver", 60_000, 10_000)),
    "versioned_table": of_internal_topics,
}
