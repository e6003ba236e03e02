"""The kinds of store, by the name that store suppliers carry.

A kind says how rows are written and how they are shown; everything else is :class:`state.rows.Rows`. A new kind is an
entry here and, where its keys are more than keys, a layout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.store_spec import StoreBuilder
from state.budget import Budget
from state.codec import PLAIN, TIMESTAMPED, RowCodec
from state.cursor import Cursor
from state.engine import Engine
from state.key_value import KeyValueFacade, OperatorStore, TimestampedFacade
from state.rows import Log, Rows

__all__ = ["KINDS", "OpenStore", "StoreKind", "family_of", "kind_of", "open_store", "store_of"]


@dataclass(frozen=True)
class StoreKind:
    """How rows of a kind are written and shown."""

    codec: RowCodec
    facade: Callable[[Rows], KeyValueFacade]


KINDS: dict[str, StoreKind] = {
    "key-value": StoreKind(PLAIN, KeyValueFacade),
    "timestamped-key-value": StoreKind(TIMESTAMPED, TimestampedFacade),
}


@dataclass(frozen=True)
class OpenStore:
    """A store of a running task."""

    builder: StoreBuilder[Any, Any]
    rows: Rows
    facade: KeyValueFacade
    """For processors."""
    operator: OperatorStore
    """For the DSL's operators."""

    def close(self) -> None:
        self.facade.close()
        self.rows.close()


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


def open_store(
    builder: StoreBuilder[Any, Any],
    *,
    engine: Engine,
    cursor: Cursor,
    budget: Budget,
    log: Log | None,
    key_serde: Serde[Any],
    value_serde: Serde[Any],
) -> OpenStore:
    """Opens a store on a task's engine."""
    kind = kind_of(builder)
    rows = Rows(
        name=builder.name,
        engine=engine,
        codec=kind.codec,
        key_serde=key_serde,
        value_serde=value_serde,
        cursor=cursor,
        budget=budget,
        log=log,
        caching=builder.caching,
    )
    return OpenStore(builder=builder, rows=rows, facade=kind.facade(rows), operator=OperatorStore(rows))
