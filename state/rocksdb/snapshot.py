"""Snapshots of RocksDB: an iterator for each family, opened at the same moment.

An iterator shows a family as it was when it was opened, and can seek any number of times. All reads of a snapshot go
through the iterator of their family, a piece at a time. (The binding's own snapshots show single rows as they were, but
ranges as they are now: rocksdict 0.3.29.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from traceback import clear_frames
from typing import Any

from state.engine.port import Family
from state.engine.snapshot import Row, SnapshotFamily, closed

PIECE_BYTES = 1 << 20
"""Bytes of values that a range reads ahead: a piece ends with the row that exceeds them."""


class RocksSnapshot:
    """A snapshot of RocksDB (:class:`state.engine.port.Snapshot`).

    :param iterators: the binding's, by family.
    :param counts: returns about how many rows a family has.
    :param mapped: returns our error for one of the binding, about a family.
    """

    def __init__(
        self, iterators: Mapping[str, Any], counts: Callable[[str], int], mapped: Callable[[Exception, str], Exception]
    ) -> None:
        self._iterators: dict[str, Any] | None = dict(iterators)
        self._counts = counts
        self._mapped = mapped
        self._lock = threading.Lock()
        """An iterator stands at one place, and must not be in use when the database closes."""

    def family(self, name: str) -> Family:
        return SnapshotFamily(name, self)

    def close(self) -> None:
        with self._lock:
            self._iterators = None

    def _iterator(self, name: str) -> Any:
        if self._iterators is None:
            raise closed(name)
        return self._iterators.get(name)

    def one(self, name: str, key: bytes) -> bytes | None:
        with self._lock:
            rows = self._iterator(name)
            if rows is None:
                return None
            try:
                rows.seek(key)
                if rows.valid():
                    return rows.value() if rows.key() == key else None
                rows.status()
            except Exception as error:
                rows = None
                raise self._failure(name, error) from error
            return None

    def read(
        self, name: str, low: bytes | None, high: bytes | None, count: int, *, reverse: bool
    ) -> tuple[list[Row], bytes | None]:
        with self._lock:
            rows = self._iterator(name)
            if rows is None:
                return [], None
            try:
                return _backward(rows, low, high, count) if reverse else _forward(rows, low, high, count)
            except Exception as error:
                rows = None
                raise self._failure(name, error) from error

    def _failure(self, name: str, error: Exception) -> Exception:
        """Returns our error, with its traceback cleared.

        A caller that keeps the error would otherwise keep the iterator with it, and so the database open.
        """
        clear_frames(error.__traceback__)
        return self._mapped(error, name)

    def count(self, name: str) -> int:
        return self._counts(name)


def _forward(rows: Any, low: bytes | None, high: bytes | None, count: int) -> tuple[list[Row], bytes | None]:
    if low:
        rows.seek(low)
    else:
        rows.seek_to_first()
    found: list[Row] = []
    size = 0
    while rows.valid():
        key = rows.key()
        if high is not None and key >= high:
            return found, None
        if len(found) == count or size > PIECE_BYTES:
            return found, key
        value = rows.value()
        size += len(value)
        found.append((key, value))
        rows.next()
    rows.status()
    return found, None


def _backward(rows: Any, low: bytes | None, high: bytes | None, count: int) -> tuple[list[Row], bytes | None]:
    if high is None:
        rows.seek_to_last()
    else:
        rows.seek_for_prev(high)
        # `seek_for_prev` stops at the bound itself, which is not a part of the range.
        if rows.valid() and rows.key() == high:
            rows.prev()
    found: list[Row] = []
    size = 0
    while rows.valid():
        key = rows.key()
        if low is not None and key < low:
            return found, None
        # The upper bound of the next piece: a range ends before its bound.
        if len(found) == count or size > PIECE_BYTES:
            return found, found[-1][0]
        value = rows.value()
        size += len(value)
        found.append((key, value))
        rows.prev()
    rows.status()
    return found, None
