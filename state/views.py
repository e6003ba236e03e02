"""Reads of a running task's stores from any thread, at a chosen isolation level."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from processor_api.errors import StoreError
from processor_api.isolation import IsolationLevel
from state.kinds import OpenStore
from state.read_only import ReadOnlyStore

__all__ = ["StoreView", "open_view"]


class StoreView:
    """A store of a running task, for reads from any thread. A context manager."""

    def __init__(self, name: str, reads: Any, level: IsolationLevel) -> None:
        self.level = level
        self._name = name
        self._reads = reads

    @property
    def store(self) -> Any:
        """The reads of the store's kind, under the names that processors know.

        :raises StoreError: if the view is closed.
        """
        if self._reads is None:
            raise StoreError(f"the view of store {self._name!r} is closed", store=self._name)
        return self._reads

    def close(self) -> None:
        """Iterators opened from the view stay as they are."""
        self._reads = None

    def __enter__(self) -> StoreView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_view(store: OpenStore, level: IsolationLevel) -> StoreView:
    """A view of a store that is open in a task.

    :raises StoreError: if the store is closed.
    """
    return StoreView(store.builder.name, ReadOnlyStore(store.facade, "a view", "views only read"), level)
