"""Topologies with one store, of the recordings of changelog names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S = Serdes.STRING
SETTINGS = {"retention.ms": "99", "cleanup.policy": "delete", "segment.bytes": "1000"}
LONGEST_MS = (1 << 63) - 1


class Ignore(Processor[Any, Any, Any, Any]):
    """Does nothing with its records."""

    def process(self, record: Record[Any, Any]) -> None:
        pass


def attach(builder: StoreBuilder[Any, Any]) -> Callable[[Any], Topology]:
    """A topology whose only processor uses the store."""

    def build(config: Any) -> Topology:
        topology = Topology().add_source("source", "left", key_serde=S, value_serde=S)
        return topology.add_processor("processor", Ignore, "source").add_state_store(builder, "processor")

    return build


def window(retention: int = 60_000, duplicates: bool = False) -> StoreBuilder[Any, Any]:
    return Stores.window_store_builder(Stores.persistent_window_store("store", retention, 10_000, duplicates), S, S)


def versioned(retention: int = 60_000, segment: int | None = None) -> StoreBuilder[Any, Any]:
    supplier = Stores.persistent_versioned_key_value_store("store", retention, segment)
    return Stores.versioned_key_value_store_builder(supplier, S, S)


STORES: Mapping[str, StoreBuilder[Any, Any]] = {
    "kv_store_lru": Stores.key_value_store_builder(Stores.lru_map("store", 10), S, S),
    "headers_kv_store": Stores.timestamped_key_value_store_with_headers_builder(
        Stores.persistent_timestamped_key_value_store_with_headers("store"), S, S
    ),
    "versioned_store": versioned(),
    "versioned_store_settings": versioned(segment=5_000).with_logging_enabled(
        {"min.compaction.lag.ms": "5", "cleanup.policy": "compact"}
    ),
    "versioned_store_zero_history": versioned(0),
    "window_store": window(),
    "window_store_memory": Stores.window_store_builder(Stores.in_memory_window_store("store", 3_600_000, 10_000), S, S),
    "window_store_duplicates": window(duplicates=True),
    "window_store_settings": window().with_logging_enabled(SETTINGS),
    "window_store_longest": window(LONGEST_MS),
    "timestamped_window_store": Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store("store", 200_000, 10_000), S, S
    ),
    "session_store": Stores.session_store_builder(Stores.persistent_session_store("store", 60_000), S, S),
    "session_store_memory": Stores.session_store_builder(Stores.in_memory_session_store("store", 60_000), S, S),
}
CASES: dict[str, Callable[[Any], Topology]] = {name: attach(builder) for name, builder in STORES.items()}
