"""The write buffer of a store of windows or sessions whose rows operators find by key.

As long as the cache has room, it knows which rows of a key the engine has, so that an operator that looks for those of
a span of time needs no seek in the engine (:mod:`state.windowed.key_lookup`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import Any

from state.formats.keys import MAX_TIME
from state.windowed.segments import SegmentTimes
from state.write_buffer.buffer import DROPPED_AT_ONCE, Rows
from state.write_buffer.row_format import ENTRY_OVERHEAD_BYTES

__all__ = ["KnownRows"]

PART = 4
"""Known keys of rows may take one part in so many of a full cache."""


class KnownRows(Rows):
    """Rows that are put and deleted, and the keys of the latest of them, also of those that are in the engine.

    Keys of rows are noted from the first :meth:`watch` on. They are part of the cache: those that were noted first are
    dropped first, if their rows are in the engine.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.watched = False
        self.known: dict[bytes, list[bytes]] = {}
        """The rows of each key that are not deleted, in order; every row that waits for the commit is known."""
        self.complete_from = MAX_TIME + 1
        """The least time from which on all rows are known."""
        self._noted: deque[tuple[bytes, bytes]] = deque()
        """Keys and rows, in the order in which they were noted."""
        self._noted_bytes = 0
        self._time_of: Callable[[bytes], int] = len

    def watch(self, segments: SegmentTimes, parts: Callable[[bytes], tuple[bytes, int, int]]) -> None:
        """Begins to note rows."""
        self.watched = True
        self._time_of = lambda row: parts(row)[1]
        if segments.between(0, MAX_TIME, reverse=False):
            self.complete_from = max(segments.stream_time + 1, 0) or MAX_TIME + 1
        else:
            self.complete_from = 0
        for row in sorted({*self.drained, *self.dirty}):
            entry = self.dirty.get(row) or self.clean.get(row)
            if entry is not None:
                self.note(parts(row)[0], row, deleted=entry[0] is None)

    def note(self, key: bytes, row: bytes, *, deleted: bool) -> None:
        """A row of the key was put or deleted, after the first call of :meth:`watch`."""
        rows = self.known.get(key)
        if deleted:
            if rows is not None:
                self._take_out(key, rows, row)
            return
        if rows is None:
            self.known[key] = [row]
        elif row > rows[-1]:
            rows.append(row)
        else:
            place = bisect_left(rows, row)
            if rows[place] == row:
                return
            rows.insert(place, row)
        self._noted.append((key, row))
        cost = len(row) + ENTRY_OVERHEAD_BYTES
        self._noted_bytes += cost
        self.budget.clean += cost

    def _take_out(self, key: bytes, rows: list[bytes], row: bytes) -> bool:
        place = bisect_left(rows, row)
        if place == len(rows) or rows[place] != row:
            return False
        del rows[place]
        if not rows:
            del self.known[key]
        return True

    def _drop_clean(self, keep: Any) -> None:
        budget = self.budget
        excess = budget.cached - budget.cache_limit
        if excess > 0 and self._noted_bytes > budget.cache_limit // PART:
            self._drop_noted(budget.cache_limit // PART - (budget.cache_limit >> DROPPED_AT_ONCE) // PART)
        super()._drop_clean(keep)
        if budget.cached > budget.cache_limit:
            self._drop_noted(self._noted_bytes - (budget.cached - budget.cache_limit))

    def _drop_noted(self, most: int) -> None:
        """Forgets rows until those that are noted take so many bytes at most, also in a drain, whose reads of old
        values may fill the cache."""
        noted, waits = self._noted, self._uncommitted.holds
        while noted and self._noted_bytes > most and not waits(noted[0][1]):
            self._drop_first()

    def _drop_first(self) -> None:
        key, row = self._noted.popleft()
        cost = len(row) + ENTRY_OVERHEAD_BYTES
        self._noted_bytes -= cost
        self.budget.clean -= cost
        rows = self.known.get(key)
        if rows is not None and self._take_out(key, rows, row):
            self.complete_from = max(self.complete_from, self._time_of(row) + 1)

    def forget_below(self, key: bytes) -> None:
        super().forget_below(key)
        noted, waits = self._noted, self._uncommitted.holds
        while noted and noted[0][1] < key and not waits(noted[0][1]):
            self._drop_first()

    def close(self) -> None:
        self.budget.clean -= self._noted_bytes
        self._noted_bytes, self.watched = 0, False
        self._noted.clear()
        self.known.clear()
        super().close()
