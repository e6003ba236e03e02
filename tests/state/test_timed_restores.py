"""Window and session stores that are restored show what the stores showed that wrote the changelog, case by case.

The rule at random: tests/state/test_restored_equals_live.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed
from state_support.store_kit import StoreKit, restored

S = Serdes.STRING
RETENTION = 100
LATER = 1_000_000
SESSIONS = {"memory": Stores.in_memory_session_store, "rocksdb": Stores.persistent_session_store}
WINDOWS = {"memory": Stores.in_memory_window_store, "rocksdb": Stores.persistent_window_store}
Builder = StoreBuilder[Any, Any]


def sessions(engine: str, cached: bool) -> Builder:
    builder: Builder = Stores.session_store_builder(SESSIONS[engine]("s", RETENTION), S, S)
    return builder.with_caching_enabled() if cached else builder


def windows(engine: str, cached: bool, *, duplicates: bool = False) -> Builder:
    builder: Builder = Stores.window_store_builder(WINDOWS[engine]("s", RETENTION, 10, duplicates), S, S)
    return builder.with_caching_enabled() if cached else builder


def opened(builder: Builder, directory: Path, *, told: bool) -> StoreKit:
    kit = StoreKit(builder, directory / "db")
    if told:
        kit.store.operator.on_flush(lambda *change: None, old_values=True)
    return kit


def session(key: str, end: int) -> Windowed[str]:
    return Windowed(key, Window(end, end))


def shown(kit: StoreKit) -> tuple[list[Any], int]:
    """All rows, and the time of the store."""
    facade = kit.facade
    with facade.fetch_keys(None, None) if "session" in kit.builder.kind else facade.all() as rows:
        return list(rows), kit.store.operator.timed.segments.stream_time


def check_restored(kit: StoreKit, directory: Path) -> list[str]:
    """A store made from the changelog alone, and one opened on the directory, show the same; returns the keys."""
    live = shown(kit)
    other = restored(kit.builder, kit.committed, directory / "restored")
    assert shown(other) == live
    other.close()
    if kit.builder.supplier.persistent:
        kit.restart()
        assert shown(kit) == live
    kit.close()
    return [windowed.key for windowed, _ in live[0]]


FOUR = pytest.mark.parametrize(("engine", "cached"), [(e, c) for e in ("memory", "rocksdb") for c in (False, True)])
TOLD = pytest.mark.parametrize(
    ("engine", "cached", "told"),
    [(e, c, t) for e in ("memory", "rocksdb") for c in (False, True) for t in (False, True) if c or not t],
)


@TOLD
def test_removing_a_session_that_lies_ahead(engine: str, cached: bool, told: bool, tmp_path: Path) -> None:
    """The removal of a session that was never put, later than all others, was logged and did not move the time of a
    store in memory, or moved it without being logged: a restore hid what the store showed, or the other way round."""
    kit = opened(sessions(engine, cached), tmp_path, told=told)
    kit.at(5).facade.put(session("a", 5), "v")
    kit.commit()
    kit.at(6).facade.remove(session("b", LATER))
    kit.commit()
    there = not (engine == "rocksdb" or cached) or told
    assert check_restored(kit, tmp_path) == (["a"] if there else [])


@FOUR
def test_a_removed_session_is_not_logged_beside_the_cache(engine: str, cached: bool, tmp_path: Path) -> None:
    """A session that waits in a cache, later than all that was logged, was deleted on the changelog before it came."""
    kit = opened(sessions(engine, cached), tmp_path, told=False)
    kit.at(5).facade.put(session("a", 5), "v")
    kit.at(6).facade.remove(session("b", LATER))
    kit.at(7).facade.put(session("b", LATER), "w")
    kit.commit()
    assert [value for key, value, *_ in kit.logged if key.startswith(b"b")][-1] == b"w"
    assert check_restored(kit, tmp_path) == ["b"]


@TOLD
@pytest.mark.parametrize("only_deleted", [False, True])
def test_a_window_that_is_put_and_deleted_in_one_commit(
    engine: str, cached: bool, told: bool, only_deleted: bool, tmp_path: Path
) -> None:
    """A cache that forwards tells nobody of it, nor the changelog, and yet the store's time had moved: what had expired
    by that came back with a restore."""
    kit = opened(windows(engine, cached), tmp_path, told=told)
    kit.at(0).facade.put("a", "1", 0)
    kit.commit()
    if not only_deleted:
        kit.at(1000).facade.put("b", "x", LATER)
    kit.at(1000).facade.put("b", None, LATER)
    assert shown(kit) == ([], LATER), "until the commit nobody knows that it comes to nothing"
    kit.commit()
    assert check_restored(kit, tmp_path) == (["a"] if told else [])


@TOLD
def test_late_rows_of_such_a_time_are_kept(engine: str, cached: bool, told: bool, tmp_path: Path) -> None:
    """What a cache took in while it believed in a time that came to nothing is there afterwards."""
    kit = opened(windows(engine, cached), tmp_path, told=told)
    facade = kit.at(0).facade
    facade.put("a", "1", 50)
    kit.commit()
    facade.put("b", "x", LATER)
    facade.put("c", "2", 60)
    facade.put("b", None, LATER)
    kit.commit()
    assert check_restored(kit, tmp_path) == (["a", "c"] if told else [])


@FOUR
def test_the_deletion_of_duplicates_is_no_put(engine: str, cached: bool, tmp_path: Path) -> None:
    """A null put into a store that keeps duplicates is logged, and changes nothing on RocksDB; restored from it, the
    store had come to its time, and asked for one value it looked under the null's number."""
    kit = opened(windows(engine, cached, duplicates=True), tmp_path, told=False)
    kit.at(0).facade.put("a", "1", 0)
    kit.at(0).facade.put("a", None, LATER)
    kit.commit()
    one = "1" if engine == "rocksdb" else None
    assert kit.facade.fetch("a", 0) == one
    other = restored(kit.builder, kit.committed, tmp_path / "other")
    assert other.facade.fetch("a", 0) == one
    other.close()
    if engine == "rocksdb":
        kit.restart()
        assert kit.facade.fetch("a", 0) == one
    assert check_restored(kit, tmp_path) == (["a"] if engine == "rocksdb" else [])
