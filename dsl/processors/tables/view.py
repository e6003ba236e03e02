"""Views of tables: how an operator reads the values of a table that it joins with.

A table with a store is read there. A table without one is computed, at each look-up, from the nearest store above it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from processor_api.context import OperatorContext

Row = tuple[Any, int]
"""A value and its timestamp."""
LookUp = Callable[[Any], Row | None]
"""Finds the row of a key: the latest."""
LookUpAsOf = Callable[[Any, int], Row | None]
"""Finds the row of a key that was valid at a time in ms."""


class TableView(Protocol):
    """The way to the values of a table, as frozen data; it is bound once for each task."""

    @property
    def stores(self) -> tuple[str, ...]:
        """The stores that are read, to be connected to the operator that looks up."""
        ...

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns the look-up of one task.

        :param forwarded: finds the row that those below know, without the change of it that waits in a cache.
        """
        ...

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns the look-up as of a time; ``None`` if the table is not versioned."""
        ...


@dataclass(frozen=True)
class TableStoreView:
    """The view of a table with a store."""

    store: str

    @property
    def stores(self) -> tuple[str, ...]:
        """The store."""
        return (self.store,)

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns the store's own look-up."""
        store = context.store(self.store)
        # A store that is never cached has one look-up only.
        get: LookUp = getattr(store, "get_forwarded", store.get) if forwarded else store.get
        return get

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns the look-up in the history of a versioned store."""
        store = context.store(self.store)
        if not getattr(store, "versioned", False):
            return None
        get: LookUpAsOf = store.get_as_of
        return get


@dataclass(frozen=True)
class ComputedView:
    """The view of a table whose values are computed from those of the one above; timestamps stay.

    :param compute: ``(key, value)`` to the value of this table; it is not called without a value above.
    """

    above: TableView
    compute: Callable[[Any, Any], Any]

    @property
    def stores(self) -> tuple[str, ...]:
        """Those of the table above."""
        return self.above.stores

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns a look-up that computes."""
        above, compute = self.above.bind(context, forwarded=forwarded), self.compute

        def look_up(key: Any) -> Row | None:
            found = above(key)
            if found is None:
                return None
            value = compute(key, found[0])
            return None if value is None else (value, found[1])

        return look_up

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns a look-up that computes from the row of that time."""
        above, compute = self.above.bind_as_of(context), self.compute
        if above is None:
            return None

        def look_up(key: Any, as_of: int) -> Row | None:
            found = above(key, as_of)
            if found is None:
                return None
            value = compute(key, found[0])
            return None if value is None else (value, found[1])

        return look_up
