"""A harness for recorded traces: one store of `state` on an engine, with the cursor of a task that stands still."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from golden_support.store_calls import plain_key
from golden_support.store_traces import Change, LogRecord
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from processor_api.stores.suppliers import CustomStoreSupplier, StoreSupplier, as_supplier
from state.engine.memory import MemoryEngine
from state.read_views.view import open_view
from state.registry.kinds import families_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state_support.bytes_stores import PlainBytesSupplier
from streams.queries.queries import ask, level_of
from streams.testing.contracts.store_kit import StoreKit

__all__ = ["StateHarness", "is_built", "on_every_engine"]

BUILDERS: Mapping[str, Callable[..., StoreBuilder[Any, Any]]] = {
    "kv": Stores.key_value_store_builder,
    "timestamped-kv": Stores.timestamped_key_value_store_builder,
    "headers-kv": Stores.timestamped_key_value_store_with_headers_builder,
    "list-kv": Stores.list_store_builder,
    "versioned": Stores.versioned_key_value_store_builder,
    "window": Stores.window_store_builder,
    "timestamped-window": Stores.timestamped_window_store_builder,
    "headers-window": Stores.timestamped_window_store_with_headers_builder,
    "session": Stores.session_store_builder,
    "headers-session": Stores.session_store_with_headers_builder,
}
"""The kinds of store that are built, by their recorded names."""
ONLY_ON_ROCKSDB = ("versioned",)
"""Kinds that Java has on RocksDB only, and that are on both engines here."""
CACHE_BYTES = 10 * 1024 * 1024
TIME_ORDERED = "rocksdb-time-ordered"


def is_built(store: Mapping[str, Any]) -> bool:
    """Whether a recorded store has a counterpart here. Changelog records carry no positions (``consistency``)."""
    return store["kind"] in BUILDERS and _supplier(store) is not None and not store.get("consistency", False)


def on_every_engine(store: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A recorded store, and the same in memory where Java has none."""
    return [store, {**store, "engine": "memory"}] if store["kind"] in ONLY_ON_ROCKSDB else [store]


def _supplier(store: Mapping[str, Any]) -> StoreSupplier | None:
    """By the recorded names of kinds and engines."""
    kind = store["kind"].removeprefix("timestamped-").removeprefix("headers-")
    match kind, store["engine"]:
        case "kv", "memory":
            return Stores.in_memory_key_value_store("store")
        case "kv", "rocksdb":
            return Stores.persistent_key_value_store("store")
        case "kv", "rocksdb-plain":
            return as_supplier(PlainBytesSupplier("store"))
        case "kv", "lru":
            return Stores.lru_map("store", store["max_entries"])
        case "list-kv", engine:
            return (Stores.in_memory_list_store if engine == "memory" else Stores.persistent_list_store)("store")
        case "versioned", engine:
            times = store["history_retention_ms"], store["segment_interval_ms"]
            if engine == "memory":
                return Stores.in_memory_versioned_key_value_store("store", *times)
            return Stores.persistent_versioned_key_value_store("store", *times)
        case "window", engine:
            times = store["retention_ms"], store["window_size_ms"], store["retain_duplicates"]
            if engine == "memory":
                return Stores.in_memory_window_store("store", *times)
            return Stores.persistent_window_store("store", *times, time_ordered=engine == TIME_ORDERED)
        case "session", engine:
            if engine == "memory":
                return Stores.in_memory_session_store("store", store["retention_ms"])
            return Stores.persistent_session_store("store", store["retention_ms"], time_ordered=engine == TIME_ORDERED)
    return None


def _builder(store: Mapping[str, Any]) -> StoreBuilder[Any, Any]:
    builder = BUILDERS[store["kind"]](_supplier(store), Serdes.STRING, Serdes.STRING)
    return builder.with_caching_enabled() if store["caching"] else builder


class _Message:
    """A consumed record, as far as a store looks at it."""

    def __init__(self, offset: int, timestamp: int) -> None:
        self._offset = offset
        self._timestamp = timestamp

    def offset(self) -> int:
        return self._offset

    def leader_epoch(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, self._timestamp


class StateHarness:
    """Holds one store.

    :param commits: whether every call is followed by a commit, so that reads go to the engine, or none is, so that they
        go to the buffer. A cached store would be flushed by a commit.
    :param changelog: what the store is restored from before it opens.
    """

    def __init__(
        self, store: Mapping[str, Any], directory: Path, *, commits: bool, changelog: Sequence[LogRecord] = ()
    ) -> None:
        self.kind = store["kind"]
        self._store, self._directory, self._commits = store, directory, commits
        self._logged: list[LogRecord] = []
        self._forwarded: list[Change] = []
        builder = _builder(store)
        self._engine: Any = MemoryEngine()
        if isinstance(builder.supplier, CustomStoreSupplier):
            self._engine = StoreKit(builder, directory / "custom").engine
        elif builder.supplier.persistent:
            self._engine = RocksEngine(directory / "store", families_of(builder))
        self._restore(builder, changelog)
        self._cursor = Cursor()
        opened = open_store(
            builder,
            engine=self._engine,
            cursor=self._cursor,
            budget=Budget(store.get("cache_max_bytes", CACHE_BYTES)),
            log=self._log if store["logging"] else None,
            key_serde=Serdes.STRING,
            value_serde=Serdes.STRING,
        )
        self._opened, self._facade = opened, opened.facade
        if store["caching"]:
            opened.operator.on_flush(self._forward, old_values=True)

    def _restore(self, builder: StoreBuilder[Any, Any], records: Sequence[LogRecord]) -> None:
        batch = self._engine.batch()
        keys, values, timestamps, headers = ([record[i] for record in records] for i in range(4))
        restore_of(builder, self._engine)(batch, keys, values, timestamps, headers)
        self._engine.load(batch)

    def _log(self, key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        self._logged.append((key, value, timestamp, headers or []))

    def _forward(self, key: Any, new: Any, old: Any, timestamp: int, headers: Any) -> None:
        self._forwarded.append((plain_key(key), new, old, timestamp))

    @property
    def facade(self) -> Any:
        """The store as processors see it."""
        return self._facade

    def run(self, timestamp: int, offset: int, call: Callable[[Any], Any]) -> Any:
        cursor = self._cursor
        cursor.message, cursor.source = _Message(offset, timestamp), ("input", 0)
        cursor.timestamp, cursor.headers = timestamp, [("input", b"\x01")]
        try:
            return call(self._facade)
        finally:
            cursor.leave()
            if self._commits:
                self.commit()

    def query(self, query: Any) -> Any:
        level = level_of(query, self._opened, IsolationLevel.READ_UNCOMMITTED)
        if level is IsolationLevel.READ_COMMITTED:
            self._write()  # what a flush has written in Java, where it waits for a commit here
        return ask(query, self._opened, lambda: open_view(self._opened, level))

    def flush_cache(self) -> None:
        self._opened.drain()

    def commit(self) -> None:
        self._opened.drain()
        self._write()

    def _write(self) -> None:
        batch = self._engine.batch()
        self._opened.apply(batch)
        self._engine.write(batch)
        self._opened.applied()

    def take_changelog(self) -> Sequence[LogRecord]:
        logged, self._logged = self._logged, []
        return logged

    def take_forwarded(self) -> Sequence[Change]:
        forwarded, self._forwarded = self._forwarded, []
        return forwarded

    def restored(self, records: Sequence[LogRecord]) -> StateHarness:
        return StateHarness(self._store, self._directory / "restored", commits=self._commits, changelog=records)

    def close(self) -> None:
        self._opened.close()
        self._engine.close()
