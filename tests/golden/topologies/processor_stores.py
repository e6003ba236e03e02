"""Topologies whose processors use window and versioned stores, beside the Java text in the recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import StreamsBuilder
from golden_support.user_code import StringProcessor, StringRecord
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.topology.topology import Topology

S = Serdes.STRING


class Recent(StringProcessor):
    """Tells what a window store holds of the last ten ms before each put."""

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            return
        windows = self.context.get_state_store("recent")
        low, time = max(0, record.timestamp - 10), record.timestamp
        with windows.fetch_range(record.key, low, time) as rows:
            found = "".join(f"{value}@{start} " for start, value in rows)
        with windows.backward_fetch_range(record.key, low, time) as rows:
            newest = next(rows, None)
        if newest is not None:
            found += f"last={newest[0]}"
        windows.put(record.key, record.value, time)
        self.context.forward(record.with_value(found.strip()))


class Versions(StringProcessor):
    """Tells what a versioned store returns."""

    def process(self, record: StringRecord) -> None:
        if record.key is None:
            return
        versions, time = self.context.get_state_store("ver"), record.timestamp
        if record.value == "t":
            said = f"delete={_text(versions.delete(record.key, time))}"
        else:
            until = versions.put(record.key, record.value, time)
            latest, before = versions.get(record.key), versions.get(record.key, max(0, time - 5))
            said = f"put={until} latest={_text(latest)} asOf-5={_text(before)}"
        self.context.forward(record.with_value(said))


def _text(version: Any) -> str:
    """As Java's, whose store does not tell when a version that it found ends."""
    return "null" if version is None else f"{version.value}@{version.timestamp}-"


def using(store: StoreBuilder[Any, Any], processor: Callable[[], Any]) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        builder.add_state_store(store)
        builder.stream("input").process(processor, store.name).to("output")
        return builder.build(config)

    return build


CASES: dict[str, Callable[[Any], Topology]] = {
    "papi-window-store": using(
        Stores.window_store_builder(Stores.persistent_window_store("recent", 100, 10, True), S, S), Recent
    ),
    "papi-window-store-no-duplicates": using(
        Stores.window_store_builder(Stores.in_memory_window_store("recent", 100, 10), S, S), Recent
    ),
    "papi-versioned-store": using(
        Stores.versioned_key_value_store_builder(Stores.persistent_versioned_key_value_store("ver", 30), S, S), Versions
    ),
}
