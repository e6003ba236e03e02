"""Finds the rows of a buffer that lie in a range, for other threads, without a copy of all of them.

Readers keep an index of the row keys that wait for the commit, in order of their bytes. The store's thread only notes
keys that are new to its buffer, and only while somebody reads ranges (`Uncommitted.watch`). A read brings the index up
to date, finds the keys in its range, and then takes the rows of these keys at one moment, with the proof that the index
lacked none of them then (docs/decisions/stores.md, "A range query reads only the rows in its range").
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter, call
from typing import Any, NamedTuple

from state.engine.port import Snapshot
from state.read_views.snapshots import AtomicRead, SnapshotSource, uncommitted_of
from state.write_buffer.shared_rows import SharedRows, Uncommitted

Bounds = tuple[bytes | None, bytes | None]
"""``low <= key < high``; ``None`` is open."""

SORTED_AT_ONCE = 8192
"""Keys that are sorted in one call, which lets no other thread run: two milliseconds."""
SORTED_BY_A_READ = 4
"""Chunks of new keys that one read sorts. After a burst of puts it compares the other new keys one by one, and leaves
the sorting to the next reads."""
TRIES = 10
COPIED_AT_LEAST = 1000
"""Rows from which a copy of the whole buffer is quicker, if they are half of it."""


class SortedRuns:
    """Sorted runs of keys, each at least twice as long as the next.

    A key that is added is merged into longer and longer runs. A read of a range is a search in each run.
    """

    def __init__(self) -> None:
        self._runs: list[list[bytes]] = []

    def add(self, keys: Iterable[bytes]) -> None:
        runs = self._runs
        runs.append(sorted(keys))
        while len(runs) > 1 and len(runs[-2]) < 2 * len(runs[-1]):
            last = runs.pop()
            runs[-1] = sorted(runs[-1] + last)  # finds the two runs, and merges them

    def clear(self) -> None:
        self._runs = []

    def _spans(self, bounds: Bounds) -> Iterator[tuple[list[bytes], int, int]]:
        low, high = bounds
        for run in self._runs:
            start = 0 if low is None else bisect_left(run, low)
            end = len(run) if high is None else bisect_left(run, high)
            if start < end:
                yield run, start, end

    def count(self, bounds: Bounds) -> int:
        """Returns the number of keys between the bounds; a key that was added twice counts twice."""
        return sum(end - start for _, start, end in self._spans(bounds))

    def between(self, bounds: Bounds) -> list[bytes]:
        """Returns the keys between the bounds, in no order, and some of them twice."""
        found: list[bytes] = []
        for run, start, end in self._spans(bounds):
            found += run[start:end]
        return found


class Taken(NamedTuple):
    """The rows of some ranges at one moment."""

    snapshot: Snapshot
    uncommitted: Uncommitted
    keys: list[Any]
    more: tuple[Any, ...]


class LiveIndex:
    """The index of one store's waiting rows. Any thread may use it."""

    def __init__(self, rows: SharedRows) -> None:
        self._format, self._rows = rows.format, rows.uncommitted
        self._runs = SortedRuns()
        self._unsorted: list[bytes] = []
        """New keys that no run has yet."""
        self._lock = threading.Lock()
        self._fresh: list[Any] | None = None
        """The store's list of new keys that the index follows; another one with each commit."""
        self._seen = 0

    def take(
        self,
        source: SnapshotSource,
        ranges: Sequence[Bounds],
        more: Callable[[list[Any]], list[AtomicRead]] = lambda _: [],
    ) -> Taken | None:
        """Returns the buffer's rows in the ranges; ``None`` if a copy of the whole buffer is quicker.

        :param more: returns other atomic reads of the same moment, for the row keys found.
        :raises StoreError: if the store is closed.
        """
        rows = self._rows
        if any(bounds == (None, None) for bounds in ranges):
            return None
        for _ in range(TRIES):
            found = self._keys(ranges)
            if found is None:
                return None
            keys, fresh, seen = found
            reads: list[AtomicRead] = [
                partial(list, map(rows.dirty.get, keys)),
                partial(attrgetter("draining"), rows),
                partial(list, map(rows.drained.get, keys)),
                partial(attrgetter("fresh"), rows),
                partial(len, fresh),
                *more(keys),
            ]
            snapshot, (dirty, draining, drained, now, length, *others) = source.take(reads)
            if now is fresh and not _within(ranges, list(map(self._format.keys.write, fresh[seen:length]))):
                found_in = _some(keys, dirty), _some(keys, map(draining.get, keys)), _some(keys, drained)
                return Taken(snapshot, uncommitted_of(found_in), keys, tuple(others))
            snapshot.close()
        return None

    def _keys(self, ranges: Sequence[Bounds]) -> tuple[list[Any], list[Any], int] | None:
        rows = self._rows
        with self._lock:
            fresh = self._follow()
            runs = self._runs
            count = sum(map(runs.count, ranges))
            if count > COPIED_AT_LEAST and 2 * count > len(rows.dirty) + len(rows.drained):
                return None
            raw = [key for bounds in ranges for key in runs.between(bounds)]
            raw += _within(ranges, self._unsorted)
            seen = self._seen
        # A key that was put again since the last commit may be in two runs.
        found = dict.fromkeys(raw)
        format = self._format
        return (list(map(format.keys.serde.deserialize, found)) if format.keys.plain else list(found)), fresh, seen

    def _follow(self) -> list[Any]:
        """Adds the keys that are new."""
        rows, fresh, write_key = self._rows, self._rows.watch(), self._format.keys.write
        length = len(fresh)
        if fresh is self._fresh:
            new = list(map(write_key, fresh[self._seen : length]))
        else:  # the list has only keys put since it began: those of before are read after its beginning
            copies: list[AtomicRead] = [
                partial(list, rows.dirty),
                partial(attrgetter("draining"), rows),
                partial(list, rows.drained),
            ]
            dirty, draining, drained = tuple(map(call, copies))
            new = list(map(write_key, [*dirty, *list(draining), *drained]))
            self._runs.clear()
            self._unsorted.clear()
        self._fresh, self._seen = fresh, length
        unsorted = self._unsorted
        unsorted += new
        for _ in range(SORTED_BY_A_READ):
            if unsorted:
                # From its end, where a list is cut without moving the rest.
                self._runs.add(unsorted[-SORTED_AT_ONCE:])
                del unsorted[-SORTED_AT_ONCE:]
        return fresh


def _within(ranges: Sequence[Bounds], keys: Sequence[bytes]) -> list[bytes]:
    found: list[bytes] = []
    if keys:
        for low, high in ranges:
            low = low or b""
            found += [key for key in keys if low <= key and (high is None or key < high)]
    return found


def _some(keys: Sequence[Any], rows: Iterable[Any]) -> dict[Any, Any]:
    return {key: row for key, row in zip(keys, rows, strict=True) if row is not None}
