"""The versions of a store's keys (KIP-889), as bytes: the latest of each key, and older ones for a time.

The latest versions are rows of one family, under their keys; all others are rows of another
(:mod:`state.versioned.history`). What a put does to them is what Kafka Streams' store does (semantics 129), with the
same results. One thing differs: a deletion at the same time as the latest version leaves a row here. Java forgets it,
and may then take an older put for the latest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import chain
from operator import itemgetter
from typing import Any

from processor_api.stores.contracts import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED
from state.versioned.history import HistoryReads, VersionHistory
from state.write_buffer.buffer import Rows
from state.write_buffer.fast_path import make_put
from state.write_buffer.row_reader import RowReader

log = logging.getLogger("streams.state.versioned")

Found = tuple[bytes, int, int | None]
"""Value, start of the validity in ms and its end; ``None`` for a version that is the latest."""


class LateWarnings:
    """Warns of puts and reads that come too late: the first time, and whenever their number has doubled."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._puts = self._reads = 0

    def put(self, timestamp: int, oldest: int) -> None:
        """Warns of a put that is dropped."""
        self._puts += 1
        if not self._puts & (self._puts - 1):
            place = self._place(timestamp, oldest, self._puts)
            log.warning("a put is older than the history that is kept: it is dropped", extra=place)

    def read(self, timestamp: int, oldest: int) -> None:
        """Warns of a read that finds nothing."""
        self._reads += 1
        if not self._reads & (self._reads - 1):
            place = self._place(timestamp, oldest, self._reads)
            log.warning("a read is as of a time before the history that is kept: older versions are gone", extra=place)

    def _place(self, timestamp: int, oldest: int, times: int) -> dict[str, object]:
        return {"store": self._store, "timestamp": timestamp, "oldest": oldest, "times": times}


class VersionReads:
    """The versions of one store, for reading.

    :param latest: rows from bytes to bytes.
    :param late: warns of reads that come too late.
    """

    def __init__(self, latest: RowReader, history: HistoryReads, late: LateWarnings) -> None:
        self.name = latest.name
        self.latest = latest
        self.history = history
        self._late = late
        self._dirty, self._clean, self._read_through = latest.dirty.get, latest.clean.get, latest.read_through

    # ------------------------------------------------------------------ reads of one key

    def newest(self, key: bytes) -> Found | None:
        entry = self._dirty(key) or self._clean(key) or self._read_through(key)
        return None if entry is None or entry[0] is None else (entry[0], entry[1], None)

    def as_of(self, key: bytes, time: int) -> Found | None:
        latest = self._dirty(key) or self._clean(key) or self._read_through(key)
        if latest is not None and latest[1] <= time and latest[0] is not None:
            return latest[0], latest[1], None
        return self.older(key, time)

    def older(self, key: bytes, time: int) -> Found | None:
        """Returns the version that was valid at ``time``, where the latest one was not; :meth:`as_of` asks it first."""
        history = self.history
        if time < history.oldest:
            self._late.read(time, history.oldest)
            return None
        if time >= history.stream_time and time >= history.stored_until:
            return None
        found = history.after(key, time)
        if found is None or found[2] is None or found[1] > time:
            return None
        return found[2], found[1], found[0]

    def between(self, key: bytes, from_time: int, to_time: int, *, reverse: bool) -> Iterator[Found]:
        latest = self.newest(key)
        newest = [] if latest is None or latest[1] > to_time else [latest]
        if to_time < self.history.oldest:
            return iter(newest)
        rows = self.history.between(key, from_time, to_time, reverse=reverse)
        older = ((value, start, end) for end, start, value in rows if value is not None)
        return _chained(newest, older) if reverse else _chained(older, newest)

    # ------------------------------------------------------------------ reads of many keys

    def newest_of(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Found]]:
        """The latest versions of the keys ``low <= key < high``."""
        rows = self.latest.range(low, high, reverse=reverse)
        return ((key, (value, timestamp, None)) for key, (value, timestamp) in rows)

    def range(
        self, low: bytes | None, high: bytes | None, from_time: int, to_time: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, Found]]:
        """The versions of the keys ``low <= key < high`` that were valid at some time between two, by key, then by
        time."""
        newest = (row for row in self.newest_of(low, high, reverse=reverse) if row[1][1] <= to_time)
        if to_time < self.history.oldest:
            return newest
        rows = self.history.range(low, high, reverse=reverse)
        older = (
            (key, (value, start, end))
            for key, end, start, value in rows
            if value is not None and start <= to_time and end > from_time
        )
        streams: tuple[Iterator[Any], Iterator[Any]] = (newest, older) if reverse else (older, newest)
        return merge(*streams, key=itemgetter(0), reverse=reverse)

    def range_after(
        self,
        low: bytes | None,
        high: bytes | None,
        from_time: int,
        to_time: int,
        last: tuple[bytes, int] | None,
        *,
        reverse: bool,
    ) -> Iterator[tuple[bytes, Found]]:
        """The versions of :meth:`range` that follow one.

        :param last: its key and the start of its validity; it may be gone. ``None`` for all versions.
        """
        if last is None:
            return self.range(low, high, from_time, to_time, reverse=reverse)
        key, start = last
        if reverse:
            until = min(to_time, start - 1)
            rest = self.between(key, from_time, until, reverse=True) if from_time <= until else iter(())
            same = ((key, one) for one in rest if one[1] < start)
            return chain(same, self.range(low, key, from_time, to_time, reverse=True))
        since = max(from_time, start + 1)
        rest = self.between(key, since, to_time, reverse=False) if since <= to_time else iter(())
        same = ((key, one) for one in rest if one[1] > start)
        return chain(same, self.range(key + b"\0", high, from_time, to_time, reverse=False))


class Versions(VersionReads):
    """The versions of a store of a task: read, and put into its write buffer.

    :param latest: rows from bytes to bytes, without a cache and without a changelog.
    :param keeps_history: if not, it is a plain store with the calls of a versioned one.
    :param drop: counts a put that arrived this many ms too late.
    """

    latest: Rows
    history: VersionHistory

    def __init__(
        self, latest: Rows, history: VersionHistory, *, keeps_history: bool, drop: Callable[[int], None]
    ) -> None:
        super().__init__(latest, history, LateWarnings(latest.name))
        self._keeps = keeps_history
        self._drop = drop
        self._put_latest = make_put(latest)

    def put(self, key: bytes, value: bytes | None, timestamp: int) -> int:
        """Puts a version, and returns when its validity ends, as ``VersionedKeyValueStore.put`` does."""
        history = self.history
        if timestamp < history.oldest:
            self._drop(history.oldest - timestamp)
            self._late.put(timestamp, history.oldest)
            return PUT_RETURN_CODE_NOT_PUT
        before = history.stream_time
        if timestamp > before:
            history.stream_time = timestamp
        if before < history.stored_until:  # the records behind are processed again
            before = history.stored_until
        latest = self.newest(key)
        if latest is not None and timestamp >= latest[1]:
            self._replace(key, latest[0], latest[1], value, timestamp)
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED
        # No version ends later than the stream time from before, so the usual put asks the history nothing.
        found = None if timestamp >= before else history.after(key, timestamp)
        if found is not None:
            end, start, old = found
            if start <= timestamp:
                if start < timestamp:
                    history.put(key, timestamp, start, old)
                history.put(key, end, timestamp, value)
                return end
            follower = start
        elif latest is not None:
            follower = latest[1]
        else:
            if value is not None:
                self._put_latest(key, value, timestamp)
            elif self._keeps and not (timestamp <= before and history.ends_at(key, timestamp)):
                history.put(key, timestamp, timestamp, None)
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED
        history.put(key, follower, timestamp, value)
        return follower

    def _replace(self, key: bytes, old: bytes, old_timestamp: int, value: bytes | None, timestamp: int) -> None:
        """Puts a version at the time of the latest version or after it."""
        if self._keeps:
            if timestamp > old_timestamp:
                self.history.put(key, timestamp, old_timestamp, old)
            elif value is None and not self.history.ends_at(key, timestamp):
                self.history.put(key, timestamp, timestamp, None)
        self._put_latest(key, value, timestamp)


def _chained(first: Iterable[Found], second: Iterable[Found]) -> Iterator[Found]:
    yield from first
    yield from second
