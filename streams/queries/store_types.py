"""Types of stores that ``KafkaStreams.store`` gives (Kafka Streams' QueryableStoreTypes)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from streams.queries.composite import CompositeStore
from streams.queries.composite_key_value import CompositeKeyValueStore, CompositeVersionedStore
from streams.queries.composite_timed import CompositeSessionStore, CompositeWindowStore

__all__ = ["QueryableStoreType", "QueryableStoreTypes", "StoreQueryParameters"]

S_co = TypeVar("S_co", covariant=True)


def _itself(value: Any) -> Any:
    return value


def _value(value: Any) -> Any:
    return value[0]


def _timestamped(value: Any) -> Any:
    return ValueAndTimestamp(value[0], value[1])


_PLAIN = dict.fromkeys(("key-value", "lru-map"), _itself)
_TIMESTAMPED = ("timestamped-key-value", "timestamped-lru-map")
_WINDOWS = dict.fromkeys(("window", "time-ordered-window"), _itself)
_TIMESTAMPED_WINDOWS = ("timestamped-window", "time-ordered-timestamped-window")
_SESSIONS = dict.fromkeys(("session", "time-ordered-session"), _itself)
_TIMESTAMPED_SESSIONS = ("timestamped-session", "time-ordered-timestamped-session")
_HEADERS_WINDOWS = ("headers-window", "time-ordered-headers-window")
_HEADERS_SESSIONS = ("headers-session", "time-ordered-headers-session")


@dataclass(frozen=True)
class QueryableStoreType(Generic[S_co]):
    """A type of store that can be read; `QueryableStoreTypes` has all of them. ``S_co`` is its contract.

    :param name: its name, for messages.
    :param shows: by kind of store that can be read so, the function that is applied to its values.
    """

    name: str
    shows: Mapping[str, Callable[[Any], Any]]
    make: type[CompositeStore]

    def accepts(self, kind: str) -> bool:
        """Returns whether stores of a kind can be read as this type."""
        return kind in self.shows


class QueryableStoreTypes:
    """The types of stores. Timestamps and headers that a type does not have are left out."""

    @staticmethod
    def key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, Any]]:
        """Returns the type that reads values of any key-value store but a versioned one."""
        others = dict.fromkeys((*_TIMESTAMPED, "headers-key-value"), _value)
        return QueryableStoreType("key-value", {**_PLAIN, **others}, CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store() -> QueryableStoreType[ReadOnlyKeyValueStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads values with timestamps."""
        shows = {**dict.fromkeys(_TIMESTAMPED, _itself), "headers-key-value": _timestamped}
        return QueryableStoreType("timestamped key-value", shows, CompositeKeyValueStore)

    @staticmethod
    def timestamped_key_value_store_with_headers() -> QueryableStoreType[
        ReadOnlyKeyValueStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Returns the type that reads values with timestamps and headers (KIP-1271)."""
        return QueryableStoreType("headers key-value", {"headers-key-value": _itself}, CompositeKeyValueStore)

    @staticmethod
    def versioned_key_value_store() -> QueryableStoreType[VersionedKeyValueStore[Any, Any]]:
        """Returns the type that reads versions. Java has no such type."""
        return QueryableStoreType("versioned key-value", {"versioned-key-value": _itself}, CompositeVersionedStore)

    @staticmethod
    def window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, Any]]:
        """Returns the type that reads values of any window store."""
        others = dict.fromkeys((*_TIMESTAMPED_WINDOWS, *_HEADERS_WINDOWS), _value)
        return QueryableStoreType("window", {**_WINDOWS, **others}, CompositeWindowStore)

    @staticmethod
    def timestamped_window_store() -> QueryableStoreType[ReadOnlyWindowStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads values with timestamps."""
        shows = {**dict.fromkeys(_TIMESTAMPED_WINDOWS, _itself), **dict.fromkeys(_HEADERS_WINDOWS, _timestamped)}
        return QueryableStoreType("timestamped window", shows, CompositeWindowStore)

    @staticmethod
    def timestamped_window_store_with_headers() -> QueryableStoreType[
        ReadOnlyWindowStore[Any, ValueTimestampHeaders[Any]]
    ]:
        """Returns the type that reads values with timestamps and headers (KIP-1271)."""
        shows = dict.fromkeys(_HEADERS_WINDOWS, _itself)
        return QueryableStoreType("headers window", shows, CompositeWindowStore)

    @staticmethod
    def session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Returns the type that reads aggregates of any session store."""
        others = dict.fromkeys((*_TIMESTAMPED_SESSIONS, *_HEADERS_SESSIONS), _value)
        return QueryableStoreType("session", {**_SESSIONS, **others}, CompositeSessionStore)

    @staticmethod
    def timestamped_session_store() -> QueryableStoreType[ReadOnlySessionStore[Any, ValueAndTimestamp[Any]]]:
        """Returns the type that reads aggregates with timestamps (KIP-258; Java never had it)."""
        shows = dict.fromkeys(_TIMESTAMPED_SESSIONS, _itself)
        return QueryableStoreType("timestamped session", shows, CompositeSessionStore)

    @staticmethod
    def session_store_with_headers() -> QueryableStoreType[ReadOnlySessionStore[Any, Any]]:
        """Returns the type that reads aggregates with headers (KIP-1271)."""
        return QueryableStoreType("headers session", dict.fromkeys(_HEADERS_SESSIONS, _itself), CompositeSessionStore)


@dataclass(frozen=True)
class StoreQueryParameters(Generic[S_co]):
    """The parameters of ``KafkaStreams.store``. They are a value: each call makes another one."""

    store_name: str
    store_type: QueryableStoreType[S_co]
    partition: int | None = None
    """``None`` reads all partitions of this process."""
    stale_stores_enabled: bool = False

    @classmethod
    def from_name_and_type(cls, name: str, store_type: QueryableStoreType[S_co]) -> StoreQueryParameters[S_co]:
        """Returns the parameters for all partitions of this process that run."""
        return cls(name, store_type)

    def with_partition(self, partition: int) -> StoreQueryParameters[S_co]:
        """Returns the parameters for one partition."""
        return replace(self, partition=partition)

    def enable_stale_stores(self) -> StoreQueryParameters[S_co]:
        """Returns the parameters that also allow stores which are being restored, as far as they are."""
        return replace(self, stale_stores_enabled=True)
