"""Views of versioned stores, for other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from state.engine.port import Snapshot
from state.read_views.index import LiveIndex
from state.read_views.snapshots import (
    AtomicRead,
    FrozenRows,
    LiveRows,
    SnapshotSource,
    families_shown,
    read_uncommitted,
    uncommitted_of,
)
from state.versioned.history import HistoryReads, VersionHistory
from state.versioned.versions import Found, LateWarnings, VersionReads, Versions
from state.write_buffer.fast_path import make_get
from state.write_buffer.open_views import OpenViews, ViewIterators, ViewSource
from state.write_buffer.store_kind import OpenStore

TRIES = 10
_times_of = attrgetter("stream_time", "stored_until")


class VersionedView(ViewSource):
    """Reads one versioned store at one level of isolation."""

    def __init__(self, store: OpenStore, committed: bool) -> None:
        self._facade = store.unguarded
        self._versions = _LiveVersions(self._facade.versions_read, store.views, committed=committed)

    def live(self, iterators: ViewIterators) -> Any:
        return self._facade.reading(self._versions, iterators)

    def frozen(self, iterators: ViewIterators) -> Any:
        return self._facade.reading(self._versions.frozen(), iterators)


class _LiveVersions(VersionReads):
    """The versions of a running store, each read as of one moment of its own."""

    history: VersionHistory

    def __init__(self, versions: Versions, views: OpenViews, *, committed: bool) -> None:
        self._shared, self._committed = versions.latest.shared, committed
        self._reads: list[AtomicRead] = [] if committed else read_uncommitted(self._shared.uncommitted)
        families = [*families_shown(self._shared.family), versions.history.family.name]
        self._source = SnapshotSource(versions.name, self._shared.engine, views, families)
        latest = LiveRows(self._shared, self._source, lambda *_: self.frozen().latest, committed=committed)
        super().__init__(latest, versions.history, LateWarnings(versions.name))
        self._newest = make_get(latest)
        self._index = LiveIndex(self._shared)

    def as_of(self, key: bytes, time: int) -> Found | None:
        latest = self._newest(key)
        if latest is not None and latest[1] <= time:
            return latest[0], latest[1], None
        return self.older(key, time)

    def older(self, key: bytes, time: int) -> Found | None:
        return self._frozen_key(key).as_of(key, time)

    def between(self, key: bytes, from_time: int, to_time: int, *, reverse: bool) -> Iterator[Found]:
        return self._frozen_key(key).between(key, from_time, to_time, reverse=reverse)

    def newest_of(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Found]]:
        taken = None if self._committed else self._index.take(self._source, [(low, high)])
        if taken is None:
            return self.frozen().newest_of(low, high, reverse=reverse)
        latest = FrozenRows(self._shared, self._source.at(self._shared.family, taken.snapshot), taken.uncommitted)
        return VersionReads(latest, self.history, self._late).newest_of(low, high, reverse=reverse)

    def range(
        self, low: bytes | None, high: bytes | None, from_time: int, to_time: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, Found]]:
        return self.frozen().range(low, high, from_time, to_time, reverse=reverse)

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
        one_key = low is not None and high == low + b"\0"
        versions = self._frozen_key(low) if one_key and low is not None else self.frozen()
        return versions.range_after(low, high, from_time, to_time, last, reverse=reverse)

    def frozen(self) -> VersionReads:
        """Returns all versions as they are now."""
        return self._frozen(*self._take())

    def _frozen(self, snapshot: Snapshot, copies: tuple[Any, ...]) -> VersionReads:
        """Returns reads of the versions of one moment.

        :param copies: the latest versions, the older ones that wait for the commit, and the times of the history;
            empty where only committed versions are read.
        """
        at, history = self._source.at, self.history
        latest = FrozenRows(self._shared, at(self._shared.family, snapshot), uncommitted_of(copies[:3]))
        waiting, times = copies[3:] or ({}, None)
        family = at(history.family, snapshot)
        older = HistoryReads(family, history.retention_ms, history.segment_ms, waiting, times)
        return _FrozenVersions(latest, older, self._late)

    def _all_reads(self) -> list[AtomicRead]:
        waiting = self.history.waiting_rows
        lists = zip(waiting, map(list, waiting.values()), strict=False)
        return [*self._reads, partial(dict, lists), partial(_times_of, self.history)]

    def _frozen_key(self, key: bytes) -> VersionReads:
        """Returns one key as it is now, without a copy of the others."""
        latest, waiting = self._shared.uncommitted, self.history.waiting_rows
        for _ in range(0 if self._committed else TRIES):
            rows = waiting.get(key)
            reads: list[AtomicRead] = [
                partial(latest.dirty.get, key),
                partial(attrgetter("draining"), latest),
                partial(latest.drained.get, key),
                partial(list, rows or ()),
                partial(_times_of, self.history),
                partial(waiting.get, key),
            ]
            snapshot, (dirty, draining, drained, copied, times, found) = self._source.take(reads)
            if found is rows:  # otherwise it got its list since, or lost it to a commit
                dirty, drained = _of(key, dirty or draining.get(key)), _of(key, drained)
                return self._frozen(snapshot, (dirty, {}, drained, {key: copied}, times))
        return self.frozen()

    def _take(self) -> tuple[Snapshot, tuple[Any, ...]]:
        """The lists of versions change in place. An iterator over them notices if a key has come to the dictionary
        since it was made, a moment before; then it is made again."""
        if self._committed:
            return self._source.take()
        for _ in range(TRIES):
            try:
                return self._source.take(self._all_reads())
            except RuntimeError:
                continue
        shallow = partial(_times_of, self.history)
        snapshot, copies = self._source.take([*self._reads, self.history.waiting_rows.copy, shallow])
        return snapshot, (*copies[:3], {key: list(rows) for key, rows in copies[3].items()}, copies[4])


class _FrozenVersions(VersionReads):
    """Versions as they were at one moment.

    A put may have been on its way, with the row of the version that it ends written, and that of its own not yet: then
    two versions start at the same time, of which only the one that ends last is shown.
    """

    def between(self, key: bytes, from_time: int, to_time: int, *, reverse: bool) -> Iterator[Found]:
        return _once(super().between(key, from_time, to_time, reverse=reverse), lambda found: found[1], reverse)

    def range(
        self, low: bytes | None, high: bytes | None, from_time: int, to_time: int, *, reverse: bool
    ) -> Iterator[tuple[bytes, Found]]:
        found = super().range(low, high, from_time, to_time, reverse=reverse)
        return _once(found, lambda row: (row[0], row[1][1]), reverse)


def _of(key: bytes, row: Any) -> dict[bytes, Any]:
    return {} if row is None else {key: row}


def _once(rows: Iterator[Any], start: Callable[[Any], Any], reverse: bool) -> Iterator[Any]:
    """Shows of neighbours that start together the one that ends last."""
    held = None
    for row in rows:
        if held is None or start(held) != start(row):
            if held is not None:
                yield held
            held = row
        elif not reverse:
            held = row
    if held is not None:
        yield held
