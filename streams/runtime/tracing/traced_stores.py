"""Stores whose calls have lines in the trace: as processors and as operators get them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.texts import repr_of
from state.guards.guard import Policy, guarded
from streams.runtime.tracing.steps import ABSENT
from streams.runtime.tracing.store_trace import StoreTrace

_SILENT = frozenset(("approximate_num_entries", "close", "commit", "flush", "init", "num_records", "buffer_size"))
_FORMS = frozenset(("without_headers", "without_timestamps"))
_WITH_VALUES = frozenset(("put", "put_if_absent"))


class _Traced(Policy):
    """Makes the calls of a store through the trace."""

    def __init__(self, store: Any, name: str, trace: StoreTrace) -> None:
        super().__init__(store)
        self._place = name
        self._trace = trace

    def over(self, store: Any) -> _Traced:
        return _Traced(store, self._place, self._trace)

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        if name in _SILENT or name in _FORMS:
            return call
        trace, place = self._trace, self._place

        def traced(*args: Any, **named: Any) -> Any:
            key, value, note = _parts(name, args, named)
            return trace.call(place, name.strip("_"), key, value, lambda: call(*args, **named), note)

        return traced


def traced_store(store: Any, name: str, trace: StoreTrace) -> Any:
    """Returns a store as processors get it, with lines for its calls."""
    return guarded(_Traced(store, name, trace))


def _parts(call: str, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, str]:
    """Key, value and what else a call was given, as text."""
    if call in ("put_all", "__len__", "__iter__"):
        return ABSENT, ABSENT, ""
    key = args[0] if args else named.get("key", ABSENT)
    rest = args[1:]
    value = ABSENT
    if call in _WITH_VALUES or call == "__setitem__":
        value, rest = (rest[0], rest[1:]) if rest else (named.get("value", ABSENT), ())
    given = [*map(repr_of, rest), *(f"{one}={repr_of(named[one])}" for one in named if one not in ("key", "value"))]
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
        """Returns `put` of a buffer, which may take a time before the key."""
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

    def _evict_while(self, predicate: Callable[[], bool], callback: Callable[..., None], **how: bool) -> None:
        self._operator.evict_while(predicate, self._trace.releasing(self._node, self._name, callback), **how)
