"""What a processor may do with a store: the contracts, no implementation.

Iterators are context managers and must be closed; they see the store as it was when they were opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload, runtime_checkable

from processor_api.serde import Serde
from processor_api.windowed import Windowed

__all__ = [
    "KeyValueIterator",
    "KeyValueStore",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyWindowStore",
    "SessionStore",
    "StateStore",
    "TimestampedKeyValueStore",
    "TimestampedSessionStore",
    "TimestampedWindowStore",
    "ValueAndTimestamp",
    "WindowStore",
    "WindowStoreIterator",
]

K = TypeVar("K")
V = TypeVar("V")


class ValueAndTimestamp(NamedTuple, Generic[V]):
    """A value and the timestamp in ms of the record that set it (KIP-258)."""

    value: V
    timestamp: int


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
