"""Finds and adds the rows of a store that keeps duplicates, for the operators that do so with each record: joins of
streams.

They are functions that hold what they need in their closures, as those of :mod:`state.write_buffer.fast_path` do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from processor_api.record import HeaderList
from state.formats.keys import MAX_TIME
from state.windowed.appended_rows import NUMBER_BITS, AppendedRows
from state.windowed.index import IndexRows
from state.windowed.key_layout import Found, KeyFirst, RowLayout
from state.windowed.key_lookup import Find, between_of
from state.windowed.segments import LARGEST_SEQUENCE, Segments
from state.write_buffer.fast_path import make_keep
from state.write_buffer.row_format import RowFormat

__all__ = ["AddRow", "make_add_row", "make_find"]

AddRow = Callable[[bytes, int, Any, int, "HeaderList | None"], None]
"""``(key, time, value, timestamp, headers)`` adds a value, which is never ``None``, beside those of the same key and
time; its changelog record has the headers."""

FEW = 8
"""So many places are compared in less time than it takes to search them."""


def make_find(layout: KeyFirst, rows: AppendedRows, segments: Segments) -> Find:
    """Returns the function that finds the rows of a key by time: by their places where all of these are known, else
    those of the engine by a range."""
    places_of, drained_get, interval = rows.places.get, rows.drained.get, segments.interval
    row_of, read_below, by_range = layout.row, rows.family.get, _make_find_in_range(layout, rows, segments)
    stored, entry_of = rows.format.stored, rows.format.entry_of
    value_of = rows.format.value_of if rows.format.encoded else None

    def find(key: bytes, low: int, high: int) -> list[Found]:
        if low < segments.live_from:
            low = segments.live_from
        if high > MAX_TIME:
            high = MAX_TIME
        if low < rows.complete_from:
            return by_range(key, low, high)
        places = places_of(key)
        if places is None:
            return []
        first, end = low << NUMBER_BITS, high + 1 << NUMBER_BITS
        if len(places) > FEW:
            places = places[bisect_left(places, first) : bisect_left(places, end)]
        found: list[Found] = []
        for place in places:
            if not first <= place < end:
                continue
            time, number = place >> NUMBER_BITS, place & LARGEST_SEQUENCE
            row = row_of(time // interval, key, time, number)
            logged = drained_get(row)
            if logged is not None:
                value, timestamp = stored(logged[1]), logged[2]  # type: ignore[arg-type]  # no row is deleted
            else:
                data = read_below(row)
                if data is None:
                    continue
                value, timestamp = entry_of(data)
            found.append((key, time, number, value if value_of is None else value_of(value), timestamp))
        return found

    return find


def _make_find_in_range(layout: KeyFirst, rows: AppendedRows, segments: Segments) -> Find:
    """Returns the function that finds rows in the engine, and by their places those that wait for the commit."""
    places, drained_get, interval = rows.places, rows.drained.get, segments.interval
    row_of, bounds, row_bytes, time_and_rest = layout.row, layout.key_bounds, layout.row_bytes, layout.time_and_rest
    between, stored, entry_of = between_of(rows.family), rows.format.stored, rows.format.entry_of
    value_of = rows.format.value_of if rows.format.encoded else None

    def find(key: bytes, low: int, high: int) -> list[Found]:
        entries: dict[bytes, Any] = {}
        length = row_bytes(key)  # rows of longer keys may lie between those of the key
        for segment in segments.between(low, high, reverse=False):
            for row, data in between(*bounds(segment, key, low, high)):
                if len(row) == length:
                    entries[row] = entry_of(data)
        first, end = low << NUMBER_BITS, high + 1 << NUMBER_BITS
        for place in places.get(key, ()):
            if not first <= place < end:
                continue
            time = place >> NUMBER_BITS
            row = row_of(time // interval, key, time, place & LARGEST_SEQUENCE)
            logged = drained_get(row)
            if logged is not None:  # else the engine has it
                entries[row] = stored(logged[1]), logged[2]  # type: ignore[arg-type]
        return [
            (key, *time_and_rest(row), value if value_of is None else value_of(value), timestamp)
            for row, (value, timestamp) in sorted(entries.items())
        ]

    return find


def _make_append(rows: AppendedRows) -> Callable[..., bytes]:
    """Returns the function that logs a row and puts it among those that wait for the commit; it returns the value's
    bytes."""
    drained, uncommitted, log = rows.drained, rows.shared.uncommitted, rows.log
    write, trace = _make_write(rows.format), rows.cursor.row_trace

    def append(row: bytes, value: Any, timestamp: int, headers: HeaderList | None) -> bytes:
        data = write(value)
        if log is not None:
            log(row, data, timestamp, headers)
        drained[row] = (row, data, timestamp)
        if (fresh := uncommitted.fresh) is not None:
            fresh.append(row)
        return data

    return append if trace is None else trace.writing(rows, bytes, append)


def _make_write(format: RowFormat) -> Callable[[Any], bytes]:
    """Returns the function from a value as its user gives it to its bytes, checked."""
    keep, write_value = make_keep(format), format.write_value
    return keep if format.encoded else lambda value: write_value(keep(value))


def make_add_row(rows: AppendedRows, segments: Segments, layout: RowLayout, index: IndexRows | None) -> AddRow:
    """Returns the function that adds a value; one that comes too late is logged and dropped."""
    interval, row_of, hold, append, log = segments.interval, layout.row, segments.hold, _make_append(rows), rows.log
    write, note, take_number = _make_write(rows.format), rows.note_added, segments.take_sequence

    def add_row(key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        number, segment = segments.sequence + 1 & LARGEST_SEQUENCE, time // interval
        row = row_of(segment, key, time, number)
        if time < segments.dropped_before:
            data = write(value)
            if log is not None:
                log(row, data, timestamp, headers)
            segments.drop(time)
        else:
            if index is not None:
                index.freeze()
            data = append(row, value, timestamp, headers)
            note(row, data, key, time << NUMBER_BITS | number)
            if index is not None:
                index.put(row, data)
            if segment not in segments.known:
                hold(segment)
            if time > segments.stream_time:
                segments.observe(time)
        take_number(number, value=True)

    return add_row
