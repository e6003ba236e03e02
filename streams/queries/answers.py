"""Asks a store a query of ``KafkaStreams.query``; its kind has the answers (`StoreKind.answers`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StateError, StoreError
from processor_api.stores.isolation import IsolationLevel
from processor_api.stores.queries import Query
from processor_api.texts import repr_of
from state.read_views.answers import UNANSWERED, QueryRows
from state.read_views.queryable import why_unreadable
from state.read_views.view import StoreView
from state.write_buffer.store_kind import OpenStore
from streams.queries.iterators import QueryIterator
from streams.queries.local_stores import migrated


class UnknownQueryType(StateError):
    """Stores of this kind cannot answer the query."""


def level_of(query: Query[Any], store: OpenStore, level: IsolationLevel) -> IsolationLevel:
    """Returns the level at which a query reads: below a cache there is what the last commit wrote.

    Kafka Streams reads below a cache likewise, and sees a little more: what was evicted since the last commit.
    """
    return IsolationLevel.READ_COMMITTED if query.reads_below_cache and store.cached else level


def ask(query: Query[Any], store: OpenStore, open_view: Callable[[], StoreView]) -> Any:
    """Returns what a query finds in a store: a value, or an iterator that holds a view open.

    :raises UnknownQueryType: if stores of its kind cannot answer it, or only its task can ask it.
    """
    if why := why_unreadable(store.builder):
        raise UnknownQueryType(why, store=store.builder.name)
    answer = store.kind.answers.get(type(query))
    if answer is None:
        raise _unknown(query, store)
    view = open_view()
    try:
        found = answer(view.store, query)
    except BaseException:
        view.close()
        raise
    if not isinstance(found, QueryRows):
        view.close()
        if found is UNANSWERED:
            raise _unknown(query, store)
        return found

    def release() -> None:
        found.found.close()
        view.close()

    def failed(error: StoreError) -> Exception | None:
        return migrated(store) if store.views.closed else None

    left = [(found.found, release)]
    return QueryIterator(lambda: left.pop() if left else None, store.builder.name, found.shown, failed)


def _unknown(query: Query[Any], store: OpenStore) -> UnknownQueryType:
    name, kind = store.builder.name, store.builder.kind
    return UnknownQueryType(f"store {name!r} is a {kind} store, which cannot answer {repr_of(query)}", store=name)
