"""Streams, tables, and what lies between them when records are grouped.

These types name each other in a circle (a stream is grouped, counted into a table, and becomes a stream again), so they
share a module; each method only names its types and hands over to the module that knows what the call adds to the plan.
Wherever a method takes ``name``, it names the operator's node and, through it, internal topics; wherever it takes
``materialized``, the table's store.

``None`` stands for Kafka's null. Any key or value of a stream may be null and any function may return it, so types say
only what a key or value is when it is not null: ``KStream[str, int]`` may hold null values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

from dsl.kstream_base import KStreamBase
from dsl.ktable_base import KTableBase
from dsl.options import Grouped, Materialized, NamedLike
from dsl.plan import group_nodes, stream_nodes, table_nodes
from dsl.plan.group_nodes import Grouping
from dsl.plan.table_nodes import TableGrouping
from processor_api.processor import FixedKeyProcessor, Processor

__all__ = ["KGroupedStream", "KGroupedTable", "KStream", "KTable"]

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")


class KStream(KStreamBase[K, V]):
    """A stream of records, each a fact of its own.

    Operators keep timestamps and headers. After one that may change keys (``map``, ``flat_map``, ``select_key``,
    ``process``, ``group_by``), the next that needs equal keys in one place sends the records through an internal topic
    first (conformance 102); prefer the ``..._values`` variants where the key stays.
    """

    __slots__ = ()

    def map(self, mapper: Callable[[K, V], tuple[K2 | None, V2 | None]], *, name: NamedLike = None) -> KStream[K2, V2]:
        """Replaces each record by the ``(key, value)`` that ``mapper(key, value)`` returns."""
        return KStream(stream_nodes.map_(self._place, mapper, name))

    def map_values(self, mapper: Callable[[V], V2 | None], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each value by ``mapper(value)``. The mapper is called for null values too."""
        return KStream(stream_nodes.map_values(self._place, mapper, False, name))

    def map_values_with_key(self, mapper: Callable[[K, V], V2 | None], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each value by ``mapper(key, value)``."""
        return KStream(stream_nodes.map_values(self._place, mapper, True, name))

    def flat_map(
        self, mapper: Callable[[K, V], Iterable[tuple[K2 | None, V2 | None]]], *, name: NamedLike = None
    ) -> KStream[K2, V2]:
        """Replaces each record by any number of ``(key, value)``; the iterable is read to its end first."""
        return KStream(stream_nodes.flat_map(self._place, mapper, name))

    def flat_map_values(self, mapper: Callable[[V], Iterable[V2 | None]], *, name: NamedLike = None) -> KStream[K, V2]:
        """Replaces each record by one of the same key for each value in ``mapper(value)``."""
        return KStream(stream_nodes.flat_map_values(self._place, mapper, False, name))

    def flat_map_values_with_key(
        self, mapper: Callable[[K, V], Iterable[V2 | None]], *, name: NamedLike = None
    ) -> KStream[K, V2]:
        """Replaces each record by one of the same key for each value in ``mapper(key, value)``."""
        return KStream(stream_nodes.flat_map_values(self._place, mapper, True, name))

    def select_key(self, mapper: Callable[[K, V], K2 | None], *, name: NamedLike = None) -> KStream[K2, V]:
        """Replaces each key by ``mapper(key, value)``."""
        return KStream(stream_nodes.select_key(self._place, mapper, name))

    def process(
        self, supplier: Callable[[], Processor[K, V, K2, V2]], *stores: str, name: NamedLike = None
    ) -> KStream[K2, V2]:
        """Runs a processor that ``supplier()`` makes for each task, connected to the named stores.

        Keys may change in it; where they do not, use :meth:`process_values`. Add the stores to the builder first, or
        let the supplier bring them along in a method ``stores()``.
        """
        return KStream(stream_nodes.process(self._place, supplier, stores, False, name))

    def process_values(
        self, supplier: Callable[[], FixedKeyProcessor[K, V, V2]], *stores: str, name: NamedLike = None
    ) -> KStream[K, V2]:
        """As :meth:`process`, with a processor that cannot change keys, so that no repartition follows."""
        return KStream(stream_nodes.process(self._place, supplier, stores, True, name))

    def to_table(self, *, name: NamedLike = None, materialized: Materialized[K, V] | str | None = None) -> KTable[K, V]:
        """Reads the records as updates of a table: the latest per key, a null value deletes."""
        return KTable(stream_nodes.to_table(self._place, materialized, name))

    def group_by_key(self, grouped: Grouped[K, V] | str | None = None) -> KGroupedStream[K, V]:
        """Groups the records by their keys, to be aggregated."""
        return KGroupedStream(group_nodes.group_by_key(self._place, grouped))

    def group_by(
        self, selector: Callable[[K, V], K2 | None], grouped: Grouped[K2, V] | str | None = None
    ) -> KGroupedStream[K2, V]:
        """Groups the records by ``selector(key, value)``; always through an internal topic.

        The topic is named after ``grouped``, if it (or a plain string in its place) gives a name, else after the store.
        """
        return KGroupedStream(group_nodes.group_by(self._place, selector, grouped))


class KTable(KTableBase[K, V]):
    """The latest value per key, and the changes that lead there.

    Without a store a table is only its changes; it gets one if it is named by ``materialized`` or if an operator needs
    its values (conformance 109). Functions never see a null value: a deletion stays a deletion.
    """

    __slots__ = ()

    def map_values(
        self,
        mapper: Callable[[V], V2 | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V2] | str | None = None,
    ) -> KTable[K, V2]:
        """The same keys, each with ``mapper(value)``; ``None`` deletes the row."""
        return KTable(table_nodes.map_values(self._place, mapper, False, materialized, name))

    def map_values_with_key(
        self,
        mapper: Callable[[K, V], V2 | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V2] | str | None = None,
    ) -> KTable[K, V2]:
        """The same keys, each with ``mapper(key, value)``."""
        return KTable(table_nodes.map_values(self._place, mapper, True, materialized, name))

    @overload
    def to_stream(self, *, name: NamedLike = None) -> KStream[K, V]: ...
    @overload
    def to_stream(self, key_mapper: Callable[[K, V], K2 | None], *, name: NamedLike = None) -> KStream[K2, V]: ...
    def to_stream(self, key_mapper: Callable[[K, V], Any] | None = None, *, name: NamedLike = None) -> KStream[Any, V]:
        """The table's changes as records; a deletion has a null value.

        :param key_mapper: gives each record the key ``key_mapper(key, value)``; it does see null values.
        """
        stream: KStream[K, V] = KStream(table_nodes.to_stream(self._place, name))
        return stream if key_mapper is None else stream.select_key(key_mapper)

    def group_by(
        self, selector: Callable[[K, V], tuple[K2 | None, V2 | None]], grouped: Grouped[K2, V2] | str | None = None
    ) -> KGroupedTable[K2, V2]:
        """Groups the rows by new keys: ``selector(key, value)`` returns the group's key and the value to aggregate.

        Goes through an internal topic and gives the table a store, since a change of a row must be taken out of its old
        group. A row whose new key or value is ``None`` is in no group.
        """
        return KGroupedTable(table_nodes.group_by(self._place, selector, grouped))


class KGroupedStream(Generic[K, V]):
    """A stream grouped by key. Records with a null key or value are dropped (conformance 23).

    A result has the largest timestamp of its records. With a cache (the default) only the last result of a key is sent
    on per commit; see :class:`~dsl.options.Materialized`.
    """

    __slots__ = ("_grouping",)

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping

    def count(
        self, *, name: NamedLike = None, materialized: Materialized[K, int] | str | None = None
    ) -> KTable[K, int]:
        """The number of records per key, written as a 64-bit integer unless a serde says otherwise."""
        return KTable(group_nodes.count(self._grouping, materialized, name))

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> KTable[K, V]:
        """Combines the values of a key: the first as it is, then ``reducer(so_far, value)``; ``None`` deletes."""
        return KTable(group_nodes.reduce(self._grouping, reducer, materialized, name))

    def aggregate(
        self,
        initializer: Callable[[], V2],
        aggregator: Callable[[K, V, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V2] | str | None = None,
    ) -> KTable[K, V2]:
        """Starts a key with ``initializer()``, goes on with ``aggregator(key, value, so_far)``; ``None`` deletes."""
        return KTable(group_nodes.aggregate(self._grouping, initializer, aggregator, materialized, name))


class KGroupedTable(Generic[K, V]):
    """A table grouped by new keys. Every change takes the old value out of its group and puts the new one in."""

    __slots__ = ("_grouping",)

    def __init__(self, grouping: TableGrouping) -> None:
        self._grouping = grouping

    def count(
        self, *, name: NamedLike = None, materialized: Materialized[K, int] | str | None = None
    ) -> KTable[K, int]:
        """The number of rows per group."""
        return KTable(table_nodes.count(self._grouping, materialized, name))

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V] | str | None = None,
    ) -> KTable[K, V]:
        """Combines the values of a group: ``subtractor(so_far, old)`` first, then ``adder(so_far, new)``."""
        return KTable(table_nodes.reduce(self._grouping, adder, subtractor, materialized, name))

    def aggregate(
        self,
        initializer: Callable[[], V2],
        adder: Callable[[K, V, V2], V2 | None],
        subtractor: Callable[[K, V, V2], V2 | None],
        *,
        name: NamedLike = None,
        materialized: Materialized[K, V2] | str | None = None,
    ) -> KTable[K, V2]:
        """Starts a group with ``initializer()``; a change is ``subtractor(key, old, so_far)``, then ``adder`` likewise.

        An aggregate of ``None`` deletes the group.
        """
        return KTable(table_nodes.aggregate(self._grouping, initializer, adder, subtractor, materialized, name))
