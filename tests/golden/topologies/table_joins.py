"""Topologies of joins of tables, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import BufferConfig, Grouped, KTable, Materialized, Produced, StreamsBuilder, Suppressed
from processor_api.serde import Serde, Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
Made = Callable[[StreamsBuilder], KTable[str, Any]]
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)
BY_STRING: Grouped[Any, Any] = Grouped(name="g", key_serde=S, value_serde=S)
DAY_MS, HOUR_MS, MINUTE_MS = 86_400_000, 3_600_000, 60_000


def kv(name: str, value_serde: Serde[Any] = S, *, caching: bool = True) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde, caching=caching)


def ver(name: str, history: int) -> Materialized[str, Any]:
    return Materialized(supplier=Stores.persistent_versioned_key_value_store(name, history), key_serde=S, value_serde=S)


def plus(left: str | None, right: str | None) -> str:
    return f"{shown(left)}+{shown(right)}"


def shown(value: str | None) -> str:
    """As Java writes a null into a text."""
    return "null" if value is None else value


def first(left: Any, right: Any) -> Any:
    return left


def last60(text: str) -> str:
    return text[-60:]


def of(made: Made, produced: Produced[Any, Any] | None = None) -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder(config)
        made(builder).to_stream().to("output", produced)
        return builder.build(config)

    return build


def plain(builder: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return builder.table("left"), builder.table("right")


def stored(builder: StreamsBuilder) -> tuple[KTable[str, str], KTable[str, str]]:
    return builder.table("left", materialized=kv("l")), builder.table("right", materialized=kv("r"))


def versioned(builder: StreamsBuilder, history: int) -> tuple[KTable[str, str], KTable[str, str]]:
    left: KTable[str, str] = builder.table("left", materialized=ver("lv", history))
    return left, builder.table("right", materialized=ver("rv", history))


def inner(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.join(right, plus)


def left_(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.left_join(right, plus)


def outer(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.outer_join(right, plus)


def inner_materialized(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.join(right, plus, name="j", materialized=kv("joined"))


def left_materialized(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.left_join(right, plus, name="j", materialized=kv("joined", caching=False))


def outer_materialized(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.outer_join(right, plus, name="j", materialized=kv("joined"))


def inner_then_aggregate(b: StreamsBuilder) -> KTable[str, int]:
    groups = inner(b).group_by(lambda k, v: ("all", v), BY_STRING)
    return groups.count(materialized=kv("n", L, caching=False))


def join_then_aggregate(b: StreamsBuilder) -> KTable[str, str]:
    groups = left_(b).group_by(lambda k, v: ("A" if k == "a" else "other", v), BY_STRING)
    return groups.aggregate(
        str,
        lambda k, v, a: last60(f"{a}+[{v}]"),
        lambda k, v, a: last60(f"{a}-[{v}]"),
        materialized=kv("agg"),
    )


def joiner_null(b: StreamsBuilder) -> KTable[str, str]:
    left, right = plain(b)
    return left.join(right, lambda x, y: None if int(x[1:]) % 2 == 0 else x + y)


def of_itself(b: StreamsBuilder) -> KTable[str, str]:
    table: KTable[str, str] = b.table("left")
    return table.join(table, plus)


def chain_inner(b: StreamsBuilder) -> KTable[str, str]:
    return inner(b).join(b.table("third"), plus)


def chain_left_outer(b: StreamsBuilder) -> KTable[str, str]:
    return left_(b).outer_join(b.table("third"), plus, materialized=kv("result"))


def chain_outer_inner(b: StreamsBuilder) -> KTable[str, str]:
    return outer(b).join(b.table("third"), plus)


def versioned_filtered(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("left", materialized=ver("lv", 100))
    even = left.filter(lambda k, v: int(v[1:]) % 2 == 0)
    right: KTable[str, str] = b.table("right", materialized=ver("rv", 100))
    return even.join(right.map_values(str.upper, materialized=kv("rm")), plus)


def versioned_inner(b: StreamsBuilder) -> KTable[str, str]:
    left, right = versioned(b, 30)
    return left.join(right, plus)


def versioned_left(b: StreamsBuilder) -> KTable[str, str]:
    left, right = versioned(b, 100)
    return left.left_join(right, plus)


def versioned_mixed_outer(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("left", materialized=ver("lv", 100))
    return left.outer_join(b.table("right", materialized=kv("r")), plus, materialized=kv("joined"))


def versioned_result(b: StreamsBuilder) -> KTable[str, str]:
    left, right = stored(b)
    return left.join(right, plus, materialized=ver("jv", 100))


def of_suppressed(b: StreamsBuilder) -> KTable[str, str]:
    right: KTable[str, str] = b.table("right", materialized=kv("r"))
    left: KTable[str, str] = b.table("input", materialized=kv("t"))
    waiting = Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("sup")
    return left.suppress(waiting).join(right, plus, materialized=kv("joined"))


def described_versioned(b: StreamsBuilder) -> KTable[str, str]:
    left: KTable[str, str] = b.table("l", materialized=ver("vl", DAY_MS))
    right: KTable[str, str] = b.table("r", materialized=ver("vr", HOUR_MS))
    joined = left.join(right, first, materialized=ver("vj", MINUTE_MS))
    return joined.filter(lambda k, v: True).map_values(lambda v: v)


def described_chain(b: StreamsBuilder) -> KTable[str, str]:
    counted: KTable[str, int] = b.stream("d").group_by_key().count()
    a: KTable[str, str] = b.table("a")
    ab = a.join(b.table("b"), first)
    c: KTable[str, str] = b.table("c")
    abc = ab.left_join(c.filter(lambda k, v: True).map_values(lambda v: v), first)
    return abc.outer_join(counted, first)


def described(config: Any) -> Topology:
    builder = StreamsBuilder(config)
    left, right = plain(builder)
    left.join(right, first)
    left.left_join(right, first)
    left.outer_join(right, first)
    left.join(right, first, name="j")
    left.join(right, first, materialized=kv("m"))
    left.join(right, first, name="j2", materialized=kv("m2"))
    return builder.build(config)


def described_optimized(config: Any) -> Topology:
    builder = StreamsBuilder(config)
    table: KTable[str, str] = builder.table("input", materialized=kv("s"))
    table.map_values(lambda v: v).to_stream().to("o1")
    other: KTable[str, str] = builder.table("other")
    table.join(other, first).to_stream().to("o2")
    table.group_by(lambda k, v: (k, v)).count().to_stream().to("o3", TO_LONGS)
    return builder.build(config)


CASES: dict[str, Build] = {
    "describe-table-table-chain": of(described_chain),
    "describe-table-table-joins": described,
    "describe-tables-optimized": described_optimized,
    "describe-versioned": of(described_versioned),
    "suppress-join-with-table": of(of_suppressed),
    "table-table-chain-inner": of(chain_inner),
    "table-table-chain-left-outer": of(chain_left_outer),
    "table-table-chain-outer-inner": of(chain_outer_inner),
    "table-table-inner": of(inner),
    "table-table-inner-materialized": of(inner_materialized),
    "table-table-inner-then-aggregate": of(inner_then_aggregate, TO_LONGS),
    "table-table-join-then-aggregate": of(join_then_aggregate),
    "table-table-joiner-null": of(joiner_null),
    "table-table-left": of(left_),
    "table-table-left-materialized": of(left_materialized),
    "table-table-nocache": of(left_),
    "table-table-outer": of(outer),
    "table-table-outer-materialized": of(outer_materialized),
    "table-table-self": of(of_itself),
    "table-table-versioned-filtered": of(versioned_filtered),
    "table-table-versioned-inner": of(versioned_inner),
    "table-table-versioned-left": of(versioned_left),
    "table-table-versioned-mixed-outer": of(versioned_mixed_outer),
    "table-table-versioned-result": of(versioned_result),
}
