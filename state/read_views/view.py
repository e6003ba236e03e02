"""Reads of a running task's stores from any thread, at a chosen isolation level (KIP-892).

    with open_view(store, IsolationLevel.READ_COMMITTED) as view:
        view.store.get("key")

The task goes on putting, committing and aborting meanwhile, and does nothing for it when a row is put
(docs/decisions/0013).
"""

from __future__ import annotations

from copy import copy
from types import TracebackType
from typing import Any, Protocol

from processor_api.errors import StoreError
from processor_api.stores.isolation import IsolationLevel
from state.custom.queryable import why_unreadable
from state.key_value.list_store import ListFacade
from state.key_value.store import KeyValueFacade
from state.read_views.index import LiveIndex
from state.read_views.key_value import FrozenRows, LiveRows, Moments, buffer_parts, names_of
from state.read_views.time_to_live import LiveExpiring
from state.read_views.versioned import FrozenVersions, LiveVersions
from state.read_views.windowed import LiveTimed
from state.registry.kinds import OpenStore
from state.registry.read_only import ReadOnlyStore
from state.versioned.store import VersionedFacade
from state.windowed.base import TimedFacade
from state.windowed.window import WindowFacade
from state.write_buffer.buffer import Rows
from state.write_buffer.expiring_buffer import ExpiringRows
from state.write_buffer.fast_path import make_get
from state.write_buffer.open_views import OpenViews, ViewIterators

__all__ = ["StoreView", "open_view"]


class StoreView:
    """A store of a running task, for reads from any thread. A context manager.

    Each call sees one moment: at READ_COMMITTED a commit as a whole, at READ_UNCOMMITTED all that was put until then.
    An iterator shows the rows of the moment when it was opened, as long as it is open, also when the view was left and
    the task has committed. The next call sees the next moment, so that a view that is kept is never behind; it holds on
    to nothing. Several calls that have to agree are made in a :meth:`frozen` view.

    When the store closes, because its task moves or starts again after an abort, calls and iterators raise StoreError.
    """

    def __init__(self, store: str, reads: _Reads, level: IsolationLevel) -> None:
        self.level = level
        self._name = store
        self._reads: _Reads | None = reads

    @property
    def store(self) -> Any:
        """The reads of the store's kind, under the names that processors know; writes raise StoreError.

        :raises StoreError: if the view is closed.
        """
        if self._reads is None:
            raise StoreError(f"the view of store {self._name!r} is closed", store=self._name)
        return self._reads

    def frozen(self) -> StoreView:
        """The same at one moment, which is now, for calls that have to agree.

        At READ_UNCOMMITTED it costs a copy of what waits for the commit: 2 ms for 100,000 rows, 80 ms for as many keys
        of a versioned store. It keeps what the engine has replaced since from being thrown away: close it soon.
        """
        return StoreView(self._name, self.store._frozen(), self.level)

    def close(self) -> None:
        """Iterators that were opened from the view stay open."""
        self._reads = None

    def __enter__(self) -> StoreView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_view(store: OpenStore, level: IsolationLevel) -> StoreView:
    """A view of a store of a running task. For any thread, also a new one for each read: it costs a microsecond.

    :raises StoreError: if the store is closed, or one of the user's own, which other threads cannot read.
    """
    views = store.views
    reads = views.live.get(level)
    if reads is None:
        reads = _Reads(store, _reader(store, level))
        if not views.closed:
            views.live[level] = reads
    views.check(store.builder.name)
    return StoreView(store.builder.name, reads, level)


# ---------------------------------------------------------------------- facades over what is read


class _Reader(Protocol):
    """What a kind's facade reads from instead of the store's own rows."""

    def into(self, facade: Any) -> None:
        """Has a copy of the store's facade read rows as they are at each call."""
        ...

    def frozen_into(self, facade: Any) -> None:
        """Has it read rows as they are now."""
        ...


class _Reads(ReadOnlyStore):
    """A facade that reads through a :class:`_Reader`."""

    def __init__(self, store: OpenStore, reader: _Reader, *, frozen: bool = False, facade: Any = None) -> None:
        if facade is None:
            facade = _copied(store)
            reader.frozen_into(facade) if frozen else reader.into(facade)
            store.views.add(facade)
        super().__init__(facade, "", "")
        self._of = store
        self._reader = reader

    def _frozen(self) -> _Reads:
        return _Reads(self._of, self._reader, frozen=True)

    def without_timestamps(self) -> _Reads:
        """The same store, its values shown alone."""
        return _Reads(self._of, self._reader, facade=self._store.without_timestamps())

    def without_headers(self) -> _Reads:
        """The same window store, its values shown with timestamps."""
        return _Reads(self._of, self._reader, facade=self._store.without_headers())

    def _refusal(self) -> StoreError:
        name = self._of.builder.name
        return StoreError(f"store {name!r} is only read here: its task writes it", store=name)


def _copied(store: OpenStore) -> Any:
    facade = copy(store.bare or store.facade)
    facade._iterators = ViewIterators(store.builder.name)
    facade._open = True
    return facade


def _reader(store: OpenStore, level: IsolationLevel) -> _Reader:
    if why := why_unreadable(store.builder):
        raise StoreError(why, store=store.builder.name)
    facade, views, committed = store.bare or store.facade, store.views, level is IsolationLevel.READ_COMMITTED
    if isinstance(store.rows, ExpiringRows):
        return LiveExpiring(store.rows, views, committed)
    if isinstance(facade, KeyValueFacade | ListFacade):
        return _Plain(store.rows, views, committed)
    if isinstance(facade, TimedFacade):
        return _Timed(facade, views, committed)
    if isinstance(facade, VersionedFacade):
        return _Versioned(facade, views, committed)
    name = store.builder.name
    raise StoreError(
        f"store {name!r} is of the kind {store.builder.kind!r}, which other threads cannot read", store=name
    )


class _Plain:
    """Of stores whose rows are found by their keys."""

    def __init__(self, rows: Rows, views: OpenViews, committed: bool) -> None:
        parts = [] if committed else buffer_parts(rows)
        self._rows = rows
        self._moments = Moments(rows.name, rows.engine, views, names_of(rows.family), parts)
        self._index = None if committed else LiveIndex(rows)
        self._live = LiveRows.of(rows, self._moments, self._between, committed=committed)

    def _between(self, low: bytes | None, high: bytes | None) -> FrozenRows:
        taken = None if self._index is None else self._index.take(self._moments, [(low, high)])
        if taken is None:
            return self._frozen()
        return FrozenRows.of(self._rows, self._moments.at(self._rows.family, taken.snapshot), taken.buffer)

    def _frozen(self) -> FrozenRows:
        snapshot, copies = self._moments.take()
        family = self._moments.at(self._rows.family, snapshot)
        return FrozenRows.of(self._rows, family, copies) if copies else FrozenRows.of(self._rows, family)

    def into(self, facade: Any) -> None:
        self._read(facade, self._live)

    def frozen_into(self, facade: Any) -> None:
        self._read(facade, self._frozen())

    @staticmethod
    def _read(facade: Any, rows: Rows) -> None:
        facade._rows, facade._get = rows, make_get(rows)


class _Timed:
    """Of windows and sessions."""

    def __init__(self, facade: TimedFacade, views: OpenViews, committed: bool) -> None:
        number = None
        if isinstance(facade, WindowFacade) and facade._duplicates:
            number = lambda: facade._last_put  # noqa: E731
        self._live = LiveTimed(facade._timed, views, number, committed=committed)
        self._committed = committed

    def into(self, facade: Any) -> None:
        facade._timed, facade._owner = self._live, facade

    def frozen_into(self, facade: Any) -> None:
        facade._timed, facade._owner = self._live.frozen(), facade
        if self._committed:
            facade._last_put = facade._timed.segments.sequence


class _Versioned:
    def __init__(self, facade: VersionedFacade, views: OpenViews, committed: bool) -> None:
        self._opening = facade._opening
        self._live = LiveVersions(facade._versions, views, committed=committed)

    def into(self, facade: Any) -> None:
        self._read(facade, self._live)

    def frozen_into(self, facade: Any) -> None:
        self._read(facade, self._live.frozen())

    def _read(self, facade: Any, versions: LiveVersions | FrozenVersions) -> None:
        facade._versions = versions
        facade.get = facade._make_get(self._opening)
