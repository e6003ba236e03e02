"""Global tables and global stores, without joins."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dsl import Consumed, Materialized, Produced, StreamsBuilder
from golden_support.user_code import StringProcessor, StringRecord
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import ROCKSDB, StoreSupplier
from processor_api.topology.topology import Topology
from processor_api.user_code.offset_reset import AutoOffsetReset

S, L = Serdes.STRING, Serdes.LONG

STRINGS: Consumed[str, str] = Consumed(key_serde=S, value_serde=S)


def kv(name: str) -> Materialized[str, str]:
    return Materialized(name=name, key_serde=S, value_serde=S)


def strings(name: str) -> StoreBuilder[str, str]:
    return Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S)


def table_global(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.global_table("input", materialized=kv("g"))
    builder.stream("other").to("output")
    return builder.build(config)


class PutUpper(Processor[str | None, str | None, None, None]):
    """Stores values in upper case."""

    def process(self, record: Record[str | None, str | None]) -> None:
        if record.key is not None:
            store = self.context.get_state_store("g")
            store.put(record.key, None if record.value is None else record.value.upper())


class LookUp(StringProcessor):
    """Appends what the global store has for the key."""

    def process(self, record: StringRecord) -> None:
        found = "no-key" if record.key is None else self.context.get_state_store("g").get(record.key)
        self.context.forward(record.with_value(f"{_java(record.value)}/{_java(found)}"))


def _java(value: str | None) -> str:
    """A value as Java joins it into a string."""
    return "null" if value is None else value


def papi_global_store(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_global_store(strings("g").with_logging_disabled(), "global", STRINGS, PutUpper)
    builder.stream("input").process(LookUp).to("output")
    return builder.build(config)


def global_versioned(config: Any) -> Topology:
    builder = StreamsBuilder()
    supplier = StoreSupplier(
        name="ver", kind="versioned-key-value", engine=ROCKSDB, parameters={"history_retention_ms": 100}
    )
    builder.global_table("input", materialized=Materialized(supplier=supplier, key_serde=S, value_serde=S))
    return builder.build(config)


def describe_sources(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("a").to("o1")
    builder.stream("a").map_values(lambda v: v).to("o2")
    builder.stream(["b", "c"]).to("o3")
    builder.stream(re.compile("d.*")).to("o4")
    builder.table("e").to_stream().to("o5")
    builder.table("f", Consumed(name="tf", key_serde=S, value_serde=S)).to_stream().to("o6")
    builder.table("g", materialized=kv("gs")).to_stream().to("o7")
    earliest = AutoOffsetReset.earliest()
    builder.stream("h", Consumed(key_serde=S, value_serde=S, offset_reset=earliest)).to("o8")
    builder.global_table("i", STRINGS)
    builder.global_table("j", Consumed(name="gj", key_serde=S, value_serde=S), materialized=kv("js"))
    return builder.build(config)


class Pass(Processor[Any, Any, Any, Any]):
    """Forwards what it gets."""

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def describe_subtopologies(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.add_state_store(strings("s"))
    counts = builder.stream("a").group_by_key().count().to_stream()
    counts.to("o1", Produced(key_serde=S, value_serde=L))
    builder.stream("b").select_key(lambda k, v: v).group_by_key().count()
    builder.global_table("g", STRINGS)
    builder.stream("c").process(Pass, "s")
    builder.stream("d").process(Pass, "s")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "build-global-versioned": global_versioned,
    "describe-sources": describe_sources,
    "describe-subtopologies": describe_subtopologies,
    "papi-global-store": papi_global_store,
    "table-global": table_global,
}
