"""Finds and adds the rows of a store that keeps duplicates, for the operators that do so with each record: joins of
streams.

They are functions that hold what they need in their closures, as those of :mod:`state.write_buffer.fast_path` do.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any

from processor_api.record import HeaderList
from state.formats.keys import MAX_TIME
from state.row_format.row_format import ENTRY_OVERHEAD_BYTES, RowFormat
from state.windowed.appended_rows import NUMBER_BITS, AppendedRows
from state.windowed.index import IndexRows
from state.windowed.key_layout import Found, KeyFirst, RowLayout
from state.windowed.key_lookup import Find, between_of
from state.windowed.segments import LARGEST_SEQUENCE, SEGMENT, Segments
from state.write_buffer.fast_path import make_keep
from state.write_buffer.shared_rows import Logged

AddRow = Callable[[bytes, int, Any, int, "HeaderList | None"], None]
"""``(key, time, value, timestamp, headers)`` adds a value beside those of the same key and time; its changelog record
has the headers."""

FEW = 8
"""So many places are compared in less time than it takes to search them."""


def make_find(layout: KeyFirst, rows: AppendedRows, segments: Segments) -> Find:
    """Returns the function that finds the rows of a key by time: by their places where all of these are known, else
    those of the engine by a range."""
    places_of, drained_get, make_row = rows.places.get, rows.drained.get, layout.row_maker(segments.interval)
    read_below, by_range = rows.family.get, _make_find_in_range(layout, rows, segments)
    format = rows.format
    read = format.value_serde.deserialize if format.encoded else format.decode
    entry_of = format.codec.reading(read)

    def find(key: bytes, low: int, high: int) -> list[Found]:
        if low < segments.live_from:
            low = segments.live_from
        if high > MAX_TIME:
            high = MAX_TIME
        if low < rows.complete_from:
            return by_range(key, low, high)
        known = places_of(key)
        if known is None:
            return []
        first, end = low << NUMBER_BITS, high + 1 << NUMBER_BITS
        places: Sequence[int] = (known,) if isinstance(known, int) else known
        if len(places) > FEW:
            places = places[bisect_left(places, first) : bisect_left(places, end)]
        found: list[Found] = []
        for place in places:
            if not first <= place < end:
                continue
            time, number = place >> NUMBER_BITS, place & LARGEST_SEQUENCE
            row = make_row(key, time, number)
            logged = drained_get(row)
            data = read_below(row) if logged is None else logged[1]
            if data is None:
                continue
            try:
                value, timestamp = entry_of(data) if logged is None else (read(data), logged[2])
            except Exception:
                value, timestamp = _read_again(format, data, logged)
            found.append((key, time, number, value, timestamp))
        return found

    return find


def _read_again(format: RowFormat, data: bytes, logged: Logged | None) -> tuple[Any, int]:
    """Reads a row that could not be read: with errors that name the store, and what strings have in place of bad bytes.

    :param logged: the row, if it waits for the commit; else the data is that of the engine.
    """
    if logged is not None:
        return format.read_value(data), logged[2]
    value, timestamp = format.entry_of(data)
    return format.value_of(value), timestamp


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
        known = places.get(key, ())
        for place in (known,) if isinstance(known, int) else known:
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


def make_add_row(
    rows: AppendedRows,
    segments: Segments,
    layout: RowLayout,
    index: IndexRows | None,
    logged_as: Callable[..., None] | None,
    add_null: Callable[[bytes, int, int, HeaderList | None], None],
) -> AddRow:
    """Returns the function that adds a value; one that comes too late is logged and dropped.

    :param logged_as: logs a row under its key on the changelog; ``None`` without a changelog.
    :param add_null: is called in place of adding ``None``, without the value.
    """
    interval, make_row = segments.interval, layout.row_maker(segments.interval)
    hold, take_number = segments.hold, segments.take_sequence
    write, before = _make_write(rows.format), _make_before(rows, index)
    log, begin = _make_log(rows, layout, logged_as)
    drained, uncommitted, budget, places = rows.drained, rows.shared.uncommitted, rows.budget, rows.places
    places_of, note_key, note_place = places.get, rows.added_keys.append, rows.added_places.append

    def add_row(key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        if value is None:
            add_null(key, time, timestamp, headers)
            return
        number = segments.sequence + 1 & LARGEST_SEQUENCE
        row, is_late = make_row(key, time, number), time < segments.dropped_before
        if before is not None and not is_late:
            before(row, value)
        data = write(value)
        if log is not None:
            if headers is None:
                log(row[begin:], data, timestamp)
            else:
                log(row[begin:], data, timestamp, headers)
        if is_late:
            segments.drop(time)
        else:
            drained[row] = (row, data, timestamp)
            if (fresh := uncommitted.fresh) is not None:
                fresh.append(row)
            place, known = time << NUMBER_BITS | number, places_of(key)
            if known is None:
                places[key] = place
            elif type(known) is list and place > known[-1]:
                known.append(place)
            else:
                places[key] = _with_place(known, place)
            note_key(key)
            note_place(place)
            cost = len(row) + len(data) + ENTRY_OVERHEAD_BYTES
            rows.pending_bytes += cost
            budget.uncommitted += cost
            if index is not None:
                index.put(row, data)
            if time // interval not in segments.known:
                hold(time // interval)
            if time > segments.stream_time:
                segments.observe(time)
        take_number(number, value=True)

    return add_row


def _with_place(known: int | list[int], place: int) -> list[int]:
    """Returns the places of a key with one more, which may be anywhere among them."""
    if isinstance(known, int):
        return [known, place] if known < place else [place, known]
    insort(known, place)
    return known


def _make_write(format: RowFormat) -> Callable[[Any], bytes]:
    """Returns the function from a value as its user gives it to its bytes, checked."""
    keep, write_value = make_keep(format), format.write_value
    return keep if format.encoded else lambda value: write_value(keep(value))


def _make_before(rows: AppendedRows, index: IndexRows | None) -> Callable[[bytes, Any], None] | None:
    """Returns the function that is called with each row and its value before it is added; mostly there is none."""
    freeze = None if index is None else index.freeze
    trace = rows.cursor.row_trace
    if trace is None:
        return None if freeze is None else lambda row, value: freeze()
    return trace.writing(rows, bytes, lambda row, value: None if freeze is None else freeze())


def _make_log(
    rows: AppendedRows, layout: RowLayout, logged_as: Callable[..., None] | None
) -> tuple[Callable[..., None] | None, int]:
    """Returns the function that logs a row, and where in the row begins what that function takes for it."""
    is_direct = isinstance(layout, KeyFirst) and layout.as_logged and rows.cursor.row_trace is None
    return (logged_as, SEGMENT.size) if is_direct else (rows.log, 0)
