"""Window and session stores of a process, read as one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streams.queries.composite import CompositeStore
from streams.queries.iterators import QueryIterator

__all__ = ["CompositeSessionStore", "CompositeWindowStore"]


def _row(show: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda row: (row[0], show(row[1]))


class _Timed(CompositeStore):
    def _call(self, name: str, args: tuple[Any, ...]) -> QueryIterator:
        return self._joined(lambda store: getattr(store, name)(*args), _row)  # type: ignore[no-any-return]


class CompositeWindowStore(_Timed):
    """A :class:`~processor_api.stores.contracts.ReadOnlyWindowStore`; iterators go through one task's windows after
    another's."""

    def fetch(self, *args: Any) -> Any:
        """``(key, time)``, ``(key, time_from, time_to)`` or ``(key_from, key_to, time_from, time_to)``."""
        if len(args) == 2:
            return self._first(lambda store: store.fetch(*args))
        return self._call("fetch", args)

    def backward_fetch(self, *args: Any) -> QueryIterator:
        return self._call("backward_fetch", args)

    def fetch_all(self, time_from: int, time_to: int) -> QueryIterator:
        return self._call("fetch_all", (time_from, time_to))

    def backward_fetch_all(self, time_from: int, time_to: int) -> QueryIterator:
        return self._call("backward_fetch_all", (time_from, time_to))

    def all(self) -> QueryIterator:
        return self._call("all", ())

    def backward_all(self) -> QueryIterator:
        return self._call("backward_all", ())


class CompositeSessionStore(_Timed):
    """A :class:`~processor_api.stores.contracts.ReadOnlySessionStore`; iterators go through one task's sessions after
    another's."""

    def fetch_session(self, key: Any, session_start: int, session_end: int) -> Any:
        return self._first(lambda store: store.fetch_session(key, session_start, session_end))

    def fetch(self, *args: Any) -> QueryIterator:
        """``(key)`` or ``(key_from, key_to)``."""
        return self._call("fetch", args)

    def backward_fetch(self, *args: Any) -> QueryIterator:
        return self._call("backward_fetch", args)

    def find_sessions(self, *args: Any) -> QueryIterator:
        """``(key, earliest_end, latest_start)``, ``(key_from, key_to, earliest_end, latest_start)`` or
        ``(earliest_end, latest_end)``."""
        return self._call("find_sessions", args)

    def backward_find_sessions(self, *args: Any) -> QueryIterator:
        return self._call("backward_find_sessions", args)
