"""The answers of stores to the queries of ``KafkaStreams.query`` (KIP-796), in parts that kinds put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.record import Record
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.queries import ResultOrder
from state.write_buffer.store_kind import Answer

UNANSWERED: Any = object()
"""The answer to a query of a known type that stores of this kind cannot answer."""


class QueryRows:
    """An answer that is an iterator.

    :param found: the store's iterator.
    :param shown: converts a row of it to a row of the answer.
    """

    def __init__(self, found: Any, shown: Callable[[Any], Any] | None = None) -> None:
        self.found = found
        self.shown = shown or itself


def itself(value: Any) -> Any:
    """Returns the value as the store gives it."""
    return value


def value_only(value: Any) -> Any:
    """The value of a pair of value and timestamp, or of a value with timestamp and headers."""
    return None if value is None else value[0]


def timestamped(value: Any) -> Any:
    """Returns a value with timestamp and headers without its headers."""
    return None if value is None else ValueAndTimestamp(value[0], value[1])


def pairs(shown: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Returns a function that converts the value of a row."""
    return lambda row: (row[0], shown(row[1]))


def record_of(row: Any) -> Record[Any, Any]:
    """A row of a store with headers as a record."""
    key, found = row
    return Record(key, found.value, found.timestamp, found.headers)


def value_of_key(shown: Callable[[Any], Any]) -> Answer:
    """Answers with the value of the query's key."""
    return lambda store, query: shown(store.get(query.key))


def values_of_range(shown: Callable[[Any], Any]) -> Answer:
    """Answers with the rows of the query's range of keys."""

    def answer(store: Any, query: Any) -> QueryRows:
        read = store.reverse_range if query.order is ResultOrder.DESCENDING else store.range
        return QueryRows(read(query.lower, query.upper), shown)

    return answer
