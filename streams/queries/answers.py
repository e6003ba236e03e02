"""How each kind of store answers each query of ``KafkaStreams.query``. A new kind is a line in `ANSWERS`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.errors import StateError, StoreError
from processor_api.record import Record
from processor_api.stores.contracts import ValueAndTimestamp
from processor_api.stores.factory import StoreBuilder
from processor_api.stores.isolation import IsolationLevel
from state.custom.queryable import why_unreadable
from state.read_views.view import StoreView
from state.registry.kinds import OpenStore
from streams.queries.iterators import QueryIterator
from streams.queries.local_stores import migrated
from streams.queries.query_types import (
    KeyQuery,
    MultiVersionedKeyQuery,
    Query,
    RangeQuery,
    ResultOrder,
    TimestampedKeyQuery,
    TimestampedKeyWithHeadersQuery,
    TimestampedRangeQuery,
    TimestampedRangeWithHeadersQuery,
    TimestampedWindowKeyWithHeadersQuery,
    TimestampedWindowRangeWithHeadersQuery,
    VersionedKeyQuery,
    WindowKeyQuery,
    WindowRangeQuery,
)

__all__ = ["ANSWERS", "Answer", "Rows", "UnknownQueryType", "answer_of", "ask", "level_of"]


class UnknownQueryType(StateError):
    """Stores of this kind cannot be asked this."""


class Rows:
    """A result that is an iterator.

    :param found: the store's.
    :param shown: what a row becomes.
    """

    def __init__(self, found: Any, shown: Callable[[Any], Any] | None = None) -> None:
        self.found = found
        self.shown = shown or _itself


Answer = Callable[[Any, Any], Any]
"""``(store, query)`` to a value, or to `Rows`."""


def _itself(value: Any) -> Any:
    return value


def _value(value: Any) -> Any:
    return None if value is None else value[0]


def _timestamped(value: Any) -> Any:
    return None if value is None else ValueAndTimestamp(value[0], value[1])


def _of_key(show: Callable[[Any], Any]) -> Answer:
    return lambda store, query: show(store.get(query.key))


def _record_of_key(store: Any, query: Any) -> Record[Any, Any] | None:
    found = store.get(query.key)
    return None if found is None else Record(query.key, found.value, found.timestamp, found.headers)


def _of_range(shown: Callable[[Any], Any]) -> Answer:
    def answer(store: Any, query: Any) -> Rows:
        read = store.reverse_range if query.order is ResultOrder.DESCENDING else store.range
        return Rows(read(query.lower, query.upper), shown)

    return answer


def _pairs(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: (row[0], show(row[1]))


def _record(row: Any) -> Record[Any, Any]:
    key, found = row
    return Record(key, found.value, found.timestamp, found.headers)


def _session_record(row: Any) -> Record[Any, Any]:
    key, found = row
    return Record(key, found[0], key.window.end, found[-1])


def _windows_of_key(shown: Callable[[Any], Any]) -> Answer:
    return lambda store, query: Rows(store.fetch_range(query.key, query.time_from, query.time_to), shown)


def _window_records_of_key(store: Any, query: Any) -> Rows:
    return Rows(store.fetch_keys(query.key, query.key, query.time_from, query.time_to), _record)


def _windows(shown: Callable[[Any], Any]) -> Answer:
    return lambda store, query: Rows(store.fetch_all(query.time_from, query.time_to), shown)


def _sessions(shown: Callable[[Any], Any]) -> Answer:
    return lambda store, query: Rows(store.fetch(query.key), shown)


def _versions(store: Any, query: Any) -> Rows:
    read = store.versions if query.order is ResultOrder.ASCENDING else store.backward_versions
    return Rows(read(query.key, query.from_time, query.to_time))


Answers = Mapping[type[Query[Any]], Answer]

_PLAIN: Answers = {KeyQuery: _of_key(_itself), RangeQuery: _of_range(_itself)}
_TIMESTAMPED: Answers = {
    KeyQuery: _of_key(_value),
    RangeQuery: _of_range(_pairs(_value)),
    TimestampedKeyQuery: _of_key(_itself),
    TimestampedRangeQuery: _of_range(_itself),
}
_HEADERS: Answers = {
    KeyQuery: _of_key(_value),
    RangeQuery: _of_range(_pairs(_value)),
    TimestampedKeyQuery: _of_key(_timestamped),
    TimestampedRangeQuery: _of_range(_pairs(_timestamped)),
    TimestampedKeyWithHeadersQuery: _record_of_key,
    TimestampedRangeWithHeadersQuery: _of_range(_record),
}
_VERSIONED: Answers = {
    VersionedKeyQuery: lambda store, query: store.get(query.key, query.as_of),
    MultiVersionedKeyQuery: _versions,
}
_WINDOW: Answers = {WindowKeyQuery: _windows_of_key(_itself), WindowRangeQuery: _windows(_itself)}
_HEADERS_WINDOW: Answers = {
    WindowKeyQuery: _windows_of_key(_pairs(_timestamped)),
    WindowRangeQuery: _windows(_pairs(_timestamped)),
    TimestampedWindowKeyWithHeadersQuery: _window_records_of_key,
    TimestampedWindowRangeWithHeadersQuery: _windows(_record),
}
_SESSION: Answers = {WindowRangeQuery: _sessions(_itself)}
_HEADERS_SESSION: Answers = {
    WindowRangeQuery: _sessions(_pairs(_value)),
    TimestampedWindowRangeWithHeadersQuery: _sessions(_session_record),
}

ANSWERS: Mapping[str, Answers] = {
    "key-value": _PLAIN,
    "lru-map": _PLAIN,
    "timestamped-key-value": _TIMESTAMPED,
    "timestamped-lru-map": _TIMESTAMPED,
    "headers-key-value": _HEADERS,
    "versioned-key-value": _VERSIONED,
    "window": _WINDOW,
    "time-ordered-window": _WINDOW,
    "timestamped-window": _WINDOW,
    "time-ordered-timestamped-window": _WINDOW,
    "headers-window": _HEADERS_WINDOW,
    "time-ordered-headers-window": _HEADERS_WINDOW,
    "session": _SESSION,
    "time-ordered-session": _SESSION,
    "timestamped-session": _SESSION,
    "time-ordered-timestamped-session": _SESSION,
    "headers-session": _HEADERS_SESSION,
    "time-ordered-headers-session": _HEADERS_SESSION,
}
"""By kind of store, in the words of its builder."""

_BELOW_CACHE = (RangeQuery, TimestampedRangeQuery, TimestampedRangeWithHeadersQuery)


def answer_of(builder: StoreBuilder[Any, Any], query: Query[Any]) -> Answer | None:
    """How a store answers a query; ``None`` if stores of its kind do not."""
    answer = ANSWERS.get(builder.kind, {}).get(type(query))
    if isinstance(query, (WindowRangeQuery, TimestampedWindowRangeWithHeadersQuery)):
        sessions = "session" in builder.kind
        if (query.key is not None) != sessions:
            return None
    return answer


def level_of(query: Query[Any], store: OpenStore, level: IsolationLevel) -> IsolationLevel:
    """The level at which a query reads: below a cache there is what the last commit wrote.

    Kafka Streams reads below a cache likewise, and sees a little more: what was evicted since the last commit.
    """
    below = isinstance(query, _BELOW_CACHE) or getattr(query, "skip_cache", False)
    return IsolationLevel.READ_COMMITTED if below and store.cached else level


def ask(query: Query[Any], store: OpenStore, open_view: Callable[[], StoreView]) -> Any:
    """What a query finds in a store: a value, or an iterator that holds a view open.

    :raises UnknownQueryType: if stores of its kind cannot answer it, or nobody but its task can ask it.
    """
    if why := why_unreadable(store.builder):
        raise UnknownQueryType(why, store=store.builder.name)
    answer = answer_of(store.builder, query)
    if answer is None:
        name, kind = store.builder.name, store.builder.kind
        raise UnknownQueryType(f"store {name!r} is a {kind} store, which cannot answer {query!r}", store=name)
    view = open_view()
    try:
        found = answer(view.store, query)
    except BaseException:
        view.close()
        raise
    if not isinstance(found, Rows):
        view.close()
        return found

    def release() -> None:
        found.found.close()
        view.close()

    def failed(error: StoreError) -> Exception | None:
        return migrated(store) if store.views.closed else None

    left = [(found.found, release)]
    return QueryIterator(lambda: left.pop() if left else None, store.builder.name, found.shown, failed)
