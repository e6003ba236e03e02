"""The calls of recorded store traces, by their recorded names, on stores of this project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.versioned_calls import VERSIONED_CALLS, VERSIONED_QUERIES
from processor_api.errors import StreamsError
from processor_api.stores import ValueAndTimestamp, ValueTimestampHeaders

__all__ = ["CALLS", "StoreCalls", "has_call"]

Args = Mapping[str, Any]
ERROR = {"error": True}
REFUSALS = (StreamsError, ValueError, TypeError, StopIteration)
"""What may be raised where Java's stores throw."""


class StoreCalls:
    """Makes calls on a store of one kind; remembers the iterators that a trace holds open."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._calls = CALLS_OF.get(kind, CALLS)
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
        if value is None or self._kind not in ("timestamped-kv", "headers-kv"):
            return value
        if self._kind == "timestamped-kv":
            return ValueAndTimestamp(value, args["timestamp"])
        headers = [(name, None if data is None else bytes.fromhex(data)) for name, data in args["headers"]]
        return ValueTimestampHeaders(value, args["timestamp"], headers)

    def shown(self, value: Any) -> Any:
        if value is None or self._kind not in ("timestamped-kv", "headers-kv"):
            return value
        shown = {"value": value.value, "timestamp": value.timestamp}
        if self._kind == "headers-kv":
            shown["headers"] = [[name, None if data is None else data.hex()] for name, data in value.headers]
        return shown

    def listed(self, rows: Any) -> list[Any]:
        with rows:
            return [[key, self.shown(value)] for key, value in rows]

    # -------------------------------------------------------------- iterators

    def open(self, store: Any, args: Args) -> None:
        self._open[args["id"]] = READS[args["call"]](store, args)

    def next(self, args: Args) -> list[Any]:
        rows = self._open[args["id"]]
        found: list[Any] = []
        for _ in range(args.get("count", 1)):
            try:
                key, value = next(rows)
            except StopIteration:
                return [*found, ERROR]
            found.append([key, self.shown(value)])
        return found

    def peek(self, args: Args) -> Any:
        return self._open[args["id"]].peek_next_key()

    def has_next(self, args: Args) -> bool:
        try:
            self.peek(args)
        except StopIteration:
            return False
        return True

    def close(self, args: Args) -> None:
        self._open[args["id"]].close()


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
    return lambda calls, store, args: calls.listed(READS[name](store, args))


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

LIST_CALLS: Mapping[str, Callable[[StoreCalls, Any, Args], Any]] = {
    **CALLS,
    "put_if_absent": lambda calls, store, args: store.put(args["key"], args["value"]) if store.get(args["key"]) else None,
    **dict.fromkeys(("delete", "range", "put_all"), lambda calls, store, args: ERROR),
}
"""Calls of list stores, without those that Java's refuse. Java's ``putIfAbsent``, which puts only if the key is present, has
no counterpart: what it does is done here."""

CALLS_OF: Mapping[str, Mapping[str, Callable[[Any, Any, Args], Any]]] = {
    "list-kv": LIST_CALLS,
    "versioned": VERSIONED_CALLS,
}
"""By kinds, where they are not `CALLS`."""


def has_call(kind: str, op: Mapping[str, Any]) -> bool:
    """Whether a recorded call has a counterpart here."""
    if op["op"] == "query":
        return kind == "versioned" and op["args"]["type"] in VERSIONED_QUERIES
    return op["op"] in CALLS_OF.get(kind, CALLS)
