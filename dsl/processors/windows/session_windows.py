"""Aggregations over sessions (KIP-94, semantics 15, 23 and 48).

A record without a key is dropped; a null value is given to the aggregator. A result has the end of its session as
timestamp; without a cache it has no headers (semantics 19).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.tables.operator import UNCHANGEABLE
from dsl.processors.user_functions import unshared, user_function
from dsl.processors.windows.emission import FinalResults, WindowedAggregate, final_results, kept_stream_time
from processor_api.context import OperatorContext
from processor_api.record import NO_TIMESTAMP, DropReason, Forward, HeaderList
from processor_api.stores.windowed import Window, Windowed, window_of


@dataclass(frozen=True, kw_only=True)
class SessionAggregate(WindowedAggregate):
    """An aggregation of the records of each key in each session."""

    gap_ms: int
    grace_ms: int
    merger: Callable[[Any, Any, Any], Any] = field(metadata=user_function("key", "aggregate", "other"))

    @property
    def logged_window_ms(self) -> None:
        """Not known: a late record may be as far before the end of its session as the session is long, and the session
        is logged with the timestamp of the record."""
        return None

    def bind(self, context: OperatorContext) -> Forward:
        store = context.store(str(self.store))
        initializer, aggregator, merger = unshared(self.initializer), self.aggregator, self.merger
        find, put, write_key = store.timed.find_sessions, store.timed.put, store.write_key
        drop, fail, gap, open_for = context.drop, context.fail, self.gap_ms, self.gap_ms + self.grace_ms
        late = context.dropping_late(DropReason.WINDOW_CLOSED, "grace", self.grace_ms)
        send = self._sending(context, store)
        shows_old, java_defects = send is not None and self.old_values, self.java_defects
        deleted_nothing = context.counting(DropReason.AGGREGATE_DELETED_NOTHING)
        observed = NO_TIMESTAMP
        observed = kept_stream_time(context, self.store, lambda: observed, self.part)
        emit = self._emitting(context, store, lambda: observed - open_for)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal observed
            if key is None:
                drop(DropReason.NULL_KEY)
                return
            if timestamp > observed:
                observed = timestamp
            closed = observed - open_for
            if emit is not None:
                emit(closed, timestamp, headers)
            merged: list[tuple[int, int, Any]] = []
            start = end = timestamp
            try:
                raw, new = write_key(key), initializer()
                for _, its_end, its_start, aggregate, _ in find(raw, timestamp - gap, timestamp + gap):
                    merged.append((its_start, its_end, aggregate))
                    new = merger(key, new, aggregate)
                    start, end = min(start, its_start), max(end, its_end)
                if end < closed:
                    late(closed - end)
                    return
                new = aggregator(key, value, new)
                if new is None and not merged and value is not None:
                    deleted_nothing()
                if shows_old and any(type(held) not in UNCHANGEABLE for _, _, held in merged):
                    # The functions may have changed the aggregates in place, so the old ones are read again.
                    found = find(raw, timestamp - gap, timestamp + gap)
                    merged = [(its_start, its_end, held) for _, its_end, its_start, held, _ in found]
                old = None
                # A session of one moment: the put replaces its row, and no tombstone goes before it (semantics 48).
                if start == end:
                    if merged and not java_defects:
                        old = merged[0][2]
                    merged = []
                for its_start, its_end, _ in merged:
                    put(raw, its_end, its_start, None, timestamp, headers)
                put(raw, end, start, new, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if send is not None:
                for its_start, its_end, aggregate in merged:
                    send(key, window_of((its_start, its_end)), None, aggregate)
                send(key, window_of((start, end)), new, old)

        return process

    def _sending(self, context: OperatorContext, store: Any) -> Callable[[Any, Window, Any, Any], None] | None:
        """Returns the function that sends on one change; ``None`` where the cache does it, or the close of windows."""
        forward, old_values = context.forward, self.old_values
        if self.final:
            return None

        has_headers = not store.with_headers

        def flushed(key: Any, new: Any, old: Any, timestamp: int, headers: HeaderList | None) -> None:
            forward(key, (new, old if old_values else None), key.window.end, headers if has_headers else None)

        if store.cached:
            store.on_flush(flushed, old_values=old_values)
            return None

        def send(key: Any, window: Window, new: Any, old: Any) -> None:
            forward(Windowed(key, window), (new, old if old_values else None), window.end, None)

        return send

    def _emitting(self, context: OperatorContext, store: Any, closed: Callable[[], int]) -> FinalResults | None:
        if not self.final:
            return None

        def bounds(last: int, close_time: int) -> tuple[int, int]:
            return max(0, last), close_time - 1

        wait_ms = self.gap_ms + self.grace_ms + 1
        return final_results(context, store, bounds, closed, wait_ms=wait_ms, reach_ms=self.gap_ms, ends=True)
