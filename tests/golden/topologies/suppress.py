"""Topologies that suppress tables, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import BufferConfig, Consumed, Grouped, KTable, Materialized, Produced, StreamsBuilder, Suppressed
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG
Build = Callable[[Any], Topology]
TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


def stored(name: str, value_serde: Any = S) -> Materialized[str, Any]:
    return Materialized(name=name, key_serde=S, value_serde=value_serde)


def suppressed(wait_ms: int, buffer: BufferConfig, *, name: str | None = "sup", store: str | None = "t") -> Build:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        table: KTable[str, str] = (
            builder.table("input") if store is None else builder.table("input", materialized=stored(store))
        )
        how = Suppressed.until_time_limit(wait_ms, buffer)
        table.suppress(how if name is None else how.with_name(name)).to_stream().to("output")
        return builder.build(config)

    return build


def serde_lost(config: Any) -> Topology:
    builder = StreamsBuilder()
    lengths = builder.table("input", materialized=stored("t")).map_values(len)
    how = Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("sup")
    lengths.suppress(how).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def then_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    table = builder.table("input", materialized=stored("t"))
    late = table.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()).with_name("sup"))
    groups = late.group_by(lambda k, v: (v, k), Grouped(name="g", key_serde=S, value_serde=S))
    groups.count(materialized=stored("counts", L)).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def versioned(config: Any) -> Topology:
    builder = StreamsBuilder()
    store: Materialized[str, str] = Materialized(
        supplier=Stores.persistent_versioned_key_value_store("ver", 100), key_serde=S, value_serde=S
    )
    table = builder.table("input", materialized=store)
    table.suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded())).to_stream().to("output")
    return builder.build(config)


def of_internal_topics(buffer: BufferConfig, name: str | None = None) -> Build:
    """The recordings of names, settings and records of internal topics."""

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        strings: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
        how = Suppressed.until_time_limit(80, buffer)
        table = builder.table("left", strings, materialized=stored("source"))
        late = table.suppress(how if name is None else how.with_name(name))
        late.to_stream().to("output", Produced(key_serde=S, value_serde=S))
        return builder.build(config)

    return build


CASES: dict[str, Build] = {
    "suppress-max-bytes-early": suppressed(50, BufferConfig.max_bytes(250).emit_early_when_full()),
    "suppress-max-records-early": suppressed(20, BufferConfig.max_records(2), store=None),
    "suppress-serde-lost": serde_lost,
    "suppress-shutdown-when-full-time-limit": suppressed(100, BufferConfig.max_records(2).shut_down_when_full()),
    "suppress-then-aggregate": then_aggregate,
    "suppress-time-limit-table": suppressed(10, BufferConfig.unbounded()),
    "suppress-time-limit-zero": suppressed(0, BufferConfig.unbounded(), name=None),
    "suppress-versioned-throws": versioned,
    "suppress_no_logging": of_internal_topics(BufferConfig.unbounded().with_logging_disabled()),
    "suppress_settings": of_internal_topics(BufferConfig.unbounded().with_logging_enabled({"segment.ms": "7"})),
    "suppress_time_limit": of_internal_topics(BufferConfig.max_records(3).emit_early_when_full(), "buffer"),
}
