"""Finds the rows of one key in a span of time, for operators that do so with each record: sessions and sliding windows.

A range over the buffer and the engine (:meth:`state.write_buffer.row_reader.RowReader.range`) opens an iterator and
searches a sorted index each time. Here the rows that are known are found by their key, and those of the engine, where
there may be others, by one iterator that is kept until its next write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from state.engine.port import Family
from state.formats.keys import MAX_TIME
from state.windowed.key_layout import Found, KeyFirst
from state.windowed.known_rows import KnownRows
from state.windowed.segments import Segments

__all__ = ["Find", "between_of", "make_find_known"]

Find = Callable[[bytes, int, int], list[Found]]
"""``(key, low, high)`` to the rows of a key with times from ``low`` to ``high``, in order of time."""
Between = Callable[[bytes, bytes], list[tuple[bytes, bytes]]]


def make_find_known(layout: KeyFirst, rows: KnownRows, segments: Segments) -> Find:
    """Returns the function that finds the rows of a key by time."""
    known_of, interval, between = rows.known.get, segments.interval, between_of(rows.family)
    dirty_get, clean_get, read_through = rows.dirty.get, rows.clean.get, rows.read_through
    entry_of = rows.format.entry_of
    bounds, time_and_rest, row_bytes = layout.key_bounds, layout.time_and_rest, layout.row_bytes
    value_of = rows.format.value_of if rows.format.encoded else None

    def in_span(key: bytes, low: int, high: int) -> list[bytes]:
        """Returns a copy: a row that is read may push others out of the cache."""
        over = known_of(key)
        if over is None:
            return []
        first, end = bounds(low // interval, key, low, low)[0], bounds(high // interval, key, high, high)[1]
        if over[0] >= first and over[-1] < end:
            return over[:]
        return over[bisect_left(over, first) : bisect_left(over, end)]

    def by_range(key: bytes, low: int, high: int) -> list[tuple[bytes, Any]]:
        found: dict[bytes, Any] = {}
        length = row_bytes(key)  # rows of longer keys may lie between those of the key
        for segment in segments.between(low, high, reverse=False):
            for row, data in between(*bounds(segment, key, low, high)):
                if len(row) == length:
                    found[row] = dirty_get(row) or clean_get(row) or entry_of(data)
        for row in in_span(key, low, high):
            entry = dirty_get(row) or clean_get(row)
            if entry is not None:  # else the engine has it
                found[row] = entry
        return sorted(found.items())

    def find(key: bytes, low: int, high: int) -> list[Found]:
        if low < segments.live_from:
            low = segments.live_from
        if high > MAX_TIME:
            high = MAX_TIME
        if not rows.watched:
            rows.watch(segments, layout.parts)
        if low < rows.complete_from:
            entries = by_range(key, low, high)
        elif key not in rows.known:
            return []
        else:
            entries = [(row, dirty_get(row) or clean_get(row) or read_through(row)) for row in in_span(key, low, high)]
        found: list[Found] = []
        for row, entry in entries:
            if entry is not None and entry[0] is not None:
                time, rest = time_and_rest(row)
                found.append((key, time, rest, entry[0] if value_of is None else value_of(entry[0]), entry[1]))
        return found

    return find


def between_of(family: Family) -> Between:
    """Returns the function from ``(low, high)`` to the rows of the engine with ``low <= key < high``."""
    quick: Between | None = getattr(family, "between", None)

    def ranged(low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        return list(family.range(low, high))

    return quick or ranged
