"""Topologies of single operators without state, beside the Java text in the recordings of the same names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dsl import Branched, Consumed, KStream, Materialized, Produced, Repartitioned, StreamsBuilder
from golden_support.calls import call
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.topology.nodes import RecordContext
from processor_api.topology.topology import Topology

S, L, I = Serdes.STRING, Serdes.LONG, Serdes.INTEGER  # noqa: E741

Text = str | None
Stream = KStream[str, str]


def upper(value: Text) -> Text:
    return None if value is None else value.upper()


def java(value: Text) -> str:
    """A value as Java joins it into a string."""
    return "null" if value is None else value


def branch(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    parts = (
        stream.split(name="br-")
        .branch(lambda k, v: v is None, Branched.as_("nulls"))
        .branch(lambda k, v: k == "a", Branched(consumer=lambda s: s.to("out-a")))
        .branch(lambda k, v: java(v) < "r", Branched(function=lambda s: s.map_values(upper), name="low"))
        .default_branch(Branched.as_("rest"))
    )
    parts["br-nulls"].to("out-nulls")
    parts["br-low"].to("out-low")
    parts["br-rest"].to("out-rest")
    return builder.build(config)


def branch_no_default(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    parts = stream.split().branch(lambda k, v: v == "p").branch(lambda k, v: v == "q").no_default_branch()
    parts["KSTREAM-BRANCH-00000000011"].to("out-1")
    parts["KSTREAM-BRANCH-00000000012"].to("out-2")
    return builder.build(config)


def chain_through_topic(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").to("middle")
    builder.stream("middle").filter(lambda k, v: k is not None).to("output")
    return builder.build(config)


def filter_(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").filter(lambda k, v: v is not None and v < "r").to("output")
    return builder.build(config)


def filter_not(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").filter_not(lambda k, v: v is None, name="drop-nulls").to("output")
    return builder.build(config)


def flat_map(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").flat_map(lambda k, v: [] if v is None else [(k, v), (v, k)]).to("output")
    return builder.build(config)


def flat_map_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    words = stream.flat_map_values(lambda v: [] if v is None else v.split(" "))
    words.flat_map_values_with_key(lambda k, v: [k, v]).to("output")
    return builder.build(config)


def map_(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").map(lambda k, v: (v, k)).to("output")
    return builder.build(config)


def map_values(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    shouted = stream.map_values(lambda v: java(v) + "!")
    shouted.map_values_with_key(lambda k, v: f"{java(k)}/{v}", name="with-key").to("output")
    return builder.build(config)


def merge(config: Any) -> Topology:
    builder = StreamsBuilder()
    right = builder.stream("right").map_values(upper)
    builder.stream("left").merge(right, name="both").to("output")
    return builder.build(config)


def merge_diamond(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    p = stream.filter(lambda k, v: v == "p")
    rest = stream.filter_not(lambda k, v: v == "p").map_values(upper)
    rest.merge(p).to("output")
    return builder.build(config)


def pattern(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-.*")).to("output")
    return builder.build(config)


def peek_foreach(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    stream = stream.peek(lambda k, v: call(f"peek {java(k)}={java(v)}"))
    stream.to("output")
    stream.foreach(lambda k, v: call(f"each {java(k)}={java(v)}"), name="each")
    return builder.build(config)


def repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: Stream = builder.stream("input")
    moved = stream.select_key(lambda k, v: v).repartition(
        Repartitioned(name="moved", key_serde=S, value_serde=S, number_of_partitions=3)
    )
    moved.map_values(upper).to("output")
    return builder.build(config)


def repartition_unnamed_twice(config: Any) -> Topology:
    builder = StreamsBuilder()
    once = builder.stream("input").repartition().map(lambda k, v: (v, k))
    once.repartition(Repartitioned(key_serde=S, value_serde=S)).to("output")
    return builder.build(config)


def select_key(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").select_key(lambda k, v: v).to("output")
    return builder.build(config)


def select_key_to_table(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").select_key(lambda k, v: v).to_table(name="tab").to_stream().to("output")
    return builder.build(config)


def serdes(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input", Consumed(key_serde=S, value_serde=L, name="src"))
    doubled = stream.map_values(lambda v: None if v is None else v * 2)
    doubled.to("output", Produced(key_serde=S, value_serde=L, name="sink"))
    stream.map_values(as_int).to("ints", Produced(key_serde=S, value_serde=I))
    return builder.build(config)


def as_int(value: int | None) -> int | None:
    """Java's ``intValue()``."""
    return None if value is None else (value + (1 << 31)) % (1 << 32) - (1 << 31)


def sink_partitioner(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").to("output", Produced(key_serde=S, value_serde=S, partitioner=by_value))
    return builder.build(config)


def by_value(topic: str, key: Any, value: Any, headers: HeaderList | None, partitions: int) -> set[int] | None:
    return set() if value == "p" else {0} if value == "q" else None


def to_extractor(config: Any) -> Topology:
    def topic(key: Text, value: Text, context: RecordContext) -> str:
        call(f"{context.topic}/{context.partition}/{context.offset}@{context.timestamp}")
        return "out-none" if key is None else f"out-{key}"

    topic.__name__ = "<lambda>"
    builder = StreamsBuilder()
    builder.stream("input").to(topic, Produced(key_serde=S, value_serde=S, name="dyn"))
    return builder.build(config)


def topic_list(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream(["left", "right"]).to("output")
    return builder.build(config)


def to_table(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.stream("input").to_table(materialized=Materialized(name="t", key_serde=S, value_serde=S))
    table.to_stream().to("output")
    return builder.build(config)


def two_sources_one_topic(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").filter(lambda k, v: v == "p").to("out-1")
    builder.stream("input").map_values(upper).to("out-2")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "stateless-branch": branch,
    "stateless-branch-no-default": branch_no_default,
    "stateless-chain-through-topic": chain_through_topic,
    "stateless-filter": filter_,
    "stateless-filternot": filter_not,
    "stateless-flatmap": flat_map,
    "stateless-flatmapvalues": flat_map_values,
    "stateless-map": map_,
    "stateless-mapvalues": map_values,
    "stateless-merge": merge,
    "stateless-merge-diamond": merge_diamond,
    "stateless-pattern": pattern,
    "stateless-peek-foreach": peek_foreach,
    "stateless-repartition": repartition,
    "stateless-repartition-unnamed-twice": repartition_unnamed_twice,
    "stateless-selectkey": select_key,
    "stateless-selectkey-totable": select_key_to_table,
    "stateless-serdes": serdes,
    "stateless-sink-partitioner": sink_partitioner,
    "stateless-to-extractor": to_extractor,
    "stateless-topic-list": topic_list,
    "stateless-totable": to_table,
    "stateless-two-sources-one-topic": two_sources_one_topic,
}
