"""Stores that keep duplicates: what operators find of a key while places are forgotten, and what the cache counts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from processor_api.errors import StateError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.windowed.appended_rows import PLACE_BYTES, AppendedRows
from state_support.store_kit import StoreKit

RETENTION, SIZE = 100_000, 1000
PLACE = PLACE_BYTES + 1
"""What a row of a key of one letter takes of the cache once it is committed."""


class Store(StoreKit):
    """A store that keeps duplicates, and what it must hold."""

    def __init__(self, directory: Path, cache_bytes: int, *, rocksdb: bool = False) -> None:
        supplier = Stores.persistent_window_store if rocksdb else Stores.in_memory_window_store
        builder = Stores.window_store_builder(
            supplier("s", RETENTION, SIZE, retain_duplicates=True), Serdes.BYTES, Serdes.STRING
        )
        self.all: list[tuple[bytes, int, str]] = []
        super().__init__(builder, directory, cache_bytes=cache_bytes)

    @property
    def rows(self) -> AppendedRows:
        assert isinstance(self.store.rows, AppendedRows)
        return self.store.rows

    def add(self, key: bytes, time: int) -> None:
        value = f"value {len(self.all)}"
        self.store.operator.add(key, time, value, time, None)
        self.all.append((key, time, value))

    def found(self, key: bytes, low: int, high: int) -> list[tuple[int, str]]:
        return [(time, value) for _, time, _, value, _ in self.store.operator.timed.find(key, low, high)]

    def expected(self, key: bytes, low: int, high: int) -> list[tuple[int, str]]:
        rows = [(time, value) for known, time, value in self.all if known == key and low <= time <= high]
        return sorted(rows, key=lambda row: row[0])


@pytest.mark.parametrize("cache_bytes", [0, 10 * PLACE, 100 * PLACE, 1 << 20])
@pytest.mark.parametrize("rocksdb", [False, True])
def test_rows_are_found_whatever_is_forgotten(tmp_path: Path, cache_bytes: int, rocksdb: bool) -> None:
    """Records that come out of order, commits, and openings on what an earlier life wrote."""
    draw, store = Random(cache_bytes), Store(tmp_path / "s", cache_bytes, rocksdb=rocksdb)
    for number in range(600):
        time = max(0, number - draw.choice([0, 0, 0, 1, 50, 300]))
        store.add(draw.choice([b"a", b"a", b"b", b"aa"]), time)
        if draw.random() < 0.02:
            store.commit()
        if draw.random() < 0.01:
            store.commit()
            store.abort()
        low = max(0, number - draw.randrange(500))
        for key in (b"a", b"b", b"aa", b"none"):
            high = low + draw.randrange(500)
            assert store.found(key, low, high) == store.expected(key, low, high)
    store.close_store()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


def test_a_row_that_waits_is_found_when_later_ones_were_forgotten(tmp_path: Path) -> None:
    """It is in no engine, so its place stays; its time does not count."""
    store = Store(tmp_path / "s", 2 * PLACE)
    store.add(b"a", 500)
    store.add(b"a", 600)
    store.commit()
    store.budget.cache_limit = PLACE
    store.add(b"a", 100)
    store.add(b"a", 700)
    store.rows.evict()
    assert store.found(b"a", 0, 1000) == store.expected(b"a", 0, 1000)
    store.commit()
    assert store.rows.complete_from > 500
    store.add(b"a", 200)
    store.add(b"a", 800)
    assert store.found(b"a", 0, 1000) == store.expected(b"a", 0, 1000)


def test_places_are_part_of_the_cache(tmp_path: Path) -> None:
    """What is committed is kept up to the limit; the rows themselves are in the engine."""
    store = Store(tmp_path / "s", 1000 * PLACE)
    for time in range(5000):
        store.add(b"a", time)
        if time % 100 == 99:
            store.commit()
    assert 900 * PLACE <= store.budget.clean <= 1000 * PLACE
    known = store.rows.places[b"a"]
    assert isinstance(known, list)
    assert len(known) * PLACE == store.budget.clean
    assert 4000 <= store.rows.complete_from < 4200


def test_an_engine_is_not_read_where_all_places_are_known(tmp_path: Path) -> None:
    """Most records of a join have no partner: no seek in the engine says so."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True)
    store.add(b"a", 10)
    store.commit()
    store.engine.close()
    assert store.found(b"b", 0, 100) == []
    assert store.found(b"a", 11, 100) == []
    with pytest.raises(StateError):
        store.found(b"a", 0, 100)


def test_the_places_of_many_keys_are_forgotten_in_the_order_of_their_commits(tmp_path: Path) -> None:
    """A commit of more rows than are forgotten together, some of them late."""
    store, draw = Store(tmp_path / "s", 2500 * PLACE), Random(1)
    for number in range(10_000):
        store.add(b"%c" % draw.randrange(65, 91), max(0, number - draw.choice([0, 0, 0, 2000])))
        if number % 2300 == 2299:
            store.commit()
        if number % 100 == 99:
            low, key = max(0, number - draw.randrange(4000)), b"%c" % draw.randrange(65, 91)
            assert store.found(key, low, number) == store.expected(key, low, number)
    store.commit()
    kept = sum(len(known) if isinstance(known, list) else 1 for known in store.rows.places.values())
    assert kept * PLACE <= store.budget.clean <= 2500 * PLACE
    assert 0 < store.rows.complete_from <= 9000
    store.close_store()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


@pytest.mark.parametrize("rows", [1, 7, 60])
def test_places_of_small_commits_are_forgotten_too(tmp_path: Path, rows: int) -> None:
    """Of a store that commits after few rows, by their expiry and by the limit of the cache."""
    store = Store(tmp_path / "s", 200 * PLACE)
    for number in range(1000):
        store.add(b"%c" % (65 + number % 5), number * 1000)
        if number % rows == 0:
            store.commit()
            assert store.budget.clean <= 200 * PLACE
        low = max(0, number - 30) * 1000
        for key in (b"A", b"C"):
            assert store.found(key, low, number * 1000) == store.expected(key, low, number * 1000)
    store.commit()
    kept = [place for known in store.rows.places.values() for place in (known if isinstance(known, list) else [known])]
    assert 50 <= len(kept) <= store.budget.clean // PLACE <= 200
    store.close_store()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


def test_expired_places_are_forgotten(tmp_path: Path) -> None:
    """Also where the cache has room: a store that gets no more records would keep it from others."""
    store = Store(tmp_path / "s", 1 << 20)
    for time in range(1000):
        store.add(b"a", time)
    store.commit()
    store.add(b"b", 10 * RETENTION)
    store.commit()
    assert store.rows.places == {b"b": store.rows.places[b"b"]}
    assert store.budget.clean == PLACE
