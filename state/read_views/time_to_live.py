"""Rows that expire, for other threads (:mod:`state.read_views.key_value`): what has expired at the view's moment is
hidden, and no read refreshes anything.

Where time is that of accesses, a row's moves like the row: from `_refreshed` over the times of rows that wait for the
commit to the engine. Who looks in this order finds one that is not older than the row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from state.engine.port import Snapshot
from state.read_views.index import LiveIndex
from state.read_views.key_value import FrozenRows, LiveRows, Moments, Part, buffer_parts, names_of
from state.write_buffer.buffer import Entry
from state.write_buffer.expiring_buffer import ByAccess, ByRecordTime, ExpiringRows, time_of_row
from state.write_buffer.fast_path import Get, make_get, row_key_maker
from state.write_buffer.open_views import OpenViews

__all__ = ["LiveExpiring"]


class _ReadByAccess(ByAccess):
    """Reads that refresh nothing."""

    def _source_rows(self) -> ByAccess:
        return self

    def around_get(self, get: Get) -> Get:
        row_key, limit, is_over, time_now = row_key_maker(self), self.limit, self.lifetime.is_over, self._time_now

        def get_alive(key: Any) -> Entry | None:
            least = limit()
            time = time_now(row_key(key))
            return None if time is None or is_over(time, least) else get(key)

        return get_alive

    def _time_now(self, row: Any) -> int | None:
        rows = self._source_rows()
        refreshed = rows._refreshed.get(row)
        if row in rows.dirty or row in rows.draining or row in rows.drained:
            time = rows._times.get(row)
            if time is not None:
                return time
        if refreshed is not None:
            return refreshed
        found = self.family.get(self.key_bytes(row))
        return None if found is None else time_of_row(found)[0]


class _FrozenByRecordTime(FrozenRows, ByRecordTime):
    pass


class _FrozenByAccess(FrozenRows, _ReadByAccess):
    pass


class _LiveByRecordTime(LiveRows, ByRecordTime):
    pass


class _LiveByAccess(LiveRows, _ReadByAccess):
    def _source_rows(self) -> ByAccess:
        source = self._source
        assert isinstance(source, ByAccess)
        return source


class LiveExpiring:
    """Of one store, at one level of isolation."""

    def __init__(self, rows: ExpiringRows, views: OpenViews, committed: bool) -> None:
        self._rows, self._committed = rows, committed
        parts: list[Part] = [] if committed else [*buffer_parts(rows), *_time_parts(rows)]
        families = [*names_of(rows.family), rows.lifetime.family_name]
        self._moments = Moments(rows.name, rows.engine, views, families, parts)
        kind = _LiveByAccess if isinstance(rows, ByAccess) else _LiveByRecordTime
        self._index = LiveIndex(rows)
        live: Any = kind.of(rows, self._moments, self._between, committed=committed)
        if committed:
            live.limit = rows.lifetime.committed_limit
            live._times, live._refreshed = {}, {}
        self._live: LiveRows = live

    def _between(self, low: bytes | None, high: bytes | None) -> FrozenRows:
        taken = None if self._committed else self._index.take(self._moments, [(low, high)], self._parts_of)
        if taken is None:
            return self._frozen()
        stream_time, latest, *accesses = taken.more
        if accesses:
            times = accesses[0]
            accesses[0] = {key: time for key, time in zip(taken.keys, times, strict=True) if time is not None}
        return self._as_of(taken.snapshot, taken.buffer, (stream_time, latest), accesses)

    def _parts_of(self, keys: list[Any]) -> list[Part]:
        parts = _time_parts(self._rows)
        if isinstance(self._rows, ByAccess):
            parts[2] = partial(list, map(self._rows._times.get, keys))
        return parts

    def _frozen(self) -> FrozenRows:
        snapshot, copies = self._moments.take()
        return self._as_of(snapshot, copies[:3] or None, copies[3:5], copies[5:])

    def _as_of(self, snapshot: Snapshot, buffer: Any, times: Sequence[int], accesses: Sequence[Any]) -> FrozenRows:
        """:param buffer: what lies over the engine; ``None`` to show that alone.
        :param times: of the store, as its task knows them.
        :param accesses: of rows that wait, and of rows that were read since."""
        rows, lifetime = self._rows, self._rows.lifetime
        family = self._moments.at(rows.family, snapshot)
        kind = _FrozenByAccess if isinstance(rows, ByAccess) else _FrozenByRecordTime
        frozen: Any = kind.of(rows, family) if buffer is None else kind.of(rows, family, buffer)
        time = max([lifetime.latest_of(snapshot.family(lifetime.family_name)), *times])
        frozen.limit = _always(time - lifetime.length)
        frozen._times, frozen._refreshed = accesses or ({}, {})
        return frozen  # type: ignore[no-any-return]

    def into(self, facade: Any) -> None:
        facade._rows, facade._get = self._live, make_get(self._live)

    def frozen_into(self, facade: Any) -> None:
        frozen = self._frozen()
        facade._rows, facade._get = frozen, make_get(frozen)


def _time_parts(rows: ExpiringRows) -> list[Part]:
    """The store's time, and where it counts from access, the accesses. Reads after the moment are no harm: only what
    was alive is refreshed."""
    times: list[Part] = [partial(attrgetter("stream_time"), rows.cursor), partial(attrgetter("latest"), rows.lifetime)]
    if isinstance(rows, ByAccess):
        times += [rows._times.copy, partial(attrgetter("_refreshed"), rows)]
    return times


def _always(limit: int) -> Callable[[], int]:
    return lambda: limit
