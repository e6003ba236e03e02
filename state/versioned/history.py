"""Versions of a versioned store that are not the latest of their key, between the store and the engine.

A row is found under the key and the end of its validity, so that the version as of a time is the first row that ends
after it: one seek, however long the history (docs/decisions/0011). The key is escaped so that no key's rows stand
between another's: a zero byte becomes ``00 FF``, and ``00 00`` ends it. The row holds the start of the validity and the
value; one without a value says that there was none in that time. One that starts where it ends says no more than that
the key was deleted at that time.

Rows are only put and replaced; they go when their validity ended before the history that is kept, by whole segments.
Nothing tells the engine when that is: a sweep goes through the family now and then, a piece with each commit.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from copy import copy
from itertools import islice

from sortedcontainers import SortedList

from state.engine.port import Batch, Engine, Family
from state.write_buffer.memory_budget import Budget
from state.write_buffer.overlay import merged

__all__ = ["VERSIONS", "History", "Row", "front_of", "read_version_row"]

VERSIONS = "versions"
"""Suffix of the family."""

Version = tuple[int, bytes | None]
"""Start of the validity in ms, and the value's bytes; ``None`` where the key was deleted."""

Row = tuple[int, int, bytes | None]
"""End of the validity, start and value."""

_TIME = struct.Struct(">q")
_pack, _unpack = _TIME.pack, _TIME.unpack_from
_LAST = b"\xff" * 9
"""Behind all times of a key."""
_STREAM_TIME = b""
"""Key of the row that holds the stream time observed; all others are longer."""
_FIRST = b"\x00"
_HAS_VALUE = b"\x01"
ROW_OVERHEAD_BYTES = 100
"""What a row that waits for the commit takes besides its key and value."""
SWEEP_LEAST, SWEEP_FACTOR = 1000, 4
"""Rows that a sweep looks at in one commit: so many, and so many for each row that the commit writes. With four,
expired rows take at most about as much room as the history itself."""


def front_of(key: bytes) -> bytes:
    """A key as it stands before the time."""
    return key.replace(b"\x00", b"\x00\xff") + b"\x00\x00" if b"\x00" in key else key + b"\x00\x00"


def _key_of(row_key: bytes) -> bytes:
    return row_key[:-10].replace(b"\x00\xff", b"\x00")


def _read(row: bytes) -> Version:
    return _unpack(row)[0], (row[9:] if len(row) > 8 else None)


class History:
    """Of one store. Written with each commit (:class:`state.write_buffer.store_kind.Upkeep`)."""

    def __init__(self, engine: Engine, store: str, budget: Budget, retention_ms: int, segment_ms: int) -> None:
        self._family = engine.family(f"{store}.{VERSIONS}")
        self._budget = budget
        self._retention, self._segment = retention_ms, segment_ms
        self._waiting: dict[bytes, list[Row]] = {}
        """Rows that wait for the commit, by key, in order of their ends."""
        self._index: SortedList[bytes] | None = None
        self._count = self._bytes = 0
        found = self._family.get(_STREAM_TIME)
        self.stream_time = self._stored_time = -1 if found is None else _unpack(found)[0]
        """Highest timestamp put, in ms; -1 before the first."""
        self._sweep_at: bytes | None = None
        self._swept = self._sweeping = 0
        """Rows that ended before this are gone; rows that ended before this are going."""

    @property
    def oldest(self) -> int:
        """Before this time in ms nothing is kept but the latest version of each key."""
        return self.stream_time - self._retention

    def expired_before(self) -> int:
        """Rows that ended before this are not shown any more: the start of the segment of :attr:`oldest`."""
        return max(self.oldest, 0) // self._segment * self._segment

    # ------------------------------------------------------------------ other threads

    @property
    def waiting_rows(self) -> dict[bytes, list[Row]]:
        """Rows that wait for the commit, by key: the dictionary and its lists change with every put."""
        return self._waiting

    @property
    def family(self) -> Family:
        return self._family

    def frozen(
        self, family: Family, waiting: dict[bytes, list[Row]] | None = None, stream_time: int | None = None
    ) -> History:
        """On the family of a snapshot, with the rows that waited and the stream time of its moment; without them as the
        engine alone has it."""
        found = copy(self)
        found._family, found._waiting, found._index = family, waiting or {}, None
        if stream_time is None:
            stored = found._family.get(_STREAM_TIME)
            stream_time = -1 if stored is None else _unpack(stored)[0]
        found.stream_time = stream_time
        return found

    # ------------------------------------------------------------------ one key

    def put(self, key: bytes, end: int, start: int, value: bytes | None) -> None:
        """The version that ends at ``end``, in place of the one that did."""
        size = len(key) + ROW_OVERHEAD_BYTES if value is None else len(key) + len(value) + ROW_OVERHEAD_BYTES
        rows = self._waiting.get(key)
        if rows is None:
            self._waiting[key] = [(end, start, value)]
            self._count += 1
            if self._index is not None:
                self._index.add(key)
        else:
            place = bisect_left(rows, (end,))
            if place < len(rows) and rows[place][0] == end:
                before = rows[place][2]
                rows[place] = end, start, value
                size -= len(key) + ROW_OVERHEAD_BYTES + (0 if before is None else len(before))
            else:
                rows.insert(place, (end, start, value))
                self._count += 1
        self._bytes += size
        self._budget.uncommitted += size

    def ends_at(self, key: bytes, end: int) -> bool:
        """Whether there is a row for the end of a validity."""
        rows = self._waiting.get(key, ())
        place = bisect_left(rows, (end,))
        if place < len(rows) and rows[place][0] == end:
            return True
        return self._family.get(front_of(key) + _pack(end)) is not None

    def after(self, key: bytes, time: int) -> Row | None:
        """End, start and value of the first version that ends after a time; it may start after it too."""
        rows = self._waiting.get(key)
        found = None
        if rows is not None:
            place = bisect_left(rows, (time + 1,))
            if place < len(rows):
                found = rows[place]
                if found[1] <= time:
                    return found
        front = front_of(key)
        row = self._family.seek(front + _pack(time + 1))
        if row is None or not row[0].startswith(front):
            return found
        end = _unpack(row[0], len(front))[0]
        return found if found is not None and found[0] <= end else (end, *_read(row[1]))

    def between(self, key: bytes, from_time: int, to_time: int, *, reverse: bool) -> Iterator[Row]:
        """End, start and value of the versions that were valid at some time from ``from_time`` to ``to_time``, both
        included, in order of time. None ends after the stream time."""
        if from_time >= self.stream_time:
            return iter(())
        front = front_of(key)
        last = None if to_time >= self.stream_time else self.after(key, to_time)
        first = max(from_time + 1, self.expired_before())
        high = _LAST if last is None else _pack(last[0]) + _FIRST
        over = self._over(key, front, first, None if last is None else last[0])
        if reverse:
            over.reverse()
        below = self._family.range(front + _pack(first), front + high, reverse=reverse)
        at, rows = len(front), merged(over, below, _read, reverse)
        return ((_unpack(row_key, at)[0], start, value) for row_key, (start, value) in rows if start <= to_time)

    def _over(self, key: bytes, front: bytes, first: int, last: int | None) -> list[tuple[bytes, Version]]:
        rows = self._waiting.get(key, ())
        stop = len(rows) if last is None else bisect_left(rows, (last + 1,))
        return [(front + _pack(end), (start, value)) for end, start, value in rows[bisect_left(rows, (first,)) : stop]]

    # ------------------------------------------------------------------ many keys

    def range(
        self, low: bytes | None, high: bytes | None, *, reverse: bool
    ) -> Iterator[tuple[bytes, int, int, bytes | None]]:
        """Key, end, start and value of every version of the keys ``low <= key < high``, by key, then by time, as they
        are now."""
        over: list[tuple[bytes, Version]] = []
        for key in self._waiting_keys(low, high):
            over += self._over(key, front_of(key), 0, None)
        if reverse:
            over.reverse()
        low_row = _FIRST if low is None else front_of(low)
        high_row = None if high is None else front_of(high)
        rows = merged(over, self._family.range(low_row, high_row, reverse=reverse), _read, reverse)
        expired = self.expired_before()
        decoded = ((_key_of(row), _unpack(row, len(row) - 8)[0], version) for row, version in rows)
        return ((key, end, start, value) for key, end, (start, value) in decoded if end >= expired)

    def _waiting_keys(self, low: bytes | None, high: bytes | None) -> Iterator[bytes]:
        if low is not None and high is not None and low >= high:
            return iter(())
        if self._index is None:
            self._index = SortedList(self._waiting)
        return self._index.irange(low, high, inclusive=(True, False))

    # ------------------------------------------------------------------ commit

    @property
    def waiting(self) -> int:
        """Rows that wait for the commit."""
        return self._count

    @property
    def waiting_bytes(self) -> int:
        """Their size."""
        return self._bytes

    @property
    def pending(self) -> bool:
        return bool(self._waiting) or self.stream_time != self._stored_time

    def apply(self, batch: Batch) -> None:
        handle, put, pack = self._family.handle, batch.put, _pack
        for key, rows in self._waiting.items():
            front = front_of(key)
            for end, start, value in rows:
                put(front + pack(end), pack(start) if value is None else pack(start) + _HAS_VALUE + value, handle)
        if self.stream_time != self._stored_time:
            put(_STREAM_TIME, _pack(self.stream_time), handle)
        self._sweep(batch)

    def _sweep(self, batch: Batch) -> None:
        expired = self.expired_before()
        if self._sweep_at is None:
            if expired - self._swept < max(self._retention // 2, self._segment):
                return
            self._sweep_at, self._sweeping = _FIRST, expired
        left = SWEEP_LEAST + SWEEP_FACTOR * self._count
        handle, key = self._family.handle, b""
        for key, _ in islice(self._family.range(self._sweep_at), left):
            left -= 1
            if _unpack(key, len(key) - 8)[0] < expired:
                batch.delete(key, handle)
        if left:
            self._sweep_at, self._swept = None, self._sweeping
        else:
            self._sweep_at = key + _FIRST

    def applied(self) -> None:
        self._stored_time = self.stream_time
        self.close()

    def close(self) -> None:
        self._waiting.clear()
        self._index = None
        self._budget.uncommitted -= self._bytes
        self._count = self._bytes = 0


def read_version_row(row_key: bytes, row: bytes) -> tuple[bytes, int, int, bytes | None] | None:
    """Key, end, start and value of a row as it is on disk; ``None`` for the row of the stream time.

    :raises ValueError: if it is no such row.
    """
    if row_key == _STREAM_TIME:
        _TIME.unpack(row)
        return None
    if len(row_key) < 10 or row_key[-10:-8] != b"\x00\x00":
        raise ValueError(f"the key of a version ends with two zero bytes and a time, this one is {row_key.hex()}")
    if len(row) < 8 or row[8:9] not in (b"", _HAS_VALUE):
        raise ValueError(f"a version has a time, and 01 before its value: {row[:9].hex()}")
    start, value = _read(row)
    return _key_of(row_key), _unpack(row_key, len(row_key) - 8)[0], start, value
