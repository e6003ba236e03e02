"""Kinds of store for tests of reads: how each is made, and random puts and reads of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.windowed import Window, Windowed

__all__ = ["CASES", "Case", "Read", "keyed", "result"]

Read = tuple[str, tuple[Any, ...]]
"""A call and its arguments."""
Draw = Callable[[Any], Any]

STRING = Serdes.STRING
KEYS = st.sampled_from(["", "a", "a\0", "ab", "b", "é", "zz"])
BOUNDS = st.one_of(st.none(), KEYS)
VALUES = st.text(max_size=3)
OR_NOTHING = st.one_of(st.none(), VALUES)
TIMES = st.integers(0, 120)
RETENTION, WINDOW = 40, 10
LAST = (1 << 63) - 1


@dataclass(frozen=True)
class Case:
    """A kind of store on one engine."""

    builder: Callable[[], StoreBuilder[Any, Any]]
    put: Callable[[Draw], Read]
    read: Callable[[Draw], Read]
    caches: bool = True


def result(store: Any, read: Read) -> Any:
    """What a read gives; of an iterator all rows."""
    found = getattr(store, read[0])(*read[1])
    return list(found) if hasattr(found, "close") else found


def keyed(store: Any, read: Read) -> Any:
    """The same for a key-value store without a `get`, which would change the order of an LRU map."""
    return dict(store.all()).get(read[1][0]) if read[0] == "get" else result(store, read)


# ---------------------------------------------------------------------- puts


def _put_kv(show: Callable[[Any, int], Any]) -> Callable[[Draw], Read]:
    def put(draw: Draw) -> Read:
        value = draw(OR_NOTHING)
        return "put", (draw(KEYS), None if value is None else show(value, draw(TIMES)))

    return put


def _put_list(draw: Draw) -> Read:
    return "put", (draw(KEYS), draw(OR_NOTHING))


def _put_window(show: Callable[[Any, int], Any]) -> Callable[[Draw], Read]:
    def put(draw: Draw) -> Read:
        value, time = draw(OR_NOTHING), draw(TIMES)
        return "put", (draw(KEYS), None if value is None else show(value, time), time)

    return put


def _put_session(show: Callable[[Any, int], Any]) -> Callable[[Draw], Read]:
    def put(draw: Draw) -> Read:
        value, end = draw(OR_NOTHING), draw(TIMES)
        window = Window(max(0, end - draw(st.integers(0, 15))), end)
        return "put", (Windowed(draw(KEYS), window), None if value is None else show(value, end))

    return put


def _put_version(draw: Draw) -> Read:
    return "put", (draw(KEYS), draw(OR_NOTHING), draw(TIMES))


# ---------------------------------------------------------------------- reads


def _read_kv(draw: Draw) -> Read:
    name = draw(st.sampled_from(["get", "range", "reverse_range", "all", "reverse_all", "prefix_scan"]))
    if name in ("all", "reverse_all"):
        return name, ()
    return name, ((draw(BOUNDS), draw(BOUNDS)) if "range" in name else (draw(KEYS),))


def _read_list(draw: Draw) -> Read:
    name = draw(st.sampled_from(["get", "range", "all"]))
    return name, {"get": lambda: (draw(KEYS),), "range": lambda: (draw(BOUNDS), draw(BOUNDS)), "all": tuple}[name]()


def _read_window(draw: Draw) -> Read:
    low = draw(TIMES)
    high = draw(st.one_of(st.integers(low, 130), st.just(LAST)))
    back = draw(st.sampled_from(["", "backward_"]))
    key = draw(KEYS)
    forms: list[Read] = [
        ("fetch", (key, low)),
        (back + "fetch_range", (key, low, high)),
        (back + "fetch_keys", (draw(BOUNDS), draw(BOUNDS), low, high)),
        (back + "fetch_all", (low, high)),
        (back + "all", ()),
    ]
    return forms[draw(st.integers(0, len(forms) - 1))]


def _read_session(draw: Draw) -> Read:
    low, high, key = draw(TIMES), draw(st.one_of(TIMES, st.just(LAST))), draw(KEYS)
    back = draw(st.sampled_from(["", "backward_"]))
    forms: list[Read] = [
        ("fetch_session", (key, low, draw(TIMES))),
        (back + "fetch", (key,)),
        (back + "fetch_keys", (draw(BOUNDS), draw(BOUNDS))),
        ("find_sessions_by_end", (low, high)),
        (back + "find_sessions", (key, low, high)),
        (back + "find_sessions_of_keys", (draw(BOUNDS), draw(BOUNDS), low, high)),
    ]
    return forms[draw(st.integers(0, len(forms) - 1))]


def _read_version(draw: Draw) -> Read:
    low = draw(TIMES)
    times = draw(st.sampled_from([(), (low,), (low, draw(st.integers(low, 130)))]))
    reverse, back = draw(st.sampled_from([("", ""), ("reverse_", "backward_")]))
    bounds = (draw(BOUNDS), draw(BOUNDS))
    forms: list[Read] = [
        ("get", (draw(KEYS),)),
        ("get", (draw(KEYS), low)),
        (back + "versions", (draw(KEYS), *times)),
        (reverse + "range", bounds),
        (reverse + "range", (*bounds, low)),
        (reverse + "range_versions", (*bounds, *times)),
    ]
    return forms[draw(st.integers(0, len(forms) - 1))]


# ---------------------------------------------------------------------- kinds


def _plain(value: Any, time: int) -> Any:
    return value


def _with_headers(value: Any, time: int) -> Any:
    return ValueTimestampHeaders(value, time, [("h", b"%d" % time)])


def _kv(make: Any, supplier: Any, show: Callable[[Any, int], Any] = _plain, *, caches: bool = True) -> Case:
    return Case(lambda: make(supplier(), STRING, STRING), _put_kv(show), _read_kv, caches)


def _aggregate(value: Any, time: int) -> Any:
    return AggregationWithHeaders(value, [("h", b"%d" % time)])


WINDOWS: dict[str, tuple[Any, Callable[[Any, int], Any]]] = {
    "alone": (Stores.window_store_builder, _plain),
    "timed": (Stores.timestamped_window_store_builder, ValueAndTimestamp),
    "headers": (Stores.timestamped_window_store_with_headers_builder, _with_headers),
}
SESSIONS: dict[str, tuple[Any, Callable[[Any, int], Any]]] = {
    "alone": (Stores.session_store_builder, _plain),
    "timed": (Stores.timestamped_session_store_builder, ValueAndTimestamp),
    "headers": (Stores.session_store_with_headers_builder, _aggregate),
}


def _windows(persistent: bool, values: str, *, ordered: bool, duplicates: bool = False) -> Case:
    make, show = WINDOWS[values]
    store = Stores.persistent_window_store if persistent else Stores.in_memory_window_store
    how: dict[str, Any] = {"time_ordered": ordered, **({"segment_interval": 7} if persistent else {})}
    put = _put_window(show)

    def builder() -> Any:
        return make(store("s", RETENTION, WINDOW, duplicates, **how), STRING, STRING)

    return Case(builder, put, _read_window, not duplicates)


def _sessions(persistent: bool, values: str, *, ordered: bool) -> Case:
    make, show = SESSIONS[values]
    store = Stores.persistent_session_store if persistent else Stores.in_memory_session_store
    how: dict[str, Any] = {"time_ordered": ordered, **({"segment_interval": 7} if persistent else {})}
    put = _put_session(show)
    return Case(lambda: make(store("s", RETENTION, **how), STRING, STRING), put, _read_session)


def _versions(supplier: Any) -> Case:
    def builder() -> Any:
        return Stores.versioned_key_value_store_builder(supplier("s", RETENTION, segment_interval=7), STRING, STRING)

    return Case(builder, _put_version, _read_version, caches=False)


CASES: dict[str, Case] = {
    "kv": _kv(Stores.key_value_store_builder, lambda: Stores.persistent_key_value_store("s")),
    "kv in memory": _kv(Stores.key_value_store_builder, lambda: Stores.in_memory_key_value_store("s")),
    "timestamped": _kv(
        Stores.timestamped_key_value_store_builder,
        lambda: Stores.persistent_timestamped_key_value_store("s"),
        ValueAndTimestamp,
    ),
    "headers": _kv(
        Stores.timestamped_key_value_store_with_headers_builder,
        lambda: Stores.persistent_timestamped_key_value_store_with_headers("s"),
        _with_headers,
    ),
    "lru": _kv(Stores.key_value_store_builder, lambda: Stores.lru_map("s", 100), caches=False),
    "list": Case(
        lambda: Stores.list_store_builder(Stores.persistent_list_store("s"), STRING, STRING),
        _put_list,
        _read_list,
        False,
    ),
    "list in memory": Case(
        lambda: Stores.list_store_builder(Stores.in_memory_list_store("s"), STRING, STRING),
        _put_list,
        _read_list,
        False,
    ),
    "windows": _windows(True, "alone", ordered=False),
    "windows in memory": _windows(False, "timed", ordered=False),
    "windows by time": _windows(True, "timed", ordered=True),
    "windows by time in memory": _windows(False, "alone", ordered=True),
    "windows with duplicates": _windows(True, "alone", ordered=False, duplicates=True),
    "windows with duplicates in memory": _windows(False, "alone", ordered=False, duplicates=True),
    "sessions": _sessions(True, "timed", ordered=False),
    "sessions in memory": _sessions(False, "alone", ordered=False),
    "windows with headers": _windows(True, "headers", ordered=False),
    "windows with headers in memory": _windows(False, "headers", ordered=True),
    "sessions with headers": _sessions(True, "headers", ordered=True),
    "sessions with headers in memory": _sessions(False, "headers", ordered=False),
    "sessions by time": _sessions(True, "alone", ordered=True),
    "versions": _versions(Stores.persistent_versioned_key_value_store),
    "versions in memory": _versions(Stores.in_memory_versioned_key_value_store),
}
