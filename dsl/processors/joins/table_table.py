"""The operators of a join of two tables: one for the changes of each side, and one for the result.

Each side looks the key up in the other table (semantics 33, 34); its result has the larger of the two timestamps
(semantics 18). Changes of a versioned table that are not the latest are dropped (semantics 38).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.announced import Announced
from dsl.processors.joins.shared_tables import JoinRules, bind_shared
from dsl.table_operator import ChangeReader, TableOperator, dropping_late_changes, marking_late_puts, send_on_flush
from dsl.table_view import LookUp, LookUpAsOf, Row, TableView
from dsl.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.record import Forward, HeaderList

Joiner = Callable[[Any, Any], Any]
"""The user's joiner: ``(left value, right value)`` to the joined value."""


@dataclass(frozen=True, kw_only=True)
class TableJoinSide(ChangeReader):
    """Joins the changes of one table with the rows of the other."""

    joiner: Joiner = field(metadata=user_function("value", "other"))
    """The user's, for the left table's values first."""
    is_left: bool
    """Whether the changes are the left table's."""
    needs_own: bool
    """Whether there is no result without a value of the table that changes."""
    needs_other: bool
    """Whether there is no result without a value of the other table."""
    old_values: bool = False
    """Whether the old result is computed too; set by the compiler."""
    views: tuple[TableView, ...] = ()
    """The other table's; set by the compiler."""
    announced: Announced | None = None
    """The changes that arrive by both sides; set by the compiler."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        process = self._bind(context)
        return dropping_late_changes(context, process) if self.versioned else process

    def _bind(self, context: OperatorContext) -> Forward:
        get = self.views[0].bind(context, forwarded=True)  # else changes of both sides that wait would miss each other
        forward, fail = context.forward, context.fail
        needs_own, needs_other, old_values = self.needs_own, self.needs_other, self.old_values
        join = self.joiner if self.is_left else _reversed(self.joiner)
        if self.announced is not None:
            rules = JoinRules(join, needs_own, needs_other)
            return bind_shared(context, self.announced, rules, get, old_values=old_values)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            new, old = value[0], value[1]
            new_result = old_result = other = None
            latest = timestamp
            try:
                found = get(key)
                if found is not None:
                    other = found[0]
                    if found[1] > timestamp:
                        latest = found[1]
                elif needs_other or (new is None and old is None):
                    return
                alone = not needs_own and other is not None
                if alone or new is not None:
                    new_result = join(new, other)
                if old_values and (alone or old is not None):
                    old_result = join(old, other)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            forward(key, (new_result, old_result), latest, headers)

        return process


def _reversed(joiner: Joiner) -> Joiner:
    def join(right: Any, left: Any) -> Any:
        return joiner(left, right)

    return join


@dataclass(frozen=True, kw_only=True)
class TableJoinResult(TableOperator):
    """Holds the result of a join of tables: puts what both sides send into the store, if there is one."""

    joiner: Joiner = field(metadata=user_function("value", "other"))
    needs_left: bool
    """Whether there is no row without a value of the left table."""
    needs_right: bool
    """Whether there is no row without a value of the right table."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the results of one task."""
        if self.store is None:
            return context.forward
        store, fail = context.store(self.store), context.fail
        put, forward = marking_late_puts(store, context.forward)
        cached = send_on_flush(context, store, self.old_values)

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            try:
                put(key, value[0], timestamp, headers)
            except Exception as error:
                fail(error, key, value, timestamp, headers)
                return
            if not cached:
                forward(key, value, timestamp, headers)

        return process

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns a view that joins the rows of both tables at each look-up."""
        left, right = above
        return JoinView(left, right, self.joiner, needs_left=self.needs_left, needs_right=self.needs_right)


@dataclass(frozen=True)
class JoinView:
    """The view of a join of tables without a store: it joins at each look-up."""

    left: TableView
    right: TableView
    joiner: Joiner = field(metadata=user_function("value", "other"))
    needs_left: bool
    needs_right: bool

    @property
    def stores(self) -> tuple[str, ...]:
        """Those of both tables."""
        return tuple(dict.fromkeys((*self.left.stores, *self.right.stores)))

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns a look-up that joins."""
        get_left, get_right = (one.bind(context, forwarded=forwarded) for one in (self.left, self.right))
        joiner = self.joiner
        needs_left, needs_right = self.needs_left, self.needs_right

        def look_up(key: Any) -> Row | None:
            left = get_left(key)
            if left is None and needs_left:
                return None
            right = get_right(key)
            if right is None and (needs_right or left is None):
                return None
            value = joiner(left and left[0], right and right[0])
            if value is None:
                return None
            return value, max(row[1] for row in (left, right) if row is not None)

        return look_up

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns ``None``: a join that is not stored has no history, though its tables may have one."""
        return None
