"""Operators that filter a table and map its values. The functions never see a null value (semantics 29).

Without a store the old value is computed from the parent's old value; with one it is read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.tables.operator import TableOperator, keeping_lateness, marking_late_puts, send_on_flush
from dsl.processors.tables.view import ComputedView, TableView
from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.record import Forward, HeaderList

Compute = Callable[[Any, Any], Any]
"""``(key, value above)`` to the value."""


@dataclass(frozen=True, kw_only=True)
class TableFilter(TableOperator):
    """Filters the rows of a table: a value that does not pass is a deletion.

    Where old values are known, a deletion of a row that never passed is not sent, except for a versioned table; where
    they are not, it is (semantics 32).
    """

    predicate: Callable[[Any, Any], object] = field(metadata=user_function("key", "value"))
    negate: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        return bind_computed(context, self, self._compute(), skip_nothing=not self.versioned)

    def view(self, above: Sequence[TableView]) -> TableView:
        return ComputedView(above[0], self._compute())

    def _compute(self) -> Compute:
        predicate, negate = self.predicate, self.negate

        def compute(key: Any, value: Any) -> Any:
            if value is None or bool(predicate(key, value)) is negate:
                return None
            return value

        return compute


@dataclass(frozen=True, kw_only=True)
class TableMapValues(TableOperator):
    """Replaces each value of a table by the one that a function returns."""

    mapper: Callable[..., Any] = field(metadata=user_function("value", key_if="with_key"))
    with_key: bool = False

    def bind(self, context: OperatorContext) -> Forward:
        return bind_computed(context, self, self._compute(), skip_nothing=False)

    def view(self, above: Sequence[TableView]) -> TableView:
        return ComputedView(above[0], self._compute())

    def _compute(self) -> Compute:
        mapper = self.mapper

        def compute(key: Any, value: Any) -> Any:
            return None if value is None else mapper(value)

        def compute_with_key(key: Any, value: Any) -> Any:
            return None if value is None else mapper(key, value)

        return compute_with_key if self.with_key else compute


def bind_computed(
    context: OperatorContext, operator: TableOperator, compute: Compute, *, skip_nothing: bool
) -> Forward:
    """Returns the function of a table whose values are computed from those of the one above.

    :param skip_nothing: whether a change without a value, before and after, is left out.
    """
    if operator.store is not None:
        return _with_store(context, operator.store, operator.old_values, compute, skip_nothing)

    def unstored(forward: Forward) -> Forward:
        if operator.old_values:
            return _with_old(context, forward, compute, skip_nothing)
        return _new_only(context, forward, compute)

    return keeping_lateness(unstored, context.forward) if operator.versioned else unstored(context.forward)


def _new_only(context: OperatorContext, forward: Forward, compute: Compute) -> Forward:
    fail = context.fail

    def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        try:
            new = compute(key, value[0])
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, (new, None), timestamp, headers)

    return process


def _with_old(context: OperatorContext, forward: Forward, compute: Compute, skip_nothing: bool) -> Forward:
    fail = context.fail

    def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        try:
            new = compute(key, value[0])
            old = compute(key, value[1])
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if new is None and old is None and skip_nothing:
            return
        forward(key, (new, old), timestamp, headers)

    return process


def _with_store(context: OperatorContext, name: str, old_values: bool, compute: Compute, skip_nothing: bool) -> Forward:
    store = context.store(name)
    get, fail = store.get, context.fail
    put, forward = marking_late_puts(store, context.forward)
    cached = send_on_flush(context, store, old_values)
    # A cache finds the old value itself when it is drained; then it is read only to leave out a change of nothing.
    reads_old = old_values and (skip_nothing or not cached)

    def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        old = None
        try:
            new = compute(key, value[0])
            if reads_old:
                found = get(key)
                if found is not None:
                    old = found[0]
                elif new is None and skip_nothing:
                    return
            put(key, new, timestamp, headers)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        if not cached:
            forward(key, (new, old), timestamp, headers)

    return process
