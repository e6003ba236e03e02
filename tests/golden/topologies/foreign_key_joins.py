"""Topologies of foreign-key joins, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, KTable, Materialized, Produced, StreamsBuilder, TableJoined
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
Made = Callable[[StreamsBuilder], KTable[str, Any]]
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


def kv(name: str, value_serde: Serde[Any] = S) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def ver(name: str) -> Materialized[str, Any]:
    return Materialized(supplier=Stores.persistent_versioned_key_value_store(name, 100), key_serde=S, value_serde=S)


def fk(value: str) -> str | None:
    return None if value.startswith("-") else value[:1]


def fk_by_key(key: str, value: str) -> str | None:
    return "x" if key == "a" else fk(value)


def plus(left: str | None, right: str | None) -> str:
    return f"{left}+{'null' if right is None else right}"


def first(left: Any, right: Any) -> Any:
    return left


def of(made: Made, produced: Produced[Any, Any] | None = None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder(config)
        made(builder).to_stream().to("output", produced)
        return builder.build(config)

    return build


def plain(b: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return b.table("left"), b.table("right")


def stored(b: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return b.table("left", materialized=kv("l")), b.table("right", materialized=kv("r"))


def inner(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.foreign_key_join(right, fk, plus)


def left_(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.foreign_key_left_join(right, fk, plus)


def inner_by_key(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.foreign_key_join_with_key(right, fk_by_key, plus)


def left_by_key(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.foreign_key_left_join_with_key(right, fk_by_key, plus)


def inner_named(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.foreign_key_join(right, fk, plus, joined=TableJoined.as_("fkj"), materialized=kv("joined"))


def left_named(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.foreign_key_left_join(right, fk, plus, joined=TableJoined.as_("fkj"), materialized=kv("joined"))


def inner_versioned(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("left", materialized=ver("lv"))
    right: KTable[str, str] = b.table("right", materialized=ver("rv"))
    return left.foreign_key_join(right, fk, plus, joined="fkj")


def left_versioned_left_only(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("left", materialized=ver("lv"))
    right: KTable[str, str] = b.table("right", materialized=kv("r"))
    return left.foreign_key_left_join(right, fk, plus, joined="fkj")


def joiner_null(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.foreign_key_join(
        right, fk, lambda x, y: None if x.endswith("same") else plus(x, y), materialized=kv("joined")
    )


def of_primary_join(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("left")
    both = left.left_join(b.table("third"), lambda x, t: f"{x}/{'null' if t is None else t}")
    return both.foreign_key_join(b.table("right"), fk, plus, joined="fkj")


def of_itself(b: StreamsBuilder) -> KTable[str, str]:
    table: KTable[str, str] = b.table("left")
    return table.foreign_key_left_join(table, fk, plus)


def then_aggregate(b: StreamsBuilder) -> KTable[str, int]:
    left, right = plain(b)
    joined = left.foreign_key_join(right, fk, plus, joined="fkj")
    by_string: Grouped[Any, Any] = Grouped(name="g", key_serde=S, value_serde=S)
    return joined.group_by(lambda k, v: (fk(v), v), by_string).count(materialized=kv("n", L))


def described(config: Any) -> Topology:
    builder = StreamsBuilder(config)
    left, right = plain(builder)
    left.foreign_key_join(right, lambda v: v, first)
    left.foreign_key_left_join(right, lambda v: v, first, materialized=kv("m"))
    left.foreign_key_join(right, lambda v: v, first, joined="fk")
    last = left.foreign_key_left_join(right, lambda v: v, first, joined="fk2", materialized=kv("m2"))
    last.to_stream().to("output")
    return builder.build(config)


def of_internal_topics(joined: Callable[[KTable[str, str], KTable[str, str]], KTable[str, str]]) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
        left: KTable[str, str] = builder.table("left", strings, materialized=kv("left-store"))
        right: KTable[str, str] = builder.table("right", strings, materialized=kv("right-store"))
        joined(left, right).to_stream().to("output", Produced(key_serde=S, value_serde=S))
        return builder.build(config)

    return build


def unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
    left: KTable[str, str] = builder.table("left", strings)
    right: KTable[str, str] = builder.table("right", strings)
    left.foreign_key_join(right, letter, bar).to_stream().to("output", Produced(key_serde=S, value_serde=S))
    return builder.build(config)


def bar(left: str | None, right: str | None) -> str:
    return f"{left}|{'null' if right is None else right}"


def letter(value: str) -> str:
    return value[:1]


def letter_but_b(value: str) -> str | None:
    return None if value.startswith("b") else value[:1]


CASES: dict[str, Build] = {
    "describe-fk-joins": described,
    "foreign_key_join": of_internal_topics(
        lambda left, right: left.foreign_key_join(right, letter, bar, joined="fk", materialized=kv("joined"))
    ),
    "foreign_key_left_join": of_internal_topics(
        lambda left, right: left.foreign_key_left_join(right, letter_but_b, bar, joined="fk", materialized=kv("joined"))
    ),
    "foreign_key_unnamed": unnamed,
    "fk-inner": of(inner),
    "fk-inner-bifunction": of(inner_by_key),
    "fk-inner-named": of(inner_named),
    "fk-inner-versioned": of(inner_versioned),
    "fk-joiner-null": of(joiner_null),
    "fk-left": of(left_),
    "fk-left-bifunction": of(left_by_key),
    "fk-left-named": of(left_named),
    "fk-left-versioned-left-only": of(left_versioned_left_only),
    "fk-of-primary-join": of(of_primary_join),
    "fk-self": of(of_itself),
    "fk-then-aggregate": of(then_aggregate, TO_LONGS),
}
