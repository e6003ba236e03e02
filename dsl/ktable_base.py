"""The methods of a table that return the same type of table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from dsl import table_calls
from dsl.draft import Place
from dsl.options import Materialized, NamedLike

__all__ = ["KTableBase"]

K = TypeVar("K")
V = TypeVar("V")


class KTableBase(Generic[K, V]):
    """What :class:`~dsl.fluent.KTable` inherits."""

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
        return type(self)(table_calls.filter_(self._place, predicate, False, materialized, name))

    def filter_not(
        self,
        predicate: Callable[[K, V], object],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> Self:
        """The rows for which ``predicate(key, value)`` does not hold; see :meth:`filter`."""
        return type(self)(table_calls.filter_(self._place, predicate, True, materialized, name))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.name})"
