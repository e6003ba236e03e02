"""Finds the rows of one key in a span of time, for operators that do so with each record: sessions and sliding windows.

A range over the buffer and the engine (:meth:`state.write_buffer.row_reader.RowReader.range`) opens an iterator and
searches a sorted index each time. Here the rows that are known are found by their key, and those of the engine, where
there may be others, by one iterator that is kept until its next write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any

from state.engine.port import Family
from state.formats.keys import MAX_TIME
from state.windowed.key_layout import Found, KeyFirst
from state.windowed.known_rows import KnownRows
from state.windowed.segments import Segments

Find = Callable[[bytes, int, int], list[Found]]
"""``(key, low, high)`` to the rows of a key with times from ``low`` to ``high``, in order of time."""
Row = tuple[bytes, Any]
Between = Callable[[bytes, bytes], list[tuple[bytes, bytes]]]


class KnownLookup:
    """Finds the rows of a key by time in a store of windows or sessions."""

    def __init__(self, layout: KeyFirst, rows: KnownRows, segments: Segments) -> None:
        self._layout = layout
        self._rows = rows
        self._segments = segments

    def make_find(self) -> Find:
        """Returns the function that finds the rows of a span of time."""
        rows, segments, layout = self._rows, self._segments, self._layout
        dirty_get, clean_get, read_through = rows.dirty.get, rows.clean.get, rows.read_through
        in_span, by_range, found_of = self._make_in_span(), self._make_by_range(), self._make_found_of()

        def find(key: bytes, low: int, high: int) -> list[Found]:
            if low < segments.live_from:
                low = segments.live_from
            if high > MAX_TIME:
                high = MAX_TIME
            # From the first look-up on: stores that are only put and scanned do not pay for it.
            if not rows.watched:
                rows.watch(segments, layout.parts)
            if low < rows.complete_from:
                return found_of(key, by_range(key, low, high))
            if key not in rows.known:
                return []
            found = in_span(key, low, high)
            # An entry is a tuple with something in it, so `or` continues only without an entry.
            return found_of(key, [(row, dirty_get(row) or clean_get(row) or read_through(row)) for row in found])

        return find

    def make_find_sessions(self) -> Find:
        """Returns the function ``(key, low, latest start)`` to the sessions that end at ``low`` or later, and begin
        at the latest start or earlier.

        It reads none behind the first that begins later: sessions of a key do not overlap.
        """
        rows, segments, layout = self._rows, self._segments, self._layout
        known_of, interval = rows.known.get, segments.interval
        bounds, time_and_rest = layout.key_bounds, layout.time_and_rest
        dirty_get, clean_get, read_through = rows.dirty.get, rows.clean.get, rows.read_through
        by_range, after, found_of = self._make_by_range(), self._make_after(), self._make_found_of()

        def find(key: bytes, low: int, latest: int) -> list[Found]:
            if low < segments.live_from:
                low = segments.live_from
            if latest > MAX_TIME:
                latest = MAX_TIME
            if not rows.watched:
                rows.watch(segments, layout.parts)
            if low < rows.complete_from:
                found = by_range(key, low, latest)
                # A session may end behind the span and begin within it; of one key it is one at most, and the first.
                # Where `latest` is before `low`, the range above is empty, and `low` is the limit.
                row = after(key, max(low - 1, latest))
                if row is not None and time_and_rest(row[0])[1] <= latest:
                    found.append(row)
                return found_of(key, found)
            over = known_of(key)
            if over is None:
                return []
            first = bounds(low // interval, key, low, low)[0]
            place = 0 if over[0] >= first else bisect_left(over, first)
            until = place
            while until < len(over) and time_and_rest(over[until])[1] <= latest:
                until += 1
            some = over[place:until]  # a copy: a row that is read may push others out of the cache
            return found_of(key, [(row, dirty_get(row) or clean_get(row) or read_through(row)) for row in some])

        return find

    def _make_in_span(self) -> Callable[[bytes, int, int], list[bytes]]:
        known_of, interval, bounds = self._rows.known.get, self._segments.interval, self._layout.key_bounds

        def in_span(key: bytes, low: int, high: int) -> list[bytes]:
            """Returns a copy: a row that is read may push others out of the cache."""
            over = known_of(key)
            if over is None:
                return []
            first, end = bounds(low // interval, key, low, low)[0], bounds(high // interval, key, high, high)[1]
            # Mostly all rows that are known of a key are in the span: two comparisons instead of two searches.
            if over[0] >= first and over[-1] < end:
                return over[:]
            return over[bisect_left(over, first) : bisect_left(over, end)]

        return in_span

    def _make_by_range(self) -> Callable[[bytes, int, int], list[Row]]:
        """Returns the function that finds rows where not all are known."""
        rows, segments, layout = self._rows, self._segments, self._layout
        between, bounds, row_bytes = between_of(rows.family), layout.key_bounds, layout.row_bytes
        dirty_get, clean_get, entry_of = rows.dirty.get, rows.clean.get, rows.format.entry_of
        in_span = self._make_in_span()

        def by_range(key: bytes, low: int, high: int) -> list[Row]:
            found: dict[bytes, Any] = {}
            length = row_bytes(key)  # rows of longer keys may lie between those of the key
            for segment in segments.between(low, high, reverse=False):
                for row, data in between(*bounds(segment, key, low, high)):
                    if len(row) == length:
                        found[row] = dirty_get(row) or clean_get(row) or entry_of(data)
            for row in in_span(key, low, high):
                entry = dirty_get(row) or clean_get(row)
                if entry is not None:  # otherwise the engine has it
                    found[row] = entry
            # Row keys differ, so the sort never compares two entries.
            return sorted(found.items())

        return by_range

    def _make_after(self) -> Callable[[bytes, int], Row | None]:
        """Returns the function that finds the first row of a key that is later than a time."""
        rows, segments, layout = self._rows, self._segments, self._layout
        known_of, family, bounds, row_bytes = rows.known.get, rows.family, layout.key_bounds, layout.row_bytes
        dirty_get, clean_get, entry_of = rows.dirty.get, rows.clean.get, rows.format.entry_of

        def after(key: bytes, time: int) -> Row | None:
            if time >= MAX_TIME:
                return None
            over, length = known_of(key, ()), row_bytes(key)
            place = bisect_left(over, bounds(time // segments.interval, key, time, time)[1])
            known = over[place] if place < len(over) else None
            for segment in segments.between(time + 1, MAX_TIME, reverse=False):
                for row, data in family.range(*bounds(segment, key, time + 1, MAX_TIME)):
                    # The known row is the first: the engine has later ones, or the same as it was before.
                    if known is not None and row >= known:
                        break
                    entry = dirty_get(row) or clean_get(row) or entry_of(data)
                    if len(row) == length and entry[0] is not None:
                        return row, entry
            return None if known is None else (known, dirty_get(known) or clean_get(known) or rows.read_through(known))

        return after

    def _make_found_of(self) -> Callable[[bytes, list[Row]], list[Found]]:
        """Returns the function that leaves out deleted rows."""
        time_and_rest, format = self._layout.time_and_rest, self._rows.format
        value_of = format.values.value_of if format.values.encoded else None

        def found_of(key: bytes, entries: list[Row]) -> list[Found]:
            found: list[Found] = []
            for row, entry in entries:
                if entry is not None and entry[0] is not None:
                    time, rest = time_and_rest(row)
                    found.append((key, time, rest, entry[0] if value_of is None else value_of(entry[0]), entry[1]))
            return found

        return found_of


def sessions_until(found: Iterator[Found], latest_start: int) -> list[Found]:
    """Returns sessions in order of time, until one begins later than ``latest_start``."""
    return list(takewhile(lambda session: session[2] <= latest_start, found))


def between_of(family: Family) -> Between:
    """Returns the function from ``(low, high)`` to the rows of the engine with ``low <= key < high``."""
    # Not in the port of engines: those of users need not have it.
    quick: Between | None = getattr(family, "between", None)

    def ranged(low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        return list(family.range(low, high))

    return quick or ranged
