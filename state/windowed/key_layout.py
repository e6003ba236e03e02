"""Keys of rows that belong to a key and a time: the start of a window, or the end of a session.

On a changelog such a key is ``key, time i64, rest``; the rest is the sequence number of a window (i32) or the start of
a session (i64; formats 9). In the engine it stands behind the number of its segment, key first or time first
(KIP-825). Both are frozen on disk.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from state.formats import keys
from state.row_format.row_format import Entry
from state.windowed.segments import SEGMENT

_pack_segment = SEGMENT.pack
_TIME = struct.Struct(">q")
_pack_time = _TIME.pack
_BY_TIME = b"\x00"

MakeRow = Callable[..., bytes]
"""``(key, time, rest)`` to the key of a row; the rest is 0 if it is left out."""
Parts = tuple[bytes, int, int]
"""Key, time and rest."""
Found = tuple[bytes, int, int, Any, int]
"""Key, time, rest, value, timestamp. ``rest`` is what a key has besides a time: a sequence number, or the start of a
session."""


@dataclass(frozen=True)
class TimedKeys:
    """The keys of windows, or of sessions, on their changelog."""

    tail: struct.Struct
    """Time and rest."""
    by_time: Callable[[bytes, int, int], bytes]
    """``(key, time, rest)``, time first."""
    by_key: Callable[[bytes, int, int], bytes]
    """The same in the index of a store that is ordered by time."""
    read_by_time: Callable[[bytes], Parts]

    @property
    def rest_bytes(self) -> int:
        return self.tail.size - _TIME.size

    def write(self, key: bytes, time: int, rest: int) -> bytes:
        return key + self.tail.pack(time, rest)

    def read(self, data: bytes) -> Parts:
        """Returns the parts of a key.

        :raises ValueError: if it is not such a key.
        """
        if len(data) < self.tail.size:
            raise ValueError(f"the key must have at least {self.tail.size} bytes, got {len(data)}")
        time, rest = self.tail.unpack_from(data, len(data) - self.tail.size)
        if time < 0 or rest < 0:
            raise ValueError(f"times must not be negative, got {time} and {rest}")
        return data[: -self.tail.size], time, rest


def _read_session_by_time(data: bytes) -> Parts:
    key, start, end = keys.read_session_key_by_time(data)
    return key, end, start


WINDOW = TimedKeys(struct.Struct(">qi"), keys.window_key_by_time, keys.window_key_by_key, keys.read_window_key_by_time)
SESSION = TimedKeys(
    struct.Struct(">qq"),
    lambda key, end, start: keys.session_key_by_time(key, start, end),
    lambda key, end, start: keys.session_key_by_key(key, start, end),
    _read_session_by_time,
)


class KeyFirst:
    """``segment, key, time, rest``: the rows of one key in a span of time are neighbours.

    :param descending: for sessions that end together, the one that starts last comes first, as in Java's memory store.
    """

    _key_starts = 8

    def __init__(self, keys: TimedKeys, *, descending: bool = False) -> None:
        self.keys = keys
        self._tail = keys.tail
        self._size = keys.tail.size
        # Starts are never negative: with all other bits turned, the largest comes first.
        self._flip = (1 << 63) - 1 if descending else 0
        # Numbers that are not negative never begin with this byte, so it is behind every rest.
        self._after = b"\xff" * keys.rest_bytes

    @property
    def as_logged(self) -> bool:
        """Whether a key on the changelog is a row without its segment."""
        return self._flip == 0 and self._key_starts == 8

    def row(self, segment: int, key: bytes, time: int, rest: int) -> bytes:
        return _pack_segment(segment) + key + self._tail.pack(time, rest ^ self._flip)

    def row_maker(self, interval: int) -> MakeRow:
        """Returns :meth:`row` as a function of key, time and rest, for segments of a length in ms.

        Mostly the segment is that of the row before, so its number is packed once.
        """
        pack, flip, current, start = self._tail.pack, self._flip, -1, b""

        def make_row(key: bytes, time: int, rest: int = 0) -> bytes:
            nonlocal current, start
            if time // interval != current:
                current = time // interval
                start = _pack_segment(current)
            return start + key + pack(time, rest ^ flip)

        return make_row

    def parts(self, row: bytes) -> Parts:
        time, rest = self._tail.unpack_from(row, -self._size)
        return row[8 : -self._size], time, rest ^ self._flip

    def time_and_rest(self, row: bytes) -> tuple[int, int]:
        """Returns what stands behind the key of a row."""
        time, rest = self._tail.unpack_from(row, -self._size)
        return time, rest ^ self._flip

    def row_bytes(self, key: bytes) -> int:
        """Returns how long the rows of a key are."""
        return self._key_starts + len(key) + self._size

    def by_time(self, row: bytes) -> tuple[bytes, bytes, bytes]:
        """Sorts rows by time, then key, then the rest."""
        end = len(row) - self._size
        return row[end : end + 8], row[8:end], row[end + 8 :]

    def key_bounds(self, segment: int, key: bytes, low: int, high: int) -> tuple[bytes, bytes]:
        """Returns where the rows of a key with times from ``low`` to ``high`` begin and where they have ended.

        Rows of longer keys may lie between them.
        """
        start = _pack_segment(segment) + key
        return start + _pack_time(low), start + _pack_time(high) + self._after

    def segment_bounds(self, segment: int) -> tuple[bytes, bytes]:
        """Returns where the rows of a segment begin and where they have ended."""
        return _pack_segment(segment), _after(segment)

    def of_key(
        self, key: bytes, rows: Iterator[tuple[bytes, Entry]], value_of: Callable[[Any], Any] | None
    ) -> Iterator[Found]:
        """Key, time, rest, value and timestamp of those rows between the bounds of a key that are of this key."""
        offset = self._key_starts + len(key)
        length, unpack, flip = offset + self._size, self._tail.unpack_from, self._flip
        for row, entry in rows:
            # A row of another length is that of a longer key, whose own bytes look like a time here.
            if len(row) == length:
                time, rest = unpack(row, offset)
                yield key, time, rest ^ flip, entry[0] if value_of is None else value_of(entry[0]), entry[1]

    def keys_bounds(self, segment: int, first: bytes | None, last: bytes | None, high: int) -> tuple[bytes, bytes]:
        """Holds the rows of all keys from ``first`` to ``last`` with times up to ``high``, and others.

        A key that ``last`` starts with is smaller than it, but its rows may follow: its time stands where ``last`` goes
        on (Java's stores on RocksDB lose such rows).
        """
        start = _pack_segment(segment)
        if last is None:
            return start + (first or b""), _after(segment)
        tail = _pack_time(high) + self._after
        return start + (first or b""), start + max(last[:length] + tail for length in range(len(last) + 1))


class TimeFirst:
    """``segment, 0x00, time, ...``: rows by time (KIP-825); the index is ``segment, 0x01, key, time, rest``."""

    def __init__(self, keys: TimedKeys) -> None:
        self.keys = keys
        self.index = _Index(keys)

    def row(self, segment: int, key: bytes, time: int, rest: int) -> bytes:
        return _pack_segment(segment) + self.keys.by_time(key, time, rest)

    def row_maker(self, interval: int) -> MakeRow:
        """Returns :meth:`row` as a function of key, time and rest, for segments of a length in ms."""
        return _row_maker(self, interval)

    def parts(self, row: bytes) -> Parts:
        return self.keys.read_by_time(row[8:])

    def segment_bounds(self, segment: int) -> tuple[bytes, bytes]:
        """Returns where the rows of a segment begin and where they have ended; those of the index follow them."""
        return self.time_bounds(segment, 0, keys.MAX_TIME)

    def time_bounds(self, segment: int, low: int, high: int) -> tuple[bytes, bytes]:
        """The rows of all keys with times from ``low`` to ``high``."""
        start = _pack_segment(segment) + _BY_TIME
        return start + _pack_time(low), start + _after(high)


class _Index(KeyFirst):
    """The index of a :class:`TimeFirst`: its keys have a byte in front that is not theirs."""

    _key_starts = 9

    def row(self, segment: int, key: bytes, time: int, rest: int) -> bytes:
        return _pack_segment(segment) + self.keys.by_key(key, time, rest)

    def row_maker(self, interval: int) -> MakeRow:
        return _row_maker(self, interval)

    def parts(self, row: bytes) -> Parts:
        key, time, rest = super().parts(row)
        return key[1:], time, rest

    def key_bounds(self, segment: int, key: bytes, low: int, high: int) -> tuple[bytes, bytes]:
        return super().key_bounds(segment, b"\x01" + key, low, high)

    def keys_bounds(self, segment: int, first: bytes | None, last: bytes | None, high: int) -> tuple[bytes, bytes]:
        bound = None if last is None else b"\x01" + last
        return super().keys_bounds(segment, b"\x01" + (first or b""), bound, high)


RowLayout = KeyFirst | TimeFirst
"""The order in which key, time and rest stand in the key of a row."""


def _row_maker(layout: RowLayout, interval: int) -> MakeRow:
    row = layout.row
    return lambda key, time, rest=0: row(time // interval, key, time, rest)


def _after(number: int) -> bytes:
    """Behind everything that starts with this time, or with the number of this segment."""
    # Behind the largest time is only the byte with which negative numbers begin.
    return _pack_time(number + 1) if number < keys.MAX_TIME else b"\x80"
