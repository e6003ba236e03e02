"""Operators that group a table by new keys and aggregate the groups (semantics 14, 41, 42)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.stateless import paired
from dsl.processors.tables.operator import (
    UNCHANGEABLE,
    ChangeReader,
    TableOperator,
    is_versioned,
    marking_late_puts,
    send_on_flush,
)
from dsl.processors.user_functions import NoPairError, no_pair, unshared, user_function
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList

OLDER_READERS = ("0.", "1.", "2.", "3.0", "3.1", "3.2", "3.3", "3.4")
"""Values of ``upgrade.from`` whose workers cannot read a change of two values (KIP-904)."""

NO_GROUP = (None, None)


@dataclass(frozen=True)
class TableGroupBy(ChangeReader):
    """Sends the removal of the old value and the addition of the new one to their groups.

    Within one group they are one change; else two, the removal first. A half whose new key or value is null is left
    out, and one for which the selector returns ``None``. So are changes of a versioned table that are not the latest,
    which as in Kafka Streams are not counted as dropped (semantics 38).
    """

    selector: Callable[[Any, Any], tuple[Any, Any] | None] = field(metadata=user_function("key", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        process = self._bind(context)
        if not self.versioned:
            return process

        def latest_only(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            # A third part marks a change that is not the latest.
            if len(value) == 2:
                process(key, value, timestamp, headers)

        return latest_only

    def _bind(self, context: OperatorContext) -> Forward:
        selector, forward, fail = self.selector, context.forward, context.fail
        older = str(context.processing_context().app_configs().get("upgrade.from") or "")
        together = not older.startswith(OLDER_READERS)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            new, old = value[0], value[1]
            new_key = old_key = None
            try:
                if new is not None:
                    pair = selector(key, new)
                    new_key, new = NO_GROUP if pair is None else paired(pair)
                if old is not None:
                    pair = selector(key, old)
                    old_key, old = NO_GROUP if pair is None else paired(pair)
                removes = old_key is not None and old is not None
                adds = new_key is not None and new is not None
                # By type as well: 1 and True are equal, but two keys once they are written.
                same = together and removes and adds and type(old_key) is type(new_key) and old_key == new_key
            except NoPairError as error:
                fail(no_pair(selector, error.given), key, value, timestamp, headers)
                return
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if same:
                forward(new_key, (new, old), timestamp, headers)
                return
            if removes:
                forward(old_key, (None, old), timestamp, headers)
            if adds:
                forward(new_key, (new, None), timestamp, headers)

        return process


@dataclass(frozen=True, kw_only=True)
class TableAggregate(TableOperator):
    """Aggregates the rows of each group: subtracts the old value, then adds the new one.

    Where there is no aggregate yet, nothing is subtracted.
    """

    initializer: Callable[[], Any] = field(metadata=user_function())
    adder: Callable[[Any, Any, Any], Any] = field(metadata=user_function("key", "value", "aggregate"))
    subtractor: Callable[[Any, Any, Any], Any] = field(metadata=user_function("key", "value", "aggregate"))

    def bind(self, context: OperatorContext) -> Forward:
        initializer, adder, subtractor = unshared(self.initializer), self.adder, self.subtractor

        def compute(key: Any, change: Any, aggregate: Any) -> Any:
            if aggregate is not None and change[1] is not None:
                aggregate = subtractor(key, change[1], aggregate)
            if change[0] is not None:
                aggregate = adder(key, change[0], initializer() if aggregate is None else aggregate)
            return aggregate

        return _bind(context, self, compute)


@dataclass(frozen=True, kw_only=True)
class TableReduce(TableOperator):
    """Reduces the rows of each group: subtracts the old value, then adds the new one; the first is taken as it is."""

    adder: Callable[[Any, Any], Any] = field(metadata=user_function("aggregate", "value"))
    subtractor: Callable[[Any, Any], Any] = field(metadata=user_function("aggregate", "value"))

    def bind(self, context: OperatorContext) -> Forward:
        adder, subtractor = self.adder, self.subtractor

        def compute(key: Any, change: Any, aggregate: Any) -> Any:
            if aggregate is not None and change[1] is not None:
                aggregate = subtractor(aggregate, change[1])
            if change[0] is not None:
                aggregate = change[0] if aggregate is None else adder(aggregate, change[0])
            return aggregate

        return _bind(context, self, compute)


def _bind(context: OperatorContext, operator: TableOperator, compute: Callable[[Any, Any, Any], Any]) -> Forward:
    store = context.store(str(operator.store))
    get, fail = store.get, context.fail
    put, forward = marking_late_puts(store, context.forward)
    versioned = is_versioned(store)
    old_values = operator.old_values
    cached = send_on_flush(context, store, old_values)
    shows_old = old_values and not cached
    deleted_nothing = context.counting(DropReason.AGGREGATE_DELETED_NOTHING)

    def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        try:
            found = get(key)
            if found is None:
                old, latest = None, timestamp
            else:
                old = found[0]
                latest = found[1] if found[1] > timestamp else timestamp
            new = compute(key, value, old)
            if shows_old and type(old) not in UNCHANGEABLE:  # The functions may have changed it in place.
                old = get(key)[0]
            put_at = latest
            if new is None:
                if found is None and value[0] is not None:
                    deleted_nothing()
                if not versioned:
                    put_at = timestamp
            put(key, new, put_at, headers)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if not cached:
            forward(key, (new, old if old_values else None), latest, headers)

    return process
