"""The methods of a table that return the same type of table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from dsl.options import Materialized, NamedLike
from dsl.plan import suppress_nodes, table_nodes
from dsl.plan.builder import Place
from dsl.suppressed import Suppressed

__all__ = ["KTableBase"]

K = TypeVar("K")
V = TypeVar("V")


class KTableBase(Generic[K, V]):
    """What :class:`~dsl.streams.KTable` inherits."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def queryable_store_name(self) -> str | None:
        """The name under which the table can be queried; ``None`` if the user did not name its store."""
        return self._place.store

    def filter(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> Self:
        """The rows for which ``predicate(key, value)`` holds.

        A row that does not pass any more is deleted downstream. Where old values are not known, a row that never passed
        is deleted too (conformance 32); materialize the table before the filter to avoid that.
        """
        return type(self)(table_nodes.filter_(self._place, predicate, False, materialized, name))

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> Self:
        """The rows for which ``predicate(key, value)`` does not hold; see :meth:`filter`."""
        return type(self)(table_nodes.filter_(self._place, predicate, True, materialized, name))

    def suppress(self, suppressed: Suppressed) -> Self:
        """Holds changes back: until some time has passed, or until their windows close (KIP-328).

        What waits for a key is its last change, at the time of the first. Time is stream time, that of the records
        which reach this operator: while none come, nothing is sent on. The table gets a store, since the value before
        the changes must be known.

        :param suppressed: :meth:`Suppressed.until_time_limit <dsl.suppressed.Suppressed.until_time_limit>` or
            :meth:`~dsl.suppressed.Suppressed.until_window_closes`.
        :raises TopologyError: if it waits for windows and there are none; when the topology is built, if the table is
            versioned.
        """
        return type(self)(suppress_nodes.suppress(self._place, suppressed))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.name})"
