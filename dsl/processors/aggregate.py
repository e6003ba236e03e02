"""Aggregations of a grouped stream (semantics 13, 19, 23, 37).

A result's timestamp is the largest of the records in it; a deletion is stored, and with a cache sent on, with that of
the record that caused it. Records without a key or a value are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.tables.operator import (
    UNCHANGEABLE,
    TableOperator,
    is_versioned,
    marking_late_puts,
    send_on_flush,
)
from dsl.processors.user_functions import unshared, user_function
from processor_api.context import OperatorContext, RecordRun
from processor_api.record import DropReason, Forward, HeaderList
from processor_api.serde import Serdes


@dataclass(frozen=True, kw_only=True)
class Count(TableOperator):
    """A count of the records of each key: an operator of its own, since it needs no function of the user."""

    def bind(self, context: OperatorContext) -> Forward:
        store = context.store(str(self.store))
        drop, fail = context.drop, context.fail
        put, forward = marking_late_puts(store, context.forward)
        old_values = self.old_values
        cached = send_on_flush(context, store, old_values)
        # A key without a row has no old value, with a cache or without (semantics 37).
        first_old = 0 if self.java_defects else None

        # The last three arguments are given for a run, whose records of one key are counted together.
        def process(
            key: Any,
            value: Any,
            timestamp: int,
            headers: HeaderList | None,
            get: Callable[[Any], Any] = store.get,
            records: int = 1,
            sends: bool = not cached,
        ) -> None:
            if key is None or value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            latest = timestamp
            try:
                found = get(key)
                if found is None:
                    old, new = first_old, records
                else:
                    old = found[0]
                    new = old + records
                    if found[1] > timestamp:
                        latest = found[1]
                put(key, new, latest, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if sends:
                forward(key, (new, old if old_values else None), latest, headers)

        if (read_run := getattr(store, "read_run", None)) is not None:

            def take_run(run: RecordRun) -> bool:
                rows = read_run(run.keys, 0)
                if rows is None:
                    return False
                for key, records, timestamp in run:
                    process(key, run, timestamp, None, rows.get, records, sends=False)
                return True

            key_serde, value_serde = store.serdes
            # Each count can be put then, and nobody looks at those in the middle of a run.
            if value_serde is Serdes.LONG and (cached or context.ignores(key_serde, value_serde)):
                context.take_runs(take_run)
        return process


@dataclass(frozen=True, kw_only=True)
class Aggregate(TableOperator):
    """An aggregation of the records of each key by functions of the user."""

    initializer: Callable[[], Any] = field(metadata=user_function())
    aggregator: Callable[[Any, Any, Any], Any] = field(metadata=user_function("key", "value", "aggregate"))

    def bind(self, context: OperatorContext) -> Forward:
        initializer, aggregator = unshared(self.initializer), self.aggregator
        store = context.store(str(self.store))
        get, drop, fail = store.get, context.drop, context.fail
        put, forward = marking_late_puts(store, context.forward)
        versioned = is_versioned(store)
        old_values = self.old_values
        cached = send_on_flush(context, store, old_values)
        shows_old, java_defects = old_values and not cached, self.java_defects
        deleted_nothing = context.counting(DropReason.AGGREGATE_DELETED_NOTHING)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None or value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            latest = timestamp
            try:
                found = get(key)
                if found is None:
                    old = initializer()
                else:
                    old = found[0]
                    if found[1] > timestamp:
                        latest = found[1]
                new = aggregator(key, value, old)
                if shows_old:
                    if found is None:
                        old = initializer() if java_defects else None
                    elif type(old) not in UNCHANGEABLE:  # The aggregator may have changed it in place.
                        old = get(key)[0]
                put_at = latest
                if new is None:
                    if found is None:
                        deleted_nothing()
                    # A deletion has its own time, but in a versioned store one after what it deletes (semantics 13).
                    if not versioned:
                        put_at = timestamp
                put(key, new, put_at, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not cached:
                forward(key, (new, old if old_values else None), latest, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class Reduce(TableOperator):
    """A reduction of the values of each key: the first is taken as it is, and has no old value."""

    reducer: Callable[[Any, Any], Any] = field(metadata=user_function("aggregate", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        reducer = self.reducer
        store = context.store(str(self.store))
        get, drop, fail = store.get, context.drop, context.fail
        put, forward = marking_late_puts(store, context.forward)
        versioned = is_versioned(store)
        old_values = self.old_values
        cached = send_on_flush(context, store, old_values)
        shows_old = old_values and not cached

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None or value is None:
                drop(DropReason.NULL_KEY_OR_VALUE)
                return
            latest = timestamp
            try:
                found = get(key)
                if found is None:
                    old, new = None, value
                else:
                    old = found[0]
                    if found[1] > timestamp:
                        latest = found[1]
                    new = reducer(old, value)
                    if shows_old and type(old) not in UNCHANGEABLE:  # The reducer may have changed it in place.
                        old = get(key)[0]
                put(key, new, latest if versioned or new is not None else timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not cached:
                forward(key, (new, old if old_values else None), latest, headers)

        return process
