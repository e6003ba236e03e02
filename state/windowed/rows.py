"""The rows of a store of windows or sessions: put and read by key and time, over
:class:`state.write_buffer.buffer.Rows`.

What has expired is not shown, be it in the buffer or in the engine, and late puts are dropped
(state/windowed/segments.py). Scans show rows as they were when they were opened: the rows of every segment that they
will read are opened with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from processor_api.record import HeaderList
from processor_api.serde import Serdes
from state.engine.port import Batch
from state.formats.keys import MAX_TIME
from state.windowed.index import IndexReads, IndexRows, open_index
from state.windowed.key_layout import KeyFirst, RowLayout, TimeFirst
from state.windowed.segments import Retention, Segments, SegmentTimes
from state.write_buffer.buffer import Log, Rows
from state.write_buffer.fast_path import make_get, make_keep, make_put
from state.write_buffer.row_format import Entry
from state.write_buffer.row_reader import RowReader
from state.write_buffer.store_kind import CommitParticipant, Opening, open_rows

__all__ = ["Found", "Scan", "TimedReads", "TimedRows"]

Found = tuple[bytes, int, int, Any, int]
"""Key, time, rest, value, timestamp. ``rest`` is what a key has besides a time: a sequence number, or the start of a
session."""
FoundRows = Iterator[tuple[bytes, Entry]]
Scan = Callable[..., FoundRows]
"""``(low, high, *, reverse)`` to the rows in a range."""


class TimedReads:
    """The rows of a store of windows or sessions, for reading.

    :param segments: the times of the rows.
    :param index: the index by key, where rows are in order of time.
    :param scan: reads ranges of rows that are found by key; else the rows or the index do.
    """

    def __init__(
        self,
        layout: KeyFirst | TimeFirst,
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
        self._value_of: Callable[[Any], Any] = rows.format.value_of if index is None else _same
        self._sorts = index is None and not rows.persistent
        """Whether scans over keys go by time: Java's stores in memory do."""

    # ------------------------------------------------------------------ one row

    def get(self, key: bytes, time: int, rest: int) -> Entry | None:
        """Returns the value and its timestamp."""
        segments = self.segments
        if time < segments.live_from:
            return None
        return self._get(self.layout.row(time // segments.interval, key, time, rest))

    # ------------------------------------------------------------------ scans

    def of_key(self, key: bytes, low: int, high: int, *, reverse: bool) -> Iterator[Found]:
        """Returns the rows of one key with times from ``low`` to ``high``, in order of time."""
        layout, scan = self._by_key, self._scan
        value_of = self._value_of if self.index is None and self.rows.format.encoded else None

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
            if self._sorts:
                rows = _when_read(
                    rows, lambda found: sorted(found, key=lambda row: layout.by_time(row[0]), reverse=reverse)
                )
            return (
                found
                for found in self._found(layout, rows, self._value_of)
                if first <= found[1] <= last
                and (key_from is None or found[0] >= key_from)
                and (key_to is None or found[0] <= key_to)
            )

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
            return self._found(layout, found, rows.format.value_of)

        return self._by_segment(of_segment, low, high, reverse, expired)

    def _found(self, layout: RowLayout, rows: FoundRows, value_of: Callable[[Any], Any]) -> Iterator[Found]:
        parts = layout.parts
        return ((*parts(row), value_of(entry[0]), entry[1]) for row, entry in rows)

    def _by_segment(
        self,
        of_segment: Callable[[int, int, int], Iterator[Found]],
        low: int,
        high: int,
        reverse: bool,
        expired: bool = False,
    ) -> Iterator[Found]:
        segments = self.segments
        low, high, interval = max(low, 0 if expired else segments.live_from), min(high, MAX_TIME), segments.interval
        if low > high:
            return iter(())
        found = [
            of_segment(segment, max(low, segment * interval), min(high, (segment + 1) * interval - 1))
            for segment in segments.between(low, high, reverse=reverse)
        ]
        return found[0] if len(found) == 1 else chain.from_iterable(found)


class TimedRows(TimedReads):
    """The rows of a store of a task: read, and put into its write buffer."""

    rows: Rows
    segments: Segments
    index: IndexRows | None

    def __init__(self, opening: Opening, layout: KeyFirst | TimeFirst, retention: Retention) -> None:
        name = opening.builder.name
        family = opening.engine.family(f"{name}.{opening.codec.family_suffix}")
        segments = Segments(name, family, retention, opening.drop)
        self._logged_headers = _LoggedHeaders()
        self.log = _logged_as(layout, opening.log, segments, None if opening.builder.caching else self._logged_headers)
        numbered = opening.builder.supplier.parameters.get("retain_duplicates", False)  # no key is put twice
        log_each = opening.log_each or numbered
        rows = open_rows(
            opening, key_serde=Serdes.BYTES, log=self.log, log_each=log_each, when_logged=segments.count_logged
        )
        index = open_index(opening, layout, make_get(rows)) if isinstance(layout, TimeFirst) else None
        super().__init__(layout, rows, segments, index)
        self._put, self._keep = make_put(rows), make_keep(rows.format)

    @property
    def participants(self) -> tuple[CommitParticipant, ...]:
        """Returns the participants that write with each commit besides the rows."""
        if self.index is None:
            return (_Swept(self.segments, (self.rows,)),)
        return self.index, _Swept(self.segments, (self.rows, self.index.rows))  # what has expired is deleted last

    # ------------------------------------------------------------------ one row

    def put(
        self, key: bytes, time: int, rest: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Puts a value, or deletes the row with ``None``. A put that comes too late is logged and dropped."""
        segments = self.segments
        if time < segments.dropped_before and not self.rows.cached:
            self.log_only(key, time, rest, value, timestamp, headers)
            segments.drop(time)
            return
        segment = time // segments.interval
        row = self.layout.row(segment, key, time, rest)
        if self.index is None:
            self._put(row, value, timestamp, headers)
        else:
            known = self.rows.dirty.get(row) or self.rows.clean.get(row)
            self.index.freeze()
            self._put(row, value, timestamp, headers)
            if value is None or known is None or known[0] is None:
                self.index.put(segment, key, time, rest, value)
        if time < segments.dropped_before:
            segments.drop(time)
        if value is not None:
            segments.hold(segment)
        if time > segments.stream_time and (not self.rows.cached or row in self.rows.dirty):
            segments.observe(time)  # else a full cache has drained it, and knows better

    def add(self, key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None = None) -> int | None:
        """Adds a row beside those of the same key and time, in a store that keeps duplicates; returns its number.

        A null is logged under a number of its own and changes nothing else (semantics 125), but that in memory it moves
        the store's time, or counts as dropped if it is late.
        """
        segments = self.segments
        number = segments.peek_sequence()
        if value is None:
            self.log_only(key, time, number, None, timestamp, headers)
            if not self.rows.persistent:
                if time > segments.stream_time:
                    segments.observe(time)
                elif time < segments.dropped_before:
                    segments.drop(time)
            segments.take_sequence(number, value=False)
            return None
        self.put(key, time, number, value, timestamp, headers)
        segments.take_sequence(number, value=True)
        return number

    def add_with_headers(self, key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        """Adds a row as :meth:`add` does; its changelog record has the headers, as in joins of streams."""
        self._logged_headers.now = headers
        try:
            self.add(key, time, value, timestamp, headers)
        finally:
            self._logged_headers.now = None

    def log_only(
        self, key: bytes, time: int, rest: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        """Logs a put that changes no row; ``headers`` are those of the current record."""
        data = None if value is None else self.rows.format.write_value(self._keep(value))
        if self.log is not None:
            self.log(self.layout.row(0, key, time, rest), data, timestamp)


class _LoggedHeaders:
    """Holds the headers that changelog records get, while an operator sets them."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now: HeaderList | None = None


def _logged_as(
    layout: RowLayout, log: Callable[..., None] | None, segments: Segments, headers: _LoggedHeaders | None
) -> Log | None:
    """Logs rows under the keys that the changelog has for them; of a cache, which has no headers, notes their times."""
    write, parts = layout.keys.write, layout.parts

    def logged(row: bytes, value: bytes | None, timestamp: int) -> None:
        assert log is not None
        if headers is None or headers.now is None:
            log(write(*parts(row)), value, timestamp)
        else:
            log(write(*parts(row)), value, timestamp, headers.now)

    def logged_by_cache(row: bytes, value: bytes | None, timestamp: int) -> None:
        key, time, rest = parts(row)
        if log is not None:
            log(write(key, time, rest), value, timestamp)
        segments.reach(time)

    if headers is None:
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

    def apply(self, batch: Batch) -> None:
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


def _when_read(rows: FoundRows, change: Callable[[FoundRows], Iterable[tuple[bytes, Entry]]]) -> FoundRows:
    yield from change(rows)
