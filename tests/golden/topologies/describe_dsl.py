"""Topologies whose text and internal topics are recorded, not their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import (
    Branched,
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Produced,
    Repartitioned,
    StreamsBuilder,
)
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


class Pass(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


class PassValue(FixedKeyProcessor[Any, Any, Any]):
    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record)


def kv(name: str, value_serde: Serde[Any]) -> Materialized[Any, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def yes(key: Any, value: Any) -> bool:
    return True


def no(key: Any, value: Any) -> bool:
    return False


def pair(key: Any, value: Any) -> tuple[Any, Any]:
    return key, value


def same(value: Any) -> Any:
    return value


def value_of(key: Any, value: Any) -> Any:
    return value


def nothing(key: Any, value: Any) -> None:
    return None


def aggregations(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    groups.count()
    groups.reduce(value_of)
    groups.aggregate(str, lambda k, v, a: v, materialized=Materialized(key_serde=S, value_serde=S))
    groups.count(name="c")
    groups.count(materialized=kv("m", L))
    groups.count(name="c2", materialized=kv("m2", L))
    return builder.build(config)


def aggregations_repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by(value_of)
    groups.count()
    groups.count(name="c")
    groups.reduce(value_of, materialized=kv("m", S))
    return builder.build(config)


def aggregations_repartition_named(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by(value_of, Grouped.as_("g"))
    groups.count()
    groups.count(materialized=kv("m", L))
    return builder.build(config)


def branch_names(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input")
    parts = (
        stream.split()
        .branch(yes)
        .branch(yes, Branched.as_("mid"))
        .branch(yes, Branched(consumer=lambda s: s.to("c")))
        .default_branch()
    )
    _in_java_order(parts)
    _in_java_order(stream.split(name="sp-").branch(yes).default_branch(Branched.as_("rest")))
    return builder.build(config)


def _in_java_order(parts: dict[str, KStream[Any, Any]]) -> None:
    """Java goes through its hash map of branches; the numbers of the sinks follow from its order."""
    java_first = {"KSTREAM-BRANCH-0000000001mid": 0}
    for name in sorted(parts, key=lambda name: (java_first.get(name, 1), name)):
        parts[name].to(f"out-{name}")


def stateless_all(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = (
        builder.stream("input")
        .filter(yes)
        .filter_not(no)
        .map(pair)
        .map_values(same)
        .flat_map(lambda k, v: [(k, v)])
        .flat_map_values(lambda v: [v])
        .select_key(lambda k, v: k)
        .peek(nothing)
        .repartition()
        .process(Pass)
        .process_values(PassValue)
    )
    stream.merge(stream.filter(yes)).to("output")
    stream.foreach(nothing)
    stream.to(lambda k, v, c: str(k))
    return builder.build(config)


def stateless_all_named(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = (
        builder.stream("input", Consumed(key_serde=S, value_serde=S, name="n1"))
        .filter(yes, name="n2")
        .filter_not(no, name="n3")
        .map(pair, name="n4")
        .map_values(same, name="n5")
        .flat_map(lambda k, v: [(k, v)], name="n6")
        .flat_map_values(lambda v: [v], name="n7")
        .select_key(lambda k, v: k, name="n8")
        .peek(nothing, name="n9")
        .repartition(Repartitioned(name="n10", key_serde=S, value_serde=S))
        .process(Pass, name="n11")
        .process_values(PassValue, name="n12")
    )
    stream.merge(stream.filter(yes), name="n13").to("output", Produced(name="n14"))
    stream.foreach(nothing, name="n15")
    stream.to(lambda k, v, c: "x", Produced(name="n16"))
    stream.map_values(same).to("last")
    return builder.build(config)


def tables(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("input")
    table.filter(yes).filter_not(no, name="fn").map_values(same, materialized=kv("mv", S))
    table.to_stream().to("o1")
    table.to_stream(value_of).group_by_key().count()
    table.group_by(pair).count()
    table.group_by(pair).reduce(lambda x, y: y, lambda x, y: x)
    table.group_by(pair).aggregate(
        str, lambda k, v, a: v, lambda k, v, a: a, materialized=Materialized(key_serde=S, value_serde=S)
    )
    table.group_by(pair, Grouped.as_("g")).count(name="gc")
    stream = table.filter(yes, materialized="fs").map_values(same).to_stream().to_table().to_stream()
    stream.select_key(value_of).to_table(name="tt", materialized=kv("ts", S))
    return builder.build(config)


def topic_configs(config: Any) -> Topology:
    builder = StreamsBuilder()
    store: Materialized[str, int] = Materialized(
        name="n",
        key_serde=S,
        value_serde=L,
        topic_config={"cleanup.policy": "compact,delete", "segment.bytes": "2000000"},
    )
    groups = builder.stream("input").group_by(value_of, Grouped(name="g", key_serde=S, value_serde=S))
    groups.count(materialized=store).to_stream().to("output", TO_LONGS)
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "describe-aggregations": aggregations,
    "describe-aggregations-repartition": aggregations_repartition,
    "describe-aggregations-repartition-named": aggregations_repartition_named,
    "describe-branch-names": branch_names,
    "describe-stateless-all": stateless_all,
    "describe-stateless-all-named": stateless_all_named,
    "describe-tables": tables,
    "describe-topic-configs": topic_configs,
}
