"""Stores whose calls have lines in the trace: as processors and as operators get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from state.registry.wrapped import WrappedStore
from streams.runtime.tracing.steps import ABSENT
from streams.runtime.tracing.store_trace import StoreTrace

__all__ = ["TracedOperator", "traced_store"]

_SILENT = frozenset(("approximate_num_entries", "close", "commit", "flush", "init", "num_records", "buffer_size"))
_VIEWS = frozenset(("without_headers", "without_timestamps"))
_WITH_VALUES = frozenset(("put", "put_if_absent"))
_OPERATORS = ("__len__", "__contains__", "__iter__", "__getitem__", "__setitem__", "__delitem__")
"""The names of calls that a store of the user's own may have."""


class _TracedStore(WrappedStore):
    """Has everything that the store has; its calls are made through the trace."""

    def __init__(self, store: Any, name: str, trace: StoreTrace) -> None:
        self._store = store
        self._place = name
        self._trace = trace
        for call in dir(type(store)):
            if not call.startswith("_") and not hasattr(type(self), call) and callable(getattr(store, call, None)):
                setattr(self, call, self._made(call))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)
        return self._made(name) if callable(getattr(self._store, name)) else getattr(self._store, name)

    def _made(self, call: str) -> Callable[..., Any]:
        store, trace, place = self._store, self._trace, self._place
        if call in _SILENT:
            return getattr(store, call)  # type: ignore[no-any-return]
        if call in _VIEWS:
            return lambda: traced_store(getattr(store, call)(), place, trace)

        def traced(*args: Any, **named: Any) -> Any:
            key, value, note = _parts(call, args, named)
            return trace.call(place, call.strip("_"), key, value, lambda: getattr(store, call)(*args, **named), note)

        return traced


def traced_store(store: Any, name: str, trace: StoreTrace) -> Any:
    """A store as processors see it, with lines for its calls."""
    kept = {one: _operator(one) for one in _OPERATORS if getattr(type(store), one, None) is not None}
    kind = type("TracedStore", (_TracedStore,), kept) if kept else _TracedStore
    return kind(store, name, trace)


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *args: self._made(name)(*args)


def _parts(call: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, str]:
    """Key, value and what else a call was given, as text."""
    if call in ("put_all", "__len__", "__iter__"):
        return ABSENT, ABSENT, ""
    key = args[0] if args else named.get("key", ABSENT)
    rest = args[1:]
    value = ABSENT
    if call in _WITH_VALUES or call == "__setitem__":
        value, rest = (rest[0], rest[1:]) if rest else (named.get("value", ABSENT), ())
    given = [*map(repr, rest), *(f"{one}={named[one]!r}" for one in named if one not in ("key", "value"))]
    return key, value, f"with {', '.join(given)}" if given else ""


class TracedOperator:
    """A store as an operator of the DSL gets it, with lines for its calls."""

    def __init__(self, operator: Any, node: str, name: str, trace: StoreTrace) -> None:
        self._operator = operator
        self._node = node
        self._name = name
        self._trace = trace

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._operator, name)
        if name == "put":
            return self._putting(found)
        if name in ("get", "get_as_of"):
            return self._getting(name, found)
        if name == "on_flush":
            return self._on_flush
        if name == "evict_while":
            return self._evict_while
        return found

    def _getting(self, name: str, get: Callable[..., Any]) -> Callable[..., Any]:
        trace, place = self._trace, self._name

        def get_traced(key: Any, *more: Any) -> Any:
            note = f"as of {more[0]}" if more else ""
            return trace.call(place, "get", key, ABSENT, lambda: get(key, *more), note, in_pair=True)

        return get_traced

    def _putting(self, put: Callable[..., Any]) -> Callable[..., Any]:
        trace, place, cached = self._trace, self._name, bool(self._operator.cached)
        if hasattr(self._operator, "evict_while"):
            return self._buffering(put)

        def put_traced(key: Any, value: Any, timestamp: int, headers: Any = None) -> Any:
            def call() -> Any:
                if cached:
                    trace.cache(place, key, value)
                return put(key, value, timestamp, headers)

            return trace.call(place, "put", key, value, call, f"timestamp {timestamp}")

        return put_traced

    def _buffering(self, put: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a call of a buffer as a traced one, with a time before the key, or with none."""
        trace, place = self._trace, self._name

        def put_traced(*args: Any) -> Any:
            key, value, timestamp, _ = args[-4:]

            def call() -> Any:
                trace.buffer(place, key, value)
                return put(*args)

            return trace.call(place, "buffer", key, value, call, f"timestamp {timestamp}")

        return put_traced

    def _on_flush(self, callback: Callable[..., None], *, old_values: bool) -> None:
        traced = self._trace.flushing(self._node, self._name, callback)
        self._operator.on_flush(traced, old_values=old_values)

    def _evict_while(self, predicate: Callable[[], bool], callback: Callable[..., None]) -> None:
        self._operator.evict_while(predicate, self._trace.releasing(self._node, self._name, callback))
