"""The kinds of store, by the name that store suppliers carry. A new kind is a file with its `KINDS` and a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.store_spec import StoreBuilder
from state import key_value, session, window
from state.budget import Budget
from state.cursor import Cursor
from state.engine import Engine
from state.kind import Opening, OpenStore, Restore, StoreKind
from state.rows import Log

__all__ = ["KINDS", "OpenStore", "StoreKind", "family_of", "kind_of", "open_store", "restore_of", "store_of"]

KINDS: dict[str, StoreKind] = {
    **key_value.KINDS,
    **window.KINDS,
    **session.KINDS,
}


def kind_of(builder: StoreBuilder[Any, Any]) -> StoreKind:
    """The kind of a store.

    :raises TopologyError: if there is no such kind.
    """
    kind = KINDS.get(builder.kind)
    if kind is None:
        raise TopologyError(f"store {builder.name!r} is of the unknown kind {builder.kind!r}", store=builder.name)
    return kind


def family_of(builder: StoreBuilder[Any, Any]) -> str:
    """The engine's family that holds the store's rows."""
    return f"{builder.name}.{kind_of(builder).codec.family_suffix}"


def store_of(family: str) -> str:
    """The store whose rows are in a family."""
    return family.rpartition(".")[0]


def restore_of(builder: StoreBuilder[Any, Any], engine: Engine) -> Restore:
    """What turns the records of a store's changelog into its rows, for one restore."""
    kind = kind_of(builder)
    return kind.restoring(builder, engine, kind.codec)


def _count_nothing() -> None:
    """Where nobody counts dropped records."""


def open_store(
    builder: StoreBuilder[Any, Any],
    *,
    engine: Engine,
    cursor: Cursor,
    budget: Budget,
    log: Log | None,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
    log_each: bool = True,
    drop: Callable[[], None] = _count_nothing,
) -> OpenStore:
    """Opens a store on a task's engine.

    :param log_each: logs each put of a store without caching when it happens, not the last of each key at the drain.
    """
    kind = kind_of(builder)
    return kind.open(
        Opening(
            builder=builder,
            codec=kind.codec,
            engine=engine,
            cursor=cursor,
            budget=budget,
            log=log,
            log_each=log_each,
            key_serde=key_serde,
            value_serde=value_serde,
            drop=drop,
        )
    )
