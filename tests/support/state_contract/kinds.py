"""Every kind of store on every engine, with what the contract needs to know to use it: `tests/state/test_contract.py`.

Stores hold strings under strings. A kind is used through the same few functions, whatever its calls are named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder, change_buffer_builder, join_buffer_builder
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import CUSTOM, CUSTOM_VERSIONED, MEMORY, ROCKSDB
from processor_api.stores.windowed import Windowed, window_of
from state_support.store_kit import StoreKit

__all__ = ["EXPIRING", "KEY_VALUE", "KINDS", "LAST", "NOT_WRITTEN_BACK", "Kind", "Setup", "setups"]

Call = Callable[[Any], Any]
"""A call on what :meth:`Kind.face` gives."""
Build = Callable[[str, Serde[Any], Serde[Any]], StoreBuilder[Any, Any]]
"""``(engine, key serde, value serde)``"""

RETENTION = 1000
LAST = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of store. Times are those of the window, the session's end, the version or the record, as the kind has
    them."""

    name: str
    build: Build
    put: Callable[[Any, Any, Any, Any], Any]
    """``(store, key, value, time)``; a value of ``None`` deletes where the kind deletes."""
    get: Callable[[Any, Any, int], Any]
    """``(store, key, time)`` of one that was put."""
    lists: dict[str, Callable[[Any, str | None, str | None], Any]] = field(default_factory=dict)
    """``(store, from, to)`` to an iterator over a range of keys, or over the one key where they are the same."""
    backward: dict[str, Callable[[Any, str | None, str | None], Any]] = field(default_factory=dict)
    """The same lists backwards."""
    bad_times: dict[str, Call] = field(default_factory=dict)
    """Writes with times that no store has."""
    operator: bool = False
    """Whether only operators write to it."""
    engines: tuple[str, ...] = (ROCKSDB, MEMORY)
    cached: bool = True
    keys_are_kept: bool = True
    """Whether each key has one row; else puts of a key add rows."""

    def face(self, kit: StoreKit) -> Any:
        """What is called."""
        return kit.store.operator if self.operator else kit.facade

    def contents(self, kit: StoreKit) -> list[Any]:
        """Everything in it."""
        if self.operator:
            buffer = kit.store.operator
            rows = [(key, entry[0]) for key, entry in buffer.rows.range(None, b"\xfe", reverse=False)]
            return [*rows, buffer.num_records, buffer.buffer_size, buffer.min_timestamp]
        found = next(iter(self.lists.values()))(kit.facade, None, None)
        with found as rows:
            return list(rows)


@dataclass(frozen=True)
class Setup:
    """A store to test."""

    kind: Kind
    engine: str
    caching: bool
    logging: bool

    def __str__(self) -> str:
        options = ("cached", self.caching), ("logged", self.logging)
        return "-".join([self.kind.name, self.engine, *(name for name, on in options if on)])

    def builder(self, key_serde: Serde[Any], value_serde: Serde[Any]) -> StoreBuilder[Any, Any]:
        builder = self.kind.build(self.engine, key_serde, value_serde)
        if self.caching:
            builder = builder.with_caching_enabled()
        return builder if self.logging else builder.with_logging_disabled()


# ---------------------------------------------------------------------------- key-value


def _key_value(name: str, build: Build, value_of: Callable[[Any, int], Any], **options: Any) -> Kind:
    def put(store: Any, key: Any, value: Any, time: Any) -> Any:
        return store.put(key, None if value is None else value_of(value, time))

    return Kind(
        name=name,
        build=build,
        put=put,
        get=lambda store, key, time: store.get(key),
        lists={"range": lambda store, low, high: store.range(low, high)},
        backward={"range": lambda store, low, high: store.reverse_range(low, high)},
        bad_times={}
        if value_of is _alone
        else _bad_timestamps(lambda store, time: store.put("a", value_of("v", time))),
        **options,
    )


def _bad_timestamps(put: Callable[[Any, Any], Any]) -> dict[str, Call]:
    return {
        "negative": lambda store: put(store, -1),
        "beyond 63 bits": lambda store: put(store, 1 << 63),
        "not a number": lambda store: put(store, "now"),
    }


def _of_values(put: Callable[[Any, Any], Any]) -> dict[str, Call]:
    return {f"timestamp {name}": call for name, call in _bad_timestamps(put).items()}


def _alone(value: Any, time: int) -> Any:
    return value


def _with_headers(value: Any, time: int) -> Any:
    return ValueTimestampHeaders(value, time, [("h", b"1")])


def _kv(engine: str) -> Any:
    return Stores.persistent_key_value_store("s") if engine == ROCKSDB else Stores.in_memory_key_value_store("s")


def _built(make: Callable[..., StoreBuilder[Any, Any]], supplier: Callable[[str], Any]) -> Build:
    return lambda engine, key, value: make(supplier(engine), key, value)


KEY_VALUE = [
    _key_value("key-value", _built(Stores.key_value_store_builder, _kv), _alone),
    _key_value("timestamped", _built(Stores.timestamped_key_value_store_builder, _kv), ValueAndTimestamp),
    _key_value("headers", _built(Stores.timestamped_key_value_store_with_headers_builder, _kv), _with_headers),
    _key_value(
        "lru", _built(Stores.key_value_store_builder, lambda engine: Stores.lru_map("s", 4)), _alone,
        engines=(MEMORY,), cached=False,
    ),
    _key_value(
        "timestamped-lru", _built(Stores.timestamped_key_value_store_builder, lambda engine: Stores.lru_map("s", 4)),
        ValueAndTimestamp, engines=(MEMORY,), cached=False,
    ),
]  # fmt: skip


def _living(kind: Kind, by: str) -> Kind:
    """With a time to live that is never over."""
    return replace(
        kind,
        name=f"{kind.name}-by-{by}",
        build=lambda engine, key, value: kind.build(engine, key, value).with_time_to_live(RETENTION, by),
    )


EXPIRING = [_living(kind, by) for kind in KEY_VALUE[:3] for by in ("record_time", "access")]


# --------------------------------------------------------------- lists, versions, buffers


def _list(engine: str) -> Any:
    return Stores.persistent_list_store("s") if engine == ROCKSDB else Stores.in_memory_list_store("s")


LISTS = Kind(
    name="list",
    build=_built(Stores.list_store_builder, _list),
    put=lambda store, key, value, time: store.put(key, value),
    get=lambda store, key, time: store.get(key),
    lists={"range": lambda store, low, high: store.range(low, high)},
    backward={"range": lambda store, low, high: store.reverse_range(low, high)},
    cached=False,
    keys_are_kept=False,
)


def _versioned(engine: str) -> Any:
    persistent = Stores.persistent_versioned_key_value_store
    return (persistent if engine == ROCKSDB else Stores.in_memory_versioned_key_value_store)("s", RETENTION, 100)


VERSIONED = Kind(
    name="versioned",
    build=_built(Stores.versioned_key_value_store_builder, _versioned),
    put=lambda store, key, value, time: store.put(key, value, time),
    get=lambda store, key, time: store.get(key, time),
    lists={
        "range_versions": lambda store, low, high: store.range_versions(low, high),
        "range": lambda store, low, high: store.range(low, high),
        "range as of a time": lambda store, low, high: store.range(low, high, 20),
    },
    backward={
        "range_versions": lambda store, low, high: store.reverse_range_versions(low, high),
        "range": lambda store, low, high: store.reverse_range(low, high),
        "range as of a time": lambda store, low, high: store.reverse_range(low, high, 20),
    },
    bad_times={
        "put": lambda store: store.put("a", "v", -1),
        "delete": lambda store: store.delete("a", -1),
        "not a number": lambda store: store.put("a", "v", "now"),
    },
    cached=False,
)

CHANGES = Kind(
    name="change-buffer",
    build=lambda engine, key, value: change_buffer_builder("s", key, value, engine=engine),
    put=lambda store, key, value, time: store.put(time, key, (value, None), time, None),
    get=lambda store, key, time: store.prior_value_for_buffered(key),
    bad_times={"put": lambda store: store.put(-1, "a", ("v", None), 1, None)},
    operator=True,
    cached=False,
)

JOINS = Kind(
    name="join-buffer",
    build=lambda engine, key, value: join_buffer_builder("s", RETENTION, key, value, engine=engine),
    put=lambda store, key, value, time: None if value is None else store.put(key, value, time, None),
    get=lambda store, key, time: store.num_records,
    bad_times={"put": lambda store: store.put("a", "v", -1, None)},
    operator=True,
    cached=False,
    keys_are_kept=False,
)


# -------------------------------------------------------------------- windows and sessions


WINDOWS: dict[str, tuple[Callable[..., Any], Callable[[Any, int], Any]]] = {
    "": (Stores.window_store_builder, _alone),
    "timestamped": (Stores.timestamped_window_store_builder, ValueAndTimestamp),
    "headers": (Stores.timestamped_window_store_with_headers_builder, _with_headers),
}
"""By what values have beside them: the builder, and what makes such a value."""
SESSIONS: dict[str, tuple[Callable[..., Any], Callable[[Any, int], Any]]] = {
    "": (Stores.session_store_builder, _alone),
    "timestamped": (Stores.timestamped_session_store_builder, ValueAndTimestamp),
    "headers": (
        Stores.session_store_with_headers_builder,
        lambda value, time: AggregationWithHeaders(value, [("h", b"1")]),
    ),
}


def _window(values: str = "", *, duplicates: bool = False, time_ordered: bool = False) -> Kind:
    make, value_of = WINDOWS[values]

    def supplier(engine: str) -> Any:
        persistent = Stores.persistent_window_store if engine == ROCKSDB else Stores.in_memory_window_store
        return persistent("s", RETENTION, 10, duplicates, time_ordered=time_ordered)

    def ranged(call: str) -> Callable[[Any, str | None, str | None], Any]:
        return lambda store, low, high: getattr(store, call)(low, high, 0, LAST)

    def of_key(call: str) -> Callable[[Any, str | None, str | None], Any]:
        return lambda store, low, high: getattr(store, call)("a", 0, LAST)

    def of_all(call: str) -> Callable[[Any, str | None, str | None], Any]:
        return lambda store, low, high: getattr(store, call)(0, LAST)

    options = [("duplicates", duplicates), (values, values), ("time-ordered", time_ordered)]
    return Kind(
        name="-".join(["window", *(name for name, on in options if on)]),
        build=_built(make, supplier),
        put=lambda store, key, value, time: store.put(key, None if value is None else value_of(value, time), time),
        get=lambda store, key, time: store.fetch(key, time),
        lists={"keys": ranged("fetch_keys"), "key": of_key("fetch_range"), "all": of_all("fetch_all")},
        backward={
            "keys": ranged("backward_fetch_keys"), "key": of_key("backward_fetch_range"),
            "all": of_all("backward_fetch_all"),
        },
        bad_times={
            **_bad_timestamps(lambda store, time: store.put("a", value_of("v", 1), time)),
            **(_of_values(lambda store, time: store.put("a", value_of("v", time), 5)) if values else {}),
        },
        cached=not duplicates,
        keys_are_kept=not duplicates,
    )  # fmt: skip


def _session(values: str = "", *, time_ordered: bool = False) -> Kind:
    make, value_of = SESSIONS[values]
    timestamped = values == "timestamped"

    def supplier(engine: str) -> Any:
        persistent = Stores.persistent_session_store if engine == ROCKSDB else Stores.in_memory_session_store
        return persistent("s", RETENTION, time_ordered=time_ordered)

    def session(key: Any, time: Any) -> Windowed[Any]:
        return Windowed(key, window_of((time, time)))

    def put(store: Any, key: Any, value: Any, time: Any) -> Any:
        return store.put(session(key, time), None if value is None else value_of(value, time))

    def ranged(call: str) -> Callable[[Any, str | None, str | None], Any]:
        return lambda store, low, high: getattr(store, call)(low, high)

    def of_key(call: str, *times: int) -> Callable[[Any, str | None, str | None], Any]:
        return lambda store, low, high: getattr(store, call)("a", *times)

    options = [(values, values), ("time-ordered", time_ordered)]
    return Kind(
        name="-".join(["session", *(name for name, on in options if on)]),
        build=_built(make, supplier),
        put=put,
        get=lambda store, key, time: store.fetch_session(key, time, time),
        lists={"keys": ranged("fetch_keys"), "key": of_key("fetch"), "sessions": of_key("find_sessions", 0, LAST)},
        backward={
            "keys": ranged("backward_fetch_keys"), "key": of_key("backward_fetch"),
            "sessions": of_key("backward_find_sessions", 0, LAST),
        },
        bad_times={
            **_bad_timestamps(lambda store, time: store.put(session("a", time), value_of("v", 1))),
            **(_of_values(lambda store, time: store.put(session("a", 5), value_of("v", time))) if timestamped else {}),
            "backwards": lambda store: store.put(Windowed("a", window_of((5, 4))), value_of("v", 1)),
            "remove": lambda store: store.remove(Windowed("a", window_of((-1, 4)))),
        },
    )  # fmt: skip


KINDS = [
    *KEY_VALUE, *EXPIRING, LISTS, VERSIONED, CHANGES, JOINS,
    *(_window(values, time_ordered=ordered) for values in WINDOWS for ordered in (False, True)),
    *(_window(values, duplicates=True) for values in ("", "headers")), _window(duplicates=True, time_ordered=True),
    *(_session(values, time_ordered=ordered) for values in SESSIONS for ordered in (False, True)),
]  # fmt: skip


NOT_WRITTEN_BACK = {
    CUSTOM: "the user's store has its rows, and alone knows which records it logs",
    CUSTOM_VERSIONED: "the user's store has its rows, and need not list the deletions among its versions",
}
"""Kinds whose rows cannot be turned back into records of their changelogs, and why."""


def setups() -> Iterator[Setup]:
    """Every one that can be built."""
    for kind in KINDS:
        for engine in kind.engines:
            for caching in (False, True) if kind.cached else (False,):
                for logging in (True, False):
                    yield Setup(kind, engine, caching, logging)
