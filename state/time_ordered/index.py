"""The index of a time-ordered buffer: the next row, the number of rows and their size.

Entries are ``0x00``, ``time i64`` and bytes that differ for rows of one time. They stand in a family of the engine, and
entries that the engine does not have yet in a sorted list. Entries are removed from the front only. So those that are
left in the engine are all from one entry on, and the next row costs one seek, however many there are.
"""

from __future__ import annotations

import struct
from typing import Any

from sortedcontainers import SortedList

from state.engine.port import Batch, Family
from state.write_buffer.store_kind import CommitParticipant

EMPTY = (1 << 63) - 1
"""The smallest time of an empty buffer."""
ENTRIES = b"\x00", b"\x01"
"""Bounds of all entries."""
FACTS_KEY = b"\xff"
_FACTS = struct.Struct(">Bqqqiq")
_FRONT = struct.Struct(">Bq")
_VALID, _RESTORED = 1, 0


def check_facts(row: bytes) -> None:
    """Refuses a row that is not the buffer's row of facts.

    :raises struct.error: if it is none.
    """
    _FACTS.unpack(row)


def entry_of(time: int, rest: bytes) -> bytes:
    return _FRONT.pack(0, time) + rest


def time_of(entry: bytes) -> int:
    time: int = _FRONT.unpack_from(entry)[1]
    return time


def invalidate(batch: Batch, handle: Any, sequence: int, stream_time: int) -> None:
    """Notes that a restore has changed rows: the buffer counts them again when it is opened."""
    batch.put(FACTS_KEY, _FACTS.pack(_RESTORED, 0, 0, 0, sequence, stream_time), handle)


class StoredEntries:
    """The entries of a buffer that the engine has: all from one entry on."""

    def __init__(self, family: Family, begin: bytes) -> None:
        self._family = family
        self._begin = begin
        self._first: bytes | None = None
        self._first_known = False

    def first(self) -> bytes | None:
        """Returns the first entry; ``None`` if there is none."""
        if not self._first_known:
            found = self._family.seek(self._begin)
            self._first = found[0] if found is not None and found[0] < ENTRIES[1] else None
            self._first_known = True
        return self._first

    def begin_at(self, begin: bytes) -> None:
        """All entries before this one are gone."""
        self._begin, self._first_known = begin, False


class BufferIndex(CommitParticipant):
    """The index of one buffer, written with each commit.

    :param family: holds the entries, and a row of facts.
    :param writes_entries: ``False`` where the rows themselves are the entries.
    """

    def __init__(self, family: Family, *, writes_entries: bool) -> None:
        self._family = family
        self._writes_entries = writes_entries
        self._waiting: SortedList[bytes] = SortedList()
        self._gone: list[bytes] = []
        self.num_records = self.buffer_size = self.sequence = 0
        self.stream_time = -1
        self._changed = False
        low = ENTRIES[0]
        self.counted = False
        """Whether the rows are counted; if not, :meth:`add` or :meth:`count` must be called for each."""
        row = family.get(FACTS_KEY)
        if row is not None:
            valid, self.num_records, self.buffer_size, first, self.sequence, self.stream_time = _FACTS.unpack(row)
            self.counted = valid == _VALID
            low = entry_of(first, b"") if self.counted else low
        self._stored = StoredEntries(family, low)

    # ------------------------------------------------------------------ entries

    def add(self, entry: bytes, size: int) -> None:
        """A new row; ``size`` in bytes."""
        self._waiting.add(entry)
        self.count(size)

    def count(self, size: int) -> None:
        """Counts a row whose entry the engine has."""
        self.num_records += 1
        self.resize(size)

    def resize(self, by: int) -> None:
        self.buffer_size += by
        self._changed = True

    def first(self) -> bytes | None:
        """Returns the next entry; ``None`` if there is none."""
        stored = self._stored.first()
        if not self._waiting:
            return stored
        first: bytes = self._waiting[0]
        return first if stored is None or first < stored else stored

    def min_timestamp(self) -> int:
        """Returns the time of the next row in ms; `EMPTY` if there is none."""
        first = self.first() if self.num_records else None
        return EMPTY if first is None else time_of(first)

    def remove_first(self, entry: bytes, size: int) -> None:
        """Removes the row of :meth:`first`."""
        if self._waiting and self._waiting[0] == entry:
            del self._waiting[0]
        else:
            self._gone.append(entry)
            self._stored.begin_at(entry + b"\x00")
        self.num_records -= 1
        self.resize(-size)

    # ------------------------------------------------------------------- commit

    @property
    def pending(self) -> bool:
        return self._changed

    def apply(self, batch: Batch) -> None:
        handle = self._family.handle
        if self._writes_entries:
            for entry in self._gone:
                batch.delete(entry, handle)
            for entry in self._waiting:
                batch.put(entry, b"", handle)
        # With the first time, the next opening seeks behind the entries that are gone, which the engine may still pass.
        first = self.min_timestamp()
        facts = (self.num_records, self.buffer_size, first, self.sequence, self.stream_time)
        batch.put(FACTS_KEY, _FACTS.pack(_VALID, *facts), handle)

    def applied(self) -> None:
        # Before the list is cleared: what waited in it is stored now.
        self._stored.begin_at(self.first() or ENTRIES[1])
        self._waiting.clear()
        self._gone.clear()
        self._changed = False

    def close(self) -> None:
        self._waiting.clear()
        self._gone.clear()
