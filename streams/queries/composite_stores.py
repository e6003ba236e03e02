"""Stores of a process, read as one: key-value stores of each form, versioned, window and session stores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.stores.contracts import VersionedRecord
from processor_api.user_code.given_serdes import SerdeLike
from streams.queries.composite import CompositeStore
from streams.queries.iterators import QueryIterator


def _row(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: (row[0], show(row[1]))


class _RowStore(CompositeStore):
    def _rows(self, call: Callable[[Any], Any]) -> QueryIterator:
        return self._joined(call, _row)  # type: ignore[no-any-return]


class CompositeKeyValueStore(_RowStore):
    """A :class:`~processor_api.stores.contracts.ReadOnlyKeyValueStore`; iterators go through one task's rows after
    another's."""

    def get(self, key: Any) -> Any:
        return self._first(lambda store: store.get(key))

    def range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator:
        return self._rows(lambda store: store.range(from_key, to_key))

    def reverse_range(self, from_key: Any = None, to_key: Any = None) -> QueryIterator:
        return self._rows(lambda store: store.reverse_range(from_key, to_key))

    def all(self) -> QueryIterator:
        return self._rows(lambda store: store.all())

    def reverse_all(self) -> QueryIterator:
        return self._rows(lambda store: store.reverse_all())

    def prefix_scan(self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None) -> QueryIterator:
        return self._rows(lambda store: store.prefix_scan(prefix, prefix_serde))

    def approximate_num_entries(self) -> int:
        return sum(self._each(lambda store: store.approximate_num_entries()))


class CompositeVersionedStore(CompositeStore):
    """The reads of a :class:`~processor_api.stores.contracts.VersionedKeyValueStore`."""

    def get(self, key: Any, as_of: int | None = None) -> VersionedRecord[Any] | None:
        return self._first(lambda store: store.get(key, as_of))  # type: ignore[no-any-return]

    def versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> QueryIterator:
        return self._rows(lambda store: store.versions(key, from_time, to_time))

    def backward_versions(self, key: Any, from_time: int | None = None, to_time: int | None = None) -> QueryIterator:
        return self._rows(lambda store: store.backward_versions(key, from_time, to_time))

    def range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> QueryIterator:
        return self._rows(lambda store: store.range(from_key, to_key, as_of))

    def reverse_range(self, from_key: Any = None, to_key: Any = None, as_of: int | None = None) -> QueryIterator:
        return self._rows(lambda store: store.reverse_range(from_key, to_key, as_of))

    def prefix_scan(
        self, prefix: Any, prefix_serde: SerdeLike[Any] | None = None, as_of: int | None = None
    ) -> QueryIterator:
        return self._rows(lambda store: store.prefix_scan(prefix, prefix_serde, as_of))

    def range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> QueryIterator:
        return self._rows(lambda store: store.range_versions(from_key, to_key, from_time, to_time))

    def reverse_range_versions(
        self, from_key: Any = None, to_key: Any = None, from_time: int | None = None, to_time: int | None = None
    ) -> QueryIterator:
        return self._rows(lambda store: store.reverse_range_versions(from_key, to_key, from_time, to_time))

    def approximate_num_entries(self) -> int:
        return sum(self._each(lambda store: store.approximate_num_entries()))

    def _rows(self, call: Callable[[Any], Any]) -> QueryIterator:
        return self._joined(call, lambda show: show)  # type: ignore[no-any-return]


class CompositeWindowStore(_RowStore):
    """A :class:`~processor_api.stores.contracts.ReadOnlyWindowStore`; iterators go through one task's windows after
    another's."""

    def fetch(self, key: Any, time: int) -> Any:
        return self._first(lambda store: store.fetch(key, time))

    def fetch_range(self, key: Any, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.fetch_range(key, time_from, time_to))

    def backward_fetch_range(self, key: Any, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.backward_fetch_range(key, time_from, time_to))

    def fetch_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.fetch_keys(key_from, key_to, time_from, time_to))

    def backward_fetch_keys(self, key_from: Any, key_to: Any, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.backward_fetch_keys(key_from, key_to, time_from, time_to))

    def fetch_all(self, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.fetch_all(time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> QueryIterator:
        return self._rows(lambda store: store.backward_fetch_all(time_from, time_to))

    def all(self) -> QueryIterator:
        return self._rows(lambda store: store.all())

    def backward_all(self) -> QueryIterator:
        return self._rows(lambda store: store.backward_all())


class CompositeSessionStore(_RowStore):
    """A :class:`~processor_api.stores.contracts.ReadOnlySessionStore`; iterators go through one task's sessions after
    another's."""

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        return self._first(lambda store: store.fetch_session(key, session_start, session_end))

    def fetch(self, key: Any) -> QueryIterator:
        return self._rows(lambda store: store.fetch(key))

    def backward_fetch(self, key: Any) -> QueryIterator:
        return self._rows(lambda store: store.backward_fetch(key))

    def fetch_keys(self, key_from: Any, key_to: Any) -> QueryIterator:
        return self._rows(lambda store: store.fetch_keys(key_from, key_to))

    def backward_fetch_keys(self, key_from: Any, key_to: Any) -> QueryIterator:
        return self._rows(lambda store: store.backward_fetch_keys(key_from, key_to))

    def find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> QueryIterator:
        return self._rows(lambda store: store.find_sessions(key, earliest_end, latest_start))

    def backward_find_sessions(self, key: Any, earliest_end: int, latest_start: int) -> QueryIterator:
        return self._rows(lambda store: store.backward_find_sessions(key, earliest_end, latest_start))

    def find_sessions_of_keys(self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int) -> QueryIterator:
        return self._rows(lambda store: store.find_sessions_of_keys(key_from, key_to, earliest_end, latest_start))

    def backward_find_sessions_of_keys(
        self, key_from: Any, key_to: Any, earliest_end: int, latest_start: int
    ) -> QueryIterator:
        return self._rows(
            lambda store: store.backward_find_sessions_of_keys(key_from, key_to, earliest_end, latest_start)
        )

    def find_sessions_by_end(self, earliest_end: int, latest_end: int) -> QueryIterator:
        return self._rows(lambda store: store.find_sessions_by_end(earliest_end, latest_end))
