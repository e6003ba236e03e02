"""The views and iterators that other threads have open of a store; they close with it, before its engine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from processor_api.errors import StoreError
from state.write_buffer.iterators import OpenIterators, RowIterator


class ViewSource(ABC):
    """Makes stores that other threads read, of one store of a running task at one level of isolation."""

    @abstractmethod
    def live(self, iterators: ViewIterators) -> Any:
        """Returns a store of the kind, for reads, that shows rows as they are at each call.

        :param iterators: opens its iterators.
        """

    @abstractmethod
    def frozen(self, iterators: ViewIterators) -> Any:
        """Returns a store of the kind that shows rows as they are now."""


class OpenViews:
    """The views of one store that are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakSet[Any] = WeakSet()
        self.live: dict[Any, Any] = {}
        """Objects that are made once for each isolation level."""
        self.closed = False

    def add(self, view: Any) -> None:
        """Adds a view, whose `close` is called when the store closes; at once if it is closed already."""
        with self._lock:
            if not self.closed:
                self._open.add(view)
                return
        view.close()

    def check(self, store: str) -> None:
        """Checks that the store is open.

        :raises StoreError: if the store is closed.
        """
        if self.closed:
            raise StoreError(f"store {store!r} is closed: its task is no longer on this worker", store=store)

    def close(self) -> None:
        """Closes all views. It comes before the store forgets anything: a reader that finds the store open after a
        read has read all of it."""
        with self._lock:
            self.closed = True
            views = list(self._open)
            self.live.clear()
        for view in views:
            view.close()


class ViewIterators(OpenIterators):
    """Iterators that any thread opens, reads and closes."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self._lock = threading.Lock()

    def open(self, rows: Iterator[tuple[Any, Any]]) -> RowIterator:
        with self._lock:
            # The store may have closed since the rows were found.
            iterator = super().open(rows)
            if not self.is_open:
                iterator.close()
            return iterator

    def close(self) -> None:
        with self._lock:
            super().close()
