"""Rows that expire: hidden as soon as their time is over, and deleted a few with each commit (docs/decisions/0014).

The time of a row is the timestamp of its value (`ByRecordTime`), or when it was last put or read (`ByAccess`). Either
way it is the first eight bytes of a row in the engine.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

from processor_api.record import HeaderList
from state.engine.port import Batch
from state.write_buffer.buffer import Entry, Rows, RowsSettings
from state.write_buffer.fast_path import Get, Put, row_key_maker
from state.write_buffer.overlay import merged
from state.write_buffer.row_codec import pack_access
from state.write_buffer.time_to_live import Lifetime

__all__ = ["Accesses", "ByAccess", "ByRecordTime", "ExpiringRows", "time_of_row"]

time_of_row = struct.Struct(">q").unpack_from
_HIDDEN: Entry = (None, -1)
SWEEP_LEAST, SWEEP_FACTOR = 1000, 4
"""Rows that a sweep looks at in one commit: so many, and so many for each row that the commit writes."""
REFRESH_BYTES = 100
"""What a read that waits to be logged takes besides its key."""


class ExpiringRows(Rows):
    """See the module's text."""

    def __init__(self, settings: RowsSettings, *, lifetime: Lifetime) -> None:
        super().__init__(settings)
        self.lifetime = lifetime
        self.limit = lifetime.limit
        """What is of this time or an earlier one has expired."""
        self._sweep_at: bytes | None = b""
        """Where a sweep through the rows of the engine goes on; ``None`` while there is none."""
        self._sweep_began = -1
        self._swept = False
        self._judged: dict[Any, tuple[int, int | None]] = {}
        """Of dirty rows of a cache that is asked for old values, when they were first put: what had expired, and the
        time of the row below, where that is forgotten with the put."""
        self.when_logged = self._judged.clear

    @abstractmethod
    def time_of(self, row_key: Any, entry: Entry) -> int:
        """The time of a row in memory."""

    def row_of(self, raw_key: bytes) -> Any:
        """The key of a row in memory from its bytes."""
        return self.read_key(raw_key) if self.plain_keys else raw_key

    # ------------------------------------------------------------------ reads

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        limit = self.limit()
        is_over, row_of, time_of = self.lifetime.is_over, self.row_of, self.time_of
        overlay = [
            (raw, _HIDDEN if is_over(time_of(row_of(raw), entry), limit) else entry)
            for raw, entry in self._overlay(low, high, reverse)
        ]
        below = self._alive(self.family.range(low, high, reverse=reverse), limit)
        read, stored = self.codec.read, self.stored

        def decode(row: bytes) -> Entry:
            data, timestamp = read(row)
            return stored(data), timestamp

        return merged(overlay, below, decode, reverse)

    def _alive(self, rows: Iterator[tuple[bytes, bytes]], limit: int) -> Iterator[tuple[bytes, bytes]]:
        is_over = self.lifetime.is_over
        return ((key, row) for key, row in rows if not is_over(time_of_row(row)[0], limit))

    # ------------------------------------------------------------------ changes

    def _judge(self, row: Any) -> None:
        """Before each put into a cache that is asked for old values. What has expired is no old value of a change, and
        that is decided when the change is made, as without a cache, not when it is drained. A change that waits and has
        expired is forwarded now: without a cache it was."""
        limit, known = self.limit(), self.dirty.get(row)
        if known is not None:
            if known[0] is None or not self.lifetime.is_over(self.time_of(row, known), limit):
                return
            self.drain()
        self._judged[row] = limit, self._time_below(row)

    def _time_below(self, row: Any) -> int | None:
        """The time of what a put is about to replace, if that will not be known afterwards."""
        return None

    def _below(self, key: Any) -> Any:
        entry = self.clean.get(key) or self.miss(key)
        if entry is None or entry[0] is None:
            return None
        limit, time = self._judged.get(key) or (self.limit(), None)
        if self.lifetime.is_over(self._clean_time(key, entry) if time is None else time, limit):
            return None
        return entry[0]

    def _clean_time(self, row: Any, entry: Entry) -> int:
        """The time of a row that is below a dirty one."""
        return self.time_of(row, entry)

    def _old_values(self, rows: dict[Any, Entry], deleted: list[Any]) -> Iterable[Any]:
        """Deletions of rows that nobody knows are told as well: whether one has expired and is gone, or was never
        there, makes no difference to those who kept it."""
        return super()._old_values(rows, [])

    # ------------------------------------------------------------------ commits

    def tidy(self) -> None:
        """Part of each drain, behind the rows that were put: deletes some of what has expired, once per commit."""
        limit = self.lifetime.limit()
        if self._swept or limit < self._sweeps_from:
            return
        self._swept = True
        if self._sweep_at is None:
            if self.lifetime.now() - self._sweep_began < max(self.lifetime.length // 2, 1):
                return
            self._sweep_at = b""
        if not self._sweep_at:
            self._sweep_began = self.lifetime.now()
        left, key = SWEEP_LEAST + SWEEP_FACTOR * len(self.drained), b""
        is_over = self.lifetime.is_over
        for key, row in islice(self.family.range(self._sweep_at), left):
            left -= 1
            time = time_of_row(row)[0]
            if is_over(time, limit):
                self._remove(key)
            elif time < 0:
                self._date(key, row)
        self._sweep_at = None if left else key + b"\0"

    @property
    def _sweeps_from(self) -> int:
        """What has to have expired before there is anything to do."""
        return 0

    def _date(self, raw_key: bytes, row: bytes) -> None:
        """A row whose time is not known was found."""

    def _remove(self, raw_key: bytes) -> None:
        key = self.row_of(raw_key)
        if key not in self.dirty and key not in self.drained:
            self._put_drained(key, raw_key, None, None, self.lifetime.now())

    def _put_drained(self, key: Any, raw_key: bytes, value: Any, data: bytes | None, timestamp: int) -> None:
        """Logs a row at once, for the engine to have with the commit; nothing is forwarded."""
        if self.log is not None:
            self.log(raw_key, data, timestamp)
        known = self.clean.get(key)
        self.clean[key] = value, timestamp
        self.note_logged(key, value, known)
        self.drained[key] = raw_key, data, timestamp
        self.note_key(key)

    def applied(self) -> None:
        super().applied()
        self._swept = False

    def close(self) -> None:
        super().close()
        self._judged.clear()


class ByRecordTime(ExpiringRows):
    """Rows expire by the timestamps of their values."""

    def time_of(self, row_key: Any, entry: Entry) -> int:
        return entry[1]  # type: ignore[no-any-return]

    def around_get(self, get: Get) -> Get:
        limit, is_over = self.limit, self.lifetime.is_over

        def get_alive(key: Any) -> Entry | None:
            least = limit()  # before the row: a reader in another thread may see that of a later moment
            entry = get(key)
            if entry is None or entry[1] > least:
                return entry
            return None if is_over(entry[1], least) else entry

        return get_alive

    def around_put(self, put: Put) -> Put:
        now, row_key = self.lifetime.now, row_key_maker(self)

        def put_timed(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
            if self.cached and self.wants_old:
                self._judge(row_key(key))
            put(key, value, timestamp if timestamp >= 0 else now(), headers)

        return put_timed


class Accesses:
    """When rows that wait for the commit were put or read, by row key; shared with their changelog."""

    def __init__(self) -> None:
        self.times: dict[Any, int] = {}
        self.row_of: Callable[[bytes], Any]

    def of(self, raw_key: bytes) -> int:
        return self.times[self.row_of(raw_key)]


class ByAccess(ExpiringRows):
    """Rows expire by when they were last put, or read with `get` while a record or a punctuation is in work.

    A clean entry that the engine has is (value, timestamp, time of access). Of every other row, be it dirty or drained,
    the time is in `_times`. A read only notes its time, in `_refreshed`, or in `_stale` where the row waits for the
    commit; a drain logs these rows again, each once.
    """

    def __init__(self, settings: RowsSettings, *, lifetime: Lifetime, accesses: Accesses) -> None:
        super().__init__(settings, lifetime=lifetime)
        accesses.row_of = self.row_of
        self._times = accesses.times
        self._refreshed: dict[Any, int] = {}
        """Replaced when it is drained and with each commit, since open ranges hold it: a row that had expired when a
        range was opened may be put, committed and read meanwhile."""
        self._stale: set[Any] = set()
        """Rows that were read after they were logged, and wait for the commit."""
        self._refreshed_bytes = 0

    def time_of(self, row_key: Any, entry: Entry) -> int:
        time = self._times.get(row_key)
        if time is None:
            time = self._refreshed.get(row_key)
        if time is None:
            time = entry[2] if len(entry) > 2 else self.lifetime.now()
        return time

    # ------------------------------------------------------------------ get and put

    def miss(self, key: Any) -> Entry | None:
        row = self.family.get(self.key_bytes(key))
        if row is None:
            return None
        data, timestamp = self.codec.read(row)
        entry = self.clean[key] = self.stored(data), timestamp, time_of_row(row)[0]
        budget = self.budget
        budget.clean += self.cost(key, entry[0])
        if budget.clean + budget.dirty > budget.cache_limit:
            self.evict(keep=key)
        return entry

    def around_get(self, get: Get) -> Get:
        row_key, times, clean, miss = row_key_maker(self), self._times, self.clean, self.miss
        cursor, now, length, is_over = self.cursor, self.lifetime.now, self.lifetime.length, self.lifetime.is_over

        def get_alive(key: Any) -> Entry | None:
            found = get(key)
            if found is None:
                return None
            row = row_key(key)
            time, current = times.get(row), now()
            waits = time is not None
            if time is None:
                entry = clean.get(row) or miss(row)
                time = current if entry is None else self.time_of(row, entry)
            if time == current:
                return found
            if is_over(time, current - length):
                return None
            if cursor.timestamp >= 0:
                self._refresh(row, current, waits)
            return found

        return get_alive

    def _refresh(self, row: Any, now: int, waits: bool) -> None:
        if waits:
            self._times[row] = now
            if row not in self.dirty:
                self._stale.add(row)
            return
        if row not in self._refreshed:
            size = len(row) + REFRESH_BYTES
            self._refreshed_bytes += size
            self.budget.uncommitted += size
        self._refreshed[row] = now

    def around_put(self, put: Put) -> Put:
        row_key, times, now = row_key_maker(self), self._times, self.lifetime.now

        def put_timed(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
            row = row_key(key)
            if self.cached and self.wants_old:
                self._judge(row)
            known = times.get(row)
            times[row] = now()
            try:
                put(key, value, timestamp, headers)
            except BaseException:
                if known is not None:
                    times[row] = known
                elif row not in self.dirty and row not in self.drained:
                    del times[row]
                raise

        return put_timed

    def _alive(self, rows: Iterator[tuple[bytes, bytes]], limit: int) -> Iterator[tuple[bytes, bytes]]:
        """A row that the engine has as expired was alive when the range was opened if it was read since the last
        commit: only what lives is refreshed."""
        is_over, refreshed, row_of = self.lifetime.is_over, self._refreshed, self.row_of
        return (
            (key, row)
            for key, row in rows
            if not is_over(time_of_row(row)[0], limit) or refreshed.get(row_of(key), limit) > limit
        )

    # ------------------------------------------------------------------ commits

    def _time_below(self, row: Any) -> int | None:
        """That of a row that waits for the commit."""
        return self._times.get(row)

    def _clean_time(self, row: Any, entry: Entry) -> int:
        """`_times` has that of the dirty row, or of this one where it is drained and was not put again."""
        time = self._refreshed.get(row)
        return entry[2] if time is None else time

    def tidy(self) -> None:
        if self._refreshed or self._stale:
            self._log_reads()
        super().tidy()

    def _log_reads(self) -> None:
        read, self._refreshed = self._refreshed, dict(self._refreshed)
        for key, time in read.items():
            if key not in self._times:
                self._times[key] = time
                self._log_again(key)
            size = len(key) + REFRESH_BYTES
            self._refreshed_bytes -= size
            self.budget.uncommitted -= size
            del self._refreshed[key]
        for key in list(self._stale):
            if key not in self.dirty:
                self._log_again(key)
            self._stale.discard(key)

    def _log_again(self, key: Any) -> None:
        entry = self.clean.get(key) or self.miss(key)
        if entry is None or entry[0] is None:
            return
        self._put_drained(key, self.key_bytes(key), entry[0], self.write_value(entry[0]), entry[1])

    @property
    def _sweeps_from(self) -> int:
        return -self.lifetime.length

    def _date(self, raw_key: bytes, row: bytes) -> None:
        """Logs it with the time from which it counts: else it would get another life with each restore. A row without a
        timestamp stays as it is, since none is to be made up."""
        key, (data, timestamp) = self.row_of(raw_key), self.codec.read(row)
        if timestamp < 0 or key in self.dirty or key in self.drained:
            return
        self._times[key] = self.lifetime.unknown_time
        value = self.stored(data)
        self._put_drained(key, raw_key, value, self.write_value(value), timestamp)

    def apply(self, batch: Batch) -> None:
        times = self._times
        rows = (
            (raw_key, None if data is None else pack_access(times[key]) + data, timestamp)
            for key, (raw_key, data, timestamp) in self.drained.items()
        )
        self.codec.fill(batch, self.family.handle, rows)

    def applied(self) -> None:
        clean, times = self.clean, self._times
        for key in self.drained:
            time, entry = times.pop(key, -1), clean.get(key)
            if entry is not None and entry[0] is not None:
                clean[key] = entry[0], entry[1], time
        self._refreshed = self._refreshed.copy()
        super().applied()

    def close(self) -> None:
        super().close()
        self._times.clear()
        self._refreshed = {}
        self._stale.clear()
        self.budget.uncommitted -= self._refreshed_bytes
        self._refreshed_bytes = 0
