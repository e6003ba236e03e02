"""Aggregations over windows with fixed bounds (semantics 15, 23, 43 to 45).

A record without a key is dropped; a null value is given to the aggregator. A record counts as dropped once for each of
its windows that has closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.tables.operator import UNCHANGEABLE, send_on_flush
from dsl.processors.user_functions import unshared, user_function
from dsl.processors.windows.emission import FinalResults, WindowedAggregate, final_results, kept_stream_time
from processor_api.context import OperatorContext
from processor_api.record import NO_TIMESTAMP, DropReason, Forward, HeaderList
from processor_api.stores.windowed import Window, Windowed, window_of
from state.formats.keys import MAX_TIME

Fold = Callable[[Any, bytes, Any, int, int, int, HeaderList | None], bool]
"""``(key, key's bytes, value, start, end, timestamp, headers)`` adds a record to a window; ``False`` if that failed."""


@dataclass(frozen=True, kw_only=True)
class TimeWindowedAggregate(WindowedAggregate):
    """An aggregation of the records of each key in each window.

    With ``final``, each result is sent on once, when its window has closed.
    """

    windows_for: Callable[[int], Iterable[Window]] = field(metadata=user_function("timestamp", generates=True))
    """The windows of a timestamp."""
    size_ms: int
    grace_ms: int
    advance_ms: int | None = None
    """How far from each other the windows start, if all have one size and start at multiples of this."""

    @property
    def logged_window_ms(self) -> int | None:
        """The length of the windows: a row has the timestamp of the latest record in its window. Windows that a user
        has written need not hold the records that they are for."""
        return None if self.advance_ms is None else self.size_ms

    def bind(self, context: OperatorContext) -> Forward:
        store = context.store(str(self.store))
        fold = self._folding(context, store)
        write_key, drop, fail, grace = store.write_key, context.drop, context.fail, self.grace_ms
        late = context.dropping_late(DropReason.WINDOW_CLOSED, "grace", grace)
        bounds = self._bounds()
        observed = NO_TIMESTAMP
        observed = kept_stream_time(context, self.store, lambda: observed, self.part)
        emit = self._emitting(context, store, lambda: observed - grace)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal observed
            if key is None:
                drop(DropReason.NULL_KEY)
                return
            if timestamp > observed:
                observed = timestamp
            closed = observed - grace
            try:
                raw = write_key(key)
                found = bounds(timestamp)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if emit is not None:
                emit(closed, timestamp, headers)
            for start, end in found:
                if end <= closed:
                    late(closed - end + 1)
                elif not fold(key, raw, value, start, end, timestamp, headers):
                    return

        return process

    def _bounds(self) -> Callable[[int], Iterable[tuple[int, int]]]:
        """Returns the function from a timestamp to the bounds of its windows."""
        windows_for, size, advance = self.windows_for, self.size_ms, self.advance_ms
        if advance is None:
            return windows_for
        if advance == size:

            def one(timestamp: int) -> tuple[tuple[int, int]]:
                start = timestamp - timestamp % size
                return ((start, start + size),)

            return one
        before = size - advance

        def some(timestamp: int) -> list[tuple[int, int]]:
            first = timestamp - before
            first -= first % advance
            return [(start, start + size) for start in range(first if first > 0 else 0, timestamp + 1, advance)]

        return some

    def _folding(self, context: OperatorContext, store: Any) -> Fold:
        initializer, aggregator = unshared(self.initializer), self.aggregator
        timed, forward, fail = store.timed, context.forward, context.fail
        row_of, get_row, put_row = timed.row_of, timed.get_row, timed.put_row
        old_values = self.old_values
        silent = self.final or send_on_flush(context, store, old_values)
        shows_old, java_defects = old_values and not silent, self.java_defects
        deleted_nothing = context.counting(DropReason.AGGREGATE_DELETED_NOTHING)

        def fold(
            key: Any, raw: bytes, value: Any, start: int, end: int, timestamp: int, headers: HeaderList | None
        ) -> bool:
            latest = timestamp
            try:
                row = row_of(raw, start)
                found = get_row(row, start)
                if found is None:
                    old = initializer()
                else:
                    old = found[0]
                    if found[1] > timestamp:
                        latest = found[1]
                new = aggregator(key, value, old)
                if shows_old:
                    if found is None:  # A window without a row has no old value (semantics 37).
                        old = initializer() if java_defects else None
                    elif type(old) not in UNCHANGEABLE:  # The aggregator may have changed it in place.
                        old = get_row(row, start)[0]
                put_at = latest
                if new is None:
                    put_at = timestamp
                    if found is None and value is not None:
                        deleted_nothing()
                put_row(row, raw, start, new, put_at, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return False
            if not silent:
                windowed = Windowed(key, window_of((start, min(end, MAX_TIME))))
                forward(windowed, (new, old if old_values else None), latest, headers)
            return True

        return fold

    def _emitting(self, context: OperatorContext, store: Any, closed: Callable[[], int]) -> FinalResults | None:
        if not self.final:
            return None
        size = self.size_ms

        def bounds(last: int, close_time: int) -> tuple[int, int]:
            return (0 if last == NO_TIMESTAMP else max(0, last - size + 1)), close_time - size

        return final_results(context, store, bounds, closed, wait_ms=size + self.grace_ms)
