"""A range that another thread reads takes the rows of the buffer that lie in it, and no others; and it lacks none."""

from __future__ import annotations

import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.clock import SystemClock
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from state.read_views.index import COPIED_AT_LEAST, SORTED_AT_ONCE, SORTED_BY_A_READ, LiveIndex, SortedRuns
from state.read_views.snapshots import SnapshotSource, families_shown
from state.read_views.view import open_view
from state.write_buffer.shared_rows import WATCHED_COMMITS
from state_support.store_kit import StoreKit

UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
STRING, LONG = Serdes.STRING, Serdes.LONG
LEAST_READS, DEADLINE_S = 60, 60.0


def builder(*, cached: bool = False) -> StoreBuilder[Any, Any]:
    found = Stores.key_value_store_builder(Stores.in_memory_key_value_store("s"), STRING, LONG)
    return found.with_caching_enabled() if cached else found


@given(st.lists(st.lists(st.binary(max_size=3))), st.binary(max_size=3), st.binary(max_size=3))
def test_runs_have_what_was_added(added: list[list[bytes]], low: bytes, high: bytes) -> None:
    runs = SortedRuns()
    for keys in added:
        runs.add(keys)
    every = sorted(itertools.chain(*added))
    assert sorted(runs.between((None, None))) == every
    assert sorted(runs.between((low, high))) == [key for key in every if low <= key < high]
    assert runs.count((low, None)) == len([key for key in every if key >= low])
    lengths = [len(run) for run in runs._runs]
    assert all(longer >= 2 * shorter for longer, shorter in itertools.pairwise(lengths))


def key(number: int) -> str:
    return f"key-{number:06}"


def taken(kit: StoreKit, index: LiveIndex, low: int, high: int) -> list[set[str]] | None:
    """The keys of the parts of the buffer that were copied."""
    rows, views = kit.store.rows, kit.store.views
    source = SnapshotSource(rows.name, rows.shared.engine, views, families_shown(rows.family))
    found = index.take(source, [(key(low).encode(), key(high).encode())])
    return None if found is None else [set(part) for part in (found.uncommitted.dirty, found.uncommitted.drained)]


@pytest.mark.parametrize("log_each", [False, True])
def test_no_more_is_copied_than_lies_in_the_range(log_each: bool, tmp_path: Path) -> None:
    """All rows that waited for the commit were, and sorted: 3 ms for 20,000, during which no other thread ran."""
    count = SORTED_AT_ONCE * SORTED_BY_A_READ + 5000  # more than the first read puts in order
    kit = StoreKit(builder(), tmp_path, log_each=log_each)
    numbers = list(range(0, 2 * count, 2))
    random.Random(1).shuffle(numbers)
    for number in numbers:
        kit.facade.put(key(number), number)
    index = LiveIndex(kit.store.rows.shared)
    wanted = {key(number) for number in range(1000, 1100, 2)}
    for _ in range(3):
        parts = taken(kit, index, 1000, 1100)
        assert parts is not None
        assert set().union(*parts) == wanted
    kit.facade.put(key(1001), 1)
    kit.facade.put(key(1002), 2)
    kit.facade.delete(key(1004))
    kit.store.drain()
    kit.facade.put(key(1005), 3)
    parts = taken(kit, index, 1000, 1100)
    assert parts is not None
    assert set().union(*parts) == wanted | {key(1001), key(1005)}
    assert len(index._runs._runs) < 20
    kit.commit()
    kit.facade.put(key(1007), 3)
    assert taken(kit, index, 1000, 1100) == ([set(), {key(1007)}] if log_each else [{key(1007)}, set()])
    kit.close()


def test_a_range_of_most_of_the_buffer_is_a_copy(tmp_path: Path) -> None:
    kit = StoreKit(builder(), tmp_path)
    for number in range(3 * COPIED_AT_LEAST):
        kit.facade.put(key(number), number)
    index = LiveIndex(kit.store.rows.shared)
    assert taken(kit, index, 0, 2 * COPIED_AT_LEAST) is None
    assert taken(kit, index, 0, COPIED_AT_LEAST) is not None
    kit.close()


def test_keys_are_noted_only_while_somebody_reads_ranges(tmp_path: Path) -> None:
    kit = StoreKit(builder(), tmp_path)
    kit.facade.put("a", 1)
    assert kit.store.rows.shared.uncommitted.fresh is None
    with open_view(kit.store, UNCOMMITTED) as view:
        assert view.store.get("a") == 1
        assert kit.store.rows.shared.uncommitted.fresh is None
        assert list(view.store.range("a", "b")) == [("a", 1)]
    for _ in range(WATCHED_COMMITS):
        assert kit.store.rows.shared.uncommitted.fresh is not None
        kit.facade.put("b", 1)
        kit.commit()
    assert kit.store.rows.shared.uncommitted.fresh is None
    kit.facade.put("c", 1)
    with open_view(kit.store, UNCOMMITTED) as view:
        assert list(view.store.range("b", "c")) == [("b", 1), ("c", 1)]
    kit.close()


KINDS: dict[
    str, tuple[Callable[[], StoreBuilder[Any, Any]], Callable[[Any, int], None], Callable[[Any], list[int]]]
] = {
    "key-value": (
        builder,
        lambda store, number: store.put(key(number), number),
        lambda store: [number for _, number in store.range(key(0), key(10**6))],
    ),
    "cached key-value": (
        lambda: builder(cached=True),
        lambda store, number: store.put(key(number), number),
        lambda store: [number for _, number in store.prefix_scan("key-0", STRING)],
    ),
    "by access": (
        lambda: Stores.timestamped_key_value_store_builder(
            Stores.persistent_timestamped_key_value_store("s"), STRING, LONG
        ).with_time_to_live(10**9, by="access"),
        lambda store, number: store.put(key(number), _stamped(number)),
        lambda store: [found.value for _, found in store.range(key(0), key(10**6))],
    ),
    "window": (
        lambda: Stores.window_store_builder(Stores.in_memory_window_store("s", 10**9, 1), STRING, LONG),
        lambda store, number: store.put("k", number, number),
        lambda store: [start for start, _ in store.fetch_range("k", 0, 10**6)],
    ),
    "versioned": (
        lambda: Stores.versioned_key_value_store_builder(
            Stores.in_memory_versioned_key_value_store("s", 10**9), STRING, LONG
        ),
        lambda store, number: store.put(key(number), number, number),
        lambda store: [found.value for _, found in store.range(key(0), key(10**6))],
    ),
}


def _stamped(number: int) -> Any:
    return ValueAndTimestamp(number, number)


@pytest.fixture
def _threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_threads_change_often")
@pytest.mark.parametrize("log_each", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_range_shows_what_was_put_until_a_moment(kind: str, log_each: bool, tmp_path: Path) -> None:
    """Rows are put in order of their keys, in commits of all sizes: none is missing before one that is there, and a row
    that was there when a read began is in it."""
    make, put, read = KINDS[kind]
    kit = StoreKit(make(), tmp_path, log_each=log_each)
    last = [0]
    wrong: list[str] = []
    reads = [0, 0]
    ended = threading.Event()

    def look(place: int) -> None:
        with open_view(kit.store, UNCOMMITTED) as view:
            while not ended.is_set() and not wrong:
                least = last[0]
                found = read(view.store)
                if found != list(range(1, len(found) + 1)) or len(found) < least:
                    wrong.append(f"{len(found)} rows after {least}: {found[-3:]}")
                reads[place] += 1

    threads = [threading.Thread(target=look, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    clock = SystemClock()
    deadline = clock.monotonic() + DEADLINE_S
    chance = random.Random(7)
    while (last[0] < 1500 or min(reads) < LEAST_READS) and not wrong and clock.monotonic() < deadline:
        facade = kit.at(last[0] + 1).facade
        for number in range(last[0] + 1, last[0] + 1 + chance.choice([1, 3, 30, 200])):
            put(facade, number)
            last[0] = number
            if chance.random() < 0.02:
                kit.store.drain()
        kit.commit()
        if last[0] > 20_000:
            break
    ended.set()
    for thread in threads:
        thread.join(30)
    kit.close()
    assert not wrong
    assert min(reads) > 0
