"""Views of stores with a time to live, for other threads.

Rows that have expired at the view's moment are hidden, and no read refreshes anything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, cast

from state.engine.port import Snapshot
from state.key_value.live_view import KeyValueView
from state.read_views.index import Taken
from state.read_views.snapshots import AtomicRead
from state.time_to_live.rules import Accesses, AccessRule, ExpiryRule, RecordTimeRule
from state.write_buffer.store_kind import OpenStore


class RecordTimeView(KeyValueView):
    """A store whose rows expire by the timestamps of their values."""

    def __init__(self, store: OpenStore, committed: bool) -> None:
        self._expiry = cast(ExpiryRule, store.rows.rule)
        self._lifetime = self._expiry.lifetime
        super().__init__(store, committed)

    def _more_families(self) -> list[str]:
        return [self._lifetime.family_name]

    def _more_reads(self) -> list[AtomicRead]:
        """Returns the store's time. It does no harm if it moves on after the view's moment."""
        cursor = self._shared.cursor
        return [partial(attrgetter("stream_time"), cursor), partial(attrgetter("latest"), self._lifetime)]

    def _limit(self) -> Callable[[], int]:
        return self._lifetime.committed_limit if self._committed else self._expiry.limit

    def _live_rule(self) -> ExpiryRule:
        return RecordTimeRule(self._shared.format, self._lifetime, self._limit())

    def _frozen_rule(self, snapshot: Snapshot, more: tuple[Any, ...]) -> ExpiryRule:
        return RecordTimeRule(self._shared.format, self._lifetime, self._limit_at(snapshot, more))

    def _limit_at(self, snapshot: Snapshot, more: tuple[Any, ...]) -> Callable[[], int]:
        lifetime = self._lifetime
        time = max([lifetime.latest_of(snapshot.family(lifetime.family_name)), *more[:2]])
        return lambda: time - lifetime.length


class AccessView(RecordTimeView):
    """A store whose rows expire by when they were last put or read."""

    _expiry: AccessRule

    def _more_reads(self) -> list[AtomicRead]:
        """Returns reads of the accesses as well.

        Reads by the task after the view's moment do no harm: they refresh only rows that were alive.
        """
        accesses = self._expiry.accesses
        return [*super()._more_reads(), accesses.times.copy, partial(attrgetter("refreshed"), accesses)]

    def _more_of_keys(self, keys: list[Any]) -> list[AtomicRead]:
        reads = self._more_reads()
        reads[2] = partial(list, map(self._expiry.accesses.times.get, keys))
        return reads

    def _more_taken(self, taken: Taken) -> tuple[Any, ...]:
        stream_time, latest, found, refreshed = taken.more
        times = {key: time for key, time in zip(taken.keys, found, strict=True) if time is not None}
        return stream_time, latest, times, refreshed

    def _live_rule(self) -> ExpiryRule:
        accesses = self._accesses() if self._committed else self._expiry.accesses
        return AccessRule(self._shared.format, self._lifetime, self._limit(), accesses)

    def _frozen_rule(self, snapshot: Snapshot, more: tuple[Any, ...]) -> ExpiryRule:
        limit = self._limit_at(snapshot, more)
        return AccessRule(self._shared.format, self._lifetime, limit, self._accesses(*more[2:]))

    def _accesses(self, *copies: dict[Any, int]) -> Accesses:
        return Accesses(self._shared.format.row_key_of, *copies)
