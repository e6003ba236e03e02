"""Draining a cache: what the one who gets a change sees, what a failure leaves, and what evicting costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ProductionError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from state.engine.memory import MemoryEngine
from state.registry.kinds import open_store
from state.row_format.record_context import Cursor
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import make_put
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

Log = Callable[[bytes, "bytes | None", int], None]


def opened(budget: Budget, log: Log | None = None, *, caching: bool = True, log_each: bool = False) -> OpenStore:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), Serdes.STRING, Serdes.LONG)
    return open_store(
        builder.with_caching_enabled() if caching else builder,
        engine=MemoryEngine(),  # type: ignore[arg-type]
        cursor=Cursor(),
        budget=budget,
        log=log,
        log_each=log_each,
        key_serde=Serdes.STRING,
        value_serde=Serdes.LONG,
    )


def commit(rows: Rows) -> None:
    rows.drain()
    batch = rows.shared.engine.batch()
    rows.apply(batch)
    rows.shared.engine.write(batch)
    rows.applied()


@pytest.mark.parametrize("caching", [False, True])
def test_deletions_are_logged_last_and_forwarded_in_order(caching: bool) -> None:
    """A process that is killed in between must not leave a deletion without the row that took the place of another."""
    logged, forwarded = [], []
    store = opened(
        Budget(1 << 20 if caching else 0), lambda key, value, time: logged.append((key, value is None)), caching=caching
    )
    if caching:
        store.operator.on_flush(lambda key, new, old, time, headers: forwarded.append((key, new, old)), old_values=True)
    for number, key in enumerate("abc"):
        store.operator.put(key, number, 0, None)
    commit(store.rows)
    logged.clear(), forwarded.clear()
    store.operator.put("a", None, 1, None)
    store.operator.put("d", 7, 1, None)
    store.operator.put("b", None, 1, None)
    store.operator.put("c", 8, 1, None)
    commit(store.rows)
    assert logged == [(b"d", False), (b"c", False), (b"a", True), (b"b", True)]
    if caching:
        assert forwarded == [("a", None, 0), ("d", 7, None), ("b", None, 1), ("c", 8, 2)]
    assert [store.facade.get(key) for key in "abcd"] == [None, None, 8, 7]


@pytest.mark.parametrize("by", ["put", "miss"])
def test_a_cache_that_was_made_smaller_evicts_with_the_next_record(by: str) -> None:
    """Its part of the memory is less once there are more threads, or more once there are fewer."""
    budget = Budget(1 << 20)
    store = opened(budget)
    for number in range(200):
        store.operator.put(f"key-{number}", number, 0, None)
    commit(store.rows)
    store.rows.clean.pop("key-7")
    size, budget.cache_limit = budget.clean, 2000
    assert size > 5000
    if by == "put":
        store.operator.put("another", 1, 0, None)
    else:
        assert store.facade.get("key-7") == 7
    assert budget.cached <= 2000
    budget.cache_limit = 1 << 20
    for number in range(200):
        assert store.facade.get(f"key-{number}") == number
    assert len(store.rows.clean) >= 199


def test_a_full_cache_drops_the_oldest_and_keeps_what_waits_and_what_is_read() -> None:
    budget = Budget(1 << 20)
    store = opened(budget)
    rows = store.rows
    for number in range(100):
        store.operator.put(f"key-{number:02}", number, 0, None)
    commit(rows)
    one = budget.clean // 100
    store.operator.put("key-03", -1, 0, None)
    rows.drain()
    budget.cache_limit = 50 * one
    rows.evict("key-01")
    kept = list(rows.clean)
    assert kept[:-2] == [f"key-{number:02}" for number in range(100 - len(kept) + 2, 100)]
    assert kept[-2:] == ["key-03", "key-01"]
    assert len(kept) == 50 - 50 // 16 - 1  # a sixteenth more than has to go
    assert budget.clean == rows.format.size(rows.clean)


def test_whoever_gets_a_change_finds_the_others_in_the_store() -> None:
    """Changes that waited in the same drain were neither in the cache nor below it, so that reads gave older values."""
    store = opened(Budget(1 << 20))
    seen: list[Any] = []

    def look(key: str, *_: Any) -> None:
        seen.append((key, store.facade.get("a"), store.facade.get("b")))

    store.rows.on_flush(look, old_values=False)
    for value in (1, 2):
        store.operator.put("a", value, 0, None)
        store.operator.put("b", value, 0, None)
        commit(store.rows)
    assert seen == [("a", 1, 1), ("b", 1, 1), ("a", 2, 2), ("b", 2, 2)]


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_what_is_put_during_a_drain_is_logged_last(limit: int) -> None:
    """With a full cache the newer value was logged at once, and the older one after it."""
    logged: dict[bytes, bytes | None] = {}
    store = opened(Budget(limit), lambda key, value, _: logged.__setitem__(key, value))

    def copy_to_b(key: str, value: int, *_: Any) -> None:
        if key == "a":
            store.operator.put("b", value + 10, 0, None)

    store.rows.on_flush(copy_to_b, old_values=False)
    store.operator.put("a", 1, 0, None)
    store.operator.put("b", 1, 0, None)
    while store.rows.dirty:
        commit(store.rows)
    found = store.facade.get("b")
    assert logged[b"b"] == Serdes.LONG.serialize(found)
    assert found == (1 if limit == 1 else 11)  # a full cache has forwarded "a" before "b" was put


@pytest.mark.parametrize("rows", [0, 3])
def test_a_full_cache_that_cannot_be_logged_says_why(rows: int) -> None:
    """It tried again and again to make room, until the stack was full, and the thread died of that."""
    tries = 0

    def refuse(*_: Any) -> None:
        nonlocal tries
        tries += 1
        raise ProductionError("fenced")

    budget = Budget(1 << 20)
    store = opened(budget, refuse)
    for number in range(rows):
        store.operator.put(f"key-{number}", number, 0, None)
    budget.cache_limit = 1
    with pytest.raises(ProductionError, match="fenced"):
        store.operator.put("another", 7, 0, None)
    assert tries == 1
    assert len(store.rows.dirty) == rows + 1
    assert budget.dirty == store.rows.format.size(store.rows.dirty)


@pytest.mark.parametrize("fails_at", [1, 2, 3])
@pytest.mark.parametrize("what", ["log", "callback"])
def test_a_drain_that_fails_leaves_the_budget_right(what: str, fails_at: int) -> None:
    """Rows on their way were counted for ever, and each abort made the cache of the thread smaller."""
    count = 0

    def fail(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == fails_at:
            raise ProductionError("fenced")

    budget = Budget(1 << 20)
    store = opened(budget, fail if what == "log" else None)
    if what == "callback":
        store.rows.on_flush(fail, old_values=True)
    for key in "abc":
        store.operator.put(key, 1, 0, None)
    with pytest.raises(ProductionError, match="fenced"):
        store.rows.drain()
    held = [*store.rows.clean.items(), *store.rows.dirty.items()]
    assert sorted(key for key, _ in held) == ["a", "b", "c"]
    assert budget.cached == sum(store.rows.format.cost(key, entry[0]) for key, entry in held)
    store.close()
    assert (budget.cached, budget.uncommitted) == (0, 0)


@pytest.mark.parametrize(("caching", "log_each"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("limit", [0, 1, 20_000])
def test_a_cache_full_of_uncommitted_rows_is_not_searched_at_each_put(
    limit: int, caching: bool, log_each: bool
) -> None:
    """Each put passed all rows that wait for the commit: ten thousand keys took seconds."""
    store = opened(Budget(limit), caching=caching, log_each=log_each)
    rows = store.rows
    passed = 0

    class Counted(dict[str, Any]):
        def items(self) -> Any:
            nonlocal passed
            passed += len(self)
            return super().items()

    counted = Counted()
    rows.clean = counted
    put = make_put(rows)
    count = 5000
    for number in range(count):
        put(f"key-{number}", number, 0, None)
    assert passed < 20 * count
    commit(rows)
    assert rows.budget.cached <= limit
    assert rows.budget.uncommitted == 0
