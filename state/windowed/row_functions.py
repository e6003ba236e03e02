"""The functions of a store of windows or sessions that run for every record, made once per store.

They hold what they need in their closures, as those of :mod:`state.write_buffer.fast_path` do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from processor_api.record import HeaderList
from state.windowed.index import IndexRows
from state.windowed.key_layout import KeyFirst, RowLayout
from state.windowed.known_rows import KnownRows
from state.windowed.segments import SEGMENT, Segments
from state.write_buffer.buffer import Log, LogMany, Rows
from state.write_buffer.fast_path import Put, make_keep
from state.write_buffer.shared_rows import Logged

GetRow = Callable[[bytes, int], Any]
"""``(row, time)`` to the value and its timestamp; ``None`` if there is none, or it has expired."""
PutRow = Callable[..., None]
"""``(row, key, time, value, timestamp, headers)`` puts a value, or deletes the row with ``None``."""


def make_get_row(segments: Segments, get: Callable[[bytes], Any], get_in_memory: Callable[[bytes], Any]) -> GetRow:
    """Returns the function that reads one row; the engine is not read for one that is later than all of its rows.

    :param get_in_memory: reads a row that is not in the engine only.
    """

    def get_row(row: bytes, time: int) -> Any:
        # The engine has no row of a later time, and a look into it costs more than all the rest.
        if time > segments.stored_until:
            return get_in_memory(row) if time >= segments.live_from else None
        return get(row) if time >= segments.live_from else None

    return get_row


def make_put_row(rows: Rows, segments: Segments, put: Put, index: IndexRows | None, log: Log | None) -> PutRow:
    """Returns the function that puts one row: one that comes too late is logged and dropped."""
    cached, dirty, interval = rows.cached, rows.dirty, segments.interval
    held, hold = segments.held.known, segments.hold
    keep, write_value = make_keep(rows.format), rows.format.values.write
    if index is not None:
        put = _indexed(rows, put, index)
    known = rows if isinstance(rows, KnownRows) else None

    def late(row: bytes, time: int, value: Any, timestamp: int) -> None:
        data = None if value is None else write_value(keep(value))
        if log is not None:
            log(row, data, timestamp)
        segments.drop(time)

    def put_row(
        row: bytes, key: bytes, time: int, value: Any, timestamp: int, headers: HeaderList | None = None
    ) -> None:
        is_late = time < segments.dropped_before
        if is_late and not cached:
            late(row, time, value, timestamp)
            return
        put(row, value, timestamp, headers)
        if known is not None and known.watched:
            known.note(key, row, deleted=value is None)
        # A cache forwards a late put all the same; the commit deletes its row with the segment.
        if is_late:
            segments.drop(time)
        # A deletion makes no segment: what it hides is in one that is held already.
        if value is not None and time // interval not in held:
            hold(time // interval)
        if time > segments.stream_time and (not cached or row in dirty):
            segments.observe(time)  # otherwise a full cache has drained it and updated the stream time

    return put_row


def _indexed(rows: Rows, put: Put, index: IndexRows) -> Put:
    """Returns a put that keeps the index by key up to date."""
    dirty, clean = rows.dirty, rows.clean

    def put_both(row: bytes, value: Any, timestamp: int, headers: HeaderList | None) -> None:
        # Only in memory: to put a row of the index once more changes nothing, and costs less than to ask the engine.
        known = dirty.get(row) or clean.get(row)
        index.freeze()
        put(row, value, timestamp, headers)
        # A row that was there has its row in the index already.
        if value is None or known is None or known[0] is None:
            index.put(row, value)

    return put_both


def logged_key_reader(layout: RowLayout) -> Callable[[bytes], bytes]:
    """Returns the function from a row to its key on the changelog."""
    if isinstance(layout, KeyFirst) and layout.as_logged:
        return _without_segment
    write, parts = layout.keys.write, layout.parts
    return lambda row: write(*parts(row))


def logged_together(layout: RowLayout, log_many: LogMany | None, segments: Segments) -> LogMany | None:
    """Returns the function that logs many rows under their keys on the changelog, and notes the latest of their times;
    ``None`` where each must be logged for itself."""
    if log_many is None or not isinstance(layout, KeyFirst) or not layout.as_logged:
        return None
    begin = -layout.keys.tail.size
    end = begin + SEGMENT.size

    def log_rows(rows: Iterator[Logged]) -> None:
        latest = b""

        def logged() -> Iterator[Logged]:
            nonlocal latest
            for row, data, timestamp in rows:
                if row[begin:end] > latest:  # times are never negative, so they are in the order of their bytes
                    latest = row[begin:end]
                yield row[8:], data, timestamp

        try:
            log_many(logged())
        finally:
            if latest:
                # Also after a failure: rows that were logged before it come back with a restore.
                segments.reach(int.from_bytes(latest, "big"))

    return log_rows


def _without_segment(row: bytes) -> bytes:
    return row[8:]
