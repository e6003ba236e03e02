"""Window and session stores with headers (KIP-1271): what deletions log, what operators see, what bad input does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StoreError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.queries import IsolationLevel
from processor_api.stores.windowed import Window, Windowed
from state.read_views.view import open_view
from state.registry.kinds import read_only
from state_support.store_kit import StoreKit
from streams.serdes import json_serde

S = Serdes.STRING
KIN: list[tuple[str, bytes | None]] = [("h", b"1"), ("h", None)]
SESSION = Windowed("a", Window(0, 5))
ENGINES = ["rocksdb", "memory"]


def windows(engine: str = "memory", **options: Any) -> StoreBuilder[Any, Any]:
    make = Stores.in_memory_window_store
    if engine == "rocksdb":
        make = Stores.persistent_timestamped_window_store_with_headers  # type: ignore[assignment]
    value_serde = options.pop("value_serde", S)
    return Stores.timestamped_window_store_with_headers_builder(make("s", 100, 10, **options), S, value_serde)


def sessions(engine: str = "memory", **options: Any) -> StoreBuilder[Any, Any]:
    make = Stores.in_memory_session_store
    if engine == "rocksdb":
        make = Stores.persistent_session_store_with_headers  # type: ignore[assignment]
    value_serde = options.pop("value_serde", S)
    return Stores.session_store_with_headers_builder(make("s", 100, **options), S, value_serde)


def record(name: str) -> list[tuple[str, bytes | None]]:
    return [("record", name.encode())]


def headers_of(kit: StoreKit) -> list[Any]:
    return [headers for _, _, _, headers in kit.logged]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("cached", [False, True])
def test_a_deletion_is_logged_with_the_headers_of_its_record(engine: str, cached: bool, tmp_path: Path) -> None:
    """A value with its own."""
    builder = windows(engine).with_caching_enabled() if cached else windows(engine)
    kit = StoreKit(builder, tmp_path)
    kit.at(1, record("first")).facade.put("a", ValueTimestampHeaders("x", 5, KIN), 0)
    kit.facade.put("b", ValueTimestampHeaders("y", 6, []), 0)
    kit.commit()
    kit.at(2, record("second")).facade.put("a", None, 0)
    kit.at(3, record("third")).facade.put("b", ValueTimestampHeaders(None, 9, KIN), 0)
    kit.commit()
    assert headers_of(kit) == [KIN, [], record("second"), record("third")]
    kit.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_deletion_that_changes_nothing_is_logged_likewise(engine: str, tmp_path: Path) -> None:
    """Of a session that is not there, and of a window that has expired. In memory, where a removal moves no time, one
    of a session later than all others is not: it would move that of a store restored from it."""
    other = StoreKit(sessions(engine), tmp_path / "sessions")
    other.at(1, record("removed")).facade.remove(Windowed("a", Window(5, 9)))
    ahead = [] if engine == "memory" else [record("removed")]
    assert headers_of(other) == ahead
    other.at(2, KIN).facade.put(Windowed("a", Window(9, 9)), AggregationWithHeaders("x", KIN))
    other.at(3, record("again")).facade.remove(Windowed("a", Window(5, 9)))
    assert headers_of(other) == [*ahead, KIN, record("again")]
    other.close()
    late = StoreKit(windows(engine), tmp_path / "late")
    late.facade.put("a", ValueTimestampHeaders("x", 5, KIN), 1_000_000)
    late.at(1, record("late")).facade.put("a", None, 0)
    late.facade.put("b", ValueTimestampHeaders("late", 5, KIN), 0)
    assert (headers_of(late), late.dropped) == ([KIN, record("late"), KIN], 2)
    late.close()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_null_among_duplicates_is_logged_with_headers(engine: str, tmp_path: Path) -> None:
    kit = StoreKit(windows(engine, retain_duplicates=True), tmp_path)
    kit.at(1, record("null")).facade.put("a", None, 0)
    kit.facade.put("a", ValueTimestampHeaders("x", 5, KIN), 0)
    kit.facade.put("a", ValueTimestampHeaders("y", 6, []), 0)
    assert headers_of(kit) == [record("null"), KIN, []]
    with kit.facade.fetch_range("a", 0, 9) as rows:
        assert list(rows) == [(0, ValueTimestampHeaders("x", 5, KIN)), (0, ValueTimestampHeaders("y", 6, []))]
    kit.close()


@pytest.mark.parametrize("time_ordered", [False, True])
@pytest.mark.parametrize("make", [windows, sessions])
def test_operators_see_values_alone(make: Callable[..., Any], time_ordered: bool, tmp_path: Path) -> None:
    """What they put has no headers; what a cache forwards to them has values as they put them."""
    builder = make("rocksdb", time_ordered=time_ordered, value_serde=json_serde()).with_caching_enabled()
    kit = StoreKit(builder, tmp_path)
    operator = kit.store.operator
    seen: list[Any] = []
    operator.on_flush(lambda *change: seen.append(change[1:]), old_values=True)
    key, timed = operator.write_key("a"), operator.timed
    kit.at(7, KIN)
    timed.put(key, 20, 0, {"n": 1}, 7, KIN)
    kit.commit()
    timed.put(key, 20, 0, {"n": 2}, 8, record("second"))
    assert timed.get(key, 20, 0)[0] == {"n": 2}
    assert timed.get(key, 30, 0) is None
    for found in (
        timed.of_key(key, 0, 99, reverse=False),
        timed.of_keys(None, None, 0, 99, reverse=True),
        timed.of_times(0, 99, reverse=False),
    ):
        assert [row[:4] for row in found] == [(key, 20, 0, {"n": 2})]
    kit.commit()
    timed.put(key, 20, 0, None, 9, record("third"))
    kit.commit()
    assert [change[:3] for change in seen] == [({"n": 1}, None, 7), ({"n": 2}, {"n": 1}, 8), (None, {"n": 2}, 9)]
    assert headers_of(kit) == [[], [], record("third")]
    kit.close()


@pytest.mark.parametrize(
    ("make", "call", "text"),
    [
        (windows, lambda store: store.put("a", "plain", 0), "needs ValueTimestampHeaders, got 'plain'"),
        (windows, lambda store: store.put("a", ValueAndTimestamp("v", 1), 0), "needs ValueTimestampHeaders"),
        (
            windows,
            lambda store: store.put("a", ValueTimestampHeaders("v", -1, []), 0),
            "from 0 to 2 to the 63 minus 1, got -1",
        ),
        (windows, lambda store: store.put("a", ValueTimestampHeaders(5, 1, []), 0), "cannot write the value"),
        (windows, lambda store: store.put("a", ValueTimestampHeaders("v", 1, [("h", "x")]), 0), "cannot write"),
        (sessions, lambda store: store.put(SESSION, "plain"), "needs AggregationWithHeaders, got 'plain'"),
        (sessions, lambda store: store.put(SESSION, ValueAndTimestamp("v", 1)), "needs AggregationWithHeaders"),
        (sessions, lambda store: store.put(SESSION, AggregationWithHeaders(5, [])), "cannot write the value"),
        (sessions, lambda store: store.put(SESSION, AggregationWithHeaders("v", [("h", "x")])), "cannot write"),
    ],
)
def test_a_call_that_fails_names_the_store_and_changes_nothing(
    make: Callable[..., Any], call: Callable[[Any], Any], text: str, tmp_path: Path
) -> None:
    kit = StoreKit(make(), tmp_path)
    with pytest.raises(StoreError, match=text) as caught:
        call(kit.facade)
    assert caught.value.store == "s"
    assert not kit.store.pending
    assert kit.logged == []
    kit.close()


def test_a_store_that_is_only_read_is_so_however_it_is_shown(tmp_path: Path) -> None:
    kit = StoreKit(windows(), tmp_path)
    kit.facade.put("a", ValueTimestampHeaders("x", 5, KIN), 0)
    shown = read_only(kit.store, "node", "it is global").facade
    with open_view(kit.store, IsolationLevel.READ_UNCOMMITTED) as view:
        for store, refused in (
            (shown, "node 'node' can only read store 's', not write to it: it is global"),
            (view.store, "store 's' can only be read here: its task writes it"),
        ):
            assert store.fetch("a", 0) == ValueTimestampHeaders("x", 5, KIN)
            assert store.without_headers().fetch("a", 0) == ValueAndTimestamp("x", 5)
            assert store.without_timestamps().fetch("a", 0) == "x"
            for way in (store, store.without_headers(), store.without_timestamps()):
                with pytest.raises(StoreError, match=refused):
                    way.put("a", "y", 0)
    kit.close()


def test_a_supplier_of_another_kind_is_refused() -> None:
    with pytest.raises(TopologyError, match="a window store cannot be built from a session supplier"):
        Stores.timestamped_window_store_with_headers_builder(Stores.in_memory_session_store("s", 100))
    with pytest.raises(TopologyError, match="a session store cannot be built from a headers-window supplier"):
        Stores.session_store_with_headers_builder(Stores.persistent_timestamped_window_store_with_headers("s", 100, 10))
