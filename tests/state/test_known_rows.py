"""Stores of sessions and windows: what operators find of a key while known rows are forgotten, and what the cache
counts."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.windowed.known_rows import KnownRows
from state_support.store_kit import StoreKit

RETENTION = 1_000_000


class Store(StoreKit):
    """A session store, and what it must hold."""

    def __init__(
        self,
        directory: Path,
        cache_bytes: int,
        *,
        rocksdb: bool = False,
        caching: bool = False,
        old_values: bool = False,
    ) -> None:
        supplier = Stores.persistent_session_store if rocksdb else Stores.in_memory_session_store
        builder = Stores.session_store_builder(supplier("s", RETENTION), Serdes.BYTES, Serdes.STRING)
        self.expected: dict[tuple[bytes, int, int], str] = {}
        self.old_values = old_values
        super().__init__(
            builder.with_caching_enabled() if caching else builder, directory, cache_bytes=cache_bytes, log_each=False
        )

    def open(self) -> None:
        super().open()
        self.timed = self.store.operator.timed
        if self.store.cached:
            self.store.operator.on_flush(lambda *_: None, old_values=self.old_values)

    @property
    def rows(self) -> KnownRows:
        assert isinstance(self.store.rows, KnownRows)
        return self.store.rows

    def put(self, key: bytes, end: int, start: int, value: str | None) -> None:
        self.timed.put(key, end, start, value, end)
        if value is None:
            self.expected.pop((key, end, start), None)
        else:
            self.expected[key, end, start] = value

    def check(self, key: bytes, low: int, high: int) -> None:
        found = {(key, time, rest): value for key, time, rest, value, _ in self.timed.find(key, low, high)}
        rows = self.expected.items()
        assert found == {row: value for row, value in rows if row[0] == key and low <= row[1] <= high}


@pytest.mark.parametrize("cache_bytes", [0, 1500, 15_000, 1 << 20])
@pytest.mark.parametrize(("caching", "old_values"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("rocksdb", [False, True])
def test_rows_are_found_whatever_is_forgotten(
    tmp_path: Path, cache_bytes: int, caching: bool, old_values: bool, rocksdb: bool
) -> None:
    """Rows are put, replaced and deleted out of order, committed, and met by another life. A drain that reads old
    values fills the cache too."""
    draw = Random(cache_bytes)
    store = Store(tmp_path / "s", cache_bytes, rocksdb=rocksdb, caching=caching, old_values=old_values)
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
            store.abort()
        low = max(0, number - draw.randrange(500))
        for key in (b"a", b"b", b"aa", b"none"):
            store.check(key, low, low + draw.randrange(500))
    store.close_store()
    assert (store.budget.cached, store.budget.uncommitted) == (0, 0)


def test_rows_that_were_put_before_the_first_search_are_found(tmp_path: Path) -> None:
    """Those in the engine, those that wait, and those that are deleted meanwhile."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True)
    store.put(b"a", 5, 5, "in the engine")
    store.put(b"a", 6, 6, "deleted")
    store.commit()
    store.put(b"a", 7, 7, "waits")
    store.put(b"a", 6, 6, None)
    store.check(b"a", 0, 10)


def test_an_engine_is_not_read_where_all_rows_are_known(tmp_path: Path) -> None:
    """Most records of a session find none but their own, which waits in the cache."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True)
    store.check(b"a", 0, 0)
    store.put(b"a", 10, 10, "kept in the cache")
    store.commit()
    store.engine.close()
    store.check(b"b", 0, 100)
    store.check(b"a", 0, 100)


@pytest.mark.parametrize("old_values", [False, True])
def test_a_drain_asks_the_engine_for_no_row_that_is_later_than_its_rows(tmp_path: Path, old_values: bool) -> None:
    """Most sessions that end were born since the last commit."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True, caching=True, old_values=old_values)
    store.put(b"a", 10, 10, "in the engine")
    store.commit()
    store.put(b"a", 11, 10, "grown")
    store.put(b"a", 11, 10, None)
    store.put(b"a", 12, 10, "grown again")
    store.engine.close()
    store.rows.drain()
    assert len(store.rows.drained) == 1


def test_a_drain_gives_the_old_values_that_the_engine_has(tmp_path: Path) -> None:
    """Of rows in its past, also out of order, and of those that another life wrote."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True, caching=True, old_values=True)
    changes: list[tuple[str | None, str | None]] = []
    store.put(b"a", 10, 10, "first")
    store.put(b"a", 5, 5, "late")
    store.commit()
    store.restart()
    store.store.operator.on_flush(lambda key, new, old, *_: changes.append((new, old)), old_values=True)
    store.put(b"a", 10, 10, "second")
    store.put(b"a", 5, 5, None)
    store.put(b"a", 7, 7, "born")
    store.put(b"a", 7, 7, None)
    store.put(b"a", 20, 20, "new")
    store.commit()
    assert changes == [("second", "first"), (None, "late"), ("new", None)]


def test_what_expires_is_given_back_behind_rows_that_stay(tmp_path: Path) -> None:
    """A row that was noted first and lives longest held the notes of all that expired."""
    store = Store(tmp_path / "s", 1 << 20)
    store.check(b"a", 0, 0)
    store.put(b"z", RETENTION, RETENTION, "stays")
    for time in range(1, 100):
        store.put(b"a", time, time, "expires")
    store.commit()
    store.put(b"z", 2 * RETENTION - 1, 2 * RETENTION - 1, "moves the time")
    store.commit()
    assert list(store.rows.known) == [b"z"]
    assert store.budget.cached < 500


def test_known_rows_are_a_part_of_the_cache(tmp_path: Path) -> None:
    """They leave most of it for the rows themselves."""
    limit = 100_000
    store = Store(tmp_path / "s", limit)
    for time in range(5000):
        store.check(b"a", time - 1, time - 1)
        store.put(b"a", time, time, "value")
        if time % 100 == 99:
            store.commit()
    assert store.budget.cached <= limit
    assert limit // 8 < sum(len(row) + 45 for row in store.rows.known[b"a"]) <= limit // 4 + 100 * 80
    assert len(store.rows.clean) > 500
    store.check(b"a", 0, 5000)


def ten_in_the_engine(store: Store) -> None:
    """Puts ten rows of one key that are known, and of which the cache has none."""
    store.check(b"a", 0, 0)
    for time in range(10):
        store.put(b"a", time, time, "value")
    store.commit()
    store.budget.clean -= store.rows.format.size(store.rows.clean)
    store.rows.clean.clear()


def test_a_row_that_is_read_pushes_others_out_and_none_is_missed(tmp_path: Path) -> None:
    """The rows that are pushed out are among those that are about to be read."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True)
    ten_in_the_engine(store)
    store.budget.cache_limit = store.budget.clean
    store.check(b"a", 0, 20)


def test_a_drain_that_fills_the_cache_forgets_none_of_its_rows(tmp_path: Path) -> None:
    """It reads old values from the engine while its own rows are neither dirty nor drained."""
    store = Store(tmp_path / "s", 1 << 20, rocksdb=True, caching=True, old_values=True)
    ten_in_the_engine(store)
    store.put(b"a", 3, 3, "again")
    store.put(b"b", 50, 50, "not in the engine")
    store.budget.cache_limit = 100
    store.rows.drain()
    assert store.rows.drained
    store.check(b"a", 0, 100)
    store.check(b"b", 0, 100)
