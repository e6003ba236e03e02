"""The write buffer of a store of windows or sessions whose rows operators find by key.

As long as the cache has room, it knows which rows of a key the engine has, so that an operator that looks for those of
a span of time needs no seek in the engine (:mod:`state.windowed.key_lookup`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from state.formats.keys import MAX_TIME
from state.row_format.row_format import ENTRY_OVERHEAD_BYTES
from state.windowed.segments import Segments
from state.write_buffer.buffer import DROPPED_AT_ONCE, Rows

# The write buffer of a store of windows or sessions, which knows up to what time the engine has rows.


class BufferedRows(Rows):
    """Rows with times: a drain asks the engine only for what was there before.

    Most sessions that end were born since the last commit, so the engine has never had them.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._segments: Segments | None = None
        # Any function: it is asked only behind `follow`.
        self._time_of: Callable[[bytes], int] = len

    def follow(self, segments: Segments, parts: Callable[[bytes], tuple[bytes, int, int]]) -> None:
        """Takes the times of the rows, and the function that reads the time of one; before the first put."""
        self._segments = segments
        self._time_of = lambda row: parts(row)[1]

    def _below(self, key: Any) -> Any:
        segments = self._segments
        if segments is not None and key not in self.clean and self._time_of(key) > segments.stored_until:
            return None
        return super()._below(key)


PART = 4
"""Known keys of rows may take one part in this many of a full cache."""


class KnownRows(BufferedRows):
    """Rows that are put and deleted, and the keys of the latest of them, also of those that are in the engine.

    Keys of rows are noted from the first :meth:`watch` on. They are part of the cache: those that were noted first are
    dropped first, if their rows are in the engine. The key of a row that is deleted is given back at once.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.watched = False
        self.known: dict[bytes, list[bytes]] = {}
        """The rows of each key that are not deleted, in order; every row that waits for the commit is known."""
        self.complete_from = MAX_TIME + 1
        """The least time from which on all rows are known."""
        self._noted: OrderedDict[bytes, bytes] = OrderedDict()
        """The known rows, each with its key, in the order in which they were noted."""
        self._noted_bytes = 0

    def watch(self, segments: Segments, parts: Callable[[bytes], tuple[bytes, int, int]]) -> None:
        """Begins to note rows."""
        self.watched = True
        # The engine may have rows up to the last time; where that is not known, any.
        if segments.between(0, MAX_TIME, reverse=False):
            self.complete_from = segments.stored_until + 1
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
            if rows is not None and self._take_out(key, rows, row):
                del self._noted[row]
                self._count_noted(-len(row) - ENTRY_OVERHEAD_BYTES)
            return
        if rows is None:
            self.known[key] = [row]
        # Mostly a record is the latest of its key.
        elif row > rows[-1]:
            rows.append(row)
        else:
            place = bisect_left(rows, row)
            if rows[place] == row:
                return
            rows.insert(place, row)
        self._noted[row] = key
        self._count_noted(len(row) + ENTRY_OVERHEAD_BYTES)

    def _count_noted(self, cost: int) -> None:
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
            # Some more than need be, as with rows: otherwise the next put would start again.
            self._drop_noted(budget.cache_limit // PART - (budget.cache_limit >> DROPPED_AT_ONCE) // PART)
        super()._drop_clean(keep)
        if budget.cached > budget.cache_limit:
            self._drop_noted(self._noted_bytes - (budget.cached - budget.cache_limit))

    def _drop_noted(self, most: int) -> None:
        """Forgets rows until the remaining ones take at most this many bytes, also in a drain, whose reads of old
        values may fill the cache."""
        # A row that waits for the commit is in no engine: if it were not known, look-ups would not find it.
        noted, waits = self._noted, self._uncommitted.holds
        while noted and self._noted_bytes > most and not waits(next(iter(noted))):
            self._forget(*noted.popitem(last=False))

    def _forget(self, row: bytes, key: bytes) -> None:
        """A row is no longer noted, though it is there."""
        self._count_noted(-len(row) - ENTRY_OVERHEAD_BYTES)
        self._take_out(key, self.known[key], row)
        self.complete_from = max(self.complete_from, self._time_of(row) + 1)

    def forget_below(self, key: bytes) -> None:
        super().forget_below(key)
        noted, waits = self._noted, self._uncommitted.holds
        for gone in [row for row in noted if row < key and not waits(row)]:
            self._forget(gone, noted.pop(gone))

    def close(self) -> None:
        self._count_noted(-self._noted_bytes)
        self.watched = False
        self._noted.clear()
        self.known.clear()
        super().close()
