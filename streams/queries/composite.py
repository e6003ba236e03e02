"""The base of the composite stores of ``KafkaStreams.store``: they ask the stores of one task after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from processor_api.errors import InvalidStateStoreError, StoreError
from processor_api.stores.queries import IsolationLevel
from state.guards.policies import RefusesWrites
from state.read_views.view import StoreView
from state.registry.kinds import kind_of
from streams.queries.iterators import QueryIterator
from streams.queries.local_stores import ReadableStore, migrated

Finder = Callable[[], Sequence[ReadableStore]]
"""The stores to ask, in order.

:raises InvalidStateStoreError: if they cannot be asked now."""


class CompositeStore(RefusesWrites):
    """Reads all stores of one name in this process, each as it is at the moment of the call.

    :param form: the name of the form in which their kind is read.

    Any thread may use it, for as long as it likes: each call finds the stores again, and fails if they are not
    available now.
    """

    def __init__(self, name: str, persistent: bool, find: Finder, form: str, level: IsolationLevel) -> None:
        self.name = name
        self.persistent = persistent
        self.isolation_level = level
        self._find = find
        self._form = form

    @property
    def is_open(self) -> bool:
        """Whether it could be read now."""
        try:
            return bool(self._find())
        except InvalidStateStoreError:
            return False

    def read_only(self, level: IsolationLevel) -> Self:
        """Returns the same store, read at another level of isolation (KIP-892)."""
        return type(self)(self.name, self.persistent, self._find, self._form, level)

    def _refusal(self) -> StoreError:
        return StoreError(
            f"store {self.name!r} can only be read here: write to it from a processor that is connected to it",
            store=self.name,
        )

    # ------------------------------------------------------------------ for the kinds

    def _each(self, call: Callable[[Any], Any]) -> list[Any]:
        """Returns the results of the call in each store."""
        return [self._ask(store, call) for store in self._find()]

    def _first(self, call: Callable[[Any], Any]) -> Any:
        """Returns the first value that is found."""
        for store in self._find():
            value = self._ask(store, call)
            if value is not None:
                return self._shown(store)(value)
        return None

    def _shown(self, store: ReadableStore) -> Callable[[Any], Any]:
        """Returns the function that converts a value of the store to the form of this view."""
        return kind_of(store.builder).forms[self._form].value

    def _ask(self, store: ReadableStore, call: Callable[[Any], Any]) -> Any:
        view = store.view(self.isolation_level)
        try:
            return call(view.store)
        except StoreError as error:
            if store.gone():
                raise migrated(store.store) from error
            raise
        finally:
            view.close()

    def _joined(self, call: Callable[[Any], Any], shown: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> Any:
        """Yields the rows of one store after another. Every view is opened now, so that all show this moment.

        :param shown: makes the function that converts a row from the one that converts a value.
        """
        opened: list[tuple[ReadableStore, StoreView, Any]] = []
        try:
            for store in self._find():
                view = store.view(self.isolation_level)
                opened.append((store, view, None))
                opened[-1] = store, view, call(view.store)
        except BaseException as error:
            for _, view, _ in opened:
                view.close()
            if isinstance(error, StoreError) and opened and opened[-1][0].gone():
                raise migrated(opened[-1][0].store) from error
            raise
        return _Joined(self.name, opened, lambda store: shown(self._shown(store)))


class _Joined(QueryIterator):
    def __init__(
        self,
        name: str,
        opened: list[tuple[ReadableStore, StoreView, Any]],
        shown_of: Callable[[ReadableStore], Callable[[Any], Any]],
    ) -> None:
        self._left = opened[::-1]
        self._now: ReadableStore | None = None
        self._shown_of = shown_of
        super().__init__(self._next_store, name, lambda row: row, self._instead)

    def _next_store(self) -> tuple[Any, Callable[[], None]] | None:
        if not self._left:
            return None
        self._now, view, rows = self._left.pop()
        self._shown = self._shown_of(self._now)

        def release() -> None:
            rows.close()
            view.close()

        return rows, release

    def _instead(self, error: StoreError) -> Exception | None:
        return migrated(self._now.store) if self._now is not None and self._now.gone() else None

    def close(self) -> None:
        super().close()
        left, self._left = self._left, []
        for _, view, rows in left:
            rows.close()
            view.close()

    def __del__(self) -> None:
        self.close()
