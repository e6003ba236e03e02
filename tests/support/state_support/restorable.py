"""Every kind of store that a changelog restores: how it is made, written at random, and looked at as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder, change_buffer_builder, join_buffer_builder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import MEMORY, ROCKSDB
from processor_api.stores.windowed import Window, Windowed
from state_support.store_kit import StoreKit

__all__ = ["KEYS", "RESTORABLE", "RETENTION", "SEGMENT", "WRITES", "Restorable", "Step", "all_of"]

S = Serdes.STRING
KEYS = ["", "a", "a\0", "b"]
RETENTION, WINDOW, GRACE, TIME_TO_LIVE, MOST_ENTRIES = 40, 10, 5, 20, 3
LAST = (1 << 63) - 1
SEGMENT = 7
CALLS = ["put"] * 6 + ["delete", "remove", "get"]
AHEAD = [0, 0, 0, 1, 1, 3, 10, 19, 20, 41, 1000, -1, -5, -9, -20, -41]
"""How far a step's time is from the latest."""
WRITES = st.tuples(
    st.sampled_from(CALLS),
    st.sampled_from(KEYS),
    st.sampled_from(["", "v", "ww"]),
    st.sampled_from(AHEAD),
    st.sampled_from([0, 1, 2, 9]),
)
"""Call, key, value, time ahead of the latest, and length of a random step."""
Builder = StoreBuilder[Any, Any]
Show = Callable[[Any, int], Any]


@dataclass(frozen=True)
class Step:
    """A write, or a read that may count as one.

    :param call: ``put``, ``delete``, ``remove`` or ``get``; a kind that has it not does what is nearest.
    :param time: of a window, the end of a session, a version or a value; the record's own is `now`.
    """

    call: str
    key: str
    value: str
    time: int
    length: int
    now: int


@dataclass(frozen=True, kw_only=True)
class Restorable:
    """A kind of store."""

    build: Callable[[bool], Builder]
    """On RocksDB or in memory."""
    write: Callable[[StoreKit, Step], Any]
    look: Callable[[StoreKit], Iterator[Any]]
    """Everything that it tells."""
    caches: bool = True
    compacts: bool = True
    """Whether the changelog has one row for each key."""


def all_of(kit: StoreKit, kind: Restorable) -> list[Any]:
    """Everything that a store tells while no record is in work."""
    saved = kit.cursor.timestamp, kit.cursor.headers
    kit.cursor.leave()
    try:
        return list(kind.look(kit))
    finally:
        kit.cursor.timestamp, kit.cursor.headers = saved


def rows_of(rows: Any) -> list[Any]:
    with rows:
        return list(rows)


# ---------------------------------------------------------------------- key-value stores


def _alone(value: Any, time: int) -> Any:
    return value


def _headed(value: Any, time: int) -> Any:
    return ValueTimestampHeaders(value, time, [("h", b"%d" % time), ("streams.accessed", b"%08d" % time)][: time % 3])


def _put_key_value(show: Show) -> Callable[[StoreKit, Step], Any]:
    def write(kit: StoreKit, step: Step) -> Any:
        store = kit.facade
        match step.call:
            case "get":
                return store.get(step.key)
            case "delete":
                return store.put(step.key, None)
            case "remove":
                return store.delete(step.key)
        return store.put(step.key, show(step.value, step.time))

    return write


def _look_at_key_value(kit: StoreKit) -> Iterator[Any]:
    store = kit.facade
    yield rows_of(store.all())
    yield rows_of(store.reverse_all())
    yield rows_of(store.range("a", "a\0"))
    yield rows_of(store.prefix_scan("a"))
    if "lru" not in kit.builder.kind:
        yield [store.get(key) for key in KEYS]


KEY_VALUE: dict[str, tuple[Any, Show]] = {
    "plain": (Stores.key_value_store_builder, _alone),
    "timestamped": (Stores.timestamped_key_value_store_builder, ValueAndTimestamp),
    "headers": (Stores.timestamped_key_value_store_with_headers_builder, _headed),
}


def _key_value(name: str, by: str | None = None) -> Restorable:
    make, show = KEY_VALUE[name]

    def build(rocksdb: bool) -> Builder:
        supplier = Stores.persistent_key_value_store("s") if rocksdb else Stores.in_memory_key_value_store("s")
        builder: Builder = make(supplier, S, S)
        return builder if by is None else builder.with_time_to_live(TIME_TO_LIVE, by)

    return Restorable(build=build, write=_put_key_value(show), look=_look_at_key_value)


def _lru(name: str) -> Restorable:
    make, show = KEY_VALUE[name]

    def write(kit: StoreKit, step: Step) -> Any:
        """Which key was read last is in memory only."""
        return None if step.call in ("get", "remove") else _put_key_value(show)(kit, step)

    return Restorable(
        build=lambda rocksdb: make(Stores.lru_map("s", MOST_ENTRIES), S, S),
        write=write,
        look=_look_at_key_value,
        caches=False,
    )


def _write_list(kit: StoreKit, step: Step) -> Any:
    return kit.facade.put(step.key, step.value if step.call == "put" else None)


def _look_at_list(kit: StoreKit) -> Iterator[Any]:
    yield rows_of(kit.facade.all())
    yield [kit.facade.get(key) for key in KEYS]


def _list() -> Restorable:
    def build(rocksdb: bool) -> Builder:
        supplier = Stores.persistent_list_store("s") if rocksdb else Stores.in_memory_list_store("s")
        return Stores.list_store_builder(supplier, S, S)

    return Restorable(build=build, write=_write_list, look=_look_at_list, caches=False)


# ---------------------------------------------------------------------- windows and sessions


def _times(kit: StoreKit) -> Any:
    segments = kit.store.operator.timed.segments
    return segments.stream_time, segments.live_from, segments.dropped_before


def _window(make: Any, show: Show, *, ordered: bool = False, duplicates: bool = False) -> Restorable:
    def build(rocksdb: bool) -> Builder:
        if rocksdb:
            supplier = Stores.persistent_window_store(
                "s", RETENTION, WINDOW, duplicates, segment_interval=SEGMENT, time_ordered=ordered
            )
        else:
            supplier = Stores.in_memory_window_store("s", RETENTION, WINDOW, duplicates, time_ordered=ordered)
        return make(supplier, S, S)  # type: ignore[no-any-return]

    def write(kit: StoreKit, step: Step) -> Any:
        if step.call == "get":
            return kit.facade.fetch(step.key, step.time)
        return kit.facade.put(step.key, show(step.value, step.now) if step.call == "put" else None, step.time)

    def look(kit: StoreKit) -> Iterator[Any]:
        store, (time, live_from, _) = kit.facade, _times(kit)
        yield time, live_from
        yield rows_of(store.all())
        yield rows_of(store.backward_all())
        yield rows_of(store.fetch_all(time - 20, time - 3))
        for key in KEYS:
            yield rows_of(store.fetch_range(key, 0, LAST))
            yield [store.fetch(key, at) for at in range(max(live_from - 2, 0), time + 1)]

    return Restorable(build=build, write=write, look=look, caches=not duplicates)


def _session(make: Any, show: Show, *, ordered: bool = False) -> Restorable:
    def build(rocksdb: bool) -> Builder:
        if rocksdb:
            supplier = Stores.persistent_session_store("s", RETENTION, segment_interval=SEGMENT, time_ordered=ordered)
        else:
            supplier = Stores.in_memory_session_store("s", RETENTION, time_ordered=ordered)
        return make(supplier, S, S)  # type: ignore[no-any-return]

    def write(kit: StoreKit, step: Step) -> Any:
        start = max(step.time - step.length, 0)
        session = Windowed(step.key, Window(start, step.time))
        match step.call:
            case "get":
                return kit.facade.fetch_session(step.key, start, step.time)
            case "remove":
                return kit.facade.remove(session)
            case "delete":
                return kit.facade.put(session, None)
        return kit.facade.put(session, show(step.value, step.now))

    def look(kit: StoreKit) -> Iterator[Any]:
        store, (time, live_from, _) = kit.facade, _times(kit)
        yield time, live_from
        yield rows_of(store.fetch_keys(None, None))
        yield rows_of(store.backward_fetch_keys(None, None))
        yield rows_of(store.find_sessions_by_end(time - 20, time - 3))
        yield [rows_of(store.find_sessions(key, time - 20, time)) for key in KEYS]

    return Restorable(build=build, write=write, look=look)


def _aggregate(value: Any, time: int) -> Any:
    return AggregationWithHeaders(value, [("h", b"%d" % time)])


# ---------------------------------------------------------------------- versions and buffers


def _versioned(retention: int = RETENTION) -> Restorable:
    def build(rocksdb: bool) -> Builder:
        make = Stores.persistent_versioned_key_value_store if rocksdb else Stores.in_memory_versioned_key_value_store
        return Stores.versioned_key_value_store_builder(make("s", retention, segment_interval=SEGMENT), S, S)

    def write(kit: StoreKit, step: Step) -> Any:
        if step.call == "get":
            return kit.facade.get(step.key)
        if step.call == "remove":
            return kit.facade.delete(step.key, step.time)
        return kit.facade.put(step.key, step.value if step.call == "put" else None, step.time)

    def look(kit: StoreKit) -> Iterator[Any]:
        store, time = kit.facade, kit.store.participants[0].stream_time  # type: ignore[attr-defined]
        yield time
        yield rows_of(store.range())
        yield rows_of(store.range_versions())
        for key in KEYS:
            yield store.get(key)
            yield [store.get(key, at) for at in range(max(time - RETENTION - 10, 0), time + 2)]
            yield rows_of(store.backward_versions(key))

    return Restorable(build=build, write=write, look=look, caches=False, compacts=False)


def _look_at_buffer(kit: StoreKit) -> Iterator[Any]:
    """Also at its rows, which say what will leave with which context."""
    buffer, view = kit.store.operator, kit.facade
    yield view.num_records(), view.buffer_size(), view.min_timestamp(), buffer.index.stream_time
    yield [(key, value) for key, (value, *_) in buffer.rows.range(b"\x00", b"\xff", reverse=False)]
    if hasattr(buffer, "prior_value_for_buffered"):
        yield [buffer.prior_value_for_buffered(key) for key in KEYS]


def _evicted(kit: StoreKit, most: int) -> list[Any]:
    left: list[Any] = []
    kit.store.operator.evict_while(lambda: len(left) < most, lambda *record: left.append(record))
    return left


def _write_changes(kit: StoreKit, step: Step) -> Any:
    if step.call in ("put", "get"):
        return kit.store.operator.put(step.time, step.key, (step.value, None), step.now, kit.cursor.headers)
    return _evicted(kit, step.length)


def _write_joins(kit: StoreKit, step: Step) -> Any:
    if step.call in ("put", "get"):
        return kit.store.operator.put(step.key, step.value, step.time, kit.cursor.headers)
    return _evicted(kit, step.length)


def _engine(rocksdb: bool) -> str:
    return ROCKSDB if rocksdb else MEMORY


def _suppress(*, headers: bool = False) -> Restorable:
    return Restorable(
        build=lambda rocksdb: change_buffer_builder("s", S, S, engine=_engine(rocksdb), headers=headers),
        write=_write_changes,
        look=_look_at_buffer,
        caches=False,
    )


RESTORABLE: dict[str, Restorable] = {
    **{name: _key_value(name) for name in KEY_VALUE},
    **{f"{name} by {by}": _key_value(name, by) for name in KEY_VALUE for by in ("record_time", "access")},
    "lru": _lru("plain"),
    "timestamped lru": _lru("timestamped"),
    "list": _list(),
    "window": _window(Stores.window_store_builder, _alone),
    "timestamped window": _window(Stores.timestamped_window_store_builder, ValueAndTimestamp),
    "window with headers": _window(Stores.timestamped_window_store_with_headers_builder, _headed),
    "window by time": _window(Stores.window_store_builder, _alone, ordered=True),
    "window with duplicates": _window(Stores.window_store_builder, _alone, duplicates=True),
    "window by time with duplicates": _window(Stores.window_store_builder, _alone, ordered=True, duplicates=True),
    "session": _session(Stores.session_store_builder, _alone),
    "timestamped session": _session(Stores.timestamped_session_store_builder, ValueAndTimestamp),
    "session with headers": _session(Stores.session_store_with_headers_builder, _aggregate),
    "session by time": _session(Stores.session_store_builder, _alone, ordered=True),
    "versioned": _versioned(),
    "versioned without history": _versioned(0),
    "suppress": _suppress(),
    "suppress with headers": _suppress(headers=True),
    "join": Restorable(
        build=lambda rocksdb: join_buffer_builder("s", GRACE, S, S, engine=_engine(rocksdb)),
        write=_write_joins,
        look=_look_at_buffer,
        caches=False,
    ),
}
