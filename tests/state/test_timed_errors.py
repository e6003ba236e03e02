"""Window and session stores: what is refused, what a restart keeps, and what a damaged store says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import StateError, StoreError, TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed, window_of
from state.engine.memory import MemoryEngine
from state.formats.keys import session_key, window_key
from state.registry.kinds import family_of, open_store, restore_of
from state.rocksdb.engine import RocksEngine
from state.row_format.record_context import Cursor
from state.windowed.segments import FACTS_KEY
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import OpenStore

S = Serdes.STRING


class Opened:
    """Opens stores on one engine, and remembers what they log and drop."""

    def __init__(self) -> None:
        self.engine: Any = MemoryEngine()
        self.logged: list[tuple[bytes, bytes | None, int]] = []
        self.dropped = 0

    def __call__(self, builder: StoreBuilder[Any, Any]) -> OpenStore:
        cursor = Cursor()
        cursor.timestamp = 1
        return open_store(
            builder,
            engine=self.engine,
            cursor=cursor,
            budget=Budget(1 << 20),
            log=lambda key, value, timestamp: self.logged.append((key, value, timestamp)),
            key_serde=S,
            value_serde=S,
            drop=self._drop,
        )

    def _drop(self, by_ms: int) -> None:
        self.dropped += 1

    def commit(self, store: OpenStore) -> None:
        store.drain()
        batch = self.engine.batch()
        store.apply(batch)
        self.engine.write(batch)
        store.applied()


@pytest.fixture
def opened() -> Opened:
    return Opened()


def windows(retention: int = 100, **options: Any) -> StoreBuilder[Any, Any]:
    return Stores.window_store_builder(Stores.persistent_window_store("w", retention, 10, **options), S, S)


def sessions(retention: int = 100, **options: Any) -> StoreBuilder[Any, Any]:
    return Stores.session_store_builder(Stores.persistent_session_store("w", retention, **options), S, S)


# ------------------------------------------------------------------------- suppliers


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Stores.persistent_window_store("w", 9, 10), "retention .9 ms. is smaller than the window .10 ms."),
        (lambda: Stores.in_memory_window_store("w", timedelta(seconds=1), 1001), "retention .1000 ms. is smaller"),
        (lambda: Stores.persistent_window_store("w", -1, 10), "retention must not be negative, got -1 ms"),
        (lambda: Stores.persistent_window_store("w", 10, -1), "window_size must not be negative"),
        (lambda: Stores.persistent_session_store("w", -5), "retention must not be negative"),
        (lambda: Stores.in_memory_session_store("w", -5), "retention must not be negative"),
        (lambda: Stores.persistent_window_store("w", 10, 10, segment_interval=0), "segment_interval must be at least"),
        (
            lambda: Stores.persistent_session_store("w", 10, segment_interval=-1),
            "segment_interval must not be negative",
        ),
        (lambda: Stores.window_store_builder(Stores.persistent_session_store("w", 1)), "window store cannot be built"),
        (lambda: Stores.session_store_builder(Stores.persistent_key_value_store("w")), "session store cannot be built"),
        (lambda: Stores.key_value_store_builder(Stores.persistent_window_store("w", 1, 1)), "cannot be built from a"),
    ],
)
def test_a_supplier_that_makes_no_sense_is_refused(make: Callable[[], Any], words: str) -> None:
    """Where it is made, naming the store."""
    with pytest.raises(TopologyError, match=words) as raised:
        make()
    assert raised.value.store == "w"


def test_a_duration_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match="store 'w': retention must be a timedelta or integer"):
        Stores.persistent_window_store("w", "1 day", 10)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------ calls


WINDOW_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.put(None, "v", 1),
    lambda store: store.put(5, "v", 1),
    lambda store: store.put("a", 5, 1),
    lambda store: store.put("a", "v", -1),
    lambda store: store.put("a", "v", 1.0),
    lambda store: store.put("a", "v", 1 << 63),
    lambda store: store.fetch(None, 1),
    lambda store: store.fetch("a", "now"),
    lambda store: store.fetch_range(None, 1, 2),
    lambda store: store.fetch_range("a", None, 2),
    lambda store: store.fetch_keys(5, "b", 1, 2),
    lambda store: store.fetch_all(None, 2),
]
SESSION_CALLS: list[Callable[[Any], Any]] = [
    lambda store: store.put(Windowed(None, Window(1, 2)), "v"),
    lambda store: store.put(Windowed("a", Window(1, 2)), 5),
    lambda store: store.put(Windowed("a", window_of((-1, 2))), "v"),
    lambda store: store.put(Windowed("a", window_of((3, 2))), "v"),
    lambda store: store.put("a", "v"),
    lambda store: store.put(("a", 5), "v"),
    lambda store: store.remove(Windowed("a", window_of((3, 2)))),
    lambda store: store.fetch(None),
    lambda store: store.fetch_session("a", None, 2),
    lambda store: store.find_sessions("a", 1, "now"),
]


@pytest.mark.parametrize(
    ("builder", "calls"),
    [(windows(), WINDOW_CALLS), (windows(retain_duplicates=True), WINDOW_CALLS), (sessions(), SESSION_CALLS)],
    ids=["windows", "duplicates", "sessions"],
)
def test_a_call_that_is_refused_leaves_the_store_as_it_was(
    opened: Opened, builder: StoreBuilder[Any, Any], calls: list[Callable[[Any], Any]]
) -> None:
    """And names it."""
    store = opened(builder)
    for call in calls:
        with pytest.raises(StoreError, match="'w'"):
            call(store.facade)
    assert not store.pending
    assert not store.rows.dirty
    assert opened.logged == []


@pytest.mark.parametrize(
    ("builder", "call", "words"),
    [
        (windows(), lambda store: store.fetch("a"), r"fetch\(\) missing 1 required positional argument: 'time'"),
        (windows(), lambda store: store.fetch("a", 1, 2), r"fetch\(\) takes 3 positional arguments but 4 were given"),
        (windows(), lambda store: store.fetch_keys("a", 1), r"fetch_keys\(\) missing .*: 'time_from' and 'time_to'"),
        (sessions(), lambda store: store.fetch(), r"fetch\(\) missing 1 required positional argument: 'key'"),
        (sessions(), lambda store: store.find_sessions("a", 1), r"find_sessions\(\) missing .*: 'latest_start'"),
    ],
)
def test_a_wrong_number_of_arguments_names_those_that_are_missing(
    opened: Opened, builder: StoreBuilder[Any, Any], call: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(TypeError, match=words):
        call(opened(builder).facade)


@pytest.mark.parametrize("timestamp", [-1, None, 1.5])
def test_a_timestamp_that_no_changelog_could_hold_is_refused(opened: Opened, timestamp: Any) -> None:
    supplier = Stores.persistent_timestamped_window_store("w", 100, 10)
    store = opened(Stores.timestamped_window_store_builder(supplier, S, S))
    with pytest.raises(StoreError, match="timestamps in ms from 0 to 2 to the 63 minus 1"):
        store.facade.put("a", ValueAndTimestamp("v", timestamp), 1)
    with pytest.raises(StoreError, match="needs ValueAndTimestamp, got 'v'"):
        store.facade.put("a", "v", 1)
    assert not store.pending


def test_late_puts_are_counted_logged_and_not_kept(opened: Opened, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning for the first, second, fourth ..."""
    store = opened(windows(100, segment_interval=10))
    store.facade.put("a", "now", 1000)
    for start in (0, 10, 20, 899):
        store.facade.put("a", "late", start)
    store.facade.put("a", "in time", 901)
    opened.commit(store)
    assert opened.dropped == 4
    assert len(opened.logged) == 6
    assert len([record for record in caplog.records if record.message.startswith("late records are dropped")]) == 3
    with store.facade.all() as rows:
        assert [(key.window.start, value) for key, value in rows] == [(901, "in time"), (1000, "now")]


def test_iterators_end_with_their_store(opened: Opened) -> None:
    store = opened(windows())
    store.facade.put("a", "v", 1)
    with store.facade.all() as rows:
        store.close()
        assert not store.facade.is_open
        with pytest.raises(StoreError, match="closed"):
            next(rows)


# --------------------------------------------------------------------------- restarts


def test_a_restart_keeps_time_interval_and_sequence(opened: Opened) -> None:
    """Also if the supplier says another interval since: the rows are where they are."""
    store = opened(windows(100, segment_interval=10, retain_duplicates=True))
    for start in (5, 50, 120):
        store.facade.put("a", str(start), start)
    opened.commit(store)
    store.facade.put("a", "not committed", 500)
    store.close()
    again = opened(windows(100, segment_interval=1000, retain_duplicates=True))
    with again.facade.fetch_range("a", 0, 1000) as rows:
        assert list(rows) == [(50, "50"), (120, "120")]
    opened.logged.clear()
    again.facade.put("a", "next", 120)
    assert opened.logged == [(window_key(b"a", 120, 4), b"next", 1)]
    with again.facade.backward_fetch_range("a", 0, 1000) as rows:
        assert list(rows) == [(120, "next"), (120, "120"), (50, "50")]


def test_a_larger_retention_shows_what_is_still_there(opened: Opened) -> None:
    """Rows that were hidden, and whose segment is not gone."""
    store = opened(windows(100, segment_interval=1000))
    for start in (5, 500):
        store.facade.put("a", str(start), start)
    opened.commit(store)
    store.close()
    with opened(windows(10_000)).facade.fetch_range("a", 0, 1000) as rows:
        assert list(rows) == [(5, "5"), (500, "500")]


def test_expired_segments_leave_the_database(tmp_path: Path, opened: Opened) -> None:
    """And the read cache."""
    builder = windows(100, segment_interval=50)
    opened.engine = RocksEngine(tmp_path, [family_of(builder)])
    store = opened(builder)
    family = opened.engine.family(family_of(builder))
    for start in range(0, 1000, 10):
        store.facade.put("a", "v", start)
        opened.commit(store)
    assert len(list(family.range(b"\0", b"\xff"))) == 15  # from 850, the segment of 990 - 100
    assert len(store.rows.clean) == 15
    store.close()
    opened.engine.close()


@pytest.mark.parametrize(
    ("builder", "key"),
    [(windows(), b"short"), (windows(), session_key(b"k", 1, 2)[:11]), (sessions(), window_key(b"a", 1))],
)
def test_a_changelog_of_another_kind_is_refused(opened: Opened, builder: StoreBuilder[Any, Any], key: bytes) -> None:
    restore = restore_of(builder, opened.engine)
    cannot = f"store 'w' cannot be restored: its changelog has a key that a {builder.kind} store cannot have"
    with pytest.raises(StateError, match=cannot):
        restore(opened.engine.batch(), [key], [b"v"], [1], [None])


def test_a_damaged_store_says_so(opened: Opened) -> None:
    batch = opened.engine.batch()
    batch.put(FACTS_KEY, b"?", opened.engine.family(family_of(windows())).handle)
    opened.engine.write(batch)
    with pytest.raises(StateError, match=r"'w' is damaged: .* has 1 bytes, not 20; stop .*`streams state rebuild w`"):
        opened(windows())


def test_a_store_with_duplicates_is_never_cached(opened: Opened) -> None:
    """As Java's: there is nothing to replace."""
    store = opened(windows(retain_duplicates=True).with_caching_enabled())
    assert not store.cached
    store.facade.put("a", "1", 5)
    store.facade.put("a", "1", 5)
    assert [key for key, _, _ in opened.logged] == [window_key(b"a", 5, 1), window_key(b"a", 5, 2)]


def test_the_largest_times_work(opened: Opened) -> None:
    """With segments of one millisecond, and a retention without end."""
    largest = (1 << 63) - 1
    for retention, interval in ((10, 1), (largest, None)):
        store = opened(windows(retention, segment_interval=interval))
        store.facade.put("a", "v", largest)
        opened.commit(store)
        assert store.facade.fetch("a", largest) == "v"
        with store.facade.fetch_keys(None, None, 0, largest) as rows:
            assert list(rows) == [(Windowed("a", Window(largest, largest)), "v")]
        store.close()
        opened.engine = MemoryEngine()
