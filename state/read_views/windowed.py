"""Windows and sessions of a running store for other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial
from typing import Any, cast
from weakref import WeakSet

from state.engine.port import Family
from state.read_views.index import LiveIndex
from state.read_views.key_value import Buffer, FrozenRows, LiveRows, Moments, Part, buffer_parts, names_of
from state.windowed.key_layout import TimeFirst
from state.windowed.rows import Found, TimedRows
from state.windowed.segments import SEGMENT, Segments
from state.write_buffer.buffer import Entry
from state.write_buffer.fast_path import make_get
from state.write_buffer.open_views import OpenViews

__all__ = ["LiveTimed"]

TRIES = 10


class LiveTimed:
    """The reads of :class:`~state.windowed.rows.TimedRows`, each as of one moment of its own.

    :param number: for a store that keeps duplicates: the number of its last put, which stands for all of a window's
        where one value is asked for (as Java's).
    :param committed: shows the engine alone, and what had not expired at the last commit.
    """

    def __init__(
        self, timed: TimedRows, views: OpenViews, number: Callable[[], int] | None, *, committed: bool
    ) -> None:
        rows, self._committed = timed.rows, committed
        self._timed, self._number = timed, number
        self.layout, self.segments = timed.layout, timed.segments
        parts: list[Part] = [] if committed else [*buffer_parts(rows), *timed.segments.parts()]
        self._moments = Moments(rows.name, rows.engine, views, names_of(rows.family), parts)
        self.rows = LiveRows.of(rows, self._moments, lambda *_: self.frozen().frozen_rows, committed=committed)
        self._get = make_get(self.rows)
        self._index = None if committed or timed._index is not None else LiveIndex(rows)

    def get(self, key: bytes, time: int, rest: int) -> Entry | None:
        """The row first, then the time: a row that has expired meanwhile is not shown."""
        segments, facts = self.segments, self.segments.committed_facts
        if self._number is not None:
            rest = facts(self.rows.family)[1] if self._committed else self._number()
        entry = self._get(self.layout.row(time // segments.interval, key, time, rest))
        if entry is None:
            return None
        live_from = facts(self.rows.family)[0] if self._committed else segments.live_from
        return None if time < live_from else entry

    def of_key(self, *args: Any, reverse: bool) -> Iterator[Found]:
        return self._for(lambda timed: timed.of_key(*args, reverse=reverse))

    def of_keys(self, *args: Any, reverse: bool) -> Iterator[Found]:
        return self._for(lambda timed: timed.of_keys(*args, reverse=reverse))

    def of_times(self, *args: Any, reverse: bool) -> Iterator[Found]:
        return self._for(lambda timed: timed.of_times(*args, reverse=reverse))

    def _for(self, scan: Callable[[TimedRows], Iterator[Found]]) -> Iterator[Found]:
        """A scan as of now, of no more rows of the buffer than lie in its ranges."""
        timed, segments = self._timed, self._timed.segments
        for _ in range(0 if self._index is None else TRIES):
            assert self._index is not None
            ranges = _ranges(scan, timed, segments.frozen(segments.parts()[0]()))
            taken = self._index.take(self._moments, ranges, lambda _: [*segments.parts(), *self._last_rows()])
            if taken is None:
                break
            facts, *last = taken.more
            family = self._moments.at(timed.rows.family, taken.snapshot)
            frozen = FrozenTimed.some(timed, family, taken.buffer, segments.frozen(facts))
            frozen.end_put(last)
            keys, seen = set(taken.keys), _ranges(scan, timed, frozen.segments)
            half_put = any(
                row is not None and row not in keys and any(low <= row < high for low, high in seen) for row in last
            )
            if not half_put and set(seen) <= set(ranges):  # else time has moved meanwhile, or is about to
                return scan(frozen)
        return scan(self.frozen())

    def frozen(self) -> FrozenTimed:
        """All of it as it is now."""
        snapshot, copies = self._moments.take()
        return FrozenTimed(self._timed, self._moments.at(self._timed.rows.family, snapshot), copies)

    def _last_rows(self) -> list[Part]:
        """The key put last into each part of the buffer: `None` if it has none."""
        rows = self._timed.rows
        return [partial(next, map(next, map(reversed, (part,))), None) for part in (rows.dirty, rows.drained)]


def _ranges(
    scan: Callable[[TimedRows], Iterator[Found]], timed: TimedRows, segments: Segments
) -> list[tuple[bytes, bytes]]:
    """What a scan reads of the rows: all its ranges are opened when it begins."""
    found: list[tuple[bytes, bytes]] = []

    def note(low: bytes, high: bytes, *, reverse: bool) -> Iterator[Any]:
        found.append((low, high))
        return iter(())

    probe = copy(timed)
    probe._scan, probe.segments = note, segments
    scan(probe)
    return found


class FrozenTimed(TimedRows):
    """Windows or sessions as they were at one moment."""

    def __init__(self, timed: TimedRows, family: Family, copies: tuple[Any, ...]) -> None:
        self.__dict__.update(timed.__dict__)
        if copies:
            self.rows = FrozenRows.of(timed.rows, family, copies[:3])
            self.segments = timed.segments.frozen(copies[3])
            self.end_put([next(reversed(part), None) for part in copies[:3]])
        else:
            self.rows = FrozenRows.of(timed.rows, family)
            self.segments = timed.segments.committed(family)
        self._get = make_get(self.rows)
        self._scan = self.rows.range
        if timed._index is not None:
            self._index = copy(timed._index)
            self._index.rows = FrozenRows.of(timed._index.rows, family, ({}, {}, {}))
            self._index._get, self._index._open = self._get, WeakSet()
            self._index.rows.dirty = self._indexed(cast(TimeFirst, timed.layout))
            self._scan = self._index.range

    @property
    def frozen_rows(self) -> FrozenRows:
        return cast(FrozenRows, self.rows)

    @classmethod
    def some(cls, timed: TimedRows, family: Family, buffer: Buffer, segments: Segments) -> FrozenTimed:
        """With some of the rows of the buffer, for a store without an index."""
        found = cls.__new__(cls)
        found.__dict__.update(timed.__dict__)
        found.rows = FrozenRows.of(timed.rows, family, buffer)
        found.segments = segments
        found._get, found._scan = make_get(found.rows), found.rows.range
        return found

    def end_put(self, last: Iterable[bytes | None]) -> None:
        """A put may have been on its way: its row was there, and its time was not known. Only the last row of a buffer
        can be such a one, since its time is later than all others."""
        segments = self.segments
        for row in last:
            if row is not None and (time := self.layout.parts(row)[1]) > segments.stream_time:
                segments.hold(time // segments.interval)
                segments.observe(time)

    def _indexed(self, layout: TimeFirst) -> dict[bytes, Entry]:
        """The index of the rows in the buffer, from themselves: so it agrees with them also in the middle of a put."""
        rows, row = self.rows, layout.index.row
        found: dict[bytes, Entry] = {}
        for key, value in (
            *((key, drained[1]) for key, drained in rows.drained.items()),
            *((key, entry[0]) for key, entry in rows.dirty.items()),
        ):
            segment = SEGMENT.unpack_from(key)[0]
            found[row(segment, *layout.parts(key))] = (None if value is None else b"", 0)
        return found
