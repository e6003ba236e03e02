"""Small topologies with every kind of internal topic, of the recordings of their names, settings and bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import (
    BufferConfig,
    Consumed,
    EmitStrategy,
    Grouped,
    KTable,
    Materialized,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology
from state.formats.windowed_serdes import WindowedSerdes

S = Serdes.STRING
KV = Stores.key_value_store_builder


class Ignore(Processor[Any, Any, Any, Any]):
    """Does nothing with its records."""

    def process(self, record: Record[Any, Any]) -> None:
        pass


def attach(builder: StoreBuilder[Any, Any]) -> Callable[[Any], Topology]:
    """A topology whose only processor uses the store."""

    def build(config: Any) -> Topology:
        topology = Topology().add_source("source", "left", key_serde=S, value_serde=S)
        return topology.add_processor("user", Ignore, "source").add_state_store(builder, "user")

    return build


STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)
TO_STRINGS: Produced[str, str] = Produced(key_serde=S, value_serde=S)
BY_LETTER: Grouped[str, str] = Grouped(name="by-letter", key_serde=S, value_serde=S)


def kv(name: str) -> Materialized[str, str]:
    return Materialized(name=name, key_serde=S, value_serde=S)


def table(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("left", STRINGS, materialized=kv("table")).to_stream().to("output", TO_STRINGS)
    return builder.build(config)


def global_table(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.global_table("left", STRINGS, materialized=kv("global"))
    return builder.build(config)


def aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("left", STRINGS).group_by(lambda k, v: v[:1], BY_LETTER)
    aggregated = groups.aggregate(str, lambda k, v, a: None if v == "delete" else a + v, materialized=kv("aggregate"))
    aggregated.to_stream().to("output", TO_STRINGS)
    return builder.build(config)


def table_aggregate(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.table("left", STRINGS, materialized=kv("source")).group_by(lambda k, v: (v[:1], v), BY_LETTER)
    aggregated = groups.aggregate(
        str, lambda k, v, a: f"{a}+{v}", lambda k, v, a: f"{a}-{v}", materialized=kv("aggregate")
    )
    aggregated.to_stream().to("output", TO_STRINGS)
    return builder.build(config)


def repartition(config: Any) -> Topology:
    builder = StreamsBuilder()
    spread: Repartitioned[str, str] = Repartitioned(name="spread", key_serde=S, value_serde=S, number_of_partitions=7)
    builder.stream("left", STRINGS).repartition(spread).to("output", TO_STRINGS)
    return builder.build(config)


def repartition_unnamed(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = (
        builder.stream("left", STRINGS).select_key(lambda k, v: v).group_by_key(Grouped(key_serde=S, value_serde=S))
    )
    groups.count().to_stream().to("output", Produced(key_serde=S, value_serde=Serdes.LONG))
    return builder.build(config)


def windowed(
    windows: Any,
    store: str,
    *,
    counts: bool = False,
    final: bool = False,
    suppressed: str | None = None,
    merger: Callable[[Any, Any, Any], Any] | None = None,
) -> Callable[[Any], Topology]:
    """A windowed aggregation, written with windowed keys."""

    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        groups = builder.stream("left", STRINGS).group_by_key().windowed_by(windows)
        if final:
            groups = groups.emit_strategy(EmitStrategy.on_window_close())
        values: Any = Serdes.LONG if counts else S
        how: Any = Materialized(name=store, key_serde=S, value_serde=values)
        functions = () if merger is None else (merger,)
        found: KTable[Any, Any] = (
            groups.count(materialized=how)
            if counts
            else groups.aggregate(str, lambda k, v, a: a + v, *functions, materialized=how)
        )
        if suppressed is not None:
            closing = Suppressed.until_window_closes(BufferConfig.unbounded())
            found = found.suppress(closing.with_name(suppressed))
        sessions = isinstance(windows, SessionWindows)
        size = 60 if isinstance(windows, SlidingWindows) else 100
        keys: Any = (
            WindowedSerdes.session_windowed_serde_from(S)
            if sessions
            else WindowedSerdes.time_windowed_serde_from(S, size)
        )
        found.to_stream().to("output", Produced(key_serde=keys, value_serde=values))
        return builder.build(config)

    return build


def window_retention(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("left", STRINGS).group_by_key().windowed_by(HUNDRED)
    groups.count(materialized=Materialized(name="counts", key_serde=S, value_serde=Serdes.LONG, retention=3_600_000))
    return builder.build(config)


def with_ampersand(key: Any, one: str, other: str) -> str:
    return f"{one}&{other}"


HUNDRED = TimeWindows.of_size_and_grace(100, 50)

SETTINGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "1000",
    "segment.ms": "60000",
    "message.timestamp.type": "LogAppendTime",
}

CASES: dict[str, Callable[[Any], Topology]] = {
    "kv_store": attach(KV(Stores.persistent_key_value_store("store"), S, S)),
    "kv_store_memory": attach(KV(Stores.in_memory_key_value_store("store"), S, S)),
    "kv_store_timestamped": attach(
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("store"), S, S)
    ),
    "kv_store_no_logging": attach(KV(Stores.persistent_key_value_store("store"), S, S).with_logging_disabled()),
    "kv_store_settings": attach(KV(Stores.persistent_key_value_store("store"), S, S).with_logging_enabled(SETTINGS)),
    "table": table,
    "global_table": global_table,
    "aggregate": aggregate,
    "table_aggregate": table_aggregate,
    "repartition": repartition,
    "repartition_unnamed": repartition_unnamed,
    "hopping_count": windowed(HUNDRED.advance_by(40), "counts", counts=True),
    "session_aggregate": windowed(
        SessionWindows.of_inactivity_gap_and_grace(60, 100), "sessions", merger=with_ampersand
    ),
    "sliding_aggregate": windowed(SlidingWindows.of_time_difference_and_grace(60, 100), "sliding"),
    "emit_on_close": windowed(HUNDRED, "closed", final=True),
    "session_emit_on_close": windowed(
        SessionWindows.of_inactivity_gap_and_grace(60, 50), "closed", final=True, merger=with_ampersand
    ),
    "suppress_window_close": windowed(HUNDRED, "counts", counts=True, suppressed="buffer"),
    "window_retention": window_retention,
}
