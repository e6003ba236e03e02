"""Stores of sessions and windows: what operators find of a key while known rows are forgotten, and what the cache
counts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import OpenStore, family_of, open_store
from state.rocksdb.engine import RocksEngine
from state.windowed.known_rows import KnownRows
from state.write_buffer.memory_budget import Budget
from state.write_buffer.record_context import Cursor

RETENTION = 1_000_000


class Store:
    """A session store, and what it must hold."""

    def __init__(self, directory: Path, budget: Budget, *, rocksdb: bool = False, caching: bool = False) -> None:
        supplier = Stores.persistent_session_store if rocksdb else Stores.in_memory_session_store
        builder = Stores.session_store_builder(supplier("s", RETENTION), Serdes.BYTES, Serdes.STRING)
        self.builder = builder.with_caching_enabled() if caching else builder
        self.engine: Any = RocksEngine(directory, [family_of(self.builder)]) if rocksdb else MemoryEngine()
        self.budget = budget
        self.expected: dict[tuple[bytes, int, int], str] = {}
        self.opened = self.open()

    def open(self) -> OpenStore:
        opened = open_store(
            self.builder,
            engine=self.engine,
            cursor=Cursor(),
            budget=self.budget,
            log=None,
            log_each=False,
            key_serde=Serdes.BYTES,
            value_serde=Serdes.STRING,
        )
        assert isinstance(opened.rows, KnownRows)
        self.rows, self.timed = opened.rows, opened.operator.timed
        if opened.cached:
            opened.operator.on_flush(lambda *_: None, old_values=False)
        return opened

    def put(self, key: bytes, end: int, start: int, value: str | None) -> None:
        self.timed.put(key, end, start, value, end)
        if value is None:
            self.expected.pop((key, end, start), None)
        else:
            self.expected[key, end, start] = value

    def commit(self) -> None:
        batch = self.engine.batch()
        self.opened.drain()
        self.opened.apply(batch)
        self.engine.write(batch)
        self.opened.applied()

    def check(self, key: bytes, low: int, high: int) -> None:
        found = {(key, time, rest): value for key, time, rest, value, _ in self.timed.find(key, low, high)}
        rows = self.expected.items()
        assert found == {row: value for row, value in rows if row[0] == key and low <= row[1] <= high}


@pytest.mark.parametrize("cache_bytes", [0, 1500, 15_000, 1 << 20])
@pytest.mark.parametrize("caching", [False, True])
@pytest.mark.parametrize("rocksdb", [False, True])
def test_rows_are_found_whatever_is_forgotten(tmp_path: Path, cache_bytes: int, caching: bool, rocksdb: bool) -> None:
    """Rows are put, replaced and deleted out of order, committed, and met by another life."""
    draw = Random(cache_bytes)
    store = Store(tmp_path / "s", Budget(cache_bytes), rocksdb=rocksdb, caching=caching)
    for number in range(600):
        key, end = draw.choice([b"a", b"b", b"aa"]), max(0, number - draw.choice([0, 0, 1, 50, 300]))
        if store.expected and draw.random() < 0.4:
            key, end, start = draw.choice(sorted(store.expected))
            store.put(key, end, start, draw.choice([None, f"again {number}"]))
        else:
            store.put(key, end, max(0, end - draw.randrange(3)), f"value {number}")
        if draw.random() < 0.05:
            store.commit()
        if draw.random() < 0.01:
            store.commit()
            store.rows.close()
            store.opened = store.open()
        low = max(0, number - draw.randrange(500))
        for key in (b"a", b"b", b"aa", b"none"):
            store.check(key, low, low + draw.randrange(500))
    store.opened.rows.close()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


def test_rows_that_were_put_before_the_first_search_are_found(tmp_path: Path) -> None:
    """Those in the engine, those that wait, and those that are deleted meanwhile."""
    store = Store(tmp_path / "s", Budget(1 << 20), rocksdb=True)
    store.put(b"a", 5, 5, "in the engine")
    store.put(b"a", 6, 6, "deleted")
    store.commit()
    store.put(b"a", 7, 7, "waits")
    store.put(b"a", 6, 6, None)
    store.check(b"a", 0, 10)


def test_an_engine_is_not_read_where_all_rows_are_known(tmp_path: Path) -> None:
    """Most records of a session find none but their own, which waits in the cache."""
    store = Store(tmp_path / "s", Budget(1 << 20), rocksdb=True)
    store.check(b"a", 0, 0)
    store.put(b"a", 10, 10, "kept in the cache")
    store.commit()
    store.engine.close()
    store.check(b"b", 0, 100)
    store.check(b"a", 0, 100)


def test_known_rows_are_a_part_of_the_cache(tmp_path: Path) -> None:
    """They leave most of it for the rows themselves."""
    limit = 100_000
    store = Store(tmp_path / "s", Budget(limit))
    for time in range(5000):
        store.check(b"a", time - 1, time - 1)
        store.put(b"a", time, time, "value")
        if time % 100 == 99:
            store.commit()
    assert store.budget.cached <= limit
    assert limit // 8 < sum(len(row) + 45 for row in store.rows.known[b"a"]) <= limit // 4 + 100 * 80
    assert len(store.rows.clean) > 500
    store.check(b"a", 0, 5000)


def test_a_row_that_is_read_pushes_others_out_and_none_is_missed(tmp_path: Path) -> None:
    """The rows that are pushed out are among those that are about to be read."""
    store = Store(tmp_path / "s", Budget(1 << 20), rocksdb=True)
    store.check(b"a", 0, 0)
    for time in range(10):
        store.put(b"a", time, time, "value")
    store.commit()
    store.budget.clean -= store.rows.format.size(store.rows.clean)
    store.rows.clean.clear()
    store.budget.cache_limit = store.budget.clean
    store.check(b"a", 0, 20)
