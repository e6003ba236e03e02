"""A table that announces each of its changes while it sends it on: for joins in which both tables are made of it.

Such a join gets one change twice, once by each of its tables, and the first time the row that it looks up in the other
table is the new one already (semantics 169). The announcement tells it the row from before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dsl.processors.tables.operator import TableOperator
from dsl.processors.tables.view import LookUp, LookUpAsOf, Row, TableView
from processor_api.context import OperatorContext
from processor_api.processor import Operator, OwnTime, own_serdes, own_time
from processor_api.record import NO_TIMESTAMP, Forward, HeaderList
from processor_api.serde import Serde

_NO_KEY = object()


class Announcement:
    """The change that a table sends on at the moment, in one task."""

    __slots__ = ("key", "old", "seen", "shows_old")

    def __init__(self) -> None:
        self.key: Any = _NO_KEY
        """Its key; one that equals no other while the table sends nothing on."""
        self.old: Any = None
        """The value before the change; ``None`` if there was no row."""
        self.seen: set[tuple[str, str]] = set()
        """The joins that have had the change, each with the side that had it."""
        self.shows_old = False
        """Whether the view from before shows the old value to the side of a join that asks now."""

    @staticmethod
    def of(context: OperatorContext, store: str) -> Announcement:
        """Returns that of the table with a store."""
        return context.shared(f"changes of {store}", Announcement)


@dataclass(frozen=True)
class AnnouncedTable(Operator):
    """The operator of a table, which announces what it sends on."""

    announced: TableOperator
    store: str
    """The store of the table, or the buffer of its changes that wait: it names the announcements."""

    def own_serdes(self) -> Mapping[str, Serde[Any] | None]:
        """Returns those of the operator, which has got the application's defaults already."""
        return own_serdes(self.announced)

    def own_time(self) -> OwnTime | None:
        """Returns that of the operator."""
        return own_time(self.announced)

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function of the operator."""
        announcement, forward = Announcement.of(context, self.store), context.forward

        def announcing(key: Any, change: Any, timestamp: int, headers: HeaderList | None) -> None:
            if len(change) > 2:  # not the latest of a versioned table: its row stays
                forward(key, change, timestamp, headers)
                return
            announcement.key, announcement.old = key, change[1]
            try:
                forward(key, change, timestamp, headers)
            finally:
                announcement.key = _NO_KEY
                announcement.seen.clear()

        return self.announced.bind(_With(context, announcing))


class _With:
    """A context with another function to send on."""

    def __init__(self, context: OperatorContext, forward: Forward) -> None:
        self._context = context
        self.forward = forward

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


@dataclass(frozen=True)
class BeforeView:
    """The view of an announced table as it was before the change that it sends on."""

    view: TableView
    store: str
    """The store that names the announcements."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Those of the view."""
        return self.view.stores

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns a look-up that knows the row from before."""
        announcement, get = Announcement.of(context, self.store), self.view.bind(context, forwarded=forwarded)

        def look_up(key: Any) -> Row | None:
            if announcement.key != key or not announcement.shows_old:
                return get(key)
            return None if announcement.old is None else (announcement.old, NO_TIMESTAMP)

        return look_up

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns ``None``: what was before is asked for without a time."""
        return None


@dataclass(frozen=True, kw_only=True)
class Announced:
    """The announcements that one side of a join needs, since both of its tables are made of the same ones."""

    join: str
    """The name of the join's result."""
    other: tuple[str, ...]
    """Stores through which the other table is read, and of which this side's table is made."""
    own: tuple[str, ...]
    """Stores through which this side's table is read, and of which the other table is made."""
    other_before: Any
    """The view of the other table before the change."""
