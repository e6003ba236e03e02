"""The request of a query: the query, its store and partitions, and how it is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from processor_api.stores.queries import IsolationLevel, Query
from processor_api.texts import repr_of
from processor_api.user_code.given_values import items_of
from streams.queries.position import PositionBound

R = TypeVar("R")


@dataclass(frozen=True)
class InStore:
    """A store to ask, by its name."""

    store_name: str

    def __post_init__(self) -> None:
        if type(self.store_name) is not str:
            raise TypeError(f"a request needs the name of a store, got {repr_of(self.store_name)}")

    def with_query(self, query: Query[R]) -> StateQueryRequest[R]:
        """Asks all partitions of this process, wherever they are."""
        return StateQueryRequest(store_name=self.store_name, query=query)


@dataclass(frozen=True, kw_only=True)
class StateQueryRequest(Generic[R]):
    """A request for ``KafkaStreams.query``. It is a value: each call makes another one.

    ::

        inputs.pipe_input("ann", "hello")
        request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann")).require_active()
        assert driver.query(request).only_partition_result.result == 1

    :raises TypeError: if ``query`` is not a query.
    """

    store_name: str
    query: Query[R]
    position_bound: PositionBound = field(default_factory=PositionBound)
    partitions: frozenset[int] | None = None
    """``None`` asks all partitions of this process."""
    is_require_active: bool = False
    execution_info_enabled: bool = False
    isolation_level: IsolationLevel | None = None
    """``None`` is the application's default."""

    def __post_init__(self) -> None:
        if not isinstance(self.query, Query):
            raise TypeError(f"a request needs a query, such as KeyQuery, got {repr_of(self.query)}")
        if type(self.store_name) is not str:
            raise TypeError(f"a request needs the name of a store, got {repr_of(self.store_name)}")
        if not isinstance(self.position_bound, PositionBound):
            raise TypeError(f"position_bound must be a PositionBound, got {repr_of(self.position_bound)}")
        if self.isolation_level is not None and not isinstance(self.isolation_level, IsolationLevel):
            raise TypeError(f"isolation_level must be an IsolationLevel, got {repr_of(self.isolation_level)}")
        if self.partitions is not None:
            object.__setattr__(self, "partitions", _numbers(self.partitions))

    @staticmethod
    def in_store(name: str) -> InStore:
        """Returns the store to ask, of which ``with_query(query)`` makes a request.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
            assert request.store_name == "counts"
        """
        return InStore(name)

    @property
    def is_all_partitions(self) -> bool:
        """Whether all partitions of this process are asked."""
        return self.partitions is None

    def with_position_bound(self, bound: PositionBound) -> StateQueryRequest[R]:
        """Asks only partitions that are as far as this.

        ::

            inputs.pipe_input("ann", "hello")
            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
            seen = driver.query(request).position
            assert driver.query(request.with_position_bound(PositionBound.at(seen))).only_partition_result.result == 1
        """
        return replace(self, position_bound=bound)

    def with_all_partitions(self) -> StateQueryRequest[R]:
        """Asks every partition of this process.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann")).with_partitions([0, 1])
            assert request.with_all_partitions().is_all_partitions
        """
        return replace(self, partitions=None)

    def with_partitions(self, partitions: Iterable[int]) -> StateQueryRequest[R]:
        """Asks these partitions; those that are elsewhere or do not exist fail.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann")).with_partitions([0, 1])
            assert request.partitions == {0, 1}
        """
        return replace(self, partitions=_numbers(partitions))

    def require_active(self) -> StateQueryRequest[R]:
        """Asks only tasks that run.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann")).require_active()
            assert request.is_require_active
        """
        return replace(self, is_require_active=True)

    def enable_execution_info(self) -> StateQueryRequest[R]:
        """Makes results say how the query was run, and how long it took.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann")).enable_execution_info()
            assert driver.query(request).only_partition_result is None  # nothing was counted yet
        """
        return replace(self, execution_info_enabled=True)

    def with_isolation_level(self, level: IsolationLevel) -> StateQueryRequest[R]:
        """Reads at this level of isolation, not at the application's.

        ::

            request = StateQueryRequest.in_store("counts").with_query(KeyQuery("ann"))
            committed = request.with_isolation_level(IsolationLevel.READ_COMMITTED)
            assert committed.isolation_level is IsolationLevel.READ_COMMITTED
        """
        return replace(self, isolation_level=level)


def _numbers(partitions: Iterable[int]) -> frozenset[int]:
    found = items_of(partitions, "partitions")
    if any(type(one) is not int for one in found):
        raise TypeError(f"partitions must be numbers of partitions, got {repr_of(partitions)}")
    return frozenset(found)
