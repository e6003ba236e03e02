"""Views of stores whose rows are found by their keys, for other threads."""

from __future__ import annotations

from typing import Any

from state.engine.port import Snapshot
from state.read_views.index import LiveIndex, Taken
from state.read_views.snapshots import (
    AtomicRead,
    FrozenRows,
    LiveRows,
    SnapshotSource,
    families_shown,
    read_uncommitted,
    uncommitted_of,
)
from state.write_buffer.open_views import ViewIterators, ViewSource
from state.write_buffer.row_reader import ReadRule, RowReader
from state.write_buffer.shared_rows import Uncommitted
from state.write_buffer.store_kind import OpenStore


class KeyValueView(ViewSource):
    """Reads one store at one level of isolation, through façades with a ``reading(rows, iterators)``."""

    def __init__(self, store: OpenStore, committed: bool) -> None:
        self._facade = store.unguarded
        self._shared = shared = store.rows.shared
        self._committed = committed
        reads = [] if committed else [*read_uncommitted(shared.uncommitted), *self._more_reads()]
        families = [*families_shown(shared.family), *self._more_families()]
        self._source = SnapshotSource(store.rows.name, shared.engine, store.views, families, reads)
        self._index = None if committed else LiveIndex(shared)
        self._rows = LiveRows(shared, self._source, self._between, self._live_rule(), committed=committed)

    def live(self, iterators: ViewIterators) -> Any:
        return self._facade.reading(self._rows, iterators)

    def frozen(self, iterators: ViewIterators) -> Any:
        return self._facade.reading(self._frozen(), iterators)

    def _between(self, low: bytes | None, high: bytes | None) -> RowReader:
        taken = None
        if self._index is not None:
            taken = self._index.take(self._source, [(low, high)], self._more_of_keys)
        return self._frozen() if taken is None else self._of_taken(taken)

    def _frozen(self) -> FrozenRows:
        snapshot, copies = self._source.take()
        return self._as_of(snapshot, uncommitted_of(copies[:3]), self._frozen_rule(snapshot, copies[3:]))

    def _of_taken(self, taken: Taken) -> FrozenRows:
        rule = self._frozen_rule(taken.snapshot, self._more_taken(taken))
        return self._as_of(taken.snapshot, taken.uncommitted, rule)

    def _as_of(self, snapshot: Snapshot, uncommitted: Uncommitted, rule: ReadRule | None) -> FrozenRows:
        return FrozenRows(self._shared, self._source.at(self._shared.family, snapshot), uncommitted, rule)

    # ------------------------------------------------------------------ for stores with a rule of their own

    def _more_families(self) -> list[str]:
        """The families that belong to each snapshot besides that of the rows."""
        return []

    def _more_reads(self) -> list[AtomicRead]:
        """Returns atomic reads that a snapshot makes besides those of the rows."""
        return []

    def _more_of_keys(self, keys: list[Any]) -> list[AtomicRead]:
        """Returns the same reads where only the rows of these keys are taken."""
        return self._more_reads()

    def _more_taken(self, taken: Taken) -> tuple[Any, ...]:
        """Returns the results of :meth:`_more_reads`, made from those of :meth:`_more_of_keys`."""
        return taken.more

    def _live_rule(self) -> ReadRule | None:
        """The rule of reads as of each call."""
        return None

    def _frozen_rule(self, snapshot: Snapshot, more: tuple[Any, ...]) -> ReadRule | None:
        """The rule of reads as of a moment.

        :param more: what :meth:`_more_reads` gave; empty for what is committed.
        """
        return None
