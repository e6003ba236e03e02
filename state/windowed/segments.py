"""The times of a store of windows or sessions: its stream time, and from when on rows are shown, taken and kept.

The rows of a span of time, a segment, start with the segment's number, so that they are deleted as one range once all
of them have expired (docs/decisions/stores.md, "Segments of windows are a prefix of the key"). The store's observed
stream time is the largest time put into it (Java's stores start again at -1 after a restart; here it is a row, written
with the others).
"""

from __future__ import annotations

import logging
import struct
from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

from processor_api.errors import StateError, TopologyError
from processor_api.record import NO_TIMESTAMP
from processor_api.stores.builder import StoreBuilder
from state.engine.port import Batch, Family
from state.engine.repair_hints import rebuild_store
from state.formats.keys import MAX_TIME
from state.row_format.migration import older_handles

log = logging.getLogger("streams.state")

SEGMENT = struct.Struct(">q")
"""The number of a segment, in front of its rows: the times in it divided by the segment interval."""
FACTS_KEY = b"\xfffacts"
"""Behind all segments, whose numbers are never negative."""
FACTS = struct.Struct(">qqi")
"""Observed stream time, segment interval, last sequence number of a value (frozen on disk)."""
LEAST_PERSISTENT_INTERVAL_MS = 60_000
MEMORY_SEGMENTS = 3
LARGEST_SEQUENCE = 0x7FFFFFFF


@dataclass(frozen=True)
class Retention:
    """The retention of a store's rows.

    :param at_least_ms: rows are shown while they are less than this behind the observed stream time.
    :param interval_ms: the length of a segment.
    :param drop_early: drops a put as soon as it would not be shown. Otherwise it is dropped when its segment is gone,
        as Java's persistent stores do; it makes a difference for what is counted as dropped.
    :param shows_limit: shows rows that are as far behind as ``at_least_ms``, as Java's time-ordered window stores do.
    :param until_deleted: shows rows until their segment is deleted, as the caches of windowed tables do.
    """

    at_least_ms: int
    interval_ms: int
    drop_early: bool
    shows_limit: bool = False
    until_deleted: bool = False

    @property
    def shown_ms(self) -> int | None:
        """Rows are shown while they are at most this many ms behind; ``None`` if that depends on their segment."""
        if self.until_deleted:
            return None
        return self.at_least_ms if self.shows_limit else self.at_least_ms - 1

    def live_from(self, stream_time: int) -> int:
        """The smallest time that is shown."""
        shown = self.shown_ms
        if shown is None:
            return max((stream_time - self.at_least_ms) // self.interval_ms * self.interval_ms, 0)
        return max(stream_time - shown, 0)

    @staticmethod
    def of(builder: StoreBuilder[Any, Any], *, persistent: bool, shows_limit: bool = False) -> Retention:
        """Returns what the supplier says, on an engine that is persistent or not.

        Without an interval Java's rule holds for persistent stores: half of the retention, at least a minute. The
        segments of a store in memory cannot be seen from outside, so they are smaller and free memory sooner.
        """
        parameters: Mapping[str, Any] = builder.supplier.parameters
        retention = parameters.get("retention_ms")
        if retention is None:
            raise TopologyError(
                f"store {builder.name!r}: the supplier of a {builder.kind} store does not have retention_ms: create it"
                " with a method of Stores",
                store=builder.name,
            )
        interval, until_deleted = parameters.get("segment_interval_ms"), bool(parameters.get("until_deleted"))
        drop_early = parameters.get("drop_early", not persistent)
        if interval is None:
            half, third = max(retention // 2, LEAST_PERSISTENT_INTERVAL_MS), max(retention // MEMORY_SEGMENTS, 1)
            interval = third if drop_early and not until_deleted else half
        return Retention(retention, interval, drop_early, shows_limit, until_deleted)


def time_name(store: str | None, part: str = "") -> str:
    """Returns the name by which a commit keeps the stream time of an operator, which goes with its store.

    :param part: tells apart the operators that have one store.
    """
    return f"{store}/stream-time{part}"


def sent_name(store: str) -> str:
    """Returns the name by which a commit keeps how many of a store's final results are sent on, while some are left."""
    return f"{store}/sent"


def stored_time(family: Family) -> int | None:
    """Returns the stream time of a store as its last commit wrote it; ``None`` if nothing was written."""
    facts = family.get(FACTS_KEY)
    # A damaged row is reported by the opening of the store, which reads it as well.
    if facts is None or len(facts) != FACTS.size:
        return None
    time: int = FACTS.unpack(facts)[0]
    return time


class HeldSegments:
    """The numbers of the segments that may have rows."""

    __slots__ = ("ids", "known")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self.ids: list[int] = []
        """The numbers in order. Replaced, never changed: other threads may have the list."""
        self.known: set[int] = set()
        """The same, for the look-up of each put. Changed, never replaced: functions on the hot path hold it."""
        self.replace(ids)

    @classmethod
    def in_family(cls, family: Family) -> HeldSegments:
        """Returns those of which the engine has rows: one look for each, not one for each row."""
        found: list[int] = []
        low = 0
        while low <= MAX_TIME and (row := next(family.range(SEGMENT.pack(low), FACTS_KEY), None)) is not None:
            found.append(SEGMENT.unpack_from(row[0])[0])
            low = found[-1] + 1
        return cls(found)

    def replace(self, ids: Iterable[int]) -> None:
        """Holds these and no others."""
        self.ids = sorted(ids)
        self.known.clear()
        self.known.update(self.ids)

    def add(self, id_: int) -> None:
        if id_ not in self.known:
            self.known.add(id_)
            ids = self.ids.copy()
            insort(ids, id_)
            self.ids = ids


class SegmentTimes:
    """The stream time and the segments of a store, for reads: as of one moment, or as the base of a task's own.

    Values that depend on the stream time are computed, since the time may be moving while another thread reads it.
    """

    def __init__(
        self, retention: Retention, interval: int, held: HeldSegments, stream_time: int = NO_TIMESTAMP
    ) -> None:
        self.retention = retention
        self.interval = interval
        self.held = held
        self.stream_time = stream_time
        """The largest time put. In a cache a put counts at once, and no longer if the cache neither logs nor forwards
        it (:meth:`Segments.count_logged`)."""
        self.live_from = retention.live_from(stream_time)
        """The smallest time that is shown."""
        self._shown_ms = retention.shown_ms  # a property, which `observe` would work out for each record

    def observe(self, time: int) -> None:
        """Time has come to ``time``, which is later than all before."""
        self.stream_time = time
        self.live_from = self.retention.live_from(time)

    def hold(self, id_: int) -> None:
        """A row was put into a segment."""
        self.held.add(id_)

    def between(self, low: int, high: int, *, reverse: bool) -> list[int]:
        """Returns the segments that may have rows from time ``low`` to ``high``, in the order in which they are
        read."""
        first, last = low // self.interval, high // self.interval
        found = [id_ for id_ in self.held.ids if first <= id_ <= last]
        return found[::-1] if reverse else found

    def spans(self, low: int, high: int, *, reverse: bool) -> list[tuple[int, int, int]]:
        """Returns the segments of :meth:`between`, each with the first and the last time to read in it."""
        length = self.interval
        return [
            (id_, max(low, id_ * length), min(high, (id_ + 1) * length - 1))
            for id_ in self.between(low, high, reverse=reverse)
        ]


class PutSequence:
    """The numbers of the puts of a store that keeps duplicates, which tell them apart."""

    __slots__ = ("last", "last_value")

    def __init__(self, last: int) -> None:
        self.last = last
        self.last_value = last
        """The number of the last put of a value. A null has no row, so its number is not kept for the next opening."""

    def next(self) -> int:
        """Returns the number of the next put, which must be taken."""
        return self.last + 1 & LARGEST_SEQUENCE

    def take(self, number: int, *, value: bool) -> None:
        """Notes that a put has used a number."""
        self.last = number
        if value:
            self.last_value = number


class LateDrops:
    """The puts of a store that came too late.

    :param count: counts a record that was dropped this many ms too late.
    """

    def __init__(self, store: str, count: Callable[[int], None]) -> None:
        self._store, self._count = store, count
        self._number = 0

    def note(self, time: int, stream_time: int, live_from: int) -> None:
        """Counts one; warns at the first, the second, the fourth and so on."""
        self._count(live_from - time)
        self._number += 1
        if self._number & (self._number - 1) == 0:
            log.warning(
                "late records are dropped: their windows have expired",
                extra={"store": self._store, "time": time, "stream_time": stream_time, "dropped": self._number},
            )


class SegmentExpiry:
    """The segments of a store that have expired, and when the next one will have.

    :param interval: the length of a segment in ms.
    """

    __slots__ = ("_at_least", "_interval", "committed", "least", "needed_from", "next_sweep", "sweeps")

    def __init__(self, retention: Retention, interval: int) -> None:
        self._at_least = retention.at_least_ms
        self._interval = interval
        self.least = 0
        """The first segment that is kept."""
        self.next_sweep = 0
        """The stream time at which another segment will have expired."""
        self.needed_from: int | None = None
        """The smallest time whose rows are kept though they have expired: their results are not sent on yet."""
        self.sweeps = False
        """Whether there are segments to delete."""
        self.committed: int | None = None
        """The first segment that was kept when the last commit was over; ``None`` if that does not matter."""

    @property
    def kept_from(self) -> int:
        """The smallest time in the segments that are kept."""
        return self.least * self._interval

    @property
    def deleted_before(self) -> int:
        """The first segment that the next commit does not delete; 0 if it deletes none."""
        if not self.sweeps:
            return 0
        return self.least if self.committed is None else min(self.least, self.committed)

    def least_at(self, time: int) -> int:
        """Returns the first segment that is kept at a stream time."""
        least = (time - self._at_least) // self._interval
        return least if self.needed_from is None else min(least, self.needed_from // self._interval)

    def advance(self, time: int) -> bool:
        """Time has come to ``time``; returns whether segments have expired by it."""
        least = self.least_at(time)
        expired = least > self.least
        self.begin_at(max(least, self.least))
        self.sweeps = self.sweeps or expired
        return expired

    def begin_at(self, least: int) -> None:
        """Keeps this segment and those behind it."""
        self.least = least
        self.next_sweep = (least + 1) * self._interval + self._at_least

    def keep_from(self, time: int) -> None:
        """Keeps rows of this time and later until `needed_from` is ``None``."""
        self.needed_from = time
        self.begin_at(min(self.least, time // self._interval))


class Segments(SegmentTimes):
    """The segments of one store, as of its last commit when they are opened. Part of each commit.

    :param count_drop: counts a record that was dropped this many ms too late.
    :raises StateError: if the engine's row about it is damaged.
    """

    def __init__(self, store: str, family: Family, retention: Retention, count_drop: Callable[[int], None]) -> None:
        stream_time, interval, sequence = stored_facts(store, family) or (NO_TIMESTAMP, retention.interval_ms, 0)
        super().__init__(retention, interval, HeldSegments.in_family(family))
        self._store = store
        self._family = family
        self._drops = LateDrops(store, count_drop)
        self._expiry = SegmentExpiry(retention, interval)
        self._live_until = NO_TIMESTAMP
        """The stream time from which on `live_from` is another one, where rows are shown by their segments."""
        self._logged_time = NO_TIMESTAMP
        """The largest time on the changelog, which a restore will find."""
        self.dropped_before = 0
        """The smallest time that is put."""
        self.numbers = PutSequence(sequence)
        if stream_time >= 0:
            self._logged_time = stream_time
            self.observe(stream_time)
            # What had expired was deleted by the commit that wrote this time.
            self._expiry.sweeps = False
        self._written = stream_time, interval, sequence
        """The facts that the engine has; its time is later than `stream_time` after :meth:`go_back`."""
        # Rows without facts may be of any time.
        self.stored_until = MAX_TIME if self.held.known and stream_time < 0 else stream_time
        """The engine has no rows of later times."""

    @property
    def _facts(self) -> tuple[int, int, int]:
        # After `go_back` the engine still has the rows of later times, so its time does not go back.
        return max(self.stream_time, self._written[0]), self.interval, self.numbers.last_value

    # ------------------------------------------------------------------ puts

    def observe(self, time: int) -> None:
        """Time has come to ``time``, which is later than all before."""
        self.stream_time = time
        # The rule of `Retention.live_from` without its call: in order of time, each record comes here.
        if self._shown_ms is None:
            if time >= self._live_until:
                self._live_at(time)
        else:
            live = time - self._shown_ms
            self.live_from = live if live > 0 else 0
        if time >= self._expiry.next_sweep:
            self._let_go(time)
        if self.retention.drop_early:
            self.dropped_before = self.live_from

    def _live_at(self, time: int) -> None:
        """Sets from which time on rows are shown, and until when that stays so if it depends on their segment."""
        at_least, interval = self.retention.at_least_ms, self.retention.interval_ms
        self.live_from = self.retention.live_from(time)
        self._live_until = ((time - at_least) // interval + 1) * interval + at_least

    def go_back(self, time: int) -> None:
        """Has it be an earlier time again, if the store is behind it: the records from then on are processed again.

        The rows of later times stay. Those that have expired since then are there again: from now on, rows are deleted
        by the commit behind the one with which they have expired, since that one may not come to its end.
        """
        if time < self.stream_time:
            self._logged_time = time
            self._set_back(())
        self._expiry.committed = self._expiry.least

    def commit_ended(self) -> None:
        """Has the next commit delete what has expired by now; after :meth:`go_back` nothing else is deleted."""
        if self._expiry.committed is not None:
            self._expiry.committed = self._expiry.least

    @property
    def needed_from(self) -> int | None:
        """The smallest time whose rows are kept though they have expired."""
        return self._expiry.needed_from

    @property
    def logged_from(self) -> int:
        """The stream time by which rows may leave the changelog."""
        needed = self.needed_from
        return self.stream_time if needed is None else min(needed, self.stream_time)

    def keep_from(self, time: int) -> None:
        """Keeps rows of this time and later, also those that have expired, until :meth:`keep_no_more`."""
        self._expiry.keep_from(time)
        # Segments that have expired, and are not deleted yet, are read again.
        self._hold_stored(self.held.known)
        self._dropped_from()

    def keep_no_more(self) -> None:
        """Has what has expired meanwhile deleted."""
        self._expiry.needed_from = None
        self._let_go(self.stream_time)

    def _hold_stored(self, others: Iterable[int]) -> None:
        """Holds the segments of the engine and others, as far as they are kept."""
        found = {*HeldSegments.in_family(self._family).ids, *others}
        self.held.replace(id_ for id_ in found if id_ >= self._expiry.least)

    def _let_go(self, time: int) -> None:
        """Notes which segments have expired."""
        if self._expiry.advance(time):
            least, ids = self._expiry.least, self.held.ids
            if ids and ids[0] < least:
                self.held.replace(id_ for id_ in ids if id_ >= least)
        self._dropped_from()

    def _dropped_from(self) -> None:
        if self.retention.drop_early:
            needed = self._expiry.needed_from
            self.dropped_before = self.live_from if needed is None else min(self.live_from, needed)
        else:
            self.dropped_before = self._expiry.kept_from

    def reach(self, time: int) -> None:
        """Notes that a row of this time was logged."""
        if time > self._logged_time:
            self._logged_time = time

    def count_logged(self, rows: Iterable[bytes]) -> None:
        """Sets the time to that of the logged rows, after a cache was drained.

        A row that was put and deleted again before the drain is neither logged nor forwarded, and does not count.

        :param rows: keys of the rows that were logged and wait for the commit.
        """
        if self._logged_time != self.stream_time:
            # The time may go back: a restore finds what was logged (docs/decisions/stores.md, "Only logged changes
            # advance the time of a window store").
            self._set_back(rows)

    def _set_back(self, rows: Iterable[bytes]) -> None:
        time, expiry = self._logged_time, self._expiry
        expiry.begin_at(max(expiry.least_at(time), 0))
        expiry.sweeps = expiry.least > 0
        self._hold_stored(SEGMENT.unpack_from(row)[0] for row in rows)
        self._live_at(time)
        self._dropped_from()
        self.stream_time = time

    def hold(self, id_: int) -> None:
        """A row was put into a segment."""
        if id_ < self._expiry.least:
            self._expiry.sweeps = True  # a late row that a cache held back: it was forwarded, it is not kept
        else:
            self.held.add(id_)

    def drop(self, time: int) -> None:
        """Counts a late put."""
        self._drops.note(time, self.stream_time, self.dropped_before)

    # ---------------------------------------------------------- other threads

    def atomic_read(self) -> Callable[[], Any]:
        """Returns an atomic read whose result :meth:`at` takes."""
        return partial(attrgetter("stream_time", "held.ids"), self)

    def at(self, facts: tuple[int, list[int]]) -> SegmentTimes:
        """Returns the times of the moment when :meth:`atomic_read` gave ``facts``."""
        stream_time, ids = facts
        return SegmentTimes(self.retention, self.interval, HeldSegments(ids), stream_time)

    def committed(self, family: Family) -> SegmentTimes:
        """Returns the times as a snapshot of their family has them."""
        stream_time, interval, _ = stored_facts(self._store, family) or (NO_TIMESTAMP, self.retention.interval_ms, 0)
        return SegmentTimes(self.retention, interval, HeldSegments.in_family(family), stream_time)

    def committed_facts(self, family: Family) -> tuple[int, int]:
        """Returns, as of the last commit, the smallest time that is shown and the last sequence number."""
        facts = family.get(FACTS_KEY)
        if facts is None:
            return 0, 0
        stream_time, _, sequence = FACTS.unpack(facts)
        return self.retention.live_from(stream_time), sequence

    # ---------------------------------------------------------------- commits

    @property
    def pending(self) -> bool:
        return self._expiry.sweeps or self._facts != self._written

    @property
    def expired_rows_end(self) -> bytes | None:
        """The end of the rows that this commit deletes; ``None`` if it deletes none."""
        before = self._expiry.deleted_before
        return SEGMENT.pack(before) if before else None

    def apply(self, batch: Batch) -> None:
        handle, older = self._family.handle, older_handles(self._family)
        end, facts = self.expired_rows_end, self._facts
        if end is not None:
            for swept in (handle, *older):
                batch.delete_range(SEGMENT.pack(0), end, swept)
        if facts != self._written:
            # A row that is written to the family of this format leaves that of an older one.
            for left in older:
                batch.delete(FACTS_KEY, left)
            batch.put(FACTS_KEY, FACTS.pack(*facts), handle)

    def applied(self) -> None:
        # After `go_back` a commit deletes less than what has expired: the rest is left to the next one.
        self._expiry.sweeps = self._expiry.deleted_before < self._expiry.least and self._expiry.sweeps
        self._written = self._facts
        if self.stream_time > self.stored_until:
            self.stored_until = self.stream_time

    def close(self) -> None:
        """Does nothing: there is nothing to release."""


def stored_facts(store: str, family: Family) -> tuple[int, int, int] | None:
    """Returns the stream time, the interval and the last sequence number as the last commit wrote them; ``None`` if
    nothing was written. The interval stays that of the rows, also if the retention has changed since.

    :raises StateError: if the row is damaged.
    """
    row = family.get(FACTS_KEY)
    if row is None:
        return None
    if len(row) != FACTS.size:
        raise StateError(
            f"store {store!r} is damaged: its row about stream time has {len(row)} bytes, not {FACTS.size};"
            f" {rebuild_store(store)}",
            store=store,
        )
    facts: tuple[int, int, int] = FACTS.unpack(row)
    return facts
