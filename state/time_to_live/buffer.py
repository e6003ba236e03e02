"""The write buffer of a store with a time to live: what has expired is hidden at once (by the rules of
:mod:`state.time_to_live.rules`), and deleted a few rows with each commit (docs/decisions/stores.md, "A scan removes
expired rows of key-value stores")."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from processor_api.record import HeaderList
from state.engine.port import Batch
from state.row_format.codec import pack_access
from state.row_format.row_format import Entry
from state.time_to_live.options import Lifetime
from state.time_to_live.rules import Accesses, AccessRule, ExpiryRule, RecordTimeRule, time_of_row
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import Put, row_key_maker
from state.write_buffer.read_counts import checked_read
from state.write_buffer.row_reader import Get
from state.write_buffer.shared_rows import SharedRows

SWEEP_LEAST, SWEEP_FACTOR = 1000, 4
"""Rows that a sweep reads in one commit: this many, plus this many for each row that the commit writes."""
REFRESH_BYTES = 100
"""Memory of a read that waits to be logged, besides its key."""


class ExpiringRows(Rows):
    """The rows of one store, of which some expire."""

    def __init__(self, shared: SharedRows, *, expiry: ExpiryRule, **settings: Any) -> None:
        super().__init__(shared, rule=expiry, **settings)
        self.expiry = expiry
        self.lifetime = expiry.lifetime
        self._sweep_at: bytes | None = b""
        """Where a sweep through the rows of the engine continues; ``None`` without a sweep."""
        self._sweep_began = -1
        self._swept = False
        self._judged: dict[Any, tuple[int, int | None]] = {}
        """Dirty rows of a cache that is asked for old values, each with the limit of expiry when it was first put, and
        the time of the row below, which the put forgets."""

    # ------------------------------------------------------------------ changes

    def _was_logged(self) -> None:
        self._judged.clear()
        super()._was_logged()

    def _judge(self, row: Any) -> None:
        """Decides before a put whether the old value of the change has expired; for a cache that gives old values.

        An expired value is not an old value of a change. This is decided when the change is made, as without a cache,
        and not when it is drained. A waiting change that has expired is forwarded now, as it would be without a cache.
        """
        limit, known = self.expiry.limit(), self.dirty.get(row)
        if known is not None:
            if known[0] is None or not self.lifetime.is_over(self.expiry.time_of(row, known), limit):
                return
            self.drain()
        self._judged[row] = limit, self._time_below(row)

    def _time_below(self, row: Any) -> int | None:
        """Returns the time of the row that a put is about to replace, if the put forgets it; else ``None``."""
        return None

    def _below(self, key: Any) -> Any:
        entry = self.clean.get(key) or self.read_through(key)
        if entry is None or entry[0] is None:
            return None
        limit, time = self._judged.get(key) or (self.expiry.limit(), None)
        if self.lifetime.is_over(self._clean_time(key, entry) if time is None else time, limit):
            return None
        return entry[0]

    def _clean_time(self, row: Any, entry: Entry) -> int:
        """Returns the time of a row that is below a dirty one."""
        return self.expiry.time_of(row, entry)

    def _old_values(self, rows: dict[Any, Entry], deleted: list[Any]) -> Iterable[Any]:
        """Returns the old values; deletions of rows that no receiver knows are forwarded as well.

        A row that has expired looks like one that was never there, and its receivers may still have it.
        """
        return super()._old_values(rows, [])

    # ------------------------------------------------------------------ commits

    def tidy(self) -> None:
        """Part of each drain, behind the rows that were put: deletes some of what has expired, once per commit."""
        at = self.lifetime.deleted_at
        limit = at - self.lifetime.length
        if self._swept or limit < self._sweeps_from:
            return
        self._swept = True
        if self._sweep_at is None:
            if at - self._sweep_began < max(self.lifetime.length // 2, 1):
                return
            self._sweep_at = b""
        if not self._sweep_at:
            self._sweep_began = at
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
        """The smallest limit of expiry at which a sweep has anything to do."""
        return 0

    def _date(self, raw_key: bytes, row: bytes) -> None:
        """Gives a time to a row that was found without one."""

    def _remove(self, raw_key: bytes) -> None:
        key = self.format.keys.row_key_of(raw_key)
        if key not in self.dirty and key not in self.drained:
            self._put_drained(key, raw_key, None, None, self.lifetime.now())

    def _put_drained(self, key: Any, raw_key: bytes, value: Any, data: bytes | None, timestamp: int) -> None:
        """Logs a row at once, for the engine to have with the commit; nothing is forwarded."""
        if self.logging.log is not None:
            self.logging.log(raw_key, data, timestamp)
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

    def __init__(self, shared: SharedRows, *, lifetime: Lifetime, **settings: Any) -> None:
        super().__init__(shared, expiry=RecordTimeRule(shared.format, lifetime, lifetime.limit), **settings)

    def around_put(self, put: Put) -> Put:
        now, row_key = self.lifetime.now, row_key_maker(self.format)

        def put_timed(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
            if self.cached and self.wants_old:
                self._judge(row_key(key))
            # -1 would make it a row of before, which counts from the first commit and may have expired.
            put(key, value, timestamp if timestamp >= 0 else now(), headers)

        return put_timed


class ByAccess(ExpiringRows):
    """Rows expire by when they were last put, or read with `get` while a record or a punctuation is processed.

    A clean entry that the engine has is (value, timestamp, time of access). Of every other row, be it dirty or drained,
    the time is in the `times` of the accesses. A read only notes its time, in `refreshed`, or in `_stale` where the row
    waits for the commit; a drain logs these rows again, each once.
    """

    def __init__(self, shared: SharedRows, *, lifetime: Lifetime, accesses: Accesses, **settings: Any) -> None:
        super().__init__(shared, expiry=AccessRule(shared.format, lifetime, lifetime.limit, accesses), **settings)
        self._accesses = accesses
        self._times = accesses.times
        self._stale: set[Any] = set()
        """Rows that were read after they were logged, and wait for the commit."""
        self._refreshed_bytes = 0

    # ------------------------------------------------------------------ get and put

    @property
    def read_through(self) -> Callable[[Any], Entry | None]:
        return checked_read(self._read_with_access, self.budget)

    def _read_with_access(self, key: Any) -> Entry | None:
        row = self.family.get(self.format.keys.bytes_of(key))
        if row is None:
            return None
        entry = self.clean[key] = *self.format.entry_of(row), time_of_row(row)[0]
        budget = self.budget
        budget.clean += self.format.cost(key, entry[0])
        if budget.clean + budget.dirty > budget.cache_limit:
            self.make_room(key)
        return entry

    def around_get(self, get: Get) -> Get:
        row_key, times, clean, read_through = row_key_maker(self.format), self._times, self.clean, self.read_through
        time_of = self.expiry.time_of
        cursor, now, length, is_over = self.cursor, self.lifetime.now, self.lifetime.length, self.lifetime.is_over

        def get_alive(key: Any) -> Entry | None:
            found = get(key)
            if found is None:
                return None
            row = row_key(key)
            time, current = times.get(row), now()
            waits = time is not None
            if time is None:
                entry = clean.get(row) or read_through(row)
                time = current if entry is None else time_of(row, entry)
            if time == current:
                return found
            if is_over(time, current - length):
                return None
            # Otherwise neither a record nor a punctuation is processed, and a read does not count as access.
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
        if row not in self._accesses.refreshed:
            size = len(row) + REFRESH_BYTES
            self._refreshed_bytes += size
            self.budget.uncommitted += size
        self._accesses.refreshed[row] = now

    def around_put(self, put: Put) -> Put:
        row_key, times, now = row_key_maker(self.format), self._times, self.lifetime.now

        def put_timed(key: Any, value: Any, timestamp: int, headers: HeaderList | None = None) -> None:
            row = row_key(key)
            if self.cached and self.wants_old:
                self._judge(row)
            known = times.get(row)
            # Before the put, which may log the row with its time.
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

    # ------------------------------------------------------------------ commits

    def _time_below(self, row: Any) -> int | None:
        """Returns the time of a row that waits for the commit."""
        return self._times.get(row)

    def _clean_time(self, row: Any, entry: Entry) -> int:
        """Returns the time of a row below a dirty one; `_times` has that of the dirty row."""
        time = self._accesses.refreshed.get(row)
        return entry[2] if time is None else time

    def tidy(self) -> None:
        if self._accesses.refreshed or self._stale:
            self._log_reads()
        super().tidy()

    def _log_reads(self) -> None:
        accesses, read = self._accesses, self._accesses.refreshed
        accesses.refreshed = dict(read)
        for key, time in read.items():
            if key not in self._times:
                self._times[key] = time
                self._log_again(key)
            size = len(key) + REFRESH_BYTES
            self._refreshed_bytes -= size
            self.budget.uncommitted -= size
            # Last: readers look here, then in `times`, then in the engine.
            del accesses.refreshed[key]
        for key in list(self._stale):
            if key not in self.dirty:
                self._log_again(key)
            self._stale.discard(key)

    def _log_again(self, key: Any) -> None:
        entry = self.clean.get(key) or self.read_through(key)
        if entry is None or entry[0] is None:
            return
        self._put_drained(key, self.format.keys.bytes_of(key), entry[0], self.format.values.write(entry[0]), entry[1])

    @property
    def _sweeps_from(self) -> int:
        return -self.lifetime.length

    def _date(self, raw_key: bytes, row: bytes) -> None:
        """Logs a row with the time from which it counts; without that, it would live longer with each restore.

        A row without a timestamp stays as it is, since a timestamp must not be invented.
        """
        key, (value, timestamp) = self.format.keys.row_key_of(raw_key), self.format.entry_of(row)
        if timestamp < 0 or key in self.dirty or key in self.drained:
            return
        self._times[key] = self.lifetime.unknown_time
        self._put_drained(key, raw_key, value, self.format.values.write(value), timestamp)

    def apply(self, batch: Batch) -> None:
        times = self._times
        rows = (
            (raw_key, None if data is None else pack_access(times[key]) + data, timestamp)
            for key, (raw_key, data, timestamp) in self.drained.items()
        )
        self.format.codec.fill(batch, self.family.handle, rows)

    def applied(self) -> None:
        clean, times = self.clean, self._times
        # Before `drained` is cleared, at the end: a row that is in the engine has its time in its entry.
        for key in self.drained:
            time, entry = times.pop(key, -1), clean.get(key)
            if entry is not None and entry[0] is not None:
                clean[key] = entry[0], entry[1], time
        self._accesses.refreshed = self._accesses.refreshed.copy()
        super().applied()

    def close(self) -> None:
        super().close()
        self._times.clear()
        self._accesses.refreshed = {}
        self._stale.clear()
        self.budget.uncommitted -= self._refreshed_bytes
        self._refreshed_bytes = 0
