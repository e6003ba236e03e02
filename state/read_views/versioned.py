"""Versions of a running store for other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from state.engine.port import Family, Snapshot
from state.read_views.index import LiveIndex
from state.read_views.key_value import FrozenRows, LiveRows, Moments, Part, buffer_parts, names_of
from state.versioned.versions import Found, Versions
from state.write_buffer.fast_path import make_get
from state.write_buffer.open_views import OpenViews

__all__ = ["LiveVersions"]

TRIES = 10


class LiveVersions:
    """The reads of :class:`~state.versioned.versions.Versions`, each as of one moment of its own."""

    def __init__(self, versions: Versions, views: OpenViews, *, committed: bool) -> None:
        latest, history = versions.latest, versions.history
        self.name, self.history = versions.name, history
        self._versions, self._committed = versions, committed
        self._buffer: list[Part] = [] if committed else buffer_parts(latest)
        self._moments = Moments(versions.name, latest.engine, views, [*names_of(latest.family), history.family.name])
        self.latest = LiveRows.of(latest, self._moments, lambda *_: self.frozen().frozen_rows, committed=committed)
        self._newest = make_get(self.latest)
        self._expired_reads = 0
        self._index = LiveIndex(latest)

    def as_of(self, key: bytes, time: int) -> Found | None:
        latest = self._newest(key)
        if latest is not None and latest[1] <= time:
            return latest[0], latest[1], None
        return self.older(key, time)

    def older(self, key: bytes, time: int) -> Found | None:
        frozen = self._frozen_key(key)
        frozen._expired_reads = self._expired_reads
        found = frozen.as_of(key, time)
        self._expired_reads = frozen._expired_reads
        return found

    def between(self, key: bytes, *times: int, reverse: bool) -> Iterator[Found]:
        return self._frozen_key(key).between(key, *times, reverse=reverse)

    def newest_of(self, *args: Any, reverse: bool) -> Iterator[tuple[bytes, Found]]:
        taken = None if self._committed else self._index.take(self._moments, [args])
        snapshot, buffer = self._moments.take(self._buffer) if taken is None else (taken.snapshot, taken.buffer)
        copies = () if self._committed else (*buffer, {}, self.history.stream_time)
        return self._frozen(snapshot, copies).newest_of(*args, reverse=reverse)

    def range(self, *args: Any, reverse: bool) -> Iterator[tuple[bytes, Found]]:
        return self.frozen().range(*args, reverse=reverse)

    def frozen(self) -> FrozenVersions:
        """All of it as it is now."""
        return self._frozen(*self._take())

    def _frozen(self, snapshot: Snapshot, copies: tuple[Any, ...]) -> FrozenVersions:
        at, versions = self._moments.at, self._versions
        families = at(versions.latest.family, snapshot), at(self.history.family, snapshot)
        return FrozenVersions(versions, *families, copies)

    def _all_parts(self) -> list[Part]:
        waiting = self.history.waiting_rows
        lists = zip(waiting, map(list, waiting.values()), strict=False)
        return [*self._buffer, partial(dict, lists), partial(attrgetter("stream_time"), self.history)]

    def _frozen_key(self, key: bytes) -> FrozenVersions:
        """One key as it is now: without a copy of what others there are."""
        latest, waiting = self._versions.latest, self.history.waiting_rows
        for _ in range(0 if self._committed else TRIES):
            rows = waiting.get(key)
            parts = [
                partial(latest.dirty.get, key),
                partial(attrgetter("draining"), latest),
                partial(latest.drained.get, key),
                partial(list, rows or ()),
                partial(attrgetter("stream_time"), self.history),
                partial(waiting.get, key),
            ]
            snapshot, (dirty, draining, drained, copied, stream_time, found) = self._moments.take(parts)
            if found is rows:  # else it got its list since, or lost it to a commit
                dirty, drained = _of(key, dirty or draining.get(key)), _of(key, drained)
                return self._frozen(snapshot, (dirty, {}, drained, {key: copied}, stream_time))
        return self.frozen()

    def _take(self) -> tuple[Snapshot, tuple[Any, ...]]:
        """The lists of versions change in place. An iterator over them notices if a key has come to the dictionary
        since it was made, a moment before; then it is made again."""
        if self._committed:
            return self._moments.take()
        for _ in range(TRIES):
            try:
                return self._moments.take(self._all_parts())
            except RuntimeError:
                continue
        shallow = partial(attrgetter("stream_time"), self.history)
        snapshot, copies = self._moments.take([*self._buffer, self.history.waiting_rows.copy, shallow])
        return snapshot, (*copies[:3], {key: list(rows) for key, rows in copies[3].items()}, copies[4])


class FrozenVersions(Versions):
    """Versions as they were at one moment.

    A put may have been on its way, with the row of the version that it ends written, and that of its own not yet: then
    two versions start at the same time, of which only the one that ends last is shown.
    """

    def __init__(self, versions: Versions, latest: Family, history: Family, copies: tuple[Any, ...]) -> None:
        self.__dict__.update(versions.__dict__)
        self.latest = rows = FrozenRows.of(versions.latest, latest, *((copies[:3],) if copies else ()))
        self.history = versions.history.frozen(history, *copies[3:])
        self._dirty, self._clean, self._miss = rows.dirty.get, rows.clean.get, rows.miss

    @property
    def frozen_rows(self) -> FrozenRows:
        assert isinstance(self.latest, FrozenRows)
        return self.latest

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
    """Of neighbours that start together the one that ends last."""
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
