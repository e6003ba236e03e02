"""Aggregations over sliding windows (KIP-450, semantics 46 and 47).

For each record there is a window that ends with it, and one that starts just behind it if it is not empty: so each set
of records that are at most the time difference apart has a window, and only those. The timestamp that is stored with a
window is that of its latest record; it tells which of the windows next to it are empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dsl.processors.tables.operator import UNCHANGEABLE, send_on_flush
from dsl.processors.user_functions import unshared
from dsl.processors.windows.emission import FinalResults, WindowedAggregate, final_results, kept_stream_time
from processor_api.context import OperatorContext
from processor_api.record import NO_TIMESTAMP, DropReason, Forward, HeaderList
from processor_api.stores.windowed import Window, Windowed, window_of

Seed = tuple[Any, int] | None
"""The aggregate that a window holds already, with the timestamp of its latest record."""


@dataclass(frozen=True, kw_only=True)
class SlidingAggregate(WindowedAggregate):
    """An aggregation of the records of each key in sliding windows; records without a key or a value are dropped."""

    difference_ms: int
    grace_ms: int

    @property
    def logged_window_ms(self) -> int:
        """The length of the windows: a row has the timestamp of the latest record in its window."""
        return self.difference_ms

    def bind(self, context: OperatorContext) -> Forward:
        store = context.store(str(self.store))
        drop, fail = context.drop, context.fail
        difference, grace = self.difference_ms, self.grace_ms
        late = context.dropping_late(DropReason.WINDOW_CLOSED, "grace", grace)
        task = _RecordWindows(self, context, store)
        observed = NO_TIMESTAMP
        observed = kept_stream_time(context, self.store, lambda: observed, self.part)
        emit = self._emitting(context, store, lambda: observed - grace)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            nonlocal observed
            if key is None or value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            if timestamp > observed:
                observed = timestamp
            closed = observed - grace
            if timestamp + difference < closed:
                late(closed - timestamp - difference)
                return
            if emit is not None and timestamp >= difference:
                # The latest put of a record is the window that starts just behind it.
                emit(closed, timestamp + 1, headers)
            try:
                changes = task.changes(key, value, timestamp, closed)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            for change in changes:
                end = change[0][1]
                if change[2] and end < closed:
                    late(closed - end)
                elif not task.put(key, value, timestamp, headers, change):
                    return

        return process

    def _emitting(self, context: OperatorContext, store: Any, closed: Callable[[], int]) -> FinalResults | None:
        if not self.final:
            return None
        difference = self.difference_ms

        def bounds(last: int, close_time: int) -> tuple[int, int]:
            return (0 if last == NO_TIMESTAMP else max(0, last - difference)), close_time - difference - 1

        return final_results(context, store, bounds, closed, wait_ms=difference + self.grace_ms + 1)


Change = tuple[Window, Seed, bool, bool]
"""A window, what it holds, whether the record is added to that, and whether the store has a row of it.

A window that starts after the record is only made, of what the one before it holds.
"""


class _RecordWindows:
    """The windows of one task."""

    def __init__(self, operator: SlidingAggregate, context: OperatorContext, store: Any) -> None:
        self._initializer, self._aggregator = unshared(operator.initializer), operator.aggregator
        self._difference = operator.difference_ms
        self._timed, self._write_key = store.timed, store.write_key
        self._forward, self._fail = context.forward, context.fail
        self._old_values, self._java_defects = operator.old_values, operator.java_defects
        self._silent = operator.final or send_on_flush(context, store, operator.old_values)
        self._deleted_nothing = context.counting(DropReason.AGGREGATE_DELETED_NOTHING)

    def changes(self, key: Any, value: Any, timestamp: int, closed: int) -> list[Change]:
        """Returns what a record changes, in the order in which it is done."""
        raw = self._write_key(key)
        if timestamp < self._difference:
            return self._early(raw, timestamp)
        return self._changes(raw, timestamp)

    def _changes(self, raw: bytes, timestamp: int) -> list[Change]:
        difference = self._difference
        starts: set[int] = set()
        changes: list[Change] = []
        before: Seed = None
        """The nearest window that ends before the record."""
        after, after_start = NO_TIMESTAMP, 0
        """The last window that has the record and starts later; the one behind the record is made from it."""
        previous: int | None = None
        has_left = has_right = False
        low = max(0, timestamp - 2 * difference)
        for _, start, _, held, latest in reversed(self._timed.find(raw, low, timestamp + 1)):
            starts.add(start)
            end = start + difference
            if start == timestamp + 1:
                has_right = True
            elif end < timestamp:
                before, previous = (held, latest), latest
                break
            else:
                changes.append((window_of((start, end)), (held, latest), True, True))
                if end == timestamp:
                    if latest >= timestamp:  # a record of this time made the other windows, or they were deleted
                        return changes
                    has_left = True
                    previous = latest
                elif after == NO_TIMESTAMP:
                    after, after_start = latest, start
        # Kafka Streams makes the window that ends with the record twice if the one before it is next to it, each time
        # without an old value.
        least = timestamp - difference + (not has_left and not self._java_defects)
        if previous is not None and previous + 1 not in starts and previous + 1 >= least:
            changes.append((window_of((previous + 1, previous + 1 + difference)), None, True, False))
        if not has_left:
            joins = previous is not None and before is not None and timestamp - difference <= previous
            seed = (before[0], timestamp) if joins and before is not None else None
            changes.append((window_of((timestamp - difference, timestamp)), seed, True, False))
        if not has_right and after > timestamp:
            seed = self._timed.get(raw, after_start, 0)  # not the object that the aggregator may change in place
            changes.append((window_of((timestamp + 1, timestamp + 1 + difference)), seed, False, False))
        return changes

    def _early(self, raw: bytes, timestamp: int) -> list[Change]:
        """The changes of a record in the first window that there can be, which begins at 0."""
        difference = self._difference
        starts: set[int] = set()
        changes: list[Change] = []
        first: Seed = None
        after, after_start = NO_TIMESTAMP, 0
        previous: int | None = None
        has_right = False
        for _, start, _, held, latest in self._timed.find(raw, 0, timestamp + 1):
            starts.add(start)
            if start <= timestamp:
                after, after_start = latest, start
            if start == 0:
                first = held, latest
                if latest < timestamp:
                    previous = latest
            elif start <= timestamp:
                changes.append((window_of((start, start + difference)), (held, latest), True, True))
            else:
                has_right = True
        if not has_right and after > timestamp:
            seed = self._timed.get(raw, after_start, 0)
            changes.append((window_of((timestamp + 1, timestamp + 1 + difference)), seed, False, False))
        if previous is not None and previous + 1 not in starts:
            changes.append((window_of((previous + 1, previous + 1 + difference)), None, True, False))
        changes.append((window_of((0, difference)), first, True, first is not None))
        return changes

    def put(
        self,
        key: Any,
        value: Any,
        timestamp: int,
        headers: HeaderList | None,
        change: Change,
    ) -> bool:
        """Puts one window and sends it on; returns whether no function failed."""
        window, seed, adds, stored = change
        try:
            raw = self._write_key(key)
            held, latest = (self._initializer(), timestamp) if seed is None else (seed[0], seed[1])
            old = held if stored or (adds and self._java_defects) else None
            new = self._aggregator(key, value, held) if adds else held
            if adds:
                latest = timestamp if held is None else max(timestamp, latest)
            if stored and self._old_values and not self._silent and type(old) not in UNCHANGEABLE:
                old = self._timed.get(raw, window.start, 0)[0]  # The aggregator may have changed it in place.
            put_at = latest
            if new is None:
                put_at = timestamp
                if adds and not stored:
                    self._deleted_nothing()
            self._timed.put(raw, window.start, 0, new, put_at, headers)
        except Exception as error:
            self._fail(error, key, value, timestamp, headers)
            return False
        if not self._silent:
            self._forward(Windowed(key, window), (new, old if self._old_values else None), latest, headers)
        return True
