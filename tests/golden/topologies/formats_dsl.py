"""Topologies of the DSL whose internal topics are recorded with the byte formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Grouped, KStream, KTable, Materialized, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.topology import Topology

S = Serdes.STRING

BY_LETTER: Grouped[str, str] = Grouped(name="by-letter", key_serde=S, value_serde=S)


def strings(name: str) -> Materialized[str, str]:
    return Materialized(name=name, key_serde=S, value_serde=S)


def table(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("left", materialized=strings("table")).to_stream().to("output")
    return builder.build(config)


def aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    groups = stream.group_by(lambda k, v: v[:1], BY_LETTER)
    result = groups.aggregate(str, lambda k, v, a: None if v == "delete" else a + v, materialized=strings("aggregate"))
    result.to_stream().to("output")
    return builder.build(config)


def table_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    source: KTable[str, str] = builder.table("left", materialized=strings("source"))
    result = source.group_by(lambda k, v: (v[:1], v), BY_LETTER).aggregate(
        str, lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", materialized=strings("aggregate")
    )
    result.to_stream().to("output")
    return builder.build(config)


def repartition_unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("left").group_by(lambda k, v: v[:1]).count().to_stream().to("output")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "aggregate": aggregate,
    "repartition_unnamed": repartition_unnamed,
    "table": table,
    "table_aggregate": table_aggregate,
}
