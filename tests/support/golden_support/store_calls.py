"""The calls of recorded store traces, by their recorded names, on stores of this project."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.errors import StreamsError
from processor_api.stores import ValueAndTimestamp

__all__ = ["CALLS", "StoreCalls"]

Args = Mapping[str, Any]
ERROR = {"error": True}
REFUSALS = (StreamsError, ValueError, TypeError, StopIteration)
"""What may be raised where Java's stores throw."""


class StoreCalls:
    """Makes calls on a store of one kind; remembers the iterators that a trace holds open."""

    def __init__(self, kind: str) -> None:
        self._timestamped = kind == "timestamped-kv"
        self._open: dict[int, Any] = {}

    def prepare(self, name: str, args: Args) -> Callable[[Any], Any]:
        """A function of the store that gives the result as recordings write it."""

        def call(store: Any) -> Any:
            try:
                return CALLS[name](self, store, args)
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
        return ValueAndTimestamp(value, args["timestamp"]) if self._timestamped and value is not None else value

    def shown(self, value: Any) -> Any:
        if self._timestamped and value is not None:
            return {"value": value.value, "timestamp": value.timestamp}
        return value

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
