"""A custom store as processors see it, and its part in the commits of its task. Its engine is a
:class:`state.custom.engine.CustomStoreEngine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from processor_api.errors import StateError, StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.factory import StoreBuilder
from processor_api.stores.suppliers import CUSTOM, lacks
from state.custom.engine import CustomStoreEngine
from state.engine.port import Batch, Engine
from state.write_buffer.buffer import Rows
from state.write_buffer.memory_budget import Budget
from state.write_buffer.row_codec import RowCodec, without_rows
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind, open_rows

__all__ = ["KINDS", "CustomFacade", "engine_of", "open_custom"]

OPTIONAL_CALLS = frozenset(
    (
        "prefix_scan",
        "reverse_range",
        "reverse_all",
        "backward_fetch",
        "backward_fetch_range",
        "backward_fetch_keys",
        "backward_fetch_all",
        "backward_all",
        "backward_find_sessions",
        "backward_find_sessions_of_keys",
        "versions",
        "backward_versions",
        "range_versions",
        "reverse_range_versions",
    )
)
"""Reads that a store need not have, and that are an error only when somebody asks (KIP-617)."""
OPERATORS = ("__len__", "__contains__", "__iter__", "__getitem__", "__setitem__", "__delitem__")


class CustomFacade:
    """A user's store as processors see it: all of it but its life, which is the runtime's."""

    def __init__(self, engine: CustomStoreEngine) -> None:
        self._name = engine.name
        self._engine = engine
        self._of: Any = engine.store
        self._touches = engine.unsafe

    @property
    def name(self) -> str:
        return self._name

    @property
    def persistent(self) -> bool:
        return self._engine.persistent

    @property
    def is_open(self) -> bool:
        return self._of is not None and bool(self._of.is_open)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"store {self._name!r} does not show {name!r}")
        store = self._store()
        if name in OPTIONAL_CALLS and lacks(store, name):
            return self._lacking(name)
        try:
            found = getattr(store, name)
        except AttributeError:
            raise AttributeError(f"store {self._name!r} is a {type(store).__name__}, which has no {name!r}") from None
        return self._touching(found) if self._touches and callable(found) else found

    def _store(self) -> Any:
        if self._of is None:
            raise StoreError(
                f"store {self._name!r} is closed: its task is not on this worker any more", store=self._name
            )
        return self._of

    def _touching(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Whatever a processor calls may be a write, which an unclean stop would leave in the store."""
        context = self._engine.context

        def touching(*args: Any, **named: Any) -> Any:
            context.dirty = True
            return call(*args, **named)

        return touching

    def _lacking(self, call: str) -> Callable[..., NoReturn]:
        def refuse(*args: Any, **named: Any) -> NoReturn:
            raise StoreError(
                f"store {self._name!r} cannot do {call}: {type(self._of).__name__} does not implement it",
                store=self._name,
            )

        return refuse

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise StoreError(
            f"store {self._name!r} is initialised, committed and closed by the runtime alone; a processor that wants a"
            " commit calls context.commit()",
            store=self._name,
        )

    init = commit = close = _refuse

    def _end(self) -> None:
        self._of = None


def _operator(name: str) -> Callable[..., Any]:
    def call(self: CustomFacade, *args: Any) -> Any:
        store = self._store()
        if self._touches:
            self._engine.context.dirty = True
        return getattr(type(store), name)(store, *args)

    return call


def _shown(engine: CustomStoreEngine) -> CustomFacade:
    """With the operators (``in``, ``[]``, ...) that the store has."""
    has = {name: _operator(name) for name in OPERATORS if getattr(type(engine.store), name, None) is not None}
    shown: CustomFacade = type("CustomFacade", (CustomFacade,), has)(engine)
    return shown


class _Life:
    """An upkeep (`state.write_buffer.store_kind.Upkeep`): a custom store is committed with every commit of its task."""

    def __init__(self, engine: CustomStoreEngine, budget: Budget, facade: Any) -> None:
        self._engine, self._budget, self._facade = engine, budget, facade
        self._report = _reports(engine)
        budget.reports.append(self._report)

    @property
    def pending(self) -> bool:
        return True

    def apply(self, batch: Batch) -> None:
        """The engine commits the store when it takes the batch."""

    def applied(self) -> None:
        """Nothing is kept here."""

    def close(self) -> None:
        if self._report in self._budget.reports:
            self._budget.reports.remove(self._report)
        self._facade._end()
        self._engine.release()


def _reports(engine: CustomStoreEngine) -> Callable[[], int]:
    store = engine.store
    return lambda: int(store.approximate_num_uncommitted_bytes())


class _OpenCustom(OpenStore):
    """Its facade is closed by its life, since a processor may not close it."""

    custom = True

    def close(self) -> None:
        self.rows.close()
        for part in self.upkeep:
            part.close()


def engine_of(name: str, engine: Engine) -> CustomStoreEngine:
    """The engine of a custom store.

    :raises StateError: if it is another one.
    """
    custom: Any = engine
    if not isinstance(custom, CustomStoreEngine):
        raise StateError(f"custom store {name!r} cannot be opened on an engine", store=name)
    return custom


def _no_rows(opening: Opening) -> Rows:
    """What is between the store and the engine: nothing ever."""
    return open_rows(opening, key_serde=Serdes.BYTES)


def _open_custom(opening: Opening) -> OpenStore:
    engine = engine_of(opening.builder.name, opening.engine)
    if opening.log is not None and not engine.registered:
        raise StateError(
            f"custom store {engine.name!r} is logged and could not be restored: call context.register(...) in init, or"
            " build it with_logging_disabled()",
            store=engine.name,
        )
    return open_custom(opening, engine, _shown(engine))


def open_custom(opening: Opening, engine: CustomStoreEngine, facade: Any) -> OpenStore:
    """A custom store shown by a facade, which has an ``_end`` for the store's end. It is committed from now on."""
    engine.begin()
    context = engine.context
    context.write, context.running = opening.log, True
    life = _Life(engine, opening.budget, facade)
    return _OpenCustom(builder=opening.builder, rows=_no_rows(opening), facade=facade, operator=facade, upkeep=(life,))


def _restoring_custom(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    custom = engine_of(builder.name, engine)

    def restore(
        batch: Batch,
        keys: Iterable[bytes],
        values: Iterable[bytes | None],
        timestamps: Iterable[int],
        headers: Iterable[HeaderList | None],
    ) -> None:
        custom.restore(list(map(ChangelogRecord, keys, values, timestamps, headers)))

    return restore


KINDS = {CUSTOM: StoreKind(without_rows("custom"), _open_custom, _restoring_custom)}
