"""Reports what happens to the rows of a task's stores, for a trace of chosen records.

A store asks for the trace once, when its functions are made; without a trace they do nothing more. A trace never
changes what a read finds or a cache holds: it looks rows up beside the calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple

WAITING = "waiting"
"""The row is in the buffer and not logged yet; in a cached store, it is not forwarded either."""
LOGGED = "logged"
"""The row is in the buffer, logged, and not committed yet."""
CACHE = "cache"
"""The row is in memory, equal to the engine's."""
ENGINE = "engine"
NOWHERE = "nowhere"


class RowAccess(NamedTuple):
    """One row that was read or put."""

    rows: Any
    """The buffer (:class:`state.write_buffer.buffer.Rows`)."""
    row_key: Any
    is_put: bool
    place: str
    """Where the row was before the call."""
    old: Any
    """The value that it had there, as its user knows it; for a read, the result."""
    new: Any
    """The value that was put; ``None`` deletes."""


class RowTrace:
    """Reports the accesses to the rows of one task.

    :param watches: whether accesses are to be reported now; asked before each.
    :param accessed: gets each read after it, and each put before it.
    :param logging: called with the store's name and the bytes of a row key before the row is logged, and with ``None``
        as the key afterwards.
    """

    def __init__(
        self,
        watches: Callable[[], bool],
        accessed: Callable[[RowAccess], None],
        logging: Callable[[str, bytes | None], None],
    ) -> None:
        self._watches = watches
        self._accessed = accessed
        self._logging = logging
        self._thread = threading.get_ident()

    def take_over(self) -> None:
        """Reports what the calling thread does, and no other: queries of other threads read the same rows."""
        self._thread = threading.get_ident()

    def _is_watched(self) -> bool:
        return threading.get_ident() == self._thread and self._watches()

    def reading(self, rows: Any, row_key_of: Callable[[Any], Any], get: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that reads a row by its user's key, and reports it."""

        def traced_get(key: Any, *more: Any) -> Any:
            if not self._is_watched():
                return get(key, *more)
            place = ENGINE
            try:
                row_key = row_key_of(key)
                place = _place_in_memory(rows, row_key) or ENGINE
            except Exception:
                row_key = None  # the read itself fails with the reason
            found = get(key, *more)
            if found is None and place == ENGINE:
                place = NOWHERE
            self._accessed(RowAccess(rows, row_key, False, place, None if found is None else found[0], None))
            return found

        return traced_get

    def writing(self, rows: Any, row_key_of: Callable[[Any], Any], put: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a function that puts a row by its user's key, and reports it."""

        def traced_put(key: Any, value: Any, *more: Any) -> Any:
            if self._is_watched():
                try:
                    row_key = row_key_of(key)
                    place, old = _find(rows, row_key)
                except Exception:
                    return put(key, value, *more)  # the put itself fails with the reason
                self._accessed(RowAccess(rows, row_key, True, place, old, value))
            return put(key, value, *more)

        return traced_put

    def logging(self, store: str, log: Callable[..., None]) -> Callable[..., None]:
        """Returns a log of a buffer that reports each row by its row key."""

        def traced_log(row_key: bytes, value: bytes | None, timestamp: int, *headers: Any) -> None:
            if threading.get_ident() != self._thread:
                log(row_key, value, timestamp, *headers)
                return
            self._logging(store, row_key)
            try:
                log(row_key, value, timestamp, *headers)
            finally:
                self._logging(store, None)

        return traced_log


def _place_in_memory(rows: Any, row_key: Any) -> str | None:
    if row_key in rows.dirty:
        return WAITING
    if row_key in rows.drained:
        return LOGGED
    return CACHE if row_key in rows.clean else None


def _find(rows: Any, row_key: Any) -> tuple[str, Any]:
    """Returns where a row is, and its value; the row is neither cached nor counted as used."""
    place = _place_in_memory(rows, row_key)
    if place is not None:
        entry = rows.dirty.get(row_key) or rows.clean.get(row_key)
        return place, None if entry is None else rows.format.value_of(entry[0])
    row = rows.family.get(rows.format.write_key(row_key))
    if row is None:
        return NOWHERE, None
    return ENGINE, rows.format.value_of(rows.format.entry_of(row)[0])
