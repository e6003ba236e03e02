"""The write buffer of a store that keeps duplicates, in which no row is put twice or deleted before it expires.

Operators read such a store by key with each record: a join looks for the partners of each. So the buffer knows where
the latest rows are, also those that the engine has already, and reads ranges of the engine only where it may not know
all rows (:mod:`state.windowed.appended_lookup`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from state.row_format.row_format import ENTRY_OVERHEAD_BYTES, Entry
from state.windowed.segments import LARGEST_SEQUENCE, Segments, SegmentTimes
from state.write_buffer.buffer import DROPPED_AT_ONCE, Rows
from state.write_buffer.row_reader import Overlay

NUMBER_BITS = LARGEST_SEQUENCE.bit_length()
"""A place is the time of a row, moved left by these bits, and its number."""

PLACE_BYTES = ENTRY_OVERHEAD_BYTES + 16
"""The cost of a place in the cache, beside that of the key."""


FORGOTTEN_TOGETHER = 1000
"""So many places, added one after the other, are forgotten together."""

LEAST_TOGETHER = 50
"""The places of smaller commits are put together until there are so many: a list for each would be larger than they."""


@dataclass
class _Committed:
    """Some places of rows that the engine has.

    :param newest: the largest of them.
    :param cost: the bytes that they take of the cache.
    """

    keys: list[bytes]
    newest: int
    cost: int


class AppendedRows(Rows):
    """Rows that are never changed: those that wait for the commit, and the places of the latest of all.

    Places are part of the cache: over its limit those of the rows that were added first are dropped at the next commit.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.places: dict[bytes, int | list[int]] = {}
        """The place known of each key, or several, in order: mostly it is one, and lists take memory and time. That of
        every row that waits for the commit is known."""
        self.complete_from = 0
        """The least time from which on all places are known."""
        self.added_keys: list[bytes] = []
        """The keys of the rows that wait for the commit, in the order in which they were added."""
        self.added_places: list[int] = []
        """Their places."""
        self._committed: deque[_Committed] = deque()
        self._times: SegmentTimes | None = None

    def follow(self, segments: Segments) -> None:
        """Takes the times of the rows that the engine has from an earlier life."""
        self._times = segments
        if segments.known:
            self.complete_from = segments.stream_time + 1 if segments.stream_time >= 0 else 1 << 63

    # ------------------------------------------------------------------ rows

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return self.read_row

    def read_row(self, row: bytes) -> Entry | None:
        """Returns the value and the timestamp of a row that waits for the commit or is in the engine."""
        logged = self.drained.get(row)
        if logged is None:
            return self._read_family(row)
        return None if logged[1] is None else self.format.stored(logged[1]), logged[2]

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> Overlay:
        _, found = self._waiting(low, high, reverse)
        return [(row, entry) for row in found if (entry := self.read_row(row)) is not None]

    # ------------------------------------------------------------------ places

    def applied(self) -> None:
        """Counts the places of the rows that the engine holds now as part of the cache, and forgets expired ones."""
        assert self._times is not None
        for first in range(0, len(self.added_keys), FORGOTTEN_TOGETHER):
            end = first + FORGOTTEN_TOGETHER
            self._note_committed(self.added_keys[first:end], max(self.added_places[first:end]))
        self.added_keys.clear()
        self.added_places.clear()
        live = self._times.live_from << NUMBER_BITS
        while self._committed and self._committed[0].newest < live:
            self._forget_first(live)
        super().applied()

    def _note_committed(self, keys: list[bytes], newest: int) -> None:
        cost = sum(map(len, keys)) + len(keys) * PLACE_BYTES
        self.budget.clean += cost
        last = self._committed[-1] if self._committed else None
        if last is None or len(last.keys) >= LEAST_TOGETHER:
            self._committed.append(_Committed(keys, newest, cost))
        else:
            last.keys += keys
            last.newest = max(last.newest, newest)
            last.cost += cost

    def _drop_clean(self, keep: Any) -> None:
        if self.added_keys:  # no engine has these rows: their places stay until they are committed
            return
        budget = self.budget
        limit = budget.cache_limit
        if budget.cached > limit:  # some more, since each time takes a while
            limit -= limit >> DROPPED_AT_ONCE
        while self._committed and budget.cached > limit:
            self._forget_first(0)

    def forget_below(self, key: bytes) -> None:
        """Leaves the places of expired rows to :meth:`applied`."""

    def _forget_first(self, end: int) -> None:
        """Forgets the places that were committed first, and of their keys all that are smaller than ``end``."""
        first, places = self._committed.popleft(), self.places
        if end <= first.newest:
            end = (first.newest >> NUMBER_BITS) + 1 << NUMBER_BITS
        for key in first.keys:
            known = places.get(key)
            if known is None:
                continue
            if (known if isinstance(known, int) else known[-1]) < end:
                del places[key]
            elif isinstance(known, list) and known[0] < end:
                del known[: bisect_left(known, end)]
        self.complete_from = max(self.complete_from, end >> NUMBER_BITS)
        self.budget.clean -= first.cost

    def close(self) -> None:
        self.budget.clean -= sum(some.cost for some in self._committed)
        self._committed.clear()
        self.added_keys.clear()
        self.added_places.clear()
        self.places.clear()
        super().close()
