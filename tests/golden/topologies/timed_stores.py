"""Topologies with a window or session store, of the recordings of changelog names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.store_spec import StoreBuilder, Stores
from processor_api.topology import Topology

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


STORES: Mapping[str, StoreBuilder[Any, Any]] = {
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
