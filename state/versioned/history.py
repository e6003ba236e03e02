"""Versions of a versioned store that are not the latest of their key, between the store and the engine.

A row has the key and the end of its validity as its row key. So the version as of a time is the first row that ends
after it: one seek, however long the history (docs/decisions/stores.md, "Older versions are keyed by the end of their
validity"). The key is escaped so that no key's rows stand between another's: a zero byte becomes ``00 FF``, and
``00 00`` ends it. The row holds the start of the validity and the value; without a value, the key had none in that
time. A row that starts where it ends says only that the key was deleted at that time.

Rows are only put and replaced. They expire when their validity ended before the history that is kept, by whole
segments. The engine does not know when that is: a sweep goes through the family now and then, a piece with each commit.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from sortedcontainers import SortedList

from state.engine.port import Batch, Engine, Family
from state.write_buffer.memory_budget import Budget
from state.write_buffer.row_reader import merged
from state.write_buffer.store_kind import CommitParticipant

VERSIONS = "versions"
"""Suffix of the family."""

Version = tuple[int, bytes | None]
"""Start of the validity in ms, and the value's bytes; ``None`` where the key was deleted."""

Row = tuple[int, int, bytes | None]
"""End of the validity, start and value."""

_TIME = struct.Struct(">q")
_pack, _unpack = _TIME.pack, _TIME.unpack_from
_LAST = b"\xff" * 9
"""The end of a row key behind all times of a key."""
_STREAM_TIME = b""
"""Key of the row that holds the stream time observed; all others are longer."""
_FIRST = b"\x00"
_HAS_VALUE = b"\x01"
ROW_OVERHEAD_BYTES = 100
"""Memory of a row that waits for the commit, besides its key and value."""
SWEEP_LEAST, SWEEP_FACTOR = 1000, 4
"""Rows that a sweep reads in one commit: this many, plus this many for each row that the commit writes. With four,
expired rows take at most about as much room as the history itself."""


def front_of(key: bytes) -> bytes:
    """Returns a key as it stands before the time."""
    return key.replace(b"\x00", b"\x00\xff") + b"\x00\x00" if b"\x00" in key else key + b"\x00\x00"


def _key_of(row_key: bytes) -> bytes:
    # Behind the key are its two zero bytes and the eight of the time.
    return row_key[:-10].replace(b"\x00\xff", b"\x00")


def _read(row: bytes) -> Version:
    return _unpack(row)[0], (row[9:] if len(row) > 8 else None)


class HistoryReads:
    """The older versions of one store, for reading.

    :param waiting: rows that wait for the commit, by key, in order of their ends.
    :param times: the highest timestamp put, in ms, and the one up to which the family has versions that end; as the
        family has them if they are not given.
    """

    def __init__(
        self,
        family: Family,
        retention_ms: int,
        segment_ms: int,
        waiting: dict[bytes, list[Row]],
        times: tuple[int, int] | None = None,
    ) -> None:
        self.family = family
        self.retention_ms, self.segment_ms = retention_ms, segment_ms
        self.waiting_rows = waiting
        self._index: SortedList[bytes] | None = None
        self.stream_time, self.stored_until = (stored_time(family),) * 2 if times is None else times
        """The second: no version in the family ends later. It is behind the stream time where records are processed
        again."""

    @property
    def oldest(self) -> int:
        """Before this time in ms nothing is kept but the latest version of each key."""
        return self.stream_time - self.retention_ms

    def expired_before(self, time: int | None = None) -> int:
        """Rows that ended before this are no longer shown: the start of the segment of :attr:`oldest`.

        :param time: instead of the stream time.
        """
        oldest = self.oldest if time is None else time - self.retention_ms
        return max(oldest, 0) // self.segment_ms * self.segment_ms

    # ------------------------------------------------------------------ one key

    def ends_at(self, key: bytes, end: int) -> bool:
        """Whether there is a row for the end of a validity."""
        rows = self.waiting_rows.get(key, ())
        place = bisect_left(rows, (end,))
        if place < len(rows) and rows[place][0] == end:
            return True
        return self.family.get(front_of(key) + _pack(end)) is not None

    def after(self, key: bytes, time: int) -> Row | None:
        """End, start and value of the first version that ends after a time; it may start after it too."""
        rows = self.waiting_rows.get(key)
        found = None
        if rows is not None:
            # The shorter tuple is the smaller: this finds the first row that ends then or later, whatever its other
            # parts.
            place = bisect_left(rows, (time + 1,))
            if place < len(rows):
                found = rows[place]
                # It was valid then, and validities do not overlap: the engine has none that ends earlier.
                if found[1] <= time:
                    return found
        front = front_of(key)
        row = self.family.seek(front + _pack(time + 1))
        if row is None or not row[0].startswith(front):
            return found
        end = _unpack(row[0], len(front))[0]
        # Of two with the same end the one that waits has taken the place of the other.
        return found if found is not None and found[0] <= end else (end, *_read(row[1]))

    def between(self, key: bytes, from_time: int, to_time: int, *, reverse: bool) -> Iterator[Row]:
        """End, start and value of the versions that were valid at some time from ``from_time`` to ``to_time``, both
        included, in order of time."""
        until = max(self.stream_time, self.stored_until)
        if from_time >= until:
            return iter(())
        front = front_of(key)
        last = None if to_time >= until else self.after(key, to_time)
        first = max(from_time + 1, self.expired_before())
        # The zero byte makes it the first key behind that row, which is read too.
        high = _LAST if last is None else _pack(last[0]) + _FIRST
        over = self._over(key, front, first, None if last is None else last[0])
        if reverse:
            over.reverse()
        below = self.family.range(front + _pack(first), front + high, reverse=reverse)
        at, rows = len(front), merged(over, below, _read, reverse)
        return ((_unpack(row_key, at)[0], start, value) for row_key, (start, value) in rows if start <= to_time)

    def _over(self, key: bytes, front: bytes, first: int, last: int | None) -> list[tuple[bytes, Version]]:
        rows = self.waiting_rows.get(key, ())
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
        rows = merged(over, self.family.range(low_row, high_row, reverse=reverse), _read, reverse)
        expired = self.expired_before()
        decoded = ((_key_of(row), _unpack(row, len(row) - 8)[0], version) for row, version in rows)
        return ((key, end, start, value) for key, end, (start, value) in decoded if end >= expired)

    def _waiting_keys(self, low: bytes | None, high: bytes | None) -> Iterator[bytes]:
        if low is not None and high is not None and low >= high:
            return iter(())
        if self._index is None:
            self._index = SortedList(self.waiting_rows)
        return self._index.irange(low, high, inclusive=(True, False))


def stored_time(family: Family) -> int:
    """Returns the stream time at the last commit; -1 before the first."""
    found = family.get(_STREAM_TIME)
    return -1 if found is None else _unpack(found)[0]


class VersionHistory(HistoryReads, CommitParticipant):
    """The older versions of a store of a task: read, put and written with each commit.

    Other threads read `waiting_rows`, whose lists change with every put (:mod:`state.versioned.live_view`).
    """

    def __init__(self, engine: Engine, store: str, budget: Budget, retention_ms: int, segment_ms: int) -> None:
        super().__init__(engine.family(f"{store}.{VERSIONS}"), retention_ms, segment_ms, {})
        self._budget = budget
        self._count = self._bytes = 0
        self._committed: int | None = None
        """Versions that ended before the history as of this time are deleted; ``None`` if that of the stream time."""
        self._sweep_at: bytes | None = None
        self._swept = self._sweeping = 0
        self._next_sweep: tuple[bytes | None, int, int] = None, 0, 0
        """Rows that ended before the first of these are deleted; those before the second are being deleted."""

    def put(self, key: bytes, end: int, start: int, value: bytes | None) -> None:
        """Puts the version that ends at ``end``, instead of another one that ends there."""
        size = len(key) + ROW_OVERHEAD_BYTES if value is None else len(key) + len(value) + ROW_OVERHEAD_BYTES
        rows = self.waiting_rows.get(key)
        if rows is None:
            self.waiting_rows[key] = [(end, start, value)]
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

    # ------------------------------------------------------------------ commit

    @property
    def time(self) -> int:
        return self.stream_time

    def go_back(self, time: int) -> None:
        """Has the stream time be an earlier one again: versions that have expired since then are there again, and are
        deleted by the commit behind the one with which they expire."""
        self.stream_time = min(time, self.stream_time)
        self.delete_before(self.stream_time)

    def delete_before(self, time: int) -> None:
        """Deletes nothing but what has expired at a time, until :meth:`commit_ended`."""
        self._committed = time

    def commit_ended(self) -> None:
        if self._committed is not None:
            self._committed = self.stream_time

    @property
    def waiting(self) -> tuple[int, int]:
        return self._count, self._bytes

    @property
    def pending(self) -> bool:
        return bool(self.waiting_rows) or self.stream_time > self.stored_until

    def apply(self, batch: Batch) -> None:
        handle, put, pack = self.family.handle, batch.put, _pack
        for key, rows in self.waiting_rows.items():
            front = front_of(key)
            for end, start, value in rows:
                put(front + pack(end), pack(start) if value is None else pack(start) + _HAS_VALUE + value, handle)
        if self.stream_time > self.stored_until:
            put(_STREAM_TIME, _pack(self.stream_time), handle)
        self._sweep(batch)

    def _sweep(self, batch: Batch) -> None:
        """Deletes some expired rows; the next sweep continues from there once the batch is written."""
        expired, begin, sweeping = self._deleted_before(), self._sweep_at, self._sweeping
        if begin is None:
            if expired - self._swept < max(self.retention_ms // 2, self.segment_ms):
                return
            begin, sweeping = _FIRST, expired
        left = SWEEP_LEAST + SWEEP_FACTOR * self._count
        handle, key = self.family.handle, b""
        for key, _ in islice(self.family.range(begin), left):
            left -= 1
            if _unpack(key, len(key) - 8)[0] < expired:
                batch.delete(key, handle)
        self._next_sweep = (None, sweeping, sweeping) if left else (key + _FIRST, sweeping, self._swept)

    def _deleted_before(self) -> int:
        committed = self._committed
        return self.expired_before(self.stream_time if committed is None else min(committed, self.stream_time))

    def applied(self) -> None:
        self.stored_until = max(self.stream_time, self.stored_until)
        self._sweep_at, self._sweeping, self._swept = self._next_sweep
        self.close()

    def close(self) -> None:
        self.waiting_rows.clear()
        self._index = None
        self._budget.uncommitted -= self._bytes
        self._count = self._bytes = 0


def read_version_row(row_key: bytes, row: bytes) -> tuple[bytes, int, int, bytes | None] | None:
    """Key, end, start and value of a row as it is on disk; ``None`` for the row of the stream time.

    :raises ValueError: if it is not such a row.
    """
    if row_key == _STREAM_TIME:
        _TIME.unpack(row)
        return None
    if len(row_key) < 10 or row_key[-10:-8] != b"\x00\x00":
        raise ValueError(f"the key of a version must end with two zero bytes and a time, got {row_key.hex()}")
    if len(row) < 8 or row[8:9] not in (b"", _HAS_VALUE):
        raise ValueError(f"a version must have a time, and 01 before its value, got {row[:9].hex()}")
    start, value = _read(row)
    return _key_of(row_key), _unpack(row_key, len(row_key) - 8)[0], start, value
