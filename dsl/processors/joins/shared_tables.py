"""One side of a join of two tables that are made of the same one: a change arrives by both sides (semantics 169).

The first side that has it finds the new row in the other table already. So it looks up what was there before, and sends
on the whole change of the result. The other side repeats the new result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl.processors.announced import Announced, Announcement
from dsl.table_view import LookUp
from processor_api.context import OperatorContext
from processor_api.record import Forward, HeaderList


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
                return
            new_result = old_result = result(new, other)
            if not old_values:
                old_result = None
            elif not is_second:
                old_result = result(old, was)
        except Exception as error:
            fail(error, key, value, timestamp, headers)
            return
        forward(key, (new_result, old_result), latest, headers)

    return process
