"""A read makes room in a full cache, and forwards nothing: who reads is in the middle of its work."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.factory import Stores
from state.write_buffer.fast_path import make_get
from state.write_buffer.read_counts import checked_read
from state_support.store_kit import StoreKit

KEYS = [f"key-{number:03}" for number in range(50)]
PLAIN = Stores.key_value_store("s", Serdes.STRING, Serdes.LONG).with_caching_enabled()
BUILDERS = {
    "for ever": PLAIN,
    "by record time": PLAIN.with_time_to_live(1_000_000),
    "by access": PLAIN.with_time_to_live(1_000_000, by="access"),
}


def nothing_in_memory(kit: StoreKit) -> None:
    """The rows of all keys are in the engine alone, and the cache has room for none."""
    kit.cursor.stream_time = 1_000
    for number, key in enumerate(KEYS):
        kit.at(1_000).store.operator.put(key, number, 1_000, None)
    kit.commit()
    kit.budget.cache_limit = 1
    kit.store.rows.make_room(None)
    assert not kit.store.rows.clean


@pytest.mark.parametrize("builder", BUILDERS.values(), ids=BUILDERS.keys())
def test_a_read_of_a_full_cache_forwards_nothing(builder: StoreBuilder[Any, Any], tmp_path: Path) -> None:
    """The row that was read pushed the newer one of its key out, and what came of that was sent first."""
    kit = StoreKit(builder, tmp_path / "db")
    nothing_in_memory(kit)
    rows, forwarded = kit.store.rows, []
    rows.on_flush(lambda key, new, *_: forwarded.append((key, new)), old_values=True)
    kit.budget.cache_limit = 1 << 20
    kit.at(1_000).store.operator.put(KEYS[0], -1, 1_000, None)
    kit.budget.cache_limit = 1
    get_forwarded, logged = make_get(rows, forwarded=True), len(kit.logged)
    found = [get_forwarded(key) for key in KEYS]
    assert [entry and entry[0] for entry in found] == [*range(50)]
    assert kit.store.operator.get(KEYS[0])[0] == -1
    assert (forwarded, len(kit.logged)) == ([], logged)
    assert len(rows.clean) <= 1  # there is no room for more than the row that was read last
    kit.store.operator.put("another", 7, 1_000, None)
    assert forwarded == [(KEYS[0], -1), ("another", 7)]
    kit.close()


def test_reads_of_a_cache_full_of_uncommitted_rows_do_not_search_it_each_time(tmp_path: Path) -> None:
    """Each read would pass all rows that wait for the commit."""
    kit = StoreKit(PLAIN, tmp_path / "db")
    nothing_in_memory(kit)
    rows = kit.store.rows
    for number in range(5_000):
        kit.at(1_000).store.operator.put(f"new-{number}", number, 1_000, None)
    rows.drain()
    passed, contains = 0, rows.drained.__contains__

    class Counted(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            nonlocal passed
            passed += 1
            return contains(key)

    rows.drained = Counted(rows.drained)
    for key in KEYS:
        assert kit.store.operator.get(key) is not None
    assert passed < 20_000
    kit.close()


def test_a_drain_inside_of_a_read_is_an_error_in_these_tests(tmp_path: Path) -> None:
    """Every store of every test is checked, also in the processes that tests start."""
    assert os.environ["STREAMS_TEST_READS"]
    kit = StoreKit(PLAIN, tmp_path / "db")
    kit.at(1_000).store.operator.put("a", 1, 1_000, None)
    with pytest.raises(AssertionError, match="store 's' would forward its changes in the middle of a read"):
        checked_read(kit.store.rows.drain, kit.budget)()
    assert kit.budget.reading == 0
    kit.close()
