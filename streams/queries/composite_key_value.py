"""Key-value stores of a process, plain, timestamped, with headers or versioned, read as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.stores.contracts import VersionedRecord
from processor_api.user_code.given_serdes import SerdeLike
from streams.queries.composite import CompositeStore
from streams.queries.iterators import QueryIterator


def _row(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: (row[0], show(row[1]))


class CompositeKeyValueStore(CompositeStore):
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

    def _rows(self, call: Callable[[Any], Any]) -> QueryIterator:
        return self._joined(call, _row)  # type: ignore[no-any-return]


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
