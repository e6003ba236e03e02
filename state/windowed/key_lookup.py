"""Finds the rows of one key in a span of time, for operators that do so with each record: sessions and sliding windows.

A range over the buffer and the engine (:meth:`state.write_buffer.row_reader.RowReader.range`) opens an iterator and
searches a sorted index each time. Here the rows that wait for the commit are found by their key, and those of the
engine by one iterator that is kept until its next write.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

from state.engine.port import Family
from state.formats.keys import MAX_TIME
from state.windowed.key_layout import Found, KeyFirst
from state.windowed.segments import Segments
from state.write_buffer.buffer import Rows

__all__ = ["Find", "KeyLookup", "between_of"]

Find = Callable[[bytes, int, int], list[Found]]
"""``(key, low, high)`` to the rows of a key with times from ``low`` to ``high``, in order of time."""
Between = Callable[[bytes, bytes], list[tuple[bytes, bytes]]]


class KeyLookup:
    """The rows that wait for the commit, by their keys, over those of the engine. For the thread of the task."""

    def __init__(self, layout: KeyFirst, rows: Rows, segments: Segments) -> None:
        self._rows = rows
        self._parts = layout.parts
        self._waiting: dict[bytes, list[bytes]] = {}
        """The rows of each key in order; complete while its generation is that of the buffer."""
        self._generation = -1
        self.find: Find = self._finder(layout, segments)

    def note(self, key: bytes, row: bytes) -> None:
        """A row of the key was put into the buffer."""
        if self._generation != self._rows.generation:
            return
        rows = self._waiting.get(key)
        if rows is None:
            self._waiting[key] = [row]
        elif row > rows[-1]:
            rows.append(row)
        else:
            place = bisect_left(rows, row)
            if rows[place] != row:
                rows.insert(place, row)

    def _read_waiting(self) -> None:
        rows, parts, waiting = self._rows, self._parts, self._waiting
        waiting.clear()
        for row in sorted({*rows.dirty, *rows.drained}):
            waiting.setdefault(parts(row)[0], []).append(row)
        self._generation = rows.generation

    def _finder(self, layout: KeyFirst, segments: Segments) -> Find:
        rows, between, waiting_of = self._rows, between_of(self._rows.family), self._waiting.get
        dirty_get, clean_get, entry_of = rows.dirty.get, rows.clean.get, rows.format.entry_of
        bounds, time_and_rest, row_bytes = layout.key_bounds, layout.time_and_rest, layout.row_bytes
        value_of = rows.format.value_of if rows.format.encoded else None

        def entries(over: list[bytes], first: bytes, end: bytes, length: int) -> list[tuple[bytes, Any]]:
            found = {row: entry_of(data) for row, data in between(first, end) if len(row) == length}
            for row in over[bisect_left(over, first) : bisect_left(over, end)]:
                entry = dirty_get(row) or clean_get(row)
                if entry is not None:  # else it was put and deleted again before it was logged
                    found[row] = entry
            return sorted((row, entry) for row, entry in found.items() if entry[0] is not None)

        def find(key: bytes, low: int, high: int) -> list[Found]:
            if self._generation != rows.generation:
                self._read_waiting()
            if low < segments.live_from:
                low = segments.live_from
            if high > MAX_TIME:
                high = MAX_TIME
            over = waiting_of(key)
            found: list[Found] = []
            for segment in segments.between(low, high, reverse=False):
                first, end = bounds(segment, key, low, high)
                if over is not None:
                    live = entries(over, first, end, row_bytes(key))
                elif below := between(first, end):
                    length = row_bytes(key)  # rows of longer keys may lie between those of the key
                    live = [(row, entry_of(data)) for row, data in below if len(row) == length]
                else:
                    continue
                for row, entry in live:
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
