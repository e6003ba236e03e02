"""The types as which a store is asked for by ``KafkaStreams.store`` (Kafka Streams' QueryableStoreTypes)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from processor_api.stores.contracts import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    VersionedKeyValueStore,
)
from processor_api.stores.factory import StoreBuilder
from state.registry.kinds import kind_of
from streams.queries.composite import CompositeStore
from streams.queries.composite_key_value import CompositeKeyValueStore, CompositeVersionedStore
from streams.queries.composite_timed import CompositeSessionStore, CompositeWindowStore

__all__ = ["QueryableStoreType", "QueryableStoreTypes", "StoreQueryParameters"]

S_co = TypeVar("S_co", covariant=True)


@dataclass(frozen=True)
class QueryableStoreType(Generic[S_co]):
    """A form in which stores are read; `QueryableStoreTypes` gives those there are. ``S_co`` is what one reads.

    :param name: of the form; a kind of store says in which forms it can be read (`StoreKind.forms`).
    :param make: makes the store that reads all partitions of a process.
    """

    name: str
    make: type[CompositeStore]

    def accepts(self, builder: StoreBuilder[Any, Any]) -> bool:
        """Returns whether a store can be read so."""
        return self.name in kind_of(builder).forms


class QueryableStoreTypes:
    """The types. Timestamps and headers that a type does not show are left out."""

    @staticmethod
    def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
        """Values of any key-value store but a versioned one."""
        return QueryableStoreType("key-value", CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueAndTimestamp[Any]]]:
        """Values with timestamps."""
        return QueryableStoreType("timestamped-key-value", CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store_with_headers() -> QueryableStoreType[
        ReadOnlyKeyValueStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Values with timestamps and headers (KIP-1271)."""
        return QueryableStoreType("headers-key-value", CompositeKeyValueStore)

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType[VersionedKeyValueStore[Any, Any]]:
        """Versions; of the store's calls those that read. Java has no such type."""
        return QueryableStoreType("versioned-key-value", CompositeVersionedStore)

    @staticmethod
    def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
        """Values of any window store."""
        return QueryableStoreType("window", CompositeWindowStore)

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueAndTimestamp[Any]]]:
        """Values with timestamps."""
        return QueryableStoreType("timestamped-window", CompositeWindowStore)

    @staticmethod
    def timestamped_window_store_with_headers() -> QueryableStoreType[
        ReadOnlyWindowStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Values with timestamps and headers (KIP-1271)."""
        return QueryableStoreType("headers-window", CompositeWindowStore)

    @staticmethod
    def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Aggregates of any session store."""
        return QueryableStoreType("session", CompositeSessionStore)

    @staticmethod
    def timestamped_session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, ValueAndTimestamp[Any]]]:
        """Aggregates with timestamps (KIP-258; Java never had it)."""
        return QueryableStoreType("timestamped-session", CompositeSessionStore)

    @staticmethod
    def session_store_with_headers() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Aggregates with headers (KIP-1271)."""
        return QueryableStoreType("headers-session", CompositeSessionStore)


@dataclass(frozen=True)
class StoreQueryParameters(Generic[S_co]):
    """For ``KafkaStreams.store``. A value: each call makes another one."""

    store_name: str
    store_type: QueryableStoreType[S_co]
    partition: int | None = None
    """``None`` reads all partitions of this process."""
    stale_stores_enabled: bool = False

    @classmethod
    def from_name_and_type(cls, name: str, store_type: QueryableStoreType[S_co]) -> StoreQueryParameters[S_co]:
        """All partitions of this process that run."""
        return cls(name, store_type)

    def with_partition(self, partition: int) -> StoreQueryParameters[S_co]:
        """One partition."""
        return replace(self, partition=partition)

    def enable_stale_stores(self) -> StoreQueryParameters[S_co]:
        """Also stores that are being restored, as far as they are."""
        return replace(self, stale_stores_enabled=True)
