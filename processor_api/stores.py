"""What a processor may do with a store: the contracts, no implementation.

Iterators are context managers and must be closed; they see the store as it was when they were opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from processor_api.serde import Serde

__all__ = [
    "KeyValueIterator",
    "KeyValueStore",
    "ReadOnlyKeyValueStore",
    "StateStore",
    "TimestampedKeyValueStore",
    "ValueAndTimestamp",
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
