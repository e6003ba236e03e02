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
from dataclasses import dataclass, replace
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
    :param drop_early: drops a put as soon as it would not be shown. Else it is dropped when its segment is gone, as
        Java's persistent stores do; it makes a difference for what is counted as dropped.
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
                f"store {builder.name!r}: the supplier of a {builder.kind} store has no retention_ms; make it with a"
                " method of Stores",
                store=builder.name,
            )
        interval, until_deleted = parameters.get("segment_interval_ms"), bool(parameters.get("until_deleted"))
        drop_early = parameters.get("drop_early", not persistent)
        if interval is None:
            half, third = max(retention // 2, LEAST_PERSISTENT_INTERVAL_MS), max(retention // MEMORY_SEGMENTS, 1)
            interval = third if drop_early and not until_deleted else half
        return Retention(retention, interval, drop_early, shows_limit, until_deleted)


def sent_name(store: str) -> str:
    """Returns the name by which a commit keeps how many of a store's final results are sent on, while some are left."""
    return f"{store}/sent"


def keeping_all(builder: StoreBuilder[Any, Any], *, persistent: bool) -> StoreBuilder[Any, Any]:
    """Returns the same store, of which no row expires; the segments of its rows are the same."""
    interval = Retention.of(builder, persistent=persistent).interval_ms
    parameters = {**builder.supplier.parameters, "retention_ms": MAX_TIME, "segment_interval_ms": interval}
    return replace(builder, supplier=replace(builder.supplier, parameters=parameters))


def stored_time(family: Family) -> int | None:
    """Returns the stream time of a store as its last commit wrote it; ``None`` if nothing was written."""
    facts = family.get(FACTS_KEY)
    if facts is None or len(facts) != FACTS.size:
        return None
    time: int = FACTS.unpack(facts)[0]
    return time


class SegmentTimes:
    """The stream time and the segments of a store, for reads: as of one moment, or as the base of a task's own."""

    def __init__(self, retention: Retention, interval: int) -> None:
        self.retention = retention
        self.interval = interval
        self.stream_time = NO_TIMESTAMP
        """The largest time put. In a cache a put counts at once, and no longer if the cache neither logs nor forwards
        it (:meth:`Segments.count_logged`)."""
        self.live_from = 0
        """The smallest time that is shown."""
        self.sequence = 0
        """The last number given to a put of a store that keeps duplicates."""
        self._ids: list[int] = []
        """Segments that may have rows, in order. Replaced, never changed: other threads may have the list."""

    @classmethod
    def frozen(cls, retention: Retention, interval: int, facts: tuple[int, list[int]]) -> SegmentTimes:
        """Returns the times of the moment when :meth:`atomic_reads` gave ``facts``.

        Values that depend on the stream time are computed, since the time may have been moving at that moment.
        """
        found = cls(retention, interval)
        found.stream_time, found._ids = facts
        found.live_from = retention.live_from(found.stream_time)
        return found

    def atomic_reads(self) -> list[Callable[[], Any]]:
        """Returns atomic reads whose results :meth:`frozen` takes."""
        return [partial(attrgetter("stream_time", "_ids"), self)]

    def observe(self, time: int) -> None:
        """Time has come to ``time``, which is later than all before."""
        self.stream_time = time
        self.live_from = self.retention.live_from(time)

    def hold(self, id_: int) -> None:
        """A row was put into a segment."""
        if id_ not in self._ids:
            self._ids = sorted([*self._ids, id_])

    def between(self, low: int, high: int, *, reverse: bool) -> list[int]:
        """Returns the segments that may have rows from time ``low`` to ``high``, in the order in which they are
        read."""
        first, last = low // self.interval, high // self.interval
        found = [id_ for id_ in self._ids if first <= id_ <= last]
        return found[::-1] if reverse else found


class Segments(SegmentTimes):
    """The segments of one store, as of its last commit when they are opened. Part of each commit.

    :param count_drop: counts a record that was dropped.
    :raises StateError: if the engine's row about it is damaged.
    """

    def __init__(self, store: str, family: Family, retention: Retention, count_drop: Callable[[], None]) -> None:
        super().__init__(retention, retention.interval_ms)
        self._store = store
        self._family = family
        self._count_drop = count_drop
        self._logged_time = NO_TIMESTAMP
        """The largest time on the changelog, which a restore will find."""
        self._last_value = 0
        """The sequence number of the last put of a value."""
        self.dropped_before = 0
        """The smallest time that is put."""
        self._least = 0
        self._next_sweep = 0
        """The stream time at which another segment will have expired."""
        self._drop_early = retention.drop_early
        self._shown_ms = retention.shown_ms
        self._changed = self._sweep = False
        self._drops = 0
        self.needed_from: int | None = None
        """The smallest time whose rows are kept though they have expired: their results are not sent on yet."""
        self._ids = self._find()
        self.known = set(self._ids)
        """The segments that may have rows."""
        facts = family.get(FACTS_KEY)
        if facts is not None:
            self._read(facts)
        self.stored_until = MAX_TIME if self.known and self.stream_time < 0 else self.stream_time
        """The engine has no rows of later times."""

    def _read(self, facts: bytes) -> None:
        """Reads the store's own row; the interval stays that of the rows, also if the retention has changed since."""
        if len(facts) != FACTS.size:
            raise StateError(
                f"store {self._store!r} is damaged: its row about stream time has {len(facts)} bytes, not {FACTS.size};"
                f" {rebuild_store(self._store)}",
                store=self._store,
            )
        stream_time, self.interval, self.sequence = FACTS.unpack(facts)
        self._last_value = self.sequence
        if stream_time >= 0:
            self._logged_time = stream_time
            self.observe(stream_time)
            self._changed = self._sweep = False

    def _find(self) -> list[int]:
        found: list[int] = []
        low = 0
        while low <= MAX_TIME and (row := next(self._family.range(SEGMENT.pack(low), FACTS_KEY), None)) is not None:
            found.append(SEGMENT.unpack_from(row[0])[0])
            low = found[-1] + 1
        return found

    # ------------------------------------------------------------------ puts

    def observe(self, time: int) -> None:
        """Time has come to ``time``, which is later than all before."""
        self.stream_time = time
        self._changed = True
        if self._shown_ms is None:
            self.live_from = self.retention.live_from(time)
        else:
            live = time - self._shown_ms
            self.live_from = live if live > 0 else 0
        if time >= self._next_sweep:
            self._let_go(time)
        if self._drop_early:
            self.dropped_before = self.live_from

    def keep_from(self, time: int) -> None:
        """Keeps rows of this time and later, also those that have expired, until :meth:`keep_no_more`."""
        self.needed_from = time
        self._least = min(self._least, time // self.interval)
        self._ids = [id_ for id_ in self._find() if id_ >= self._least]
        self._ids = sorted({*self._ids, *self.known})
        self.known = set(self._ids)
        self._dropped_from()

    def keep_no_more(self) -> None:
        """Has what has expired meanwhile deleted."""
        self.needed_from = None
        self._let_go(self.stream_time)

    def _least_at(self, time: int) -> int:
        least = (time - self.retention.at_least_ms) // self.interval
        return least if self.needed_from is None else min(least, self.needed_from // self.interval)

    def _let_go(self, time: int) -> None:
        """Notes which segments have expired."""
        least = self._least_at(time)
        if least > self._least:
            self._least, self._sweep = least, True
            if self._ids and self._ids[0] < least:
                self._ids = [id_ for id_ in self._ids if id_ >= least]
                self.known = set(self._ids)
        self._dropped_from()

    def _dropped_from(self) -> None:
        self.dropped_before = self.live_from if self._drop_early else self._least * self.interval
        self._next_sweep = (self._least + 1) * self.interval + self.retention.at_least_ms

    def reach(self, time: int) -> None:
        """Notes that a row of this time was logged."""
        if time > self._logged_time:
            self._logged_time = time

    def count_logged(self, rows: Iterable[bytes]) -> None:
        """Sets the time to that of the logged rows, after a cache was drained.

        A row that was put and deleted again before the drain is neither logged nor forwarded, and does not count.

        :param rows: keys of the rows that were logged and wait for the commit.
        """
        time, retention = self._logged_time, self.retention
        if time == self.stream_time:
            return
        self._least = least = max(self._least_at(time), 0)
        found = {*self._find(), *(SEGMENT.unpack_from(row)[0] for row in rows)}
        self._ids = sorted(id_ for id_ in found if id_ >= least)
        self.known = set(self._ids)
        self._sweep = self._least > 0
        self.live_from = retention.live_from(time)
        self._dropped_from()
        self.stream_time = time
        self._changed = True

    def hold(self, id_: int) -> None:
        """A row was put into a segment."""
        if id_ in self.known:
            return
        if id_ < self._least:
            self._sweep = True  # a late row that a cache held back: it was forwarded, it is not kept
            return
        self.known.add(id_)
        ids = self._ids.copy()  # other threads may have the list
        insort(ids, id_)
        self._ids = ids

    def drop(self, time: int) -> None:
        """Counts a late put; warns at the first, the second, the fourth and so on."""
        self._count_drop()
        self._drops += 1
        if self._drops & (self._drops - 1) == 0:
            log.warning(
                "late records are dropped: their windows have expired",
                extra={"store": self._store, "time": time, "stream_time": self.stream_time, "dropped": self._drops},
            )

    def peek_sequence(self) -> int:
        """Returns the sequence number of the next put."""
        return self.sequence + 1 & LARGEST_SEQUENCE

    def take_sequence(self, sequence: int, *, value: bool) -> None:
        """Notes that a put has used a number; that of a null is not kept for the next opening, since it has no row."""
        self.sequence = sequence
        if value:
            self._last_value = sequence
            self._changed = True

    # ---------------------------------------------------------- other threads

    def committed(self, family: Family) -> Segments:
        """Returns them as a snapshot of their family has them."""
        return Segments(self._store, family, self.retention, self._count_drop)

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
        return self._changed or self._sweep

    @property
    def expired_rows_end(self) -> bytes | None:
        """The end of the rows that this commit deletes; ``None`` if it deletes none."""
        return SEGMENT.pack(self._least) if self._sweep else None

    def apply(self, batch: Batch) -> None:
        handle, older = self._family.handle, older_handles(self._family)
        if self._sweep:
            for swept in (handle, *older):
                batch.delete_range(SEGMENT.pack(0), SEGMENT.pack(self._least), swept)
        if self._changed:
            for left in older:
                batch.delete(FACTS_KEY, left)
            batch.put(FACTS_KEY, FACTS.pack(self.stream_time, self.interval, self._last_value), handle)

    def applied(self) -> None:
        self._changed = self._sweep = False
        if self.stream_time > self.stored_until:
            self.stored_until = self.stream_time

    def close(self) -> None:
        """Does nothing: there is nothing to release."""
