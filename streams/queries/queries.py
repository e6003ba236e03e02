"""The queries of an application: they choose the stores to ask, and raise where these cannot be asked (KIP-535,
KIP-796, KIP-216)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from processor_api import errors
from processor_api.clock import Clock
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.queries import IsolationLevel, Query
from processor_api.texts import kind_and_text, plain_str, repr_of
from state.read_views.answers import UNANSWERED, QueryRows
from state.read_views.view import StoreView, why_unreadable
from state.write_buffer.store_kind import OpenStore
from streams.queries.iterators import QueryIterator
from streams.queries.local_stores import LocalStore, LocalStores, ReadableStore, migrated
from streams.queries.request import StateQueryRequest
from streams.queries.results import FailureReason, QueryResult, StateQueryResult
from streams.queries.store_types import StoreQueryParameters
from streams.runtime.start.standby_tasks import StandbyCopy
from streams.runtime.threads.task_manager import OwnedTask

# Asks a store a query of ``KafkaStreams.query``; its kind has the answers (`StoreKind.answers`).


class UnknownQueryType(errors.StateError):
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

    def failed(error: errors.StoreError) -> Exception | None:
        return migrated(store) if store.views.closed else None

    left = [(found.found, release)]
    return QueryIterator(lambda: left.pop() if left else None, store.builder.name, found.shown, failed)


def _unknown(query: Query[Any], store: OpenStore) -> UnknownQueryType:
    name, kind = store.builder.name, store.builder.kind
    return UnknownQueryType(f"store {name!r} is a {kind} store, which does not support {repr_of(query)}", store=name)


UNKNOWN = FailureReason.UNKNOWN_QUERY_TYPE

R = TypeVar("R")
S = TypeVar("S")


class Queries:
    """Answers the queries of an application, on any thread.

    :param check: raises if the application is in no state to be asked.
    :param level: the isolation level of queries that name none.
    """

    def __init__(self, stores: LocalStores, level: IsolationLevel, clock: Clock, check: Callable[[], None]) -> None:
        self._stores = stores
        self.level = level
        self._clock = clock
        self.check = check

    # ------------------------------------------------------------------ stores

    def store(self, parameters: StoreQueryParameters[S]) -> S:
        """Returns a store for reading, for `KafkaStreams.store`."""
        name, type_ = parameters.store_name, parameters.store_type
        builder = self._known(name)
        if why := why_unreadable(builder):
            raise errors.InvalidStateStoreError(why, store=name)
        if not type_.accepts(builder):
            raise errors.InvalidStateStoreError(
                f"store {name!r} is a {builder.kind} store and cannot be read as a {type_.name} store", store=name
            )
        if parameters.partition is not None and not self._stores.is_global(name):
            self._check_partition(name, parameters.partition)

        def find() -> Sequence[ReadableStore]:
            self.check()
            if self._stores.is_global(name):
                return self._global(name)
            return self._local(name, parameters.partition, parameters.stale_stores_enabled)

        find()
        made: Any = type_.make(name, builder.supplier.persistent, find, type_.name, self.level)
        return made  # type: ignore[no-any-return]

    @property
    def names(self) -> list[str]:
        """The stores of the topology, global ones among them."""
        return self._stores.names

    def builder(self, name: str) -> StoreBuilder[Any, Any]:
        """Returns the builder of a store.

        :raises UnknownStateStoreError: if there is none.
        """
        found: StoreBuilder[Any, Any] = self._known(name)
        return found

    def partitions(self, name: str) -> int | None:
        """Returns the number of partitions of a store, in all processes; ``None`` for a global store."""
        return None if self._stores.is_global(name) else self._stores.partitions(name)

    def local_partitions(self, name: str) -> list[int]:
        """Returns the partitions of a store that this process owns, also those that do not run yet."""
        return sorted(owned.id.partition for _, owned in self._stores.tasks(name))

    def readable(self, name: str, partition: int | None, *, stale: bool = False) -> ReadableStore:
        """Returns one partition of a store of this process, to be read now; a global store has none.

        :param stale: whether a store that is restored is read as far as it is.
        :raises InvalidStateStoreError: as `KafkaStreams.store`.
        """
        builder = self._known(name)
        if why := why_unreadable(builder):
            raise errors.InvalidStateStoreError(why, store=name)
        if partition is None or self._stores.is_global(name):
            return self._global(name)[0]
        self._check_partition(name, partition)
        return self._local(name, partition, stale)[0]

    def _known(self, name: str) -> Any:
        self.check()
        builder = self._stores.builder(name)
        if builder is None:
            known = ", ".join(map(repr, self._stores.names)) or "none"
            raise errors.UnknownStateStoreError(
                f"the topology does not have store {name!r}; it has: {known}", store=name
            )
        return builder

    def _check_partition(self, name: str, partition: int) -> None:
        count = self._stores.partitions(name)
        if not 0 <= partition < count:
            raise errors.InvalidStateStorePartitionError(
                f"store {name!r} does not have partition {partition}: it has {count} partitions",
                store=name,
                partition=partition,
            )

    def _global(self, name: str) -> Sequence[ReadableStore]:
        found = self._stores.global_store(name)
        if found is None:
            raise errors.StreamsRebalancingError(
                f"global store {name!r} is not filled yet: try again later", store=name
            )
        return [found]

    def _local(self, name: str, partition: int | None, stale: bool) -> Sequence[ReadableStore]:
        found: list[ReadableStore] = []
        for _, owned in self._stores.tasks(name, partition):
            store = self._stores.open(owned, name, restoring=stale)
            if store is not None:
                found.append(store)
            elif not stale:
                raise _not_running(name, owned)
        for copy in self._stores.copies(name) if stale else ():
            if partition is None or copy.id.partition == partition:
                opened = self._stores.open_copy(copy, name)
                if opened is not None:
                    found.append(opened)
        if not found:
            raise self._nowhere(name, partition)
        return found

    def _nowhere(self, name: str, partition: int | None) -> errors.InvalidStateStoreError:
        if partition is not None:
            return errors.InvalidStateStorePartitionError(
                f"partition {partition} of store {name!r} is not in this process, or not yet: try again, or query the"
                " process that has it",
                store=name,
                partition=partition,
            )
        return errors.StateStoreMigratedError(
            f"no partition of store {name!r} is in this process: they are moving, or are in other processes. Try"
            " again, or query another process",
            store=name,
        )

    # ------------------------------------------------------------------ queries

    def query(self, request: StateQueryRequest[R]) -> StateQueryResult[R]:
        """Asks the partitions of a store, for `KafkaStreams.query`."""
        name = request.store_name
        why = why_unreadable(self._known(name))
        if self._stores.is_global(name):
            message = f"global store {name!r} does not support query(): read it by store()"
            return StateQueryResult(global_result=_explained(request, _failure(UNKNOWN, message), "not queried"))
        results: dict[int, QueryResult[R]] = {}
        for _, owned in self._stores.tasks(name):
            partition = owned.id.partition
            if request.partitions is None or partition in request.partitions:
                unread = _explained(request, _failure(UNKNOWN, why), f"task {owned.id}, not queried") if why else None
                results[partition] = unread or self._ask(request, owned)
        for copy in () if request.is_require_active else self._stores.copies(name):
            partition = copy.id.partition
            if request.partitions is None or partition in request.partitions:
                results[partition] = self._ask_copy(request, copy)
        missing = sorted((request.partitions or frozenset()) - results.keys())
        count = self._stores.partitions(name) if missing else 0
        for partition in missing:
            if 0 <= partition < count:
                message = f"partition {partition} of store {name!r} is not in this process"
                results[partition] = _failure(FailureReason.NOT_PRESENT, message)
            else:
                message = f"store {name!r} does not have partition {partition}: it has {count} partitions"
                results[partition] = _failure(FailureReason.DOES_NOT_EXIST, message)
            results[partition] = _explained(request, results[partition], "no task of the store is here")
        return StateQueryResult(partition_results=results)

    def _ask(self, request: StateQueryRequest[R], owned: OwnedTask) -> QueryResult[R]:
        name, active = request.store_name, request.is_require_active
        store = self._stores.open(owned, name, restoring=not active)
        if store is None:
            message = f"task {owned.id} of store {name!r} does not run yet"
            reason = FailureReason.NOT_ACTIVE if active else FailureReason.NOT_PRESENT
            return _explained(request, _failure(reason, message), f"task {owned.id}, not queried")
        return self._timed(request, store, "runs" if store.runs else "restores")

    def _ask_copy(self, request: StateQueryRequest[R], copy: StandbyCopy) -> QueryResult[R]:
        store = self._stores.open_copy(copy, request.store_name)
        if store is None:
            message = f"the standby replica of task {copy.id} of store {request.store_name!r} is not filled yet"
            failure: QueryResult[R] = _failure(FailureReason.NOT_PRESENT, message)
            return _explained(request, failure, f"standby of task {copy.id}, not queried")
        return self._timed(request, store, "standby")

    def _timed(self, request: StateQueryRequest[R], store: LocalStore, how: str) -> QueryResult[R]:
        started = self._clock.monotonic()
        result = self._result(request, store)
        took_us = round((self._clock.monotonic() - started) * 1e6)
        return _explained(request, result, f"task {store.task.id} ({how}): {took_us} us", self._level_of(request))

    def _result(self, request: StateQueryRequest[R], store: LocalStore) -> QueryResult[R]:
        try:
            return self._answer(request, store)
        except UnknownQueryType as error:
            return _failure(UNKNOWN, error.message, position=store.position(self._level_of(request)))
        except errors.StoreError as error:
            if store.gone():
                return _failure(FailureReason.NOT_PRESENT, migrated(store.store).message)
            return _failure(FailureReason.STORE_EXCEPTION, plain_str(error))
        except errors.StateStoreMigratedError as error:
            return _failure(FailureReason.NOT_PRESENT, error.message)
        except Exception as error:  # such as of a serde: the other partitions have results
            return _failure(FailureReason.STORE_EXCEPTION, kind_and_text(error))

    def _level_of(self, request: StateQueryRequest[Any]) -> IsolationLevel:
        return self.level if request.isolation_level is None else request.isolation_level

    def _answer(self, request: StateQueryRequest[Any], store: LocalStore) -> QueryResult[Any]:
        query = request.query
        level = level_of(query, store.store, self._level_of(request))
        position = store.position(level)  # taken before the view is opened, so that the view has at least this position
        if not request.position_bound.reached(position, store.partition):
            message = (
                f"partition {store.partition} of store {request.store_name!r} is at {position}, but the request"
                f" requires {request.position_bound.position}"
            )
            return _failure(FailureReason.NOT_UP_TO_BOUND, message, position=position)
        return QueryResult(outcome=ask(query, store.store, lambda: store.view(level)), position=position)


def _failure(reason: FailureReason, message: str, **more: Any) -> QueryResult[Any]:
    return QueryResult(failure=reason, message=message, **more)


def _explained(
    request: StateQueryRequest[Any], result: QueryResult[R], how: str, level: IsolationLevel | None = None
) -> QueryResult[R]:
    """Returns the result, or the failure, with how it came about if the request asks for that."""
    if not request.execution_info_enabled:
        return result
    failed = "" if result.failure is None else f": {result.failure.value}"
    at = "" if level is None else f" at {level.name}"
    info = f"{type(request.query).__name__}{at} of store {request.store_name!r}, {how}{failed}"
    return replace(result, execution_info=(info,))


def _not_running(name: str, owned: OwnedTask) -> errors.StreamsRebalancingError:
    return errors.StreamsRebalancingError(
        f"task {owned.id} of store {name!r} does not run yet: try again later, or use enable_stale_stores() to read"
        " what is restored so far",
        store=name,
        task=str(owned.id),
    )
