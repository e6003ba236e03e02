"""A processor with a store of every kind, and records for it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.staged_run import Piped
from state_support.texts import Texts

__all__ = ["KINDS", "history", "kinds"]


class Keep(Processor[str, str, str, str]):
    """Puts each record into a store of each kind, and forwards what it finds there."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.stores = {name: context.get_state_store(name) for name in KINDS}
        context.schedule(50, PunctuationType.STREAM_TIME, self.tick)

    def tick(self, now: int) -> None:
        self.context.forward(Record("tick", str(now), now))

    def process(self, record: Record[str, str]) -> None:
        key, value, time, stores = record.key, record.value, record.timestamp, self.stores
        headers = list(record.headers)
        window, session = time - time % 100, Windowed(key, Window(time - time % 100, time))
        found = [stores[name].get(key) for name in ("plain", "timed", "headers", "ttl", "lru", "store")]
        found += [stores["windows"].fetch(key, window), stores["memory-windows"].fetch(key, window)]
        deleted = value is None
        stores["plain"].put(key, value)
        stores["lru"].put(key, value)
        stores["ttl"].put(key, value)
        stores["memory"].put(key, value)
        stores["store"].put(key, value or "gone")
        stores["timed"].put(key, None if deleted else ValueAndTimestamp(value, time))
        stores["headers"].put(key, None if deleted else ValueTimestampHeaders(value, time, headers))
        stores["windows"].put(key, value, window)
        stores["timed-windows"].put(key, None if deleted else ValueAndTimestamp(value, time), window)
        stores["memory-windows"].put(key, value, window)
        stores["sessions"].put(session, value)
        stores["versions"].put(key, value, time)
        if not deleted:
            stores["list"].put(key, value)
        self.context.forward(record.with_value(repr(found)))


S = Serdes.STRING
KINDS: dict[str, Callable[[str], StoreBuilder[Any, Any]]] = {
    "plain": lambda name: Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S),
    "memory": lambda name: Stores.key_value_store_builder(Stores.in_memory_key_value_store(name), S, S),
    "lru": lambda name: Stores.key_value_store_builder(Stores.lru_map(name, 7), S, S),
    "ttl": lambda name: Stores.key_value_store_builder(Stores.persistent_key_value_store(name), S, S).with_time_to_live(
        300, "record_time"
    ),
    "store": lambda name: Stores.custom(name, Texts),
    "timed": lambda name: Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store(name), S, S
    ),
    "headers": lambda name: Stores.timestamped_key_value_store_with_headers_builder(
        Stores.persistent_timestamped_key_value_store_with_headers(name), S, S
    ),
    "windows": lambda name: Stores.window_store_builder(Stores.persistent_window_store(name, 1000, 100), S, S),
    "memory-windows": lambda name: Stores.window_store_builder(Stores.in_memory_window_store(name, 1000, 100), S, S),
    "timed-windows": lambda name: Stores.timestamped_window_store_builder(
        Stores.persistent_timestamped_window_store(name, 1000, 100), S, S
    ),
    "sessions": lambda name: Stores.session_store_builder(Stores.persistent_session_store(name, 1000), S, S),
    "versions": lambda name: Stores.versioned_key_value_store_builder(
        Stores.persistent_versioned_key_value_store(name, 500), S, S
    ),
    "list": lambda name: Stores.list_store_builder(Stores.persistent_list_store(name), S, S),
}


def kinds() -> Topology:
    made = Topology().add_source("source", "lines", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    for name, builder in KINDS.items():
        made.add_state_store(builder(name), "keep")
    return made.add_sink("sink", "counts", "keep", key_serde=S, value_serde=S)


def history(count: int) -> list[Piped]:
    """Records of a few keys, late ones and deletions among them."""
    chosen = random.Random(count)
    records: list[Piped] = []
    for number in range(count):
        headers: Any = [("h", b"%d" % number)] if number % 3 == 0 else []
        value = None if number % 11 == 10 else b"v%d" % number
        time = max(0, number * 7 - chosen.randrange(0, 200))
        records.append(("lines", b"k%d" % chosen.randrange(12), value, time, headers))
    return records
