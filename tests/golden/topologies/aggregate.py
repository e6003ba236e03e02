"""Topologies that aggregate streams and tables, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dsl import Consumed, Grouped, KGroupedStream, KStream, KTable, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

Text = str | None
Build = Callable[[Any], Topology]

LONGS: Consumed[str, int] = Consumed(key_serde=S, value_serde=L)
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
BY_STRING: Grouped[str, int] = Grouped(key_serde=S, value_serde=L)


def kv(name: str, value_serde: Serde[Any], *, caching: bool = True) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde, caching=caching)


def by_name(name: str, value_serde: Serde[Any] = S) -> Grouped[Any, Any]:
    return Grouped(name=name, key_serde=S, value_serde=value_serde)


def text_input(builder: StreamsBuilder) -> KStream[str, str]:
    return builder.stream("input")


def grouped(builder: StreamsBuilder) -> KGroupedStream[str, str]:
    return text_input(builder).group_by_key()


def words(value: Text) -> list[str]:
    return [] if value is None else value.split(" ")


def plus(a: int, b: int) -> int:
    return a + b


def minus(a: int, b: int) -> int:
    return a - b


def appended(key: str, value: str, aggregate: str) -> str:
    return aggregate + value


def aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    grouped(builder).aggregate(str, appended, materialized=kv("agg", S)).to_stream().to("output")
    return builder.build(config)


def aggregate_in_memory(config: Any) -> Topology:
    builder = StreamsBuilder()
    store: Materialized[str, str] = Materialized(
        supplier=Stores.in_memory_key_value_store("mem"), key_serde=S, value_serde=S, logging=False
    )
    grouped(builder).aggregate(str, appended, materialized=store).to_stream().to("output")
    return builder.build(config)


def aggregate_null_deletes(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = grouped(builder).aggregate(
        str, lambda k, v, a: None if v == "t" else a + v, materialized=kv("agg", S, caching=False)
    )
    table.to_stream().to("output")
    return builder.build(config)


def cached_two_children(config: Any) -> Topology:
    builder = StreamsBuilder()
    split = text_input(builder).flat_map_values(words)
    table = split.group_by_key().reduce(lambda x, y: f"{x},{y}", materialized=kv("last", S))
    table.to_stream().to("output")
    table.map_values(lambda v: str(len(v))).to_stream().to("output-2")
    return builder.build(config)


def chain(*, caching: bool) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        first = grouped(builder).count(materialized=kv("first", L, caching=caching))
        second = first.group_by(lambda k, n: (f"n{n}", k), by_name("by-n"))
        second.count(materialized=kv("second", L, caching=caching)).to_stream().to("output", TO_LONGS)
        return builder.build(config)

    return build


def count(config: Any) -> Topology:
    builder = StreamsBuilder()
    grouped(builder).count().to_stream().to("output", TO_LONGS)
    return builder.build(config)


def count_by_value(name: str) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        table = text_input(builder).group_by(lambda k, v: v, by_name(name)).count(materialized=kv("counts", L))
        table.to_stream().to("output", TO_LONGS)
        return builder.build(config)

    return build


def count_into_counts(config: Any) -> Topology:
    builder = StreamsBuilder()
    grouped(builder).count(materialized=kv("counts", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def count_named_nocache(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = grouped(builder).count(name="counter", materialized=kv("counts", L, caching=False))
    table.to_stream(name="as-stream").to("output", TO_LONGS)
    return builder.build(config)


def count_store_type(config: Any) -> Topology:
    builder = StreamsBuilder()
    store = replace(kv("counts", L, caching=False), store_type=MEMORY)
    grouped(builder).count(materialized=store).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def flat_map_values_count(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_input(builder).flat_map_values(words).group_by_key().count(materialized=kv("counts", L))
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def group_by_count_unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    keyed = text_input(builder).select_key(lambda k, v: v).filter(lambda k, v: v is not None)
    keyed.group_by_key().count().to_stream().to("output", TO_LONGS)
    return builder.build(config)


def reduce(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("input", LONGS).group_by_key(BY_STRING).reduce(plus, materialized=kv("sums", L))
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def reduce_chain_nocache(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input", LONGS).group_by_key(BY_STRING)
    sums = stream.reduce(plus, materialized=kv("sums", L, caching=False))
    total = sums.group_by(lambda k, n: ("all", n), by_name("all", L))
    total.reduce(plus, minus, materialized=kv("total", L, caching=False)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def reduce_to_null(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = (
        builder.stream("input", LONGS)
        .group_by_key(BY_STRING)
        .reduce(lambda x, y: None if x + y > 10 else x + y, materialized=kv("sums", L))
    )
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def word_count(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = text_input(builder).flat_map_values(words).group_by(lambda k, v: v).count(materialized=kv("counts", L))
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


# -------------------------------------------------------- grouped tables


def table_input(builder: StreamsBuilder) -> KTable[str, str]:
    return builder.table("input")


def head(value: str) -> str:
    return value.split("|")[0]


def tail(value: str) -> str:
    return value.split("|")[1]


def table_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = (
        table_input(builder)
        .group_by(lambda k, v: (head(v), v))
        .aggregate(
            str,
            lambda k, v, a: f"{a}+{v}",
            lambda k, v, a: f"{a}-{v}",
            materialized=kv("agg", S, caching=False),
        )
    )
    table.to_stream().to("output")
    return builder.build(config)


def table_aggregate_null(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = (
        table_input(builder)
        .group_by(lambda k, v: (head(v), v))
        .aggregate(str, lambda k, v, a: a + tail(v), lambda k, v, a: None, materialized=kv("agg", S, caching=False))
    )
    table.to_stream().to("output")
    return builder.build(config)


def table_count(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = table_input(builder).group_by(lambda k, v: (head(v), v), by_name("g")).count(materialized=kv("counts", L))
    table.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def table_null_key(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = table_input(builder).group_by(lambda k, v: (None if int(tail(v)) % 2 == 0 else head(v), v))
    groups.count(materialized=kv("counts", L, caching=False)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def table_reduce(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = table_input(builder).group_by(lambda k, v: (head(v), int(tail(v))), by_name("g", L))
    groups.reduce(plus, minus, materialized=kv("sums", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


CASES: dict[str, Build] = {
    "agg-aggregate": aggregate,
    "agg-aggregate-in-memory": aggregate_in_memory,
    "agg-aggregate-null-deletes": aggregate_null_deletes,
    "agg-cached-two-children": cached_two_children,
    "agg-chain-cached": chain(caching=True),
    "agg-chain-nocache": chain(caching=False),
    "agg-count": count,
    "agg-count-eos": count_by_value("g"),
    "agg-count-iq-offsets": count_into_counts,
    "agg-count-named-nocache": count_named_nocache,
    "agg-count-store-type": count_store_type,
    "agg-flatmapvalues-count-cached": flat_map_values_count,
    "agg-flatmapvalues-count-nocache": flat_map_values_count,
    "agg-groupby-count": count_by_value("by-value"),
    "agg-groupby-count-unnamed": group_by_count_unnamed,
    "agg-reduce": reduce,
    "agg-reduce-chain-nocache": reduce_chain_nocache,
    "agg-reduce-to-null": reduce_to_null,
    "agg-wordcount": word_count,
    "table-groupby-aggregate": table_aggregate,
    "table-groupby-aggregate-null": table_aggregate_null,
    "table-groupby-count": table_count,
    "table-groupby-null-key": table_null_key,
    "table-groupby-reduce": table_reduce,
    "table-groupby-upgrade-from-3.4": table_count,
}
