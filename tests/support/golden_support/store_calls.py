"""The calls of recorded store traces, by their recorded names, on stores of this project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.versioned_calls import VERSIONED_CALLS
from processor_api.errors import StreamsError
from processor_api.stores.contracts import AggregationWithHeaders, ValueAndTimestamp, ValueTimestampHeaders
from processor_api.stores.windowed import Window, Windowed

__all__ = ["CALLS", "ERROR", "REFUSALS", "StoreCalls", "has_call", "plain_key"]

Args = Mapping[str, Any]
ERROR = {"error": True}
REFUSALS = (StreamsError, ValueError, TypeError, StopIteration)
"""What may be raised where Java's stores throw."""


class StoreCalls:
    """Makes calls on a store of one kind; remembers the iterators that a trace holds open."""

    def __init__(self, kind: str) -> None:
        self._calls = _calls_of(kind)
        self._timestamped = kind.startswith("timestamped-")
        self._headers = kind.startswith("headers-")
        self._sessions = kind.endswith("session")
        self.timed = kind.endswith(("window", "session"))
        self._open: dict[int, Any] = {}

    def prepare(self, name: str, args: Args) -> Callable[[Any], Any]:
        """A function of the store that gives the result as recordings write it."""

        def call(store: Any) -> Any:
            try:
                return self._calls[name](self, store, args)
            except REFUSALS:
                return ERROR

        return call

    def close_iterators(self) -> None:
        for rows in self._open.values():
            rows.close()
        self._open.clear()

    # ----------------------------------------------------------------- values

    def to_value(self, args: Args) -> Any:
        value = args["value"]
        if value is None or not (self._timestamped or self._headers):
            return value
        if self._timestamped:
            return ValueAndTimestamp(value, args["timestamp"])
        headers = [(name, None if data is None else bytes.fromhex(data)) for name, data in args["headers"]]
        if self._sessions:
            return AggregationWithHeaders(value, headers)
        return ValueTimestampHeaders(value, args["timestamp"], headers)

    def shown(self, value: Any) -> Any:
        if value is None or not (self._timestamped or self._headers):
            return value
        if isinstance(value, AggregationWithHeaders):
            shown = {"value": value.aggregation}
        else:
            shown = {"value": value.value, "timestamp": value.timestamp}
        if self._headers:
            shown["headers"] = [[name, None if data is None else data.hex()] for name, data in value.headers]
        return shown

    def listed(self, rows: Any) -> list[Any]:
        with rows:
            return [self._row(key, value) for key, value in rows]

    def _row(self, key: Any, value: Any) -> list[Any]:
        """A row of a windowed store is flat."""
        plain = plain_key(key)
        return [*(plain if isinstance(plain, list) else [plain]), self.shown(value)]

    # -------------------------------------------------------------- iterators

    def open(self, store: Any, args: Args) -> None:
        self._open[args["id"]] = (TIMED_READS if self.timed else READS)[args["call"]](store, args)

    def next(self, args: Args) -> list[Any]:
        rows = self._open[args["id"]]
        found: list[Any] = []
        for _ in range(args.get("count", 1)):
            try:
                key, value = next(rows)
            except StopIteration:
                return [*found, ERROR]
            found.append(self._row(key, value))
        return found

    def peek(self, args: Args) -> Any:
        return plain_key(self._open[args["id"]].peek_next_key())

    def has_next(self, args: Args) -> bool:
        try:
            self.peek(args)
        except StopIteration:
            return False
        return True

    def close(self, args: Args) -> None:
        self._open[args["id"]].close()


def plain_key(key: Any) -> Any:
    """A windowed key is key, start and end."""
    return [key.key, *key.window] if isinstance(key, Windowed) else key


def _put_all(calls: StoreCalls, store: Any, args: Args) -> None:
    store.put_all([(entry["key"], calls.to_value(entry)) for entry in args["entries"]])


READS: Mapping[str, Callable[[Any, Args], Any]] = {
    "range": lambda store, args: store.range(args["from"], args["to"]),
    "reverse_range": lambda store, args: store.reverse_range(args["from"], args["to"]),
    "all": lambda store, args: store.all(),
    "reverse_all": lambda store, args: store.reverse_all(),
    "prefix_scan": lambda store, args: store.prefix_scan(args["prefix"]),
}
"""Reads that give an iterator."""


def _listing(name: str) -> Callable[[StoreCalls, Any, Args], Any]:
    return lambda calls, store, args: calls.listed((TIMED_READS if calls.timed else READS)[name](store, args))


def _forwards_and_back(
    reads: Mapping[str, tuple[str, Callable[[Args], tuple[Any, ...]]]],
) -> dict[str, Callable[[Any, Args], Any]]:
    """The reads of a table, and the same with `backward_`."""
    table: dict[str, Callable[[Any, Args], Any]] = {}
    for recorded, (method, arguments) in reads.items():
        for way in ("", "backward_"):
            table[way + recorded] = _read(way + method, arguments)
    return table


def _read(method: str, arguments: Callable[[Args], tuple[Any, ...]]) -> Callable[[Any, Args], Any]:
    return lambda store, args: getattr(store, method)(*arguments(args))


def _fetch_keys(args: Args) -> tuple[Any, ...]:
    """Of windows or of sessions."""
    times = (args["from"], args["to"]) if "from" in args else ()
    return args["key_from"], args["key_to"], *times


def _ends(args: Args) -> tuple[Any, ...]:
    return args["earliest_end"], args["latest_start"]


TIMED_READS: Mapping[str, Callable[[Any, Args], Any]] = {
    **_forwards_and_back(
        {
            "fetch_range": ("fetch_range", lambda args: (args["key"], args["from"], args["to"])),
            "fetch_keys": ("fetch_keys", _fetch_keys),
            "fetch_all": ("fetch_all", lambda args: (args["from"], args["to"])),
            "all": ("all", lambda args: ()),
            "fetch": ("fetch", lambda args: (args["key"],)),
            "find_sessions": ("find_sessions", lambda args: (args["key"], *_ends(args))),
            "find_sessions_keys": (
                "find_sessions_of_keys",
                lambda args: (args["key_from"], args["key_to"], *_ends(args)),
            ),
        }
    ),
    "find_sessions_ending": lambda store, args: store.find_sessions_by_end(args["earliest_end"], args["latest_end"]),
}
"""Reads of window and session stores that give an iterator."""


def _session(args: Args) -> Windowed[Any]:
    return Windowed(args["key"], Window(args["start"], args["end"]))


def _put_timed(calls: StoreCalls, store: Any, args: Args) -> None:
    if "window_start" in args:
        store.put(args["key"], calls.to_value(args), args["window_start"])
    else:
        store.put(_session(args), calls.to_value(args))


def _fetch_timed(calls: StoreCalls, store: Any, args: Args) -> Any:
    """One window, or all sessions of a key."""
    if "time" in args:
        return calls.shown(store.fetch(args["key"], args["time"]))
    return calls.listed(store.fetch(args["key"]))


CALLS: Mapping[str, Callable[[StoreCalls, Any, Args], Any]] = {
    "put": lambda calls, store, args: store.put(args["key"], calls.to_value(args)),
    "put_if_absent": lambda calls, store, args: calls.shown(store.put_if_absent(args["key"], calls.to_value(args))),
    "put_all": _put_all,
    "get": lambda calls, store, args: calls.shown(store.get(args["key"])),
    "delete": lambda calls, store, args: calls.shown(store.delete(args["key"])),
    "approximate_num_entries": lambda calls, store, args: store.approximate_num_entries(),
    **{name: _listing(name) for name in READS},
    "open": lambda calls, store, args: calls.open(store, args),
    "next": lambda calls, store, args: calls.next(args),
    "peek": lambda calls, store, args: calls.peek(args),
    "has_next": lambda calls, store, args: calls.has_next(args),
    "close": lambda calls, store, args: calls.close(args),
}

TIMED_CALLS: Mapping[str, Callable[[StoreCalls, Any, Args], Any]] = {
    **CALLS,
    **{name: _listing(name) for name in TIMED_READS},
    "put": _put_timed,
    "remove": lambda calls, store, args: store.remove(_session(args)),
    "fetch": _fetch_timed,
    "fetch_session": lambda calls, store, args: calls.shown(
        store.fetch_session(args["key"], args["start"], args["end"])
    ),
}
"""Calls of window and session stores."""


def _put_if_present(calls: StoreCalls, store: Any, args: Args) -> None:
    """What the library's list store does for ``putIfAbsent``; here it has no such call."""
    if store.get(args["key"]):
        store.put(args["key"], args["value"])


LIST_CALLS: Mapping[str, Callable[[StoreCalls, Any, Args], Any]] = {
    **CALLS,
    "put_if_absent": _put_if_present,
    **dict.fromkeys(("delete", "range", "put_all"), lambda calls, store, args: ERROR),
}
"""Calls of list stores; those that Java's refuse have no counterpart."""

CALLS_OF: Mapping[str, Mapping[str, Callable[[Any, Any, Args], Any]]] = {
    "list-kv": LIST_CALLS,
    "versioned": VERSIONED_CALLS,
}
"""By kinds, where they are neither `CALLS` nor `TIMED_CALLS`."""


def _calls_of(kind: str) -> Mapping[str, Callable[[Any, Any, Args], Any]]:
    return CALLS_OF.get(kind, TIMED_CALLS if kind.endswith(("window", "session")) else CALLS)


def has_call(kind: str, op: Mapping[str, Any]) -> bool:
    """Whether a recorded call has a counterpart here."""
    return op["op"] in _calls_of(kind)
