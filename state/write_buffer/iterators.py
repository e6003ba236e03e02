"""The iterators of stores: over rows that are decoded as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any
from weakref import WeakSet

from processor_api.errors import StoreError


class RowIterator(Iterator[tuple[Any, Any]]):
    """Rows decoded as they are asked for. A context manager; open ones end with their store."""

    def __init__(self, rows: Iterator[tuple[Any, Any]], store: str) -> None:
        self._rows: Iterator[tuple[Any, Any]] | None = rows
        self._ahead: tuple[Any, Any] | None = None
        self._store = store

    def __enter__(self) -> RowIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __next__(self) -> tuple[Any, Any]:
        if self._ahead is not None:
            row, self._ahead = self._ahead, None
            return row
        rows = self._rows
        if rows is None:
            raise StoreError(f"the iterator of store {self._store!r} is closed", store=self._store)
        return next(rows)

    def peek_next_key(self) -> Any:
        if self._ahead is None:
            self._ahead = next(self)
        return self._ahead[0]

    def close(self) -> None:
        self._rows = None
        self._ahead = None


class OpenIterators:
    """The open iterators of a store, and whether the store is open. All forms of a store share them."""

    def __init__(self, store: str) -> None:
        self.is_open = True
        self._store = store
        self._open: WeakSet[RowIterator] = WeakSet()

    def open(self, rows: Iterator[tuple[Any, Any]]) -> RowIterator:
        """Returns an iterator over rows that ends with the store."""
        iterator = RowIterator(rows, self._store)
        self._open.add(iterator)
        return iterator

    def check(self) -> None:
        """Checks that the store is open.

        :raises StoreError: if the store is closed.
        """
        if not self.is_open:
            raise StoreError(
                f"store {self._store!r} is closed: its task is no longer on this worker", store=self._store
            )

    def close(self) -> None:
        """Closes the iterators with their store."""
        # First: a call that checks from now on opens no other.
        self.is_open = False
        for iterator in self._open:
            iterator.close()
        self._open.clear()


class ClosableFacade:
    """The base of stores as processors get them, whose calls and iterators end together."""

    _iterators: OpenIterators

    @property
    def is_open(self) -> bool:
        return self._iterators.is_open

    def close(self) -> None:
        """Every later call fails, also of its iterators and in its other forms."""
        self._iterators.close()
