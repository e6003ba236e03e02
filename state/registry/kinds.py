"""The kinds of store, by the name that store suppliers carry. A new kind is a file with its `KINDS` and a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StateError, TopologyError
from processor_api.serde import Serde
from processor_api.stores.factory import EXPIRING_KINDS, StoreBuilder
from state.custom import store as custom_store
from state.custom import versioned as custom_versioned
from state.engine.port import Engine, store_of
from state.key_value import list_store, lru, store, time_to_live, timestamp_proxy, with_headers
from state.time_ordered import join_grace, suppress
from state.versioned import store as versioned
from state.windowed import session, window
from state.write_buffer.buffer import Log, LogMany, Rows, RowsSettings
from state.write_buffer.memory_budget import Budget
from state.write_buffer.migration import UpgradingEngine, upgrading_codec
from state.write_buffer.record_context import Cursor
from state.write_buffer.row_codec import RowCodec
from state.write_buffer.store_kind import Opening, OpenStore, Restore, StoreKind
from state.write_buffer.time_to_live import EXPIRY

__all__ = [
    "KINDS",
    "OpenStore",
    "StoreKind",
    "check_kind",
    "families_held",
    "families_of",
    "family_of",
    "kind_name",
    "kind_of",
    "open_store",
    "restore_of",
    "restores_blindly",
    "store_of",
]

KINDS: dict[str, StoreKind] = {
    **store.KINDS,
    **with_headers.KINDS,
    **list_store.KINDS,
    **lru.KINDS,
    **versioned.KINDS,
    **window.KINDS,
    **session.KINDS,
    **time_to_live.KINDS,
    **suppress.KINDS,
    **join_grace.KINDS,
}


CUSTOM_KINDS: dict[str, StoreKind] = {**custom_store.KINDS, **custom_versioned.KINDS, **timestamp_proxy.KINDS}
"""Those of stores that users bring. None has rows in an engine that other stores are on."""


def kind_of(builder: StoreBuilder[Any, Any]) -> StoreKind:
    """The kind of a store.

    :raises TopologyError: if there is no such kind.
    """
    name = kind_name(builder)
    kind = KINDS.get(name) or CUSTOM_KINDS.get(name)
    if kind is None:
        raise TopologyError(f"store {builder.name!r} is of the unknown kind {name!r}", store=builder.name)
    return kind


def kind_name(builder: StoreBuilder[Any, Any]) -> str:
    """What the kind of a store is called in `KINDS`."""
    lives = builder.time_to_live
    return builder.kind if lives is None else time_to_live.kind_name(builder.kind, lives.by)


def family_of(builder: StoreBuilder[Any, Any]) -> str:
    """The engine's family that holds the store's rows, or the first of them."""
    return f"{builder.name}.{kind_of(builder).codec.family_suffix}"


def families_of(builder: StoreBuilder[Any, Any]) -> list[str]:
    """The engine's families that hold the store's rows."""
    kind = kind_of(builder)
    return [family_of(builder), *(f"{builder.name}.{suffix}" for suffix in (*kind.families, *kind.notes))]


def families_held(builder: StoreBuilder[Any, Any], engine: Engine) -> list[str]:
    """As `families_of`, with those of older kinds that have rows."""
    older = (f"{builder.name}.{suffix}" for suffix in kind_of(builder).older)
    return [*families_of(builder), *filter(engine.holds, older)]


def check_kind(builder: StoreBuilder[Any, Any], engine: Engine) -> None:
    """Makes sure that the engine has no rows of the store that this kind cannot read.

    :raises StateError: if it has: the store was of another kind before.
    """
    kind, name = kind_of(builder), builder.name
    known = {kind.codec.family_suffix, *kind.families, *kind.older}
    for other, its in KINDS.items():
        for suffix in (its.codec.family_suffix, *its.families):
            if suffix not in known and engine.holds(f"{name}.{suffix}"):
                raise StateError(
                    f"store {name!r} is a {kind_name(builder)} store, and what is on disk was written by a {other}"
                    f" store, which cannot be taken over: run `streams state rebuild {name}` to have it restored from"
                    " its changelog, or give the store a new name",
                    store=name,
                )


def _upgraded(builder: StoreBuilder[Any, Any], engine: Engine) -> tuple[Engine, RowCodec]:
    """The engine and the codec of a store, which may have rows of an older kind."""
    kind, name = kind_of(builder), builder.name
    older = [
        (engine.family(f"{name}.{suffix}"), convert)
        for suffix, convert in kind.older.items()
        if engine.holds(f"{name}.{suffix}")
    ]
    if not older:
        return engine, kind.codec
    family = f"{name}.{kind.codec.family_suffix}"
    upgrading = UpgradingEngine(engine, family, older, kind.same)
    return upgrading, upgrading_codec(kind.codec, upgrading.family(family))


def restore_of(builder: StoreBuilder[Any, Any], engine: Engine) -> Restore:
    """What turns the records of a store's changelog into its rows, for one restore."""
    engine, codec = _upgraded(builder, engine)
    return kind_of(builder).restoring(builder, engine, codec)


def restores_blindly(builder: StoreBuilder[Any, Any], engine: Engine) -> bool:
    """Whether a restore puts rows without looking at those there are."""
    kind = kind_of(builder)
    return kind.restores_rows and not any(engine.holds(f"{builder.name}.{suffix}") for suffix in kind.older)


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
    log_many: LogMany | None = None,
    log_each: bool = True,
    drop: Callable[[], None] = _count_nothing,
    make_rows: Callable[[RowsSettings], Rows] = Rows,
) -> OpenStore:
    """Opens a store on a task's engine.

    :param log_many: as ``log``, for many rows.
    :param log_each: logs each put of a store without caching when it happens, not the last of each key at the drain.
    :param make_rows: makes what is between the store and the engine.
    """
    name = builder.name
    lasts = make_rows is Rows and builder.time_to_live is None and builder.kind in EXPIRING_KINDS
    if lasts and engine.holds(f"{name}.{EXPIRY}"):  # a store that is only read writes nothing
        engine.clear([f"{name}.{EXPIRY}"])  # should it get a time to live again, that starts anew
    engine, codec = _upgraded(builder, engine)
    return kind_of(builder).open(
        Opening(
            builder=builder,
            codec=codec,
            engine=engine,
            cursor=cursor,
            budget=budget,
            log=log,
            log_many=log_many,
            log_each=log_each,
            key_serde=key_serde,
            value_serde=value_serde,
            drop=drop,
            make_rows=make_rows,
        )
    )
