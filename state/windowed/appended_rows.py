"""The write buffer of a store that keeps duplicates, in which no row is put twice or deleted before it expires.

Operators read such a store by key with each record: a join looks for the partners of each. So the buffer knows where
the latest rows are, also those that the engine has already, and reads ranges of the engine only where it may not know
all rows (:mod:`state.windowed.appended_lookup`).
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from state.windowed.segments import LARGEST_SEQUENCE, Segments, SegmentTimes
from state.write_buffer.buffer import DROPPED_AT_ONCE, Rows
from state.write_buffer.row_format import ENTRY_OVERHEAD_BYTES, Entry
from state.write_buffer.row_reader import Overlay

__all__ = ["NUMBER_BITS", "AppendedRows"]

NUMBER_BITS = LARGEST_SEQUENCE.bit_length()
"""A place is the time of a row, moved left by these bits, and its number."""

PLACE_BYTES = ENTRY_OVERHEAD_BYTES + 16
"""The cost of a place in the cache, beside that of the key."""


class AppendedRows(Rows):
    """Rows that are never changed: those that wait for the commit, and the places of the latest of all.

    Places are part of the cache: over its limit those of the rows that were added first are dropped, if the engine has
    these rows.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.places: dict[bytes, list[int]] = {}
        """The places known of each key, in order; that of every row that waits for the commit is known."""
        self.complete_from = 0
        """The least time from which on all places are known."""
        self._added: deque[tuple[bytes, int]] = deque()
        """Keys and places known, in the order in which the rows were added."""
        self._counted = 0
        """How many of the first of them are rows of the engine, and so count as cache."""
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

    def note_added(self, row: bytes, data: bytes, key: bytes, place: int) -> None:
        """Counts a row that was added to those that wait for the commit, and notes its place."""
        known = self.places.get(key)
        if known is None:
            self.places[key] = [place]
        elif place > known[-1]:
            known.append(place)
        else:
            insort(known, place)
        self._added.append((key, place))
        cost = len(row) + len(data) + ENTRY_OVERHEAD_BYTES
        self._pending_bytes += cost
        self.budget.uncommitted += cost

    def applied(self) -> None:
        """Counts the places of the rows that the engine holds now as part of the cache, and forgets expired ones."""
        fresh = len(self.drained)
        keys = sum([len(key) for key, _ in islice(reversed(self._added), fresh)])
        self.budget.clean += keys + fresh * PLACE_BYTES
        self._counted = len(self._added)
        self._forget_expired()
        super().applied()

    def _drop_clean(self, keep: Any) -> None:
        excess = self.budget.cached - self.budget.cache_limit
        if excess > 0:  # some more, since each time takes a while
            excess += self.budget.cache_limit >> DROPPED_AT_ONCE
        dropped: list[tuple[bytes, int]] = []
        added, freed = self._added, 0
        while freed < excess and len(dropped) < self._counted:
            dropped.append(added.popleft())
            freed += len(dropped[-1][0]) + PLACE_BYTES
        self._forget(dropped)

    def forget_below(self, key: bytes) -> None:
        """Leaves the places of expired rows to :meth:`applied`."""

    def _forget_expired(self) -> None:
        assert self._times is not None
        dropped: list[tuple[bytes, int]] = []
        live, added = self._times.live_from << NUMBER_BITS, self._added
        while len(dropped) < self._counted and added[0][1] < live:
            dropped.append(added.popleft())
        self._forget(dropped)

    def _forget(self, dropped: Sequence[tuple[bytes, int]]) -> None:
        self._counted -= len(dropped)
        by_key: dict[bytes, list[int]] = {}
        for key, place in dropped:
            by_key.setdefault(key, []).append(place)
        for key, gone in by_key.items():
            known = self.places[key]
            if known[: len(gone)] == gone:
                del known[: len(gone)]
            else:
                left = frozenset(gone)
                known[:] = [place for place in known if place not in left]
            if not known:
                del self.places[key]
            self.complete_from = max(self.complete_from, (max(gone) >> NUMBER_BITS) + 1)
            self.budget.clean -= len(gone) * (len(key) + PLACE_BYTES)

    def close(self) -> None:
        self.budget.clean -= sum(len(key) + PLACE_BYTES for key, _ in islice(self._added, self._counted))
        self._counted = 0
        self._added.clear()
        self.places.clear()
        super().close()
