"""The rows of a store of windows or sessions: put and read by key and time, over
:class:`state.write_buffer.buffer.Rows`.

What has expired is not shown, be it in the buffer or in the engine, and late puts are dropped
(state/windowed/segments.py). Scans show rows as they were when they were opened: the rows of every segment that they
will read are opened with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from processor_api.record import HeaderList
from processor_api.serde import Serdes
from state.engine.port import Batch
from state.formats.keys import MAX_TIME
from state.row_format.row_format import Entry
from state.windowed.appended_rows import AddRow, AppendedRows, make_add_row, make_find
from state.windowed.index import IndexReads, IndexRows, open_index
from state.windowed.key_layout import Found, KeyFirst, Parts, RowLayout, TimeFirst
from state.windowed.key_lookup import Find, KnownLookup, sessions_until
from state.windowed.known_rows import BufferedRows, KnownRows
from state.windowed.row_functions import logged_key_reader, logged_together, make_get_row, make_put_row
from state.windowed.segments import Retention, Segments, SegmentTimes
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import make_get, make_put
from state.write_buffer.row_reader import RowReader
from state.write_buffer.store_kind import CommitParticipant, Opening, open_rows

FoundRows = Iterator[tuple[bytes, Entry]]
Scan = Callable[..., FoundRows]
"""``(low, high, *, reverse)`` to the rows in a range."""


class TimedReads:
    """The rows of a store of windows or sessions, for reading.

    :param segments: the times of the rows.
    :param index: the index by key, where rows are in order of time.
    :param scan: reads ranges of rows that are found by key; otherwise the rows or the index do.
    """

    def __init__(
        self,
        layout: RowLayout,
        rows: RowReader,
        segments: SegmentTimes,
        index: IndexReads | None = None,
        scan: Scan | None = None,
    ) -> None:
        self.layout = layout
        self.rows = rows
        self.segments = segments
        self.index = index
        self._get = make_get(rows)
        self._by_key: KeyFirst = layout.index if isinstance(layout, TimeFirst) else layout
        """How rows are found by their keys."""
        self._scan: Scan = scan or (rows.range if index is None else index.range)
        self._value_of: Callable[[Any], Any] = rows.format.values.value_of if index is None else _same
        self._sorts = index is None and not rows.persistent
        """Whether scans over keys go by time: Java's stores in memory do."""

    # ------------------------------------------------------------------ one row

    def get(self, key: bytes, time: int, rest: int) -> Entry | None:
        """Returns the value and its timestamp."""
        segments = self.segments
        if time < segments.live_from:
            return None
        return self._get(self.layout.row(time // segments.interval, key, time, rest))

    def finding_forwarded(self) -> Callable[[bytes, int, int], Entry | None]:
        """Returns :meth:`get` without the changes that wait in a cache."""
        get, row, segments = make_get(self.rows, forwarded=True), self.layout.row, self.segments

        def find(key: bytes, time: int, rest: int) -> Entry | None:
            return None if time < segments.live_from else get(row(time // segments.interval, key, time, rest))

        return find

    # ------------------------------------------------------------------ scans

    def of_key(self, key: bytes, low: int, high: int, *, reverse: bool) -> Iterator[Found]:
        """Returns the rows of one key with times from ``low`` to ``high``, in order of time."""
        layout, scan = self._by_key, self._scan
        value_of = self._value_of if self.index is None and self.rows.format.values.encoded else None

        def of_segment(segment: int, first: int, last: int) -> Iterator[Found]:
            rows = scan(*layout.key_bounds(segment, key, first, last), reverse=reverse)
            return layout.of_key(key, rows, value_of)

        return self._by_segment(of_segment, low, high, reverse)

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
        """Returns the rows of all keys in a range, both ends included; ``None`` is open.

        They come segment by segment, and in each by key, then time, or in memory by time, then key."""
        if key_from is not None and key_to is not None and key_from > key_to:
            return iter(())
        layout, scan = self._by_key, self._scan

        def of_segment(segment: int, first: int, last: int) -> Iterator[Found]:
            rows = scan(*layout.keys_bounds(segment, key_from, key_to, last), reverse=reverse)
            # Java's store in memory is ordered by time; a segment here has its keys first.
            if self._sorts:
                rows = _sorted_when_read(rows, layout, reverse=reverse)
            return _within(_found(layout, rows, self._value_of), key_from, key_to, first, last)

        return self._by_segment(of_segment, low, high, reverse, expired)

    def of_times(self, low: int, high: int, *, reverse: bool, expired: bool = False) -> Iterator[Found]:
        """Returns the rows of all keys like :meth:`of_keys`, but by time, then key, where rows are in order of time.

        :param expired: whether rows are returned too that have expired and are not deleted yet.
        """
        layout, rows = self.layout, self.rows
        if not isinstance(layout, TimeFirst):
            return self.of_keys(None, None, low, high, reverse=reverse, expired=expired)

        def of_segment(segment: int, first: int, last: int) -> Iterator[Found]:
            found = rows.range(*layout.time_bounds(segment, first, last), reverse=reverse)
            return _found(layout, found, rows.format.values.value_of)

        return self._by_segment(of_segment, low, high, reverse, expired)

    def of_times_after(self, low: int, high: int, last: Parts | None, *, reverse: bool) -> Iterator[Found]:
        """Returns the rows of all keys that follow one, in the order in which the store has them: segment by segment,
        in each by key, then time, or where rows are in order of time by that, then key.

        :param last: key, time and rest of that row, which may be gone; ``None`` for all rows.
        """
        layout, by_key = self.layout, not isinstance(self.layout, TimeFirst)
        scan = self._scan if by_key else self.rows.range
        value_of = self.rows.format.values.value_of
        place = None if last is None else layout.row(last[1] // self.segments.interval, *last)

        def of_segment(segment: int, first: int, until: int) -> Iterator[Found]:
            if isinstance(layout, TimeFirst):
                begin, end = layout.time_bounds(segment, first, until)
            else:
                begin, end = layout.keys_bounds(segment, None, None, until)
            if place is not None:  # the zero byte makes it the first key behind that row
                begin, end = (begin, min(end, place)) if reverse else (max(begin, place + b"\x00"), end)
            if begin >= end:
                return iter(())
            return _within(_found(layout, scan(begin, end, reverse=reverse), value_of), None, None, first, until)

        return self._by_segment(of_segment, low, high, reverse)

    def of_key_after(self, key: bytes, low: int, high: int, last: Parts | None, *, reverse: bool) -> Iterator[Found]:
        """Returns the rows of :meth:`of_key` that follow one, which may be gone; ``None`` for all rows."""
        if last is None:
            return self.of_key(key, low, high, reverse=reverse)
        row, interval = self._by_key.row, self.segments.interval
        place = row(last[1] // interval, *last)
        low, high = (low, min(high, last[1])) if reverse else (max(low, last[1]), high)
        found = self.of_key(key, low, high, reverse=reverse)
        if reverse:
            return (one for one in found if row(one[1] // interval, *one[:3]) < place)
        return (one for one in found if row(one[1] // interval, *one[:3]) > place)

    @property
    def in_order_of_time(self) -> bool:
        """Whether rows are in order of time, then key, for :meth:`of_times_behind`."""
        return isinstance(self.layout, TimeFirst)

    def times_from(self, low: int) -> Iterator[int]:
        """Yields the times of all rows from one on, without their values, in order where rows are."""
        layout, rows = self.layout, self.rows
        for segment, first, last in self.segments.spans(low, MAX_TIME, reverse=False):
            if isinstance(layout, TimeFirst):
                bounds = layout.time_bounds(segment, first, last)
            else:
                bounds = layout.keys_bounds(segment, None, None, last)
            for row, _ in rows.range(*bounds, reverse=False):
                time = layout.parts(row)[1]
                if first <= time <= last:
                    yield time

    def of_times_behind(self, low: int, high: int, last: tuple[bytes, int, int] | None) -> Iterator[Found]:
        """Returns the rows of :meth:`of_times` that follow one, expired ones too; only where rows are in order of time.

        :param last: key, time and rest of that row; ``None`` for all rows.
        """
        layout, segments, rows = self.layout, self.segments, self.rows
        assert isinstance(layout, TimeFirst)
        # The zero byte makes it the first key behind that row.
        least = b"" if last is None else layout.row(last[1] // segments.interval, *last) + b"\x00"
        for segment, first, until in segments.spans(low, high, reverse=False):
            begin, behind = layout.time_bounds(segment, first, until)
            begin = max(begin, least)
            if begin < behind:
                yield from _found(layout, rows.range(begin, behind, reverse=False), rows.format.values.value_of)

    def _by_segment(
        self,
        of_segment: Callable[[int, int, int], Iterator[Found]],
        low: int,
        high: int,
        reverse: bool,
        expired: bool = False,
    ) -> Iterator[Found]:
        """Returns the rows of all segments of a span of time; those of each are opened now."""
        low, high = max(low, 0 if expired else self.segments.live_from), min(high, MAX_TIME)
        if low > high:
            return iter(())
        # All segments are opened now: a scan shows rows as they are at its call.
        found = [of_segment(*span) for span in self.segments.spans(low, high, reverse=reverse)]
        return found[0] if len(found) == 1 else chain.from_iterable(found)


class TimedRows(TimedReads):
    """The rows of a store of a task: read, and put into its write buffer."""

    rows: Rows
    segments: Segments
    index: IndexRows | None

    def __init__(self, opening: Opening, layout: RowLayout, retention: Retention) -> None:
        name = opening.builder.name
        family = opening.engine.family(f"{name}.{opening.codec.family_suffix}")
        segments = Segments(name, family, retention, opening.drop)
        self.log = _logged_as(layout, opening.log, segments, cached=opening.builder.caching)
        numbered = bool(opening.builder.supplier.parameters.get("retain_duplicates"))  # no key is put twice
        rows = open_rows(
            replace(opening, make_rows=_kept_in(layout, numbered=numbered)),
            key_serde=Serdes.BYTES,
            log=self.log,
            log_many=logged_together(layout, opening.log_many, segments),
            log_each=opening.log_each or numbered,
            when_logged=segments.count_logged,
        )
        index = open_index(opening, layout, make_get(rows)) if isinstance(layout, TimeFirst) else None
        super().__init__(layout, rows, segments, index)
        # Rows that wait are found by the read that continues to the engine there, so it cannot be skipped.
        in_memory = self._get if isinstance(rows, AppendedRows) else make_get(rows, in_memory=True)
        self.get_row = make_get_row(segments, self._get, in_memory)
        self.row_of = layout.row_maker(segments.interval)
        """``(key, time, rest)`` to the key of a row, as :attr:`get_row` and :attr:`put_row` take it; without the rest,
        it is 0."""
        self._open_functions(rows, index, opening.log)

    def _open_functions(self, rows: Rows, index: IndexRows | None, logged_as: Callable[..., None] | None) -> None:
        """Makes the functions that find and put rows.

        :param logged_as: logs a row under its key on the changelog.
        """
        layout, segments = self.layout, self.segments
        if isinstance(rows, BufferedRows):
            rows.follow(segments, layout.parts)
        self.add_with_headers: AddRow | None = None
        """Adds a row to a store that keeps duplicates; its changelog record has the headers, as in joins of streams."""
        self.find: Find = self._list_of_key
        """Finds the rows of one key with times in a span, in order of time, as they are now."""
        self.find_sessions: Find = self._list_sessions
        """Finds the sessions of one key that end at a time or later, and begin at another or earlier; reads none behind
        the first that begins later, since those of a key do not overlap."""
        if isinstance(rows, AppendedRows):
            rows.follow(segments)
            self.add_with_headers = make_add_row(rows, segments, layout, index, logged_as, self._add_null)
            if isinstance(layout, KeyFirst):
                self.find = make_find(layout, rows, segments)
        else:
            self.put_row = make_put_row(rows, segments, make_put(rows), index, self.log)
            if isinstance(rows, KnownRows) and isinstance(layout, KeyFirst):
                lookup = KnownLookup(layout, rows, segments)
                self.find, self.find_sessions = lookup.make_find(), lookup.make_find_sessions()

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        """Returns the participants that write with each commit besides the rows."""
        if self.index is None:
            return (_Swept(self.segments, (self.rows,)),)
        return self.index, _Swept(self.segments, (self.rows, self.index.rows))  # what has expired is deleted last

    def _list_of_key(self, key: bytes, low: int, high: int) -> list[Found]:
        return list(self.of_key(key, low, high, reverse=False))

    def _list_sessions(self, key: bytes, low: int, latest_start: int) -> list[Found]:
        return sessions_until(self.of_key(key, low, MAX_TIME, reverse=False), latest_start)

    # ------------------------------------------------------------------ one row

    def put(
        self, key: bytes, time: int, rest: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Puts a value, or deletes the row with ``None``. A put that comes too late is logged and dropped."""
        self.put_row(self.row_of(key, time, rest), key, time, value, timestamp, headers)

    def add(
        self,
        key: bytes,
        time: int,
        value: Any,
        timestamp: int,
        headers: HeaderList | None,
        *,
        logs_headers: bool = False,
    ) -> int | None:
        """Adds a row beside those of the same key and time, in a store that keeps duplicates; returns its number.

        A null is logged under a number of its own and changes nothing else (semantics 125), but that in memory it moves
        the store's time, or counts as dropped if it is late.

        :param headers: of the current record; those of the changelog record if ``logs_headers``.
        """
        # Only looked at: the call below takes the same one.
        number = self.segments.numbers.next()
        if value is not None:
            assert self.add_with_headers is not None
            self.add_with_headers(key, time, value, timestamp, headers if logs_headers else None)
            return number
        self._add_null(key, time, timestamp, headers, logs_headers=logs_headers)
        return None

    def _add_null(
        self, key: bytes, time: int, timestamp: int, headers: HeaderList | None, *, logs_headers: bool = True
    ) -> None:
        segments = self.segments
        number = segments.numbers.next()
        self.log_null(key, time, number, timestamp, headers, logs_headers=logs_headers)
        # As Java's store in memory does; on RocksDB a null moves no time and is not counted.
        if not self.rows.persistent:
            if time > segments.stream_time:
                segments.observe(time)
            elif time < segments.dropped_before:
                segments.drop(time)
        segments.numbers.take(number, value=False)

    def log_null(
        self,
        key: bytes,
        time: int,
        rest: int,
        timestamp: int,
        headers: HeaderList | None = None,
        *,
        logs_headers: bool = False,
    ) -> None:
        """Logs a null that changes no row; ``headers`` are those of the current record, and of the one on the changelog
        if ``logs_headers``."""
        if self.log is not None:
            # In any segment: the key on the changelog is made without it.
            self.log(self.layout.row(0, key, time, rest), None, timestamp, headers if logs_headers else None)


def _kept_in(layout: RowLayout, *, numbered: bool) -> type[Rows]:
    return AppendedRows if numbered else KnownRows if isinstance(layout, KeyFirst) else BufferedRows


def _logged_as(
    layout: RowLayout, log: Callable[..., None] | None, segments: Segments, *, cached: bool
) -> Callable[..., None] | None:
    """Logs rows under the keys that the changelog has for them; of a cache, which has no headers, notes their times."""
    logged_key, parts = logged_key_reader(layout), layout.parts

    def logged(row: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        assert log is not None
        if headers is None:
            log(logged_key(row), value, timestamp)
        else:
            log(logged_key(row), value, timestamp, headers)

    def logged_by_cache(row: bytes, value: bytes | None, timestamp: int, headers: HeaderList | None = None) -> None:
        if log is not None:
            log(logged_key(row), value, timestamp)
        # Also without a changelog: `count_logged` sets the time back to what was noted here.
        segments.reach(parts(row)[1])

    if cached:
        return logged_by_cache
    return None if log is None else logged


class _Swept(CommitParticipant):
    """Writes the segments of a store, and has the buffers forget the rows of those that are gone."""

    def __init__(self, segments: Segments, rows: Sequence[Rows]) -> None:
        self._segments = segments
        self._rows = rows
        self._end: bytes | None = None

    @property
    def pending(self) -> bool:
        return self._segments.pending

    @property
    def time(self) -> int:
        return self._segments.stream_time

    @property
    def needed_from(self) -> int | None:
        return self._segments.logged_from

    def go_back(self, time: int) -> None:
        self._segments.go_back(time)

    def commit_ended(self) -> None:
        self._segments.commit_ended()

    def apply(self, batch: Batch) -> None:
        # Kept for `applied`: there it is read after the segments, which no longer have it.
        self._end = self._segments.expired_rows_end
        self._segments.apply(batch)

    def applied(self) -> None:
        self._segments.applied()
        if self._end is not None:
            for rows in self._rows:
                rows.forget_below(self._end)

    def close(self) -> None:
        self._end = None


def _same(value: Any) -> Any:
    return value


def _found(layout: RowLayout, rows: FoundRows, value_of: Callable[[Any], Any]) -> Iterator[Found]:
    parts = layout.parts
    return ((*parts(row), value_of(entry[0]), entry[1]) for row, entry in rows)


def _sorted_when_read(rows: FoundRows, layout: KeyFirst, *, reverse: bool) -> FoundRows:
    """Yields rows by time, then key."""
    yield from sorted(rows, key=lambda row: layout.by_time(row[0]), reverse=reverse)


def _within(
    rows: Iterator[Found], key_from: bytes | None, key_to: bytes | None, first: int, last: int
) -> Iterator[Found]:
    """Yields the rows with such keys and times; the bounds of a range of rows hold others as well."""
    for found in rows:
        key, time = found[:2]
        if first <= time <= last and (key_from is None or key >= key_from) and (key_to is None or key <= key_to):
            yield found
