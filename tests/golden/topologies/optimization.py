"""Topologies with and without ``topology.optimization``, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import KStream, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


def kv(name: str, value_serde: Serde[Any]) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def keyed(builder: StreamsBuilder) -> KStream[str, str]:
    stream: KStream[str, str] = builder.stream("input")
    return stream.select_key(lambda k, v: v)


def two_aggregations(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = keyed(builder)
    stream.group_by_key().count(materialized=kv("n", L)).to_stream().to("counts", TO_LONGS)
    reduced = stream.group_by_key().reduce(lambda x, y: y if len(x) > 8 else x + y, materialized=kv("r", S))
    reduced.to_stream().to("output")
    return builder.build(config)


def push_up(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = keyed(builder)
    without_t = stream.filter(lambda k, v: v != "t").group_by_key().count(materialized=kv("n", L))
    without_t.to_stream().to("counts", TO_LONGS)
    without_p = stream.filter(lambda k, v: v != "p").group_by_key().count(materialized=kv("n2", L))
    without_p.to_stream().to("output", TO_LONGS)
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "optimize-merge-repartition": two_aggregations,
    "optimize-none-repartition": two_aggregations,
    "optimize-push-up": push_up,
}
