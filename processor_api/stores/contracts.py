"""What a processor may do with a store: the contracts, no implementation.

Iterators are context managers and must be closed; they see the store as it was when they were opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload, runtime_checkable

from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.stores.windowed import Windowed

__all__ = [
    "PUT_RETURN_CODE_NOT_PUT",
    "PUT_RETURN_CODE_VALID_TO_UNDEFINED",
    "AggregationWithHeaders",
    "KeyValueIterator",
    "KeyValueStore",
    "ListStore",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "SessionStore",
    "SessionStoreWithHeaders",
    "StateStore",
    "TimestampedKeyValueStore",
    "TimestampedKeyValueStoreWithHeaders",
    "TimestampedSessionStore",
    "TimestampedWindowStore",
    "TimestampedWindowStoreWithHeaders",
    "ValueAndTimestamp",
    "ValueTimestampHeaders",
    "VersionedKeyValueStore",
    "VersionedRecord",
    "VersionedRecordIterator",
    "WindowStore",
    "WindowStoreIterator",
]

K = TypeVar("K")
V = TypeVar("V")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and the timestamp in ms of the record that set it (KIP-258)."""

    value: V
    timestamp: int


class ValueTimestampHeaders(NamedTuple, Generic[V]):
    """A value with the timestamp in ms and the headers of the record that set it (KIP-1271)."""

    value: V
    timestamp: int
    headers: HeaderList


class AggregationWithHeaders(NamedTuple, Generic[V]):
    """The aggregate of a session with the headers of the record that set it (KIP-1271)."""

    aggregation: V
    headers: HeaderList


PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
"""Result of a versioned put: the version is the latest of its key (KIP-889)."""

PUT_RETURN_CODE_NOT_PUT = -(1 << 63)
"""Result of a versioned put: older than the history that is kept, and dropped (KIP-889)."""


class VersionedRecord(NamedTuple, Generic[V]):
    """A version of a key: its value, valid from ``timestamp`` (ms) until ``valid_to`` (ms, exclusive), or ``None`` if
    it is the latest (KIP-889)."""

    value: V
    timestamp: int
    valid_to: int | None = None


@runtime_checkable
class StateStore(Protocol):
    """What every store has."""

    @property
    def name(self) -> str: ...

    @property
    def persistent(self) -> bool:
        """Whether its rows are on disk."""
        ...

    @property
    def is_open(self) -> bool: ...


class KeyValueIterator(Iterator[tuple[K, V]], Protocol[K, V]):
    """Rows in the order of the keys' bytes."""

    def __enter__(self) -> KeyValueIterator[K, V]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def peek_next_key(self) -> K:
        """The key of the next row, without moving.

        :raises StopIteration: at the end.
        """
        ...

    def close(self) -> None: ...


class ReadOnlyKeyValueStore(StateStore, Protocol[K, V]):
    """Reads of a key-value store. Bounds are inclusive, ``None`` is open; from above to gives nothing (KIP-617)."""

    def get(self, key: K) -> V | None: ...

    def range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]: ...

    def reverse_range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]: ...

    def all(self) -> KeyValueIterator[K, V]: ...

    def reverse_all(self) -> KeyValueIterator[K, V]: ...

    def prefix_scan(self, prefix: Any, prefix_serde: Serde[Any] | None = None) -> KeyValueIterator[K, V]:
        """Rows whose key's bytes start with the prefix's bytes; ``prefix_serde`` defaults to the key serde."""
        ...

    def approximate_num_entries(self) -> int: ...


class KeyValueStore(ReadOnlyKeyValueStore[K, V], Protocol[K, V]):
    """A key-value store. A value of ``None`` deletes the key."""

    def put(self, key: K, value: V | None) -> None: ...

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Puts the value if the key has none; returns the value found before."""
        ...

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None: ...

    def delete(self, key: K) -> V | None:
        """Removes the key; returns the value it had."""
        ...


class TimestampedKeyValueStore(KeyValueStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A key-value store whose values carry the timestamp of the record that set them (KIP-258)."""


class TimestampedKeyValueStoreWithHeaders(KeyValueStore[K, ValueTimestampHeaders[V]], Protocol[K, V]):
    """A key-value store whose values carry the timestamp and the headers of the record that set them (KIP-1271)."""


class ListStore(StateStore, Protocol[K, V]):
    """A list of values for each key."""

    def put(self, key: K, value: V | None) -> None:
        """Adds a value to the end of the key's list; ``None`` deletes the list."""
        ...

    def delete(self, key: K) -> None: ...

    def get(self, key: K) -> list[V]:
        """The key's values in the order in which they were put; empty if there are none."""
        ...

    def range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """Every value with its key: keys in the order of their bytes, both bounds included, values as they were put."""
        ...

    def all(self) -> KeyValueIterator[K, V]: ...

    def reverse_range(self, from_key: K | None = None, to_key: K | None = None) -> KeyValueIterator[K, V]:
        """As :meth:`range`, keys and values in the opposite order."""
        ...

    def reverse_all(self) -> KeyValueIterator[K, V]: ...

    def prefix_scan(self, prefix: Any, prefix_serde: Serde[Any] | None = None) -> KeyValueIterator[K, V]:
        """Every value with its key, of keys whose bytes start with those of the prefix."""
        ...

    def approximate_num_entries(self) -> int:
        """Keys, not values."""
        ...


T_co = TypeVar("T_co", covariant=True)


class VersionedRecordIterator(Iterator[T_co], Protocol[T_co]):
    """What was found, as it was when the iterator was opened. Fails after it or its store is closed."""

    def __enter__(self) -> VersionedRecordIterator[T_co]: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def close(self) -> None: ...


class VersionedKeyValueStore(StateStore, Protocol[K, V]):
    """A key-value store that keeps older versions of its values for a time, the history retention (KIP-889).

    A version is valid from its timestamp until that of the next version or deletion of its key; times are in ms and not
    negative. The store's time is the highest timestamp put. Puts older than that by more than the history retention are
    dropped, and so are versions that ended before, by whole segments; the latest version of a key never expires.
    """

    def put(self, key: K, value: V | None, timestamp: int) -> int:
        """Puts a version, which may be older than others; ``None`` deletes. One of the same timestamp is replaced.

        :returns: the end of its validity in ms; `PUT_RETURN_CODE_VALID_TO_UNDEFINED` if it is the latest,
            `PUT_RETURN_CODE_NOT_PUT` if it was dropped.
        """
        ...

    def delete(self, key: K, timestamp: int) -> VersionedRecord[V] | None:
        """Deletes the key as of a time; returns the version that was valid then."""
        ...

    def get(self, key: K, as_of: int | None = None) -> VersionedRecord[V] | None:
        """The latest version, or the one that was valid at ``as_of``.

        For a time before the history only the latest version is an answer, if it is that old; this is logged.
        """
        ...

    def versions(
        self, key: K, from_time: int | None = None, to_time: int | None = None
    ) -> VersionedRecordIterator[VersionedRecord[V]]:
        """The versions that were valid at some time from ``from_time`` to ``to_time``, both included, oldest first
        (KIP-968)."""
        ...

    def backward_versions(
        self, key: K, from_time: int | None = None, to_time: int | None = None
    ) -> VersionedRecordIterator[VersionedRecord[V]]:
        """As :meth:`versions`, newest first: the newest n cost O(n)."""
        ...

    def range(
        self, from_key: K | None = None, to_key: K | None = None, as_of: int | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """The keys of a range, both ends included, with their latest versions or those that were valid at ``as_of``, in
        the order of the keys' bytes. As of a time it passes all versions of these keys."""
        ...

    def reverse_range(
        self, from_key: K | None = None, to_key: K | None = None, as_of: int | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]: ...

    def prefix_scan(
        self, prefix: Any, prefix_serde: Serde[Any] | None = None, as_of: int | None = None
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """As :meth:`range`, of the keys whose bytes start with those of the prefix."""
        ...

    def range_versions(
        self,
        from_key: K | None = None,
        to_key: K | None = None,
        from_time: int | None = None,
        to_time: int | None = None,
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """As :meth:`versions` for each key of a range: by key, then by time (asked for as KIP-969)."""
        ...

    def reverse_range_versions(
        self,
        from_key: K | None = None,
        to_key: K | None = None,
        from_time: int | None = None,
        to_time: int | None = None,
    ) -> VersionedRecordIterator[tuple[K, VersionedRecord[V]]]:
        """As :meth:`range_versions`, in the opposite order."""
        ...

    def approximate_num_entries(self) -> int: ...


WindowStoreIterator = KeyValueIterator[int, V]
"""Window starts in ms, and values."""


class ReadOnlyWindowStore(StateStore, Protocol[K, V]):
    """Reads of a window store.

    Times are window starts in ms; both ends of a range are included, and from above to gives nothing (KIP-617). What is
    older than the retention, seen from the largest window start put, is not shown. The rows of one key come in order of
    time. Those of several keys come segment by segment, in each by key and then time; those of a store in memory, and
    those of all keys of a time-ordered store, by time and then key.
    """

    @overload
    def fetch(self, key: K, time: int, /) -> V | None: ...

    @overload
    def fetch(self, key: K, time_from: int, time_to: int, /) -> WindowStoreIterator[V]: ...

    @overload
    def fetch(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], V]: ...

    def fetch(self, *args: Any) -> Any:
        """The value of a window; the windows of a key; or those of a range of keys (``None`` is open)."""
        ...

    @overload
    def backward_fetch(self, key: K, time_from: int, time_to: int, /) -> WindowStoreIterator[V]: ...

    @overload
    def backward_fetch(
        self, key_from: K | None, key_to: K | None, time_from: int, time_to: int, /
    ) -> KeyValueIterator[Windowed[K], V]: ...

    def backward_fetch(self, *args: Any) -> Any: ...

    def fetch_all(self, time_from: int, time_to: int) -> KeyValueIterator[Windowed[K], V]: ...

    def backward_fetch_all(self, time_from: int, time_to: int) -> KeyValueIterator[Windowed[K], V]: ...

    def all(self) -> KeyValueIterator[Windowed[K], V]: ...

    def backward_all(self) -> KeyValueIterator[Windowed[K], V]: ...


class WindowStore(ReadOnlyWindowStore[K, V], Protocol[K, V]):
    """A window store. A value of ``None`` deletes; where duplicates are kept it does nothing."""

    def put(self, key: K, value: V | None, window_start: int) -> None:
        """A put whose window has expired is dropped and counted."""
        ...


class TimestampedWindowStore(WindowStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A window store whose values carry the timestamp of the record that set them (KIP-258)."""


class TimestampedWindowStoreWithHeaders(WindowStore[K, ValueTimestampHeaders[V]], Protocol[K, V]):
    """A window store whose values carry the timestamp and the headers of the record that set them (KIP-1271)."""


class ReadOnlySessionStore(StateStore, Protocol[K, V]):
    """Reads of a session store.

    Times are in ms. What ended longer ago than the retention, seen from the largest session end put, is not shown. The
    sessions of one key come by end, then start. Those of several keys come segment by segment, in each by key; those of
    a store in memory by end, then key.
    """

    def fetch_session(self, key: K, session_start: int, session_end: int) -> V | None: ...

    @overload
    def fetch(self, key: K, /) -> KeyValueIterator[Windowed[K], V]: ...

    @overload
    def fetch(self, key_from: K | None, key_to: K | None, /) -> KeyValueIterator[Windowed[K], V]: ...

    def fetch(self, *args: Any) -> Any:
        """The sessions of a key, or of a range of keys (``None`` is open)."""
        ...

    @overload
    def backward_fetch(self, key: K, /) -> KeyValueIterator[Windowed[K], V]: ...

    @overload
    def backward_fetch(self, key_from: K | None, key_to: K | None, /) -> KeyValueIterator[Windowed[K], V]: ...

    def backward_fetch(self, *args: Any) -> Any: ...

    @overload
    def find_sessions(self, earliest_end: int, latest_end: int, /) -> KeyValueIterator[Windowed[K], V]: ...

    @overload
    def find_sessions(self, key: K, earliest_end: int, latest_start: int, /) -> KeyValueIterator[Windowed[K], V]: ...

    @overload
    def find_sessions(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int, /
    ) -> KeyValueIterator[Windowed[K], V]: ...

    def find_sessions(self, *args: Any) -> Any:
        """The sessions of all keys that end in a span of time; or those of a key or range of keys that end no earlier
        and start no later than given."""
        ...

    @overload
    def backward_find_sessions(
        self, key: K, earliest_end: int, latest_start: int, /
    ) -> KeyValueIterator[Windowed[K], V]: ...

    @overload
    def backward_find_sessions(
        self, key_from: K | None, key_to: K | None, earliest_end: int, latest_start: int, /
    ) -> KeyValueIterator[Windowed[K], V]: ...

    def backward_find_sessions(self, *args: Any) -> Any: ...


class SessionStore(ReadOnlySessionStore[K, V], Protocol[K, V]):
    """A session store."""

    def put(self, session_key: Windowed[K], aggregate: V | None) -> None:
        """An aggregate of ``None`` removes the session. One that has expired is dropped and counted."""
        ...

    def remove(self, session_key: Windowed[K]) -> None: ...


class TimestampedSessionStore(SessionStore[K, ValueAndTimestamp[V]], Protocol[K, V]):
    """A session store whose aggregates carry the timestamp of the record that set them (KIP-258)."""


class SessionStoreWithHeaders(SessionStore[K, AggregationWithHeaders[V]], Protocol[K, V]):
    """A session store whose aggregates carry the headers of the record that set them (KIP-1271)."""
