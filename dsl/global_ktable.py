"""A table that every process of the application holds as a whole."""

from __future__ import annotations

from typing import Generic, TypeVar

from dsl.plan.global_nodes import GlobalTable
from dsl.shown import ShownChain

K = TypeVar("K")
V = TypeVar("V")


class GlobalKTable(ShownChain, Generic[K, V]):
    """A table of the latest values of a topic, with all partitions of it in every process.

    It is filled before the application's tasks start and follows the topic from then on, on a thread of its own, which
    is not synchronised with tasks: a record may meet an older or a newer value (semantics 11). Processors read its
    store by ``context.get_state_store(name)`` without being connected to it.

    ::

        catalogue = builder.global_table("catalogue", materialized="prices")
        priced = orders.join(catalogue, lambda item, cents: cents, key_selector=lambda customer, item: item)
        # catalogue("tea", 320), orders("ann", "tea") -> priced("ann", 320)
    """

    __slots__ = ("_table",)

    def __init__(self, table: GlobalTable) -> None:
        self._table = table

    @property
    def planned(self) -> GlobalTable:
        """The table in the builder's plan, for joins with it."""
        return self._table

    @property
    def queryable_store_name(self) -> str | None:
        """The name under which the table can be queried; ``None`` if the user did not name its store."""
        return self._table.store if self._table.queryable else None
