"""Rows of a running store for other threads: as they are at one moment, and one of them as it is now.

Nothing is done for it when a row is put. It rests on three rules (docs/decisions/0013):

* A row is put where it goes before it is taken from where it was: from `dirty` over `draining` and `drained` to the
  engine. Who looks in this order finds it.
* The interpreter runs another thread only between two of its own instructions, so that one call of a built-in function
  that copies several dictionaries copies them at one moment.
* A write holds the engine's lock, so that who has it takes copies and a snapshot that belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from operator import attrgetter, call, itemgetter
from typing import Any

from processor_api.errors import StateError
from state.engine.port import Engine, Family, Snapshot
from state.registry.read_only import EngineRows
from state.write_buffer.buffer import Entry, Rows
from state.write_buffer.migration import UpgradingFamily
from state.write_buffer.open_views import OpenViews

__all__ = ["Buffer", "Frozen", "FrozenRows", "LiveRows", "Moments", "Part", "ViewedFamily", "buffer_parts", "names_of"]

Part = Callable[[], Any]
"""A built-in function, bound to what it reads: another thread never runs between two that are called in one."""
Buffer = tuple[dict[Any, Entry], dict[Any, Entry], dict[Any, tuple[bytes, bytes | None, int]]]
"""Copies of `dirty`, `draining` and `drained`."""
EMPTY: Buffer = ({}, {}, {})
Frozen = Callable[[bytes | None, bytes | None], "FrozenRows"]
"""``(low, high)`` of a range; ``None`` is open."""


def buffer_parts(rows: Rows) -> list[Part]:
    """What makes a :data:`Buffer`. A dictionary that is being drained loses nothing that is seen: it needs no copy."""
    return [rows.dirty.copy, partial(attrgetter("draining"), rows), rows.drained.copy]


def names_of(family: Family) -> list[str]:
    """The engine's families that a family shows."""
    return family.names if isinstance(family, UpgradingFamily) else [family.name]


class Moments:
    """Takes what a store holds at one moment.

    :param families: the engine's families to take a snapshot of.
    :param parts: what to copy of the buffer.
    """

    def __init__(
        self, store: str, engine: Engine, views: OpenViews, families: Sequence[str], parts: Sequence[Part] = ()
    ) -> None:
        self.store = store
        self.views = views
        self._engine = engine
        self._families = families
        self._parts = tuple(parts)

    def take(self, parts: Sequence[Part] | None = None) -> tuple[Snapshot, tuple[Any, ...]]:
        """A snapshot, and what the parts gave.

        :raises StoreError: if the store is closed.
        """
        engine = self._engine
        try:
            with engine.lock:
                copies = tuple(map(call, self._parts if parts is None else parts))
                snapshot = engine.snapshot(self._families)
        except StateError:
            self.check()
            raise
        self.check()
        return snapshot, copies

    def at(self, family: Family, snapshot: Snapshot) -> Family:
        """A family as of a snapshot that was taken."""
        found = family.at(snapshot) if isinstance(family, UpgradingFamily) else snapshot.family(family.name)
        return ViewedFamily(found, self)

    def check(self) -> None:
        """Call it after a read: a store that was open then had not forgotten anything before.

        :raises StoreError: if the store is closed.
        """
        self.views.check(self.store)


class FrozenRows(EngineRows):
    """Rows as they were at one moment."""

    @classmethod
    def of(cls, rows: Rows, family: Family, buffer: Buffer = EMPTY) -> FrozenRows:
        """
        :param family: as of the moment.
        :param buffer: what lay over it.
        """
        frozen = cls.__new__(cls)
        frozen.__dict__.update(rows.__dict__)
        dirty, draining, drained = buffer
        frozen.family = family
        frozen.dirty = {**draining, **dirty} if draining else dirty
        frozen.drained, frozen.clean, frozen.draining = drained, {}, {}
        frozen.index, frozen.fresh = None, None
        return frozen

    def miss(self, key: Any) -> Entry | None:
        return _drained(self, key) or super().miss(key)

    def _overlay(self, low: bytes | None, high: bytes | None, reverse: bool) -> list[tuple[bytes, Entry]]:
        """Without an index: it would be read once."""
        found: dict[bytes, Entry] = {}
        for raw, data, timestamp in self.drained.values():
            if (low is None or low <= raw) and (high is None or raw < high):
                found[raw] = None if data is None else self.stored(data), timestamp
        key_bytes = self.key_bytes
        for key, entry in self.dirty.items():
            raw = key_bytes(key)
            if (low is None or low <= raw) and (high is None or raw < high):
                found[raw] = entry
        return sorted(found.items(), key=itemgetter(0), reverse=reverse)


class LiveRows(EngineRows):
    """Rows as they are at each read, from any thread."""

    _source: Rows
    _moments: Moments
    _frozen: Frozen

    @classmethod
    def of(cls, rows: Rows, moments: Moments, frozen: Frozen, *, committed: bool) -> LiveRows:
        """
        :param frozen: gives the rows in a range as they are now, and may give others.
        :param committed: shows the engine alone.
        """
        live = cls.__new__(cls)
        live.__dict__.update(rows.__dict__)
        live.clean = {}
        if committed:
            live.dirty, live.draining, live.drained = EMPTY
        live._source = live if committed else rows
        live._moments, live._frozen = moments, frozen
        live.family = ViewedFamily(rows.family, moments)
        return live

    def miss(self, key: Any) -> Entry | None:
        source = self._source
        entry = source.draining.get(key) or _drained(source, key)
        return entry if entry is not None else super().miss(key)

    def range(self, low: bytes | None, high: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        return self._frozen(low, high).range(low, high, reverse=reverse)


def _drained(rows: Rows, key: Any) -> Entry | None:
    found = rows.drained.get(key)
    if found is None:
        return None
    data = found[1]
    return None if data is None else rows.stored(data), found[2]


class ViewedFamily:
    """A family, or what a snapshot has of it, which ends when the store closes: then reads raise StoreError."""

    def __init__(self, family: Family, moments: Moments) -> None:
        self.name = family.name
        self.get: Callable[[bytes], bytes | None] = self._get
        self._family = family
        self._moments, self._views = moments, moments.views
        self._moves = isinstance(family, UpgradingFamily)

    @property
    def handle(self) -> None:
        return None

    def _get(self, key: bytes) -> bytes | None:
        """A row of an older kind may move while the families are looked through: then it is in the first."""
        family = self._family
        try:
            row = family.get(key)
            if row is None and self._moves:
                row = family.get(key)
        except (AttributeError, StateError):
            self._moments.check()
            raise
        if self._views.closed:
            self._moments.check()
        return row

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        try:
            yield from self._family.range(low, high, reverse=reverse)
        except StateError:
            self._moments.check()
            raise

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        try:
            return self._family.seek(key)
        except StateError:
            self._moments.check()
            raise

    def approximate_count(self) -> int:
        try:
            return self._family.approximate_count()
        except Exception:
            self._moments.check()
            raise
