"""A custom store as processors see it, and its part in the commits of its task. Its engine is a
:class:`state.custom.engine.CustomStoreEngine`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from processor_api.errors import StateError, StoreError
from processor_api.record import HeaderList
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.custom import ChangelogRecord
from processor_api.stores.suppliers import CUSTOM, lacks
from state.custom.engine import CustomStoreEngine
from state.engine.port import Batch, Engine
from state.guards.guard import Policy, guarded
from state.row_format.codec import RowCodec, without_rows
from state.write_buffer.buffer import Rows
from state.write_buffer.memory_budget import Budget
from state.write_buffer.store_kind import CommitParticipant, Opening, OpenStore, Restore, StoreKind, open_rows

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
"""Reads that a store need not have, and that are an error only when they are called (KIP-617)."""


class CustomPolicy(Policy):
    """Shows processors all of a user's store but its opening, commits and end, which are the runtime's."""

    def __init__(self, engine: CustomStoreEngine) -> None:
        super().__init__(engine.store)
        self._engine = engine
        self._touches = engine.unsafe
        self._ended = False

    def store(self) -> Any:
        if self._ended:
            raise StoreError(f"store {self.name!r} is closed: its task is no longer on this worker", store=self.name)
        return self._store

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def persistent(self) -> bool:
        return self._engine.persistent

    @property
    def is_open(self) -> bool:
        return not self._ended and bool(self._store.is_open)

    def calls(self) -> list[str]:
        """Returns no names: the calls of a custom store may change, and reading its properties may have effects."""
        return []

    def attribute(self, name: str) -> Any:
        if name in ("init", "commit"):
            return self.close
        store = self.store()
        if name in OPTIONAL_CALLS and lacks(store, name):
            return self._lacking(name)
        try:
            return getattr(store, name)
        except AttributeError:
            raise AttributeError(
                f"store {self.name!r} is a {type(store).__name__}, which does not have {name!r}"
            ) from None

    def call(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns a call that marks the store as written first.

        Each call of a processor may be a write, which an unclean stop would leave in the store.
        """
        if not self._touches:
            return call
        changes = self._engine.context.changes

        def touching(*args: Any, **named: Any) -> Any:
            changes.dirty = True
            return call(*args, **named)

        return touching

    def close(self, *_: Any) -> NoReturn:
        """Always fails: the runtime closes the store.

        :raises StoreError: always.
        """
        raise StoreError(
            f"only the runtime initializes, commits and closes store {self.name!r}; to request a commit, call"
            " context.commit() in the processor",
            store=self.name,
        )

    def end(self) -> None:
        """Every later call fails: the store's task ends."""
        self._ended = True
        self._store = None

    def _lacking(self, call: str) -> Callable[..., NoReturn]:
        def refuse(*args: Any, **named: Any) -> NoReturn:
            raise StoreError(
                f"store {self.name!r} does not support {call}: {type(self._store).__name__} does not implement it",
                store=self.name,
            )

        return refuse


class _CustomCommit(CommitParticipant):
    """A custom store is committed with every commit of its task, and closed with it.

    :param end: makes every later call of what processors have fail.
    """

    def __init__(self, engine: CustomStoreEngine, budget: Budget, end: Callable[[], None]) -> None:
        self._engine, self._budget, self._end = engine, budget, end
        self._report = _reports(engine)
        budget.reports.append(self._report)

    @property
    def pending(self) -> bool:
        return True

    def apply(self, batch: Batch) -> None:
        """Does nothing: the engine commits the store when it takes the batch."""

    def applied(self) -> None:
        """Does nothing: nothing is kept here."""

    def close(self) -> None:
        if self._report in self._budget.reports:
            self._budget.reports.remove(self._report)
        self._end()
        self._engine.release()


def _reports(engine: CustomStoreEngine) -> Callable[[], int]:
    store = engine.store
    return lambda: int(store.approximate_num_uncommitted_bytes())


class _OpenCustom(OpenStore):
    """A custom store of a running task.

    Its commit participant ends its façade, since a processor may not close it.
    """

    def close(self) -> None:
        self.rows.close()
        for one in self.participants:
            one.close()


def engine_of(name: str, engine: Engine) -> CustomStoreEngine:
    """Returns the engine of a custom store.

    :raises StateError: if it is another one.
    """
    custom: Any = engine
    if not isinstance(custom, CustomStoreEngine):
        raise StateError(f"custom store {name!r} cannot be opened on an engine", store=name)
    return custom


def _no_rows(opening: Opening) -> Rows:
    """Returns a write buffer in which there is never anything."""
    return open_rows(opening, key_serde=Serdes.BYTES)


def _open_custom(opening: Opening) -> OpenStore:
    engine = engine_of(opening.builder.name, opening.engine)
    if opening.log is not None and not engine.registered:
        raise StateError(
            f"custom store {engine.name!r} is logged, but could not be restored: call context.register(...) in init,"
            " or build it with_logging_disabled()",
            store=engine.name,
        )
    policy = CustomPolicy(engine)
    return open_custom(opening, engine, guarded(policy), policy.end)


def open_custom(opening: Opening, engine: CustomStoreEngine, facade: Any, end: Callable[[], None]) -> OpenStore:
    """Returns a custom store as a facade shows it. It is committed from now on.

    :param end: makes every later call of the facade fail.
    """
    engine.begin()
    engine.context.changes.begin(opening.log)
    return _OpenCustom(
        kind=opening.kind,
        builder=opening.builder,
        rows=_no_rows(opening),
        facade=facade,
        operator=facade,
        participants=(_CustomCommit(engine, opening.budget, end),),
    )


def restoring_custom(builder: StoreBuilder[Any, Any], engine: Engine, codec: RowCodec) -> Restore:
    """Returns the function that hands records of the changelog to the store."""
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


KINDS = {
    CUSTOM: StoreKind(
        codec=without_rows("custom"),
        open=_open_custom,
        restoring=restoring_custom,
        has_rows=False,
        logs_itself=True,
    )
}
