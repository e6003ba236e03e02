"""Views of window and session stores, for other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from state.engine.port import Family
from state.read_views.index import LiveIndex
from state.read_views.snapshots import (
    AtomicRead,
    FrozenRows,
    LiveRows,
    SnapshotSource,
    families_shown,
    read_uncommitted,
    uncommitted_of,
)
from state.row_format.row_format import Entry
from state.windowed.base import PutNumbers
from state.windowed.index import IndexReads
from state.windowed.key_layout import Found, Parts, TimeFirst
from state.windowed.rows import TimedReads, TimedRows
from state.windowed.segments import SEGMENT, Segments, SegmentTimes
from state.write_buffer.fast_path import make_get
from state.write_buffer.open_views import OpenViews, ViewIterators, ViewSource
from state.write_buffer.shared_rows import Uncommitted
from state.write_buffer.store_kind import OpenStore

TRIES = 10


class TimedView(ViewSource):
    """Reads one window or session store at one level of isolation."""

    def __init__(self, store: OpenStore, committed: bool) -> None:
        self._facade = store.unguarded
        self._committed = committed
        self._numbers: PutNumbers | None = self._facade.numbers
        self._rows = _LiveTimed(self._facade.timed, store.views, self._numbers, committed=committed)

    def live(self, iterators: ViewIterators) -> Any:
        return self._facade.reading(self._rows, iterators, self._numbers)

    def frozen(self, iterators: ViewIterators) -> Any:
        # Before the rows are taken: a put counts its number behind its row, so the row with this number is there.
        numbers = None if self._numbers is None else PutNumbers(self._numbers.last)
        timed = self._rows.frozen()
        if numbers is not None and self._committed:
            numbers.last = self._rows.segments.committed_facts(timed.rows.family)[1]
        return self._facade.reading(timed, iterators, numbers)


class _LiveTimed(TimedReads):
    """The rows of a running store, each read as of one moment of its own.

    :param numbers: of a store that keeps duplicates: the number of its last put stands for all of a window's where one
        value is asked for (as Java's).
    :param committed: shows only rows of the engine that had not expired at the last commit.
    """

    segments: Segments

    def __init__(self, timed: TimedRows, views: OpenViews, numbers: PutNumbers | None, *, committed: bool) -> None:
        self._timed, self._shared = timed, timed.rows.shared
        self._numbers, self._committed = numbers, committed
        shared, segments = self._shared, timed.segments
        reads = [] if committed else [*read_uncommitted(shared.uncommitted), segments.atomic_read()]
        families = families_shown(shared.family)
        self._source = SnapshotSource(timed.rows.name, shared.engine, views, families, reads)
        rows = LiveRows(shared, self._source, lambda *_: self.frozen().rows, committed=committed)
        super().__init__(timed.layout, rows, segments)
        # The index for readers finds rows by ranges of keys, and what is in order of time is copied as a whole.
        self._waiting = None if committed or timed.index is not None else LiveIndex(shared)

    def get(self, key: bytes, time: int, rest: int) -> Entry | None:
        """Reads the row, then the time, so that a row that expires meanwhile is not shown."""
        segments, facts = self.segments, self.segments.committed_facts
        if self._numbers is not None:
            rest = facts(self.rows.family)[1] if self._committed else self._numbers.last
        entry = self._get(self.layout.row(time // segments.interval, key, time, rest))
        if entry is None:
            return None
        live_from = facts(self.rows.family)[0] if self._committed else segments.live_from
        return None if time < live_from else entry

    def of_key(self, key: bytes, low: int, high: int, *, reverse: bool) -> Iterator[Found]:
        return self._scanned(lambda timed: timed.of_key(key, low, high, reverse=reverse))

    def of_keys(
        self,
        key_from: bytes | None,
        key_to: bytes | None,
        low: int,
        high: int,
        *,
        reverse: bool,
        expired: bool = False,
    ) -> Iterator[Found]:
        return self._scanned(lambda timed: timed.of_keys(key_from, key_to, low, high, reverse=reverse))

    def of_times(self, low: int, high: int, *, reverse: bool, expired: bool = False) -> Iterator[Found]:
        return self._scanned(lambda timed: timed.of_times(low, high, reverse=reverse))

    def of_times_after(self, low: int, high: int, last: Parts | None, *, reverse: bool) -> Iterator[Found]:
        return self._scanned(lambda timed: timed.of_times_after(low, high, last, reverse=reverse))

    def frozen(self) -> TimedReads:
        """Returns all rows as they are now."""
        snapshot, copies = self._source.take()
        family = self._source.at(self._shared.family, snapshot)
        # Committed rows are all in the snapshot, with their time.
        if not copies:
            return self._frozen(family, Uncommitted(), self.segments.committed(family))
        *parts, facts = copies
        times = self.segments.at(facts)
        _end_put(self._timed, times, [next(reversed(part), None) for part in parts])
        return self._frozen(family, uncommitted_of(parts), times)

    def _frozen(self, family: Family, uncommitted: Uncommitted, times: SegmentTimes) -> TimedReads:
        timed, rows = self._timed, FrozenRows(self._shared, family, uncommitted)
        index = None if timed.index is None else _frozen_index(timed, rows, family)
        return TimedReads(timed.layout, rows, times, index)

    def _scanned(self, scan: Callable[[TimedReads], Iterator[Found]]) -> Iterator[Found]:
        """Scans rows as they are now; copies only those rows of the buffer that lie in its ranges."""
        part = None if self._waiting is None else self._frozen_for(scan, self._waiting)
        return scan(self.frozen() if part is None else part)

    def _frozen_for(self, scan: Callable[[TimedReads], Iterator[Found]], waiting: LiveIndex) -> TimedReads | None:
        """Returns the rows that a scan reads as they are now; ``None`` if it is quicker to copy all.

        Which ranges it reads depends on the times, and which rows are copied on the ranges. So the times are read once
        more with the rows: if the scan would then read other ranges, or the row of a put that is half done, all is read
        again.
        """
        timed, segments = self._timed, self.segments
        for _ in range(TRIES):
            ranges = _ranges(scan, timed, segments.at(segments.atomic_read()()))
            taken = waiting.take(self._source, ranges, self._times_and_last)
            if taken is None:
                return None
            facts, *last = taken.more
            times = segments.at(facts)
            _end_put(timed, times, last)
            seen = _ranges(scan, timed, times)
            missed = {row for row in last if row is not None}.difference(taken.keys)
            half_put = any(low <= row < high for row in missed for low, high in seen)
            if not half_put and set(seen) <= set(ranges):
                family = self._source.at(self._shared.family, taken.snapshot)
                return self._frozen(family, taken.uncommitted, times)
        return None

    def _times_and_last(self, keys: list[Any]) -> list[AtomicRead]:
        """Returns atomic reads of the times, and of the key put last into each part of the buffer (or `None`)."""
        waiting = self._shared.uncommitted
        return [self.segments.atomic_read(), _last_key(waiting.dirty), _last_key(waiting.drained)]


def _last_key(part: dict[Any, Any]) -> AtomicRead:
    """Returns an atomic read of the last key of a dictionary, `None` if it is empty; it can be called once.

    A lambda with ``next(reversed(part), None)`` would be no built-in function. So ``reversed`` is called by a `map`,
    when its result is asked for.
    """
    return partial(next, map(next, map(reversed, (part,))), None)


def _ranges(
    scan: Callable[[TimedReads], Iterator[Found]], timed: TimedRows, times: SegmentTimes
) -> list[tuple[bytes, bytes]]:
    """Returns the ranges of rows that a scan reads; it opens all of them when it begins."""
    found: list[tuple[bytes, bytes]] = []

    def note(low: bytes, high: bytes, *, reverse: bool) -> Iterator[Any]:
        found.append((low, high))
        return iter(())

    scan(TimedReads(timed.layout, timed.rows, times, scan=note))
    return found


def _end_put(timed: TimedRows, times: SegmentTimes, last: Iterable[bytes | None]) -> None:
    """Completes the times where a put was half done: its row was there, its time not yet.

    Only the last row of a buffer can be of such a put, since its time is later than all others.
    """
    for row in last:
        if row is not None and (time := timed.layout.parts(row)[1]) > times.stream_time:
            times.hold(time // times.interval)
            times.observe(time)


def _frozen_index(timed: TimedRows, rows: FrozenRows, family: Family) -> IndexReads:
    """Returns the index by key of frozen rows.

    Its rows that wait for the commit are made from the rows themselves, so that both agree also in the middle of a put.
    """
    assert timed.index is not None
    layout = cast(TimeFirst, timed.layout)
    index_row, parts = layout.index.row, layout.parts
    values = {row: logged[1] for row, logged in rows.drained.items()}
    values |= {row: entry[0] for row, entry in rows.dirty.items()}
    waiting: dict[Any, Entry] = {
        index_row(SEGMENT.unpack_from(row)[0], *parts(row)): (None if value is None else b"", 0)
        for row, value in values.items()
    }
    index_rows = FrozenRows(timed.index.rows.shared, family, Uncommitted(waiting))
    return IndexReads(index_rows, layout, make_get(rows))
