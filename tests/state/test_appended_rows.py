"""Stores that keep duplicates: what operators find of a key while places are forgotten, and what the cache counts."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import OpenStore, family_of, open_store
from state.rocksdb.engine import RocksEngine
from state.windowed.appended_rows import PLACE_BYTES, AppendedRows
from state.write_buffer.memory_budget import Budget
from state.write_buffer.record_context import Cursor

RETENTION, SIZE = 100_000, 1000
PLACE = PLACE_BYTES + 1
"""What a row of a key of one letter takes of the cache once it is committed."""


class Store:
    """A store that keeps duplicates, and what it must hold."""

    def __init__(self, directory: Path, budget: Budget, *, rocksdb: bool = False) -> None:
        supplier = Stores.persistent_window_store if rocksdb else Stores.in_memory_window_store
        self.builder = Stores.window_store_builder(
            supplier("s", RETENTION, SIZE, retain_duplicates=True), Serdes.BYTES, Serdes.STRING
        )
        self.engine: Any = RocksEngine(directory, [family_of(self.builder)]) if rocksdb else MemoryEngine()
        self.budget = budget
        self.all: list[tuple[bytes, int, str]] = []
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
        assert isinstance(opened.rows, AppendedRows)
        self.rows = opened.rows
        return opened

    def reopen(self) -> None:
        self.opened.rows.close()
        self.opened = self.open()

    def add(self, key: bytes, time: int) -> None:
        value = f"value {len(self.all)}"
        self.opened.operator.add(key, time, value, time, None)
        self.all.append((key, time, value))

    def commit(self) -> None:
        batch = self.engine.batch()
        self.opened.drain()
        self.opened.apply(batch)
        self.engine.write(batch)
        self.opened.applied()

    def found(self, key: bytes, low: int, high: int) -> list[tuple[int, str]]:
        return [(time, value) for _, time, _, value, _ in self.opened.operator.timed.find(key, low, high)]

    def expected(self, key: bytes, low: int, high: int) -> list[tuple[int, str]]:
        rows = [(time, value) for known, time, value in self.all if known == key and low <= time <= high]
        return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("cache_bytes", [0, 10 * PLACE, 100 * PLACE, 1 << 20])
@pytest.mark.parametrize("rocksdb", [False, True])
def test_rows_are_found_whatever_is_forgotten(tmp_path: Path, cache_bytes: int, rocksdb: bool) -> None:
    """Records that come out of order, commits, and openings on what an earlier life wrote."""
    draw, store = Random(cache_bytes), Store(tmp_path / "s", Budget(cache_bytes), rocksdb=rocksdb)
    for number in range(600):
        time = max(0, number - draw.choice([0, 0, 0, 1, 50, 300]))
        store.add(draw.choice([b"a", b"a", b"b", b"aa"]), time)
        if draw.random() < 0.02:
            store.commit()
        if draw.random() < 0.01:
            store.commit()
            store.reopen()
        low = max(0, number - draw.randrange(500))
        for key in (b"a", b"b", b"aa", b"none"):
            high = low + draw.randrange(500)
            assert store.found(key, low, high) == store.expected(key, low, high)
    store.opened.rows.close()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


def test_a_row_that_waits_is_found_when_later_ones_were_forgotten(tmp_path: Path) -> None:
    """It is in no engine, so its place stays; its time does not count."""
    store = Store(tmp_path / "s", Budget(2 * PLACE))
    store.add(b"a", 500)
    store.add(b"a", 600)
    store.commit()
    store.add(b"a", 100)
    store.add(b"a", 700)
    store.budget.cache_limit = PLACE
    store.rows.evict()
    assert store.rows.complete_from > 500
    assert store.found(b"a", 0, 1000) == store.expected(b"a", 0, 1000)


def test_places_are_part_of_the_cache(tmp_path: Path) -> None:
    """What is committed is kept up to the limit; the rows themselves are in the engine."""
    store = Store(tmp_path / "s", Budget(1000 * PLACE))
    for time in range(5000):
        store.add(b"a", time)
        if time % 100 == 99:
            store.commit()
    assert 900 * PLACE <= store.budget.clean <= 1000 * PLACE
    assert len(store.rows.places[b"a"]) * PLACE == store.budget.clean
    assert 4000 < store.rows.complete_from < 4200


def test_an_engine_is_not_read_where_all_places_are_known(tmp_path: Path) -> None:
    """Most records of a join have no partner: no seek in the engine says so."""
    store = Store(tmp_path / "s", Budget(1 << 20), rocksdb=True)
    store.add(b"a", 10)
    store.commit()
    store.engine.close()
    assert store.found(b"b", 0, 100) == []
    assert store.found(b"a", 11, 100) == []
    with pytest.raises(StateError):
        store.found(b"a", 0, 100)


def test_expired_places_are_forgotten(tmp_path: Path) -> None:
    """Also where the cache has room: a store that gets no more records would keep it from others."""
    store = Store(tmp_path / "s", Budget(1 << 20))
    for time in range(1000):
        store.add(b"a", time)
    store.commit()
    store.add(b"b", 10 * RETENTION)
    store.commit()
    assert store.rows.places == {b"b": store.rows.places[b"b"]}
    assert store.budget.clean == PLACE
