"""One store as a task holds it: an engine, a budget, the record in work, a changelog, and the steps of a commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from processor_api.record import HeaderList
from processor_api.serde import Serde, Serdes
from processor_api.stores.builder import StoreBuilder
from state.engine.memory import MemoryEngine
from state.engine.port import Engine
from state.registry.kinds import check_kind, families_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.write_buffer.memory_budget import Budget
from state.write_buffer.shared_rows import Logged

__all__ = ["LogRecord", "StoreKit", "load", "restored"]

LogRecord = tuple[bytes, bytes | None, int, HeaderList | None]


class StoreKit:
    """Opened on ``directory``, or in memory where the store is not persistent."""

    def __init__(
        self, builder: StoreBuilder[Any, Any], directory: Path, *, cache_bytes: int = 1 << 20, log_each: bool = True
    ) -> None:
        self.builder, self.directory, self.log_each = builder, directory, log_each
        self.budget, self.cursor = Budget(cache_bytes), Cursor()
        self.logged: list[LogRecord] = []
        self.committed: list[LogRecord] = []
        """What was logged until the last commit."""
        self.dropped = 0
        self.engine: Any = self.open_engine(builder)
        self.open()

    def open_engine(self, builder: StoreBuilder[Any, Any]) -> Engine:
        if builder.supplier.persistent:
            return RocksEngine(self.directory, families_of(builder))
        return MemoryEngine()

    def open(self) -> None:
        check_kind(self.builder, self.engine)
        self.store = open_store(
            self.builder,
            engine=self.engine,
            cursor=self.cursor,
            budget=self.budget,
            log=self.log if self.builder.logging else None,
            log_many=self.log_many if self.builder.logging else None,
            log_each=self.log_each,
            key_serde=self.serde(self.builder.key_serde),
            value_serde=self.serde(self.builder.value_serde),
            drop=self._drop,
        )
        self.facade = self.store.facade

    @staticmethod
    def serde(given: Serde[Any] | None) -> Serde[Any]:
        return Serdes.STRING if given is None else given

    def log(self, key: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        self.logged.append((key, value, timestamp, headers))

    def log_many(self, rows: Iterator[Logged]) -> None:
        for row in rows:
            self.log(*row)

    def _drop(self, by_ms: int) -> None:
        self.dropped += 1

    def at(self, timestamp: int, headers: HeaderList | None = None) -> StoreKit:
        """A record of this time is in work."""
        self.cursor.timestamp, self.cursor.headers = timestamp, headers
        return self

    # ------------------------------------------------------------------ steps of a task

    def commit(self) -> None:
        self.store.drain()
        assert self.store.pending or not self.budget.uncommitted
        batch = self.engine.batch()
        self.store.apply(batch)
        self.engine.write(batch)
        self.store.applied()
        assert self.budget.uncommitted == 0
        self.committed = list(self.logged)

    def abort(self) -> None:
        """Everything since the last commit is forgotten, and the store is opened again."""
        self.close_store()
        self.open()

    def restart(self, builder: StoreBuilder[Any, Any] | None = None) -> None:
        """As after a crash: only what is on disk is left."""
        self.close_store()
        self.engine.close()
        self.builder = builder or self.builder
        self.engine = self.open_engine(self.builder)
        self.open()

    def close_store(self) -> None:
        self.store.close()
        assert (self.budget.cached, self.budget.uncommitted) == (0, 0)
        self.logged = list(self.committed)

    def close(self) -> None:
        self.close_store()
        self.engine.close()

    def dump(self) -> dict[str, list[tuple[bytes, bytes]]]:
        """Everything that the engine holds of the store."""
        return {name: list(self.engine.family(name).range()) for name in families_of(self.builder)}


def restored(
    builder: StoreBuilder[Any, Any], records: Sequence[LogRecord], directory: Path, *, at_once: int = 7
) -> StoreKit:
    """A store restored from a changelog, some records at a time, as a task would open it afterwards."""
    kit = StoreKit(builder, directory)
    kit.close_store()
    load(builder, kit.engine, records, at_once=at_once)
    kit.open()
    return kit


def load(builder: StoreBuilder[Any, Any], engine: Engine, records: Sequence[LogRecord], *, at_once: int = 7) -> None:
    """One restore."""
    restore = restore_of(builder, engine)
    for start in range(0, len(records), at_once):
        part = records[start : start + at_once]
        batch = engine.batch()
        keys, values, timestamps, headers = ([record[i] for record in part] for i in range(4))
        restore(batch, keys, values, timestamps, headers)
        engine.load(batch)
