"""Reads of a running task's stores from any thread, at a chosen isolation level (KIP-892).

    with open_view(store, IsolationLevel.READ_COMMITTED) as view:
        view.store.get("key")

In the meantime the task continues to put, commit and abort. A put does nothing for the readers: the rules are in
:mod:`state.write_buffer.shared_rows`. A kind of store says how it is read in this way (`StoreKind.view`).
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from processor_api.errors import StoreError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.queries import IsolationLevel
from processor_api.stores.suppliers import CustomStoreSupplier
from state.guards.guard import GuardedStore, guarded
from state.guards.policies import ReadOnly
from state.write_buffer.open_views import ViewIterators, ViewSource
from state.write_buffer.store_kind import OpenStore


def unreadable(store: str) -> str:
    """Returns the text of the error for another thread that reads a custom store."""
    return (
        f"store {store!r} is a custom store, which only its task can read: its calls are not safe for other threads."
        " For queries, keep the rows in a store of Stores, if necessary on your own storage engine"
    )


def why_unreadable(builder: StoreBuilder[Any, Any]) -> str | None:
    """Returns why other threads cannot read a store; ``None`` if its kind decides.

    :param builder: of a store of any kind: a byte store with serdes is of the same kind as one on an engine.
    """
    return unreadable(builder.name) if isinstance(builder.supplier, CustomStoreSupplier) else None


class _Reads:
    """Makes the stores that are read through views of one store at one level."""

    def __init__(self, store: OpenStore, source: ViewSource) -> None:
        self._store = store
        self._source = source
        self.live = self._guarded(source.live)

    def frozen(self) -> GuardedStore:
        """Returns a store as it is now."""
        return self._guarded(self._source.frozen)

    def _guarded(self, make: Any) -> GuardedStore:
        facade = make(ViewIterators(self._store.builder.name))
        self._store.views.add(facade)
        return guarded(ReadOnly(facade, self._store.kind.writes, self._refusal))

    def _refusal(self) -> StoreError:
        name = self._store.builder.name
        return StoreError(f"store {name!r} can only be read here: its task writes it", store=name)


class StoreView:
    """A store of a running task, for reads from any thread. A context manager.

    Each call sees one moment: at READ_COMMITTED a commit as a whole, at READ_UNCOMMITTED all that was put until then.
    An iterator shows the rows of the moment when it was opened, as long as it is open, also when the view was left and
    the task has committed. The next call sees the next moment, so that a view that is kept is never behind; it holds on
    to nothing. Several calls that have to agree are made in a :meth:`frozen` view.

    When the store closes, because its task moves or starts again after an abort, calls and iterators raise StoreError.
    """

    def __init__(self, store: str, level: IsolationLevel, reads: _Reads, guard: GuardedStore) -> None:
        self.level = level
        self._name = store
        self._reads = reads
        self._guard: GuardedStore | None = guard

    @property
    def store(self) -> Any:
        """The reads of the store's kind, under the names that processors know; writes raise StoreError.

        :raises StoreError: if the view is closed.
        """
        if self._guard is None:
            raise StoreError(f"the view of store {self._name!r} is closed", store=self._name)
        return self._guard

    def frozen(self) -> StoreView:
        """Returns the same at one moment, which is now, for calls that have to agree.

        At READ_UNCOMMITTED it costs a copy of what waits for the commit: 2 ms for 100,000 rows, 80 ms for as many keys
        of a versioned store. It keeps what the engine has replaced since from being thrown away: close it soon.

        :raises StoreError: if the view or the store is closed.
        """
        if self._guard is None:
            raise StoreError(f"the view of store {self._name!r} is closed", store=self._name)
        return StoreView(self._name, self.level, self._reads, self._reads.frozen())

    def close(self) -> None:
        """Ends the view; iterators that were opened from it stay open."""
        self._guard = None

    def __enter__(self) -> StoreView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_view(store: OpenStore, level: IsolationLevel) -> StoreView:
    """Returns a view of a store of a running task, for any thread. One for each read is fine: it costs a microsecond.

    :raises StoreError: if the store is closed, or of a kind that other threads cannot read, such as one of the user's
        own.
    """
    views, name = store.views, store.builder.name
    reads = views.live.get(level)
    if reads is None:
        if why := why_unreadable(store.builder):
            raise StoreError(why, store=name)
        if store.kind.view is None:
            raise StoreError(
                f"store {name!r} has the kind {store.builder.kind!r}, which other threads cannot read", store=name
            )
        reads = _Reads(store, store.kind.view(store, level is IsolationLevel.READ_COMMITTED))
        if not views.closed:
            views.live[level] = reads
    views.check(name)
    return StoreView(name, level, reads, reads.live)
