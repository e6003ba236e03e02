"""Finds joins of tables in which one change arrives by both sides (semantics 169)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from dsl.compiler.table_metadata import TableMetadata, table_view
from dsl.plan.nodes import Plan, Process, Repartition, TableRepartition, TableSourceNode, TableStep
from dsl.processors.announced import Announced
from dsl.processors.joins.table_table import TableJoinSide


@dataclass(frozen=True)
class SharedTables:
    """The tables of which both tables of a join are made."""

    announced: frozenset[int]
    """Their nodes, which announce their changes, with the old values."""
    sides: dict[int, Announced]
    """The sides of such joins, by their nodes."""


NOTHING_SHARED = SharedTables(frozenset(), {})


def shared_tables(plan: Plan, metadata: TableMetadata) -> SharedTables:
    """Returns the tables that are shared in this way; the metadata say which tables have stores."""
    # The operators of cogrouped streams write to one store: each of them changes the table.
    stores: dict[str, set[int]] = defaultdict(set)
    for number in plan.nodes:
        if name := announced_by(plan, metadata, number):
            stores[name].add(number)
    sides: dict[int, Announced] = {}
    used: set[str] = set()
    for number, node in plan.nodes.items():
        if isinstance(node, Process) and isinstance(node.supplier, TableJoinSide):
            own, other = node.parents[0], node.reads[0]
            through_own = _read_through(plan, metadata, own) & _made_of(plan, stores, other)
            through_other = _read_through(plan, metadata, other) & _made_of(plan, stores, own)
            if through_own or through_other:
                used |= through_own | through_other
                sides[number] = Announced(
                    join=_result_of(plan, number),
                    own=tuple(sorted(through_own)),
                    other=tuple(sorted(through_other)),
                    other_before=table_view(plan, metadata, other, before=through_other),
                )
    return SharedTables(frozenset().union(*(stores[store] for store in used)), sides)


def announced_by(plan: Plan, metadata: TableMetadata, number: int) -> str | None:
    """Returns the store that names the changes which a table announces: its own, or the buffer in which they wait."""
    node = plan.nodes[number]
    if not isinstance(node, TableSourceNode | TableStep):
        return None
    if node.store is not None and number in metadata.materialized:
        return node.store.name
    buffer = node.buffer if isinstance(node, TableStep) else None
    return None if buffer is None else buffer.name


def _read_through(plan: Plan, metadata: TableMetadata, table: int) -> set[str]:
    """Returns the stores in which values of a table are looked up."""
    return set(table_view(plan, metadata, table).stores)


def _made_of(plan: Plan, stores: dict[str, set[int]], table: int) -> set[str]:
    """Returns the stores of the tables whose changes reach a table within one task, at once; its own is among them."""
    above = set(_above(plan, table))
    return {store for store, numbers in stores.items() if not numbers.isdisjoint(above)}


def _above(plan: Plan, number: int) -> Iterator[int]:
    node = plan.nodes[number]
    if isinstance(node, Repartition | TableRepartition):
        return  # what comes through a topic comes later
    yield number
    for parent in node.parents:
        yield from _above(plan, parent)


def _result_of(plan: Plan, side: int) -> str:
    return next(node.name for node in plan.nodes.values() if isinstance(node, TableStep) and side in node.parents)
