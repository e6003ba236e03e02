"""The methods of a stream that return the same type of stream, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from dsl.branch import BranchedKStream
from dsl.options import NamedLike, Produced, Repartitioned
from dsl.plan import stream_nodes
from dsl.plan.builder import Place
from processor_api.errors import TopologyError
from processor_api.nodes import TopicNameExtractor

__all__ = ["KStreamBase"]

K = TypeVar("K")
V = TypeVar("V")


class KStreamBase(Generic[K, V]):
    """What :class:`~dsl.streams.KStream` inherits."""

    __slots__ = ("_place",)

    def __init__(self, place: Place) -> None:
        self._place = place

    def filter(self, predicate: Callable[[K, V], object], *, name: NamedLike = None) -> Self:
        """Keeps the records for which ``predicate(key, value)`` holds."""
        return type(self)(stream_nodes.filter_(self._place, predicate, False, name))

    def filter_not(self, predicate: Callable[[K, V], object], *, name: NamedLike = None) -> Self:
        """Drops the records for which ``predicate(key, value)`` holds."""
        return type(self)(stream_nodes.filter_(self._place, predicate, True, name))

    def peek(self, action: Callable[[K, V], object], *, name: NamedLike = None) -> Self:
        """Calls ``action(key, value)`` for each record and hands the record on as it is."""
        return type(self)(stream_nodes.peek(self._place, action, name))

    def foreach(self, action: Callable[[K, V], object], *, name: NamedLike = None) -> None:
        """Calls ``action(key, value)`` for each record; the stream ends here."""
        stream_nodes.foreach(self._place, action, name)

    def merge(self, other: Self, *, name: NamedLike = None) -> Self:
        """The records of both streams, in no particular order between them.

        :raises TopologyError: if it is no stream, or comes from another builder.
        """
        if not isinstance(other, KStreamBase):
            raise TopologyError(f"a stream is merged with another stream, not with {other!r}; see KTable.to_stream")
        return type(self)(stream_nodes.merge(self._place, other._place, name))

    def repartition(self, repartitioned: Repartitioned[K, V] | None = None) -> Self:
        """Sends the records through an internal topic, so that equal keys meet in one task.

        The topic is ``<application.id>-<name>-repartition``. Records without a key are dropped before it
        (conformance 28). What is grouped or joined after a key change is repartitioned anyway; this is for choosing the
        number of partitions or the partitioner.
        """
        return type(self)(stream_nodes.repartition(self._place, repartitioned))

    def to(self, topic: str | TopicNameExtractor, produced: Produced[K, V] | None = None) -> None:
        """Writes the records to a topic, or to the topic that ``topic(key, value, record_context)`` names for each.

        Topics must exist; they are not created. Serdes that ``produced`` leaves out come from the operators before, if
        they are known there, else from the application's defaults.
        """
        stream_nodes.to(self._place, topic, produced)

    def split(self, *, name: NamedLike = None) -> BranchedKStream[K, V, Self]:
        """Splits the stream by predicates.

        ::

            parts = orders.split(name="orders-").branch(is_big, Branched.as_("big")).default_branch()
            parts["orders-big"].to("big-orders")
        """
        return BranchedKStream(self._place, type(self), name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._place.name})"
