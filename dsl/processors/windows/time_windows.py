"""Aggregations over windows with fixed bounds (semantics 15, 23, 43 to 45).

A record without a key is dropped; a null value is given to the aggregator. A record counts as dropped once for each of
its windows that has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.windows.emission import FinalResults, final_results, kept_stream_time
from dsl.table_operator import TableOperator, send_on_flush
from dsl.user_functions import USER_FUNCTION
from processor_api.context import OperatorContext
from processor_api.record import NO_TIMESTAMP, Forward, HeaderList
from processor_api.stores.windowed import Window, Windowed

__all__ = ["LATE", "NULL_KEY", "TimeWindowedAggregate"]

NULL_KEY = "null key"
LATE = "its window has closed"

Fold = Callable[[Any, bytes, Any, Window, int, HeaderList | None], None]
"""``(key, key's bytes, value, window, timestamp, headers)`` adds a record to one window."""


@dataclass(frozen=True, kw_only=True)
class TimeWindowedAggregate(TableOperator):
    """An aggregation of the records of each key in each window.

    With ``final``, each result is sent on once, when its window has closed.
    """

    windows_for: Callable[[int], Iterable[Window]] = field(metadata=USER_FUNCTION)
    """The windows of a timestamp."""
    size_ms: int
    grace_ms: int
    tumbling: bool = False
    """Whether the windows are those of one size that start at its multiples."""
    initializer: Callable[[], Any] = field(metadata=USER_FUNCTION)
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=USER_FUNCTION)
    final: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        store = context.store(str(self.store))
        fold = self._folding(context, store)
        write_key, drop, fail, grace = store.write_key, context.drop, context.fail, self.grace_ms
        emit = self._emitting(context, store)
        tumbling, size, windows_for = self.tumbling, self.size_ms, self.windows_for
        observed = NO_TIMESTAMP

        def stream_time() -> int:
            return observed

        observed = kept_stream_time(context, stream_time)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal observed
            if key is None:
                drop(NULL_KEY, key)
                return
            if timestamp > observed:
                observed = timestamp
            closed = observed - grace
            try:
                raw = write_key(key)
                found = _tumbling_window(timestamp, size) if tumbling else windows_for(timestamp)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if emit is not None:
                emit(closed, timestamp, headers)
            for window in found:
                if window[1] > closed:
                    fold(key, raw, value, window, timestamp, headers)
                else:
                    drop(LATE, key)

        return process

    def _folding(self, context: OperatorContext, store: Any) -> Fold:
        initializer, aggregator = self.initializer, self.aggregator
        get, put, forward, fail = store.timed.get, store.timed.put, context.forward, context.fail
        old_values = self.old_values
        silent = self.final or send_on_flush(context, store, old_values)
        shows_old = old_values and not silent

        def fold(key: Any, raw: bytes, value: Any, window: Window, timestamp: int, headers: HeaderList | None) -> None:
            start, latest = window[0], timestamp
            try:
                found = get(raw, start, 0)
                if found is None:
                    old = initializer()
                else:
                    old = found[0]
                    if found[1] > timestamp:
                        latest = found[1]
                new = aggregator(key, value, old)
                if shows_old and new is old:  # perhaps changed in place
                    old = initializer() if found is None else get(raw, start, 0)[0]
                put(raw, start, 0, new, timestamp if new is None else latest, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not silent:
                forward(Windowed(key, window), (new, old if old_values else None), latest, headers)

        return fold

    def _emitting(self, context: OperatorContext, store: Any) -> FinalResults | None:
        if not self.final:
            return None
        size = self.size_ms

        def bounds(last: int, close_time: int) -> tuple[int, int]:
            return (0 if last == NO_TIMESTAMP else max(0, last - size + 1)), close_time - size

        return final_results(context, store, bounds)


def _tumbling_window(timestamp: int, size: int) -> tuple[Window]:
    start = timestamp - timestamp % size
    return (Window(start, start + size),)
