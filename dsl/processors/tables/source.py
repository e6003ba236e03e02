"""The operator that turns records into a table: ``table(...)`` and ``to_table()`` (semantics 22, 35, 36)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.processors.tables.operator import TableOperator, marking_late_puts, send_on_flush
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList


@dataclass(frozen=True, kw_only=True)
class TableSourceOperator(TableOperator):
    """Takes every record with a key as an update, and a null value as a deletion, also when nothing changes.

    An update that is out of order overwrites, but not in a versioned store. Without a store it is only turned into a
    change.
    """

    def bind(self, context: OperatorContext) -> Forward:
        if self.store is None:
            return self._without_store(context)
        store = context.store(self.store)
        if send_on_flush(context, store, self.old_values):
            return self._cached(context, store)
        return self._uncached(context, store)

    def _without_store(self, context: OperatorContext) -> Forward:
        forward, drop = context.forward, context.drop

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None:
                drop(DropReason.NULL_KEY)
                return
            forward(key, (value, None), timestamp, headers)

        return process

    def _cached(self, context: OperatorContext, store: Any) -> Forward:
        put, drop, fail = store.put, context.drop, context.fail

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None:
                drop(DropReason.NULL_KEY)
                return
            try:
                put(key, value, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)

        return process

    def _uncached(self, context: OperatorContext, store: Any) -> Forward:
        get, drop, fail = store.get, context.drop, context.fail
        put, forward = marking_late_puts(store, context.forward)
        old_values = self.old_values

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            if key is None:
                drop(DropReason.NULL_KEY)
                return
            old = None
            try:
                if old_values and (found := get(key)) is not None:
                    old = found[0]
                put(key, value, timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, (value, old), timestamp, headers)

        return process
