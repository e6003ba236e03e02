"""The rules by which reads of a store with a time to live hide expired rows. They refresh nothing.

The time of a row is the timestamp of its value (`RecordTimeRule`), or when it was last put or read (`AccessRule`).
Either way it is the first eight bytes of a row in the engine.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from state.row_format.row_format import Entry, RowFormat
from state.time_to_live.options import Lifetime
from state.write_buffer.fast_path import row_key_maker
from state.write_buffer.row_reader import Get, Overlay, ReadRule, RowReader

time_of_row = struct.Struct(">q").unpack_from
_HIDDEN: Entry = (None, -1)


class ExpiryRule(ReadRule):
    """Hides the rows that have expired.

    :param limit: gives the time up to which rows have expired.
    """

    def __init__(self, format: RowFormat, lifetime: Lifetime, limit: Callable[[], int]) -> None:
        self.format = format
        self.lifetime = lifetime
        self.limit = limit

    @abstractmethod
    def time_of(self, row_key: Any, entry: Entry) -> int:
        """Returns the time of a row in memory."""

    def shown(
        self, over: Overlay, below: Iterator[tuple[bytes, bytes]]
    ) -> tuple[Overlay, Iterator[tuple[bytes, bytes]]]:
        limit = self.limit()
        is_over, row_of, time_of = self.lifetime.is_over, self.format.keys.row_key_of, self.time_of
        alive = [(raw, _HIDDEN if is_over(time_of(row_of(raw), entry), limit) else entry) for raw, entry in over]
        return alive, self._alive(below, limit)

    def _alive(self, rows: Iterator[tuple[bytes, bytes]], limit: int) -> Iterator[tuple[bytes, bytes]]:
        is_over = self.lifetime.is_over
        return ((key, row) for key, row in rows if not is_over(time_of_row(row)[0], limit))


class RecordTimeRule(ExpiryRule):
    """Rows expire by the timestamps of their values."""

    def time_of(self, row_key: Any, entry: Entry) -> int:
        return entry[1]  # type: ignore[no-any-return]

    def around_get(self, get: Get, rows: RowReader) -> Get:
        limit, is_over = self.limit, self.lifetime.is_over

        def get_alive(key: Any) -> Entry | None:
            least = limit()  # before the row: a reader in another thread may see that of a later moment
            entry = get(key)
            if entry is None or entry[1] > least:
                return entry
            return None if is_over(entry[1], least) else entry

        return get_alive


class Accesses:
    """The times of the last accesses that the engine does not have yet.

    They are shared with the store's changelog and with readers in other threads. A row's time moves like the row: from
    `refreshed` through `times` to the engine. A reader that reads in this order finds a time that is not older than the
    row.

    :param row_key_of: converts a key's bytes to its row key.
    """

    __slots__ = ("refreshed", "row_key_of", "times")

    def __init__(
        self,
        row_key_of: Callable[[bytes], Any],
        times: dict[Any, int] | None = None,
        refreshed: dict[Any, int] | None = None,
    ) -> None:
        self.row_key_of = row_key_of
        self.times: dict[Any, int] = {} if times is None else times
        """Times of the rows that wait for the commit, by row key."""
        self.refreshed: dict[Any, int] = {} if refreshed is None else refreshed
        """Times of rows of the engine that were read since their commit, by row key.

        The dictionary is replaced at each drain and each commit, since open ranges hold it: a row that had expired when
        a range was opened may be put, committed and read meanwhile.
        """

    def of(self, raw_key: bytes) -> int:
        """Returns the time of a row that waits for the commit."""
        return self.times[self.row_key_of(raw_key)]


class AccessRule(ExpiryRule):
    """Rows expire by when they were last put or read."""

    def __init__(self, format: RowFormat, lifetime: Lifetime, limit: Callable[[], int], accesses: Accesses) -> None:
        super().__init__(format, lifetime, limit)
        self.accesses = accesses

    def time_of(self, row_key: Any, entry: Entry) -> int:
        time = self.accesses.times.get(row_key)
        if time is None:
            time = self.accesses.refreshed.get(row_key)
        if time is None:
            time = entry[2] if len(entry) > 2 else self.lifetime.now()
        return time

    def around_get(self, get: Get, rows: RowReader) -> Get:
        row_key, limit, is_over = row_key_maker(self.format), self.limit, self.lifetime.is_over
        accesses, uncommitted = self.accesses, rows.shared.uncommitted
        find, key_bytes = rows.family.get, self.format.keys.bytes_of

        def time_now(row: Any) -> int | None:
            refreshed = accesses.refreshed.get(row)
            if uncommitted.holds(row):
                time = accesses.times.get(row)
                if time is not None:
                    return time
            if refreshed is not None:
                return refreshed
            found = find(key_bytes(row))
            return None if found is None else time_of_row(found)[0]

        def get_alive(key: Any) -> Entry | None:
            least = limit()
            time = time_now(row_key(key))
            return None if time is None or is_over(time, least) else get(key)

        return get_alive

    def _alive(self, rows: Iterator[tuple[bytes, bytes]], limit: int) -> Iterator[tuple[bytes, bytes]]:
        """Yields the rows that had not expired when the range was opened.

        A row that has expired by the engine's time was alive if it was read since the last commit, since a read
        refreshes only rows that are alive.
        """
        is_over, refreshed, row_of = self.lifetime.is_over, self.accesses.refreshed, self.format.keys.row_key_of
        return (
            (key, row)
            for key, row in rows
            if not is_over(time_of_row(row)[0], limit) or refreshed.get(row_of(key), limit) > limit
        )
