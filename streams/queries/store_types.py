"""Types of stores that ``KafkaStreams.store`` gives (Kafka Streams' QueryableStoreTypes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from processor_api.stores.builder import StoreBuilder
from processor_api.stores.contracts import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedKeyValueStore,
)
from processor_api.texts import repr_of
from processor_api.user_code.given_values import check_flags
from state.registry.kinds import kind_of
from streams.queries.composite import CompositeStore
from streams.queries.composite_stores import (
    CompositeKeyValueStore,
    CompositeSessionStore,
    CompositeVersionedStore,
    CompositeWindowStore,
)

S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class QueryableStoreType(Generic[S_co]):
    """A type of store that can be read; `QueryableStoreTypes` has all of them. ``S_co`` is its contract.

    ::

        values = QueryableStoreTypes.key_value_store()
        assert isinstance(values, QueryableStoreType)

    :param name: its name; a kind of store says as which types it can be read (`StoreKind.forms`).
    :param make: makes the store that reads all partitions of a process.
    """

    name: str
    make: type[CompositeStore]

    def accepts(self, builder: StoreBuilder[Any, Any]) -> bool:
        """Returns whether a store can be read so."""
        return self.name in kind_of(builder).forms


class QueryableStoreTypes:
    """The types of stores. Timestamps and headers that a type does not have are left out.

    ::

        inputs.pipe_input("ann", "hello")
        parameters = StoreQueryParameters("counts", QueryableStoreTypes.key_value_store())
        assert driver.query_store(parameters).get("ann") == 1
    """

    @staticmethod
    def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
        """Returns the type that reads values of any key-value store but a versioned one.

        ::

            inputs.pipe_input("ann", "hello")
            counts = driver.query_store(StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()))
            assert counts.get("ann") == 1
        """
        return QueryableStoreType("key-value", CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads values with timestamps.

        ::

            inputs.pipe_input("ann", "hello", timestamp=1_000)
            parameters = StoreQueryParameters("counts", QueryableStoreTypes.timestamped_key_value_store())
            assert driver.query_store(parameters).get("ann") == ValueAndTimestamp(1, 1_000)
        """
        return QueryableStoreType("timestamped-key-value", CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store_with_headers() -> QueryableStoreType[
        ReadOnlyKeyValueStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Returns the type that reads values with timestamps and headers (KIP-1271).

        ::

            parameters = StoreQueryParameters("seen", QueryableStoreTypes.timestamped_key_value_store_with_headers())
        """
        return QueryableStoreType("headers-key-value", CompositeKeyValueStore)

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType[VersionedKeyValueStore[Any, Any]]:
        """Returns the type that reads versions. Java has no such type.

        ::

            parameters = StoreQueryParameters("limits", QueryableStoreTypes.versioned_key_value_store())
        """
        return QueryableStoreType("versioned-key-value", CompositeVersionedStore)

    @staticmethod
    def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
        """Returns the type that reads values of any window store.

        ::

            parameters = StoreQueryParameters("per-minute", QueryableStoreTypes.window_store())
        """
        return QueryableStoreType("window", CompositeWindowStore)

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads values with timestamps.

        ::

            parameters = StoreQueryParameters("per-minute", QueryableStoreTypes.timestamped_window_store())
        """
        return QueryableStoreType("timestamped-window", CompositeWindowStore)

    @staticmethod
    def timestamped_window_store_with_headers() -> QueryableStoreType[
        ReadOnlyWindowStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Returns the type that reads values with timestamps and headers (KIP-1271).

        ::

            parameters = StoreQueryParameters("per-minute", QueryableStoreTypes.timestamped_window_store_with_headers())
        """
        return QueryableStoreType("headers-window", CompositeWindowStore)

    @staticmethod
    def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Returns the type that reads aggregates of any session store.

        ::

            parameters = StoreQueryParameters("visits", QueryableStoreTypes.session_store())
        """
        return QueryableStoreType("session", CompositeSessionStore)

    @staticmethod
    def timestamped_session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads aggregates with timestamps (KIP-258; Java never had it).

        ::

            parameters = StoreQueryParameters("visits", QueryableStoreTypes.timestamped_session_store())
        """
        return QueryableStoreType("timestamped-session", CompositeSessionStore)

    @staticmethod
    def session_store_with_headers() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Returns the type that reads aggregates with headers (KIP-1271).

        ::

            parameters = StoreQueryParameters("visits", QueryableStoreTypes.session_store_with_headers())
        """
        return QueryableStoreType("headers-session", CompositeSessionStore)


@dataclass(frozen=True)
class StoreQueryParameters(Generic[S_co]):
    """The parameters of ``KafkaStreams.store``. They are a value: each call makes another one.

    ::

        inputs.pipe_input("ann", "hello")
        parameters = StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()).with_partition(0)
        assert driver.query_store(parameters).get("ann") == 1
    """

    store_name: str
    store_type: QueryableStoreType[S_co]
    partition: int | None = None
    """``None`` reads all partitions of this process."""
    stale_stores_enabled: bool = False

    def __post_init__(self) -> None:
        if type(self.store_name) is not str:
            raise TypeError(f"a store must be given by its name, got {repr_of(self.store_name)}")
        if not isinstance(self.store_type, QueryableStoreType):
            raise TypeError(f"store_type must be one of QueryableStoreTypes, got {repr_of(self.store_type)}")
        if self.partition is not None and type(self.partition) is not int:
            raise TypeError(f"partition must be the number of a partition, got {repr_of(self.partition)}")
        check_flags(stale_stores_enabled=self.stale_stores_enabled)

    @classmethod
    def from_name_and_type(cls, name: str, store_type: QueryableStoreType[S_co]) -> StoreQueryParameters[S_co]:
        """Returns the parameters for all partitions of this process that run.

        ::

            inputs.pipe_input("ann", "hello")
            parameters = StoreQueryParameters.from_name_and_type("counts", QueryableStoreTypes.key_value_store())
            assert driver.query_store(parameters).get("ann") == 1
        """
        return cls(name, store_type)

    def with_partition(self, partition: int) -> StoreQueryParameters[S_co]:
        """Returns the parameters for one partition.

        ::

            parameters = StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()).with_partition(3)
            assert parameters.partition == 3
        """
        return replace(self, partition=partition)

    def enable_stale_stores(self) -> StoreQueryParameters[S_co]:
        """Returns the parameters that also allow stores which are being restored, as far as they are.

        ::

            parameters = StoreQueryParameters("counts", QueryableStoreTypes.key_value_store()).enable_stale_stores()
            assert parameters.stale_stores_enabled
        """
        return replace(self, stale_stores_enabled=True)
