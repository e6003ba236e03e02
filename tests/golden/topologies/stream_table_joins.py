"""Topologies that join a stream with a table, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Joined, KStream, KTable, Materialized, Produced, StreamsBuilder
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]


def kv(name: str, value_serde: Any = S) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def plus(left: Any, right: Any) -> str:
    """Java's ``left + "+" + right``."""
    return f"{text(left)}+{text(right)}"


def text(value: Any) -> str:
    return "null" if value is None else str(value)


def ver(name: str, history: int) -> Materialized[str, str]:
    supplier = Stores.persistent_versioned_key_value_store(name, history)
    return Materialized(supplier=supplier, key_serde=S, value_serde=S)


def plus_with_key(key: Any, left: Any, right: Any) -> str:
    return f"{text(key)}:{plus(left, right)}"


def inner(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=kv("t"))
    builder.stream("left").join(table, plus).to("output")
    return builder.build(config)


def left(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right")
    how: Joined[str, str, str] = Joined(name="j", key_serde=S, value_serde=S, other_value_serde=S)
    builder.stream("left").left_join_with_key(table, plus_with_key, joined=how).to("output")
    return builder.build(config)


def inner_keychange(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=kv("t"))
    builder.stream("left").map(lambda k, v: (k, v)).join(table, plus).to("output")
    return builder.build(config)


def left_keychange(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=kv("t"))
    builder.stream("left").map(lambda k, v: (k, v)).left_join(table, plus, joined="j").to("output")
    return builder.build(config)


def filtered(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("right").filter(lambda k, v: int(v[1:]) % 2 == 0).map_values(str.upper)
    builder.stream("left").left_join(table, plus).to("output")
    return builder.build(config)


def of_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("right").group_by_key().count(materialized=kv("counts", L))
    builder.stream("left").left_join(counts, plus).to("output")
    return builder.build(config)


def versioned(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=ver("ver", 50))
    builder.stream("left").join(table, plus).to("output")
    return builder.build(config)


def versioned_left(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("right", materialized=ver("ver", 1000)).map_values(str.upper)
    builder.stream("left").left_join(table, plus).to("output")
    return builder.build(config)


def grace(grace_ms: int, *, keeps_left: bool) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        table: KTable[str, str] = builder.table("right", materialized=ver("ver", 100))
        stream: KStream[str, str] = builder.stream("left")
        how: Joined[str, str, str] = Joined(name="j", key_serde=S, value_serde=S, other_value_serde=S, grace=grace_ms)
        joined = stream.left_join(table, plus, joined=how) if keeps_left else stream.join(table, plus, joined=how)
        joined.to("output")
        return builder.build(config)

    return build


def grace_on_plain_table(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("right", materialized=kv("t"))
    builder.stream("left").join(table, plus, joined=Joined(name="j", grace=10)).to("output")
    return builder.build(config)


def first(left: Any, right: Any) -> Any:
    return left


def value_of(key: Any, value: Any) -> Any:
    return value


def describe(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    table: KTable[str, str] = builder.table("right")
    stream.join(table, first).to("o1")
    stream.left_join(table, first).to("o2")
    stream.left_join(table, first, joined="lj").to("o3")
    stream.select_key(value_of).join(table, first).to("o4")
    stream.select_key(value_of).join(table, first, joined="rj").to("o5")
    stream.join(table.filter(lambda k, v: True).map_values(lambda v: v), first).to("o6")
    return builder.build(config)


def describe_grace(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("left")
    table: KTable[str, str] = builder.table("right", materialized=ver("v", 3_600_000))
    stream.join(table, first, joined=Joined(key_serde=S, value_serde=S, other_value_serde=S, grace=10_000)).to("o1")
    stream.left_join(table, first, joined=Joined(name="lj", grace=10_000)).to("o2")
    return builder.build(config)


def by_value(key: Any, value: Any) -> Any:
    return None if value is None or int(value[-1]) % 2 == 0 else value[:2]


def global_inner(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table("global", materialized=kv("g"))
    builder.stream("left").join(table, plus, key_selector=by_value).to("output")
    return builder.build(config)


def global_left(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table("global")
    stream: KStream[str, str] = builder.stream("left")
    stream.left_join_with_key(table, plus_with_key, key_selector=by_value, name="gj").to("output")
    return builder.build(config)


def describe_global(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.global_table("global", Consumed(key_serde=S, value_serde=S))
    other = builder.global_table("global2", materialized=kv("hs"))
    builder.stream("left").join(table, first, key_selector=value_of).to("o1")
    builder.stream("left").left_join(other, first, key_selector=value_of, name="gj").to("o2")
    builder.stream("other").join(table, first, key_selector=value_of).to("o3")
    return builder.build(config)


def of_internal_topics(config: Any) -> Topology:
    """The recording of names, settings and records of internal topics."""
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    stream = builder.stream("left", strings)
    table = builder.table("right", strings, materialized=ver("versions", 500))
    how: Joined[str, str, str] = Joined(name="join", key_serde=S, value_serde=S, other_value_serde=S, grace=100)
    joined = stream.join(table, lambda left, right: f"{left}|{right}", joined=how)
    joined.to("output", Produced(key_serde=S, value_serde=S))
    return builder.build(config)


def joined_table_with_headers(config: Any) -> Topology:
    builder = StreamsBuilder()
    table: KTable[str, str] = builder.table("input").left_join(builder.table("right"), plus, materialized=kv("j"))
    builder.stream("left").join(table, plus).to("output")
    table.to_stream().to("output-t")
    return builder.build(config)


CASES: dict[str, Build] = {
    "headers-store-joins": joined_table_with_headers,
    "build-grace-join-plain-table": grace_on_plain_table,
    "describe-global-joins": describe_global,
    "describe-stream-table-grace": describe_grace,
    "describe-stream-table-joins": describe,
    "grace_join": of_internal_topics,
    "stream-global-inner": global_inner,
    "stream-global-left": global_left,
    "stream-table-filtered": filtered,
    "stream-table-grace-inner": grace(15, keeps_left=False),
    "stream-table-grace-left": grace(10, keeps_left=True),
    "stream-table-grace-left-null-key": grace(10, keeps_left=True),
    "stream-table-inner": inner,
    "stream-table-inner-keychange": inner_keychange,
    "stream-table-left": left,
    "stream-table-left-keychange": left_keychange,
    "stream-table-of-aggregate": of_aggregate,
    "stream-table-versioned": versioned,
    "stream-table-versioned-left": versioned_left,
}
