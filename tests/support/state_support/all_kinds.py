"""A task with a store of each kind that is kept on disk, and its state directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict

from processor_api.context import ProcessorContext
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from state.directory.state_directory import StateDirectory
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.metadata import FORMAT_KEY

__all__ = ["KINDS", "Keep", "change", "drop_family", "made", "set_format", "topology", "unlogged_topology"]

S = Serdes.STRING
DAY_MS = 86_400_000
KINDS = {
    "plain": "key-value",
    "stamped": "timestamped-key-value",
    "headed": "headers-key-value",
    "listed": "list",
    "versioned": "versioned-key-value",
    "window": "window",
    "stamped-window": "timestamped-window",
    "ordered-window": "time-ordered-timestamped-window",
    "headed-window": "headers-window",
    "session": "session",
    "headed-session": "headers-session",
    "ordered-session": "time-ordered-session",
}
"""The kind of each store, by its name."""


def builders() -> list[StoreBuilder[Any, Any]]:
    window = Stores.persistent_window_store
    return [
        Stores.key_value_store_builder(Stores.persistent_key_value_store("plain"), S, S),
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("stamped"), S, S),
        Stores.timestamped_key_value_store_with_headers_builder(
            Stores.persistent_timestamped_key_value_store_with_headers("headed"), S, S
        ),
        Stores.list_store_builder(Stores.persistent_list_store("listed"), S, S),
        Stores.versioned_key_value_store_builder(
            Stores.persistent_versioned_key_value_store("versioned", DAY_MS), S, S
        ),
        Stores.window_store_builder(window("window", DAY_MS, 100), S, S),
        Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("stamped-window", DAY_MS, 100), S, S
        ),
        Stores.timestamped_window_store_builder(
            Stores.persistent_timestamped_window_store("ordered-window", DAY_MS, 100, time_ordered=True), S, S
        ),
        Stores.timestamped_window_store_with_headers_builder(
            Stores.persistent_timestamped_window_store_with_headers("headed-window", DAY_MS, 100), S, S
        ),
        Stores.session_store_builder(Stores.persistent_session_store("session", DAY_MS), S, S),
        Stores.session_store_with_headers_builder(
            Stores.persistent_session_store_with_headers("headed-session", DAY_MS), S, S
        ),
        Stores.session_store_builder(
            Stores.persistent_session_store("ordered-session", DAY_MS, time_ordered=True), S, S
        ),
    ]


class Keep(Processor[str, str, str, str]):
    """Puts each record into every store; the value ``-`` deletes."""

    def init(self, context: ProcessorContext[str, str]) -> None:
        super().init(context)
        self.stores: dict[str, Any] = {name: context.get_state_store(name) for name in KINDS}

    def process(self, record: Record[str, str]) -> None:
        stores, key, time = self.stores, record.key, record.timestamp
        value = None if record.value == "-" else record.value
        stamped = None if value is None else ValueAndTimestamp(value, time)
        start = time // 100 * 100
        stores["plain"].put(key, value)
        stores["stamped"].put(key, stamped)
        headed = None if value is None else ValueTimestampHeaders(value, time, [("h", b"\x01")])
        stores["headed"].put(key, headed)
        stores["listed"].put(key, value)
        stores["versioned"].put(key, value, time)
        stores["window"].put(key, value, start)
        stores["stamped-window"].put(key, stamped, start)
        stores["ordered-window"].put(key, stamped, start)
        stores["headed-window"].put(key, headed, start)
        session = Windowed(key, Window(start, start + 50))
        for name in ("session", "ordered-session"):
            stores[name].put(session, value)
        stores["headed-session"].put(session, None if value is None else AggregationWithHeaders(value, headed.headers))


def topology() -> Topology:
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    for builder in builders():
        made.add_state_store(builder, "keep")
    return made


def unlogged_topology() -> Topology:
    """One of the stores, without a changelog."""
    plain = builders()[0].with_logging_disabled()
    made = Topology().add_source("source", "in", key_serde=S, value_serde=S).add_processor("keep", Keep, "source")
    return made.add_state_store(plain, "keep")


def made(root: Path, *records: tuple[str, str, int], config: Mapping[str, Any] | None = None) -> TaskKit:
    """The task ``0_0`` of the application ``app`` below a state directory, running, with these records committed."""
    directory = StateDirectory.open(root, "app")
    kit = TaskKit(topology(), directory.path, config)
    for key, value, time in records:
        kit.pipe("in", key.encode(), value.encode(), time)
    kit.commit()
    return kit


def change(database: Path, family: str, key: bytes, value: bytes | None) -> None:
    """Writes one row of a database that is closed."""
    engine = RocksEngine(database, [family])
    batch = engine.batch()
    if value is None:
        batch.delete(key, engine.family(family).handle)
    else:
        batch.put(key, value, engine.family(family).handle)
    engine.write(batch)
    engine.close()


def set_format(database: Path, version: bytes) -> None:
    """Writes the version of the layout into a database that is closed, which our engine may refuse to open."""
    options = Options(raw_mode=True)
    names = Rdict.list_cf(str(database), options)
    opened = Rdict(str(database), options, dict.fromkeys(names, options))
    opened.get_column_family(OFFSETS).put(FORMAT_KEY, version)
    opened.close()


def drop_family(database: Path, family: str) -> None:
    """Takes a family out of a database that is closed, behind the back of what is written there."""
    options = Options(raw_mode=True)
    names = Rdict.list_cf(str(database), options)
    opened = Rdict(str(database), options, dict.fromkeys(names, options))
    opened.drop_column_family(family)
    opened.close()
