"""The operators of a join of two tables: one for the changes of each side, and one for the result.

Each side looks the key up in the other table (semantics 33, 34); its result has the larger of the two timestamps
(semantics 18). Changes of a versioned table that are not the latest are dropped (semantics 38).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.processors.announced import Announced, Announcement
from dsl.processors.tables.operator import (
    ChangeReader,
    TableOperator,
    dropping_late_changes,
    marking_late_puts,
    send_on_flush,
)
from dsl.processors.tables.view import LookUp, LookUpAsOf, Row, TableView
from dsl.processors.user_functions import user_function
from processor_api.context import OperatorContext
from processor_api.record import DropReason, Forward, HeaderList

# One side of a join of two tables that are made of the same one: a change arrives by both sides (semantics 169).
#
# The first side that has it finds the new row in the other table already. So it looks up what was there before, and
# sends on the whole change of the result. The other side repeats the new result.


class JoinRules:
    """The rules of one side of a join: its joiner, with this side's value first, and which values a result needs."""

    def __init__(self, join: Callable[[Any, Any], Any], needs_own: bool, needs_other: bool) -> None:
        self.join = join
        self.needs_own = needs_own
        self.needs_other = needs_other

    def has_result(self, own: Any, other: Any) -> bool:
        """Returns whether two rows, of which either may be missing, are joined."""
        if own is None:
            return not self.needs_own and other is not None
        return not self.needs_other or other is not None

    def result(self, own: Any, other: Any) -> Any:
        """Returns the joined row; ``None`` if there is none."""
        return self.join(own, other) if self.has_result(own, other) else None


class _Turns:
    """Tells which side has a change first."""

    def __init__(self, context: OperatorContext, announced: Announced) -> None:
        self._own = [Announcement.of(context, store) for store in announced.own]
        self._other = [Announcement.of(context, store) for store in announced.other]
        self._all = list(dict.fromkeys([*self._own, *self._other]))
        self._join, self._side = announced.join, context.node

    def take(self, key: Any) -> tuple[bool, bool]:
        """Returns whether this side has a change of a key first, and whether the other one had it before.

        Several tables may send on the same key: each of them is seen by a side once. If this side is the first, views
        of the other table show those as before of which the other side has had nothing."""
        mine = self._join, self._side
        active = [one for one in self._all if one.key == key and mine not in one.seen]
        fresh, passed = list[Announcement](), list[Announcement]()
        for one in active:
            (passed if any(join == self._join for join, _ in one.seen) else fresh).append(one)
            one.seen.add(mine)
        if not any(one in self._other for one in fresh):
            return False, any(one in self._own for one in passed)
        for one in self._other:
            one.shows_old = one in fresh
        return True, False


def bind_shared(
    context: OperatorContext, announced: Announced, rules: JoinRules, get: LookUp, *, old_values: bool
) -> Forward:
    """Returns the function for the changes of one side.

    :param get: looks the other table up.
    :param old_values: whether the old result is sent on too.
    """
    forward, fail, take = context.forward, context.fail, _Turns(context, announced).take
    without_partner = context.counting(DropReason.NO_PARTNER)
    get_before: LookUp = announced.other_before.bind(context, forwarded=True)
    has_result, result, needs_other = rules.has_result, rules.result, rules.needs_other

    def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        new, old = value[0], value[1]
        try:
            found, (is_first, is_second) = get(key), take(key)
            other, latest = (None, timestamp) if found is None else (found[0], max(timestamp, found[1]))
            was = other
            if is_first:
                before = get_before(key)
                was = None if before is None else before[0]
            had = is_first and (has_result(old, was) if old_values else was is not None)
            if not had and other is None and (needs_other or (new is None and old is None)):
                without_partner()
                return
            new_result = old_result = result(new, other)
            if not old_values:
                old_result = None
            # The second side sends the new result as the old one too: the first has told the change (semantics 169).
            elif not is_second:
                old_result = result(old, was)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, (new_result, old_result), latest, headers)

    return process


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

    @property
    def part(self) -> str:
        """The side whose changes come."""
        return "left" if self.is_left else "right"

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        process = self._bind(context)
        return dropping_late_changes(context, process) if self.versioned else process

    def _bind(self, context: OperatorContext) -> Forward:
        get = self.views[0].bind(context, forwarded=True)  # else changes of both sides that wait would miss each other
        forward, fail = context.forward, context.fail
        needs_own, needs_other, old_values = self.needs_own, self.needs_other, self.old_values
        join = self.joiner if self.is_left else _reversed(self.joiner)
        without_partner = context.counting(DropReason.NO_PARTNER)
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
                # Without a row on the other side nothing was sent that this change could take back (semantics 33).
                elif needs_other or (new is None and old is None):
                    without_partner()
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
