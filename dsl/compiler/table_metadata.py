"""The metadata of a plan's tables: which get a store, and which send old values (semantics 30, 109).

Kafka Streams decides this while the user's calls are made, so the order of the calls matters: a filter sends old values
if its table could send them at that moment. The pass therefore goes through the nodes in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass, replace

from dsl.plan.nodes import Answer, Ask, Plan, Process, TableSourceNode, TableStep
from dsl.processors.announced import BeforeView
from dsl.processors.tables.view import TableStoreView, TableView
from processor_api.errors import InternalError, TopologyError
from processor_api.user_code.lines import text_of


@dataclass(frozen=True)
class TableMetadata:
    """The nodes, by number, that have a store, send old values, or read a versioned table."""

    materialized: frozenset[int]
    """Tables with a store."""
    old_values: frozenset[int]
    """Tables that send old values."""
    read_versioned: frozenset[int]
    """Nodes that read a versioned table."""


def table_metadata(plan: Plan) -> TableMetadata:
    """Returns the metadata of the tables of a plan, found by going through its nodes in order."""
    asking = _Asking(plan)
    for number, node in plan.nodes.items():
        match node:
            case TableSourceNode():
                asking.enter(number, node.store.queryable)
            case TableStep():
                asking.enter(number, _has_store(node))
                if node.asks is not Ask.NOTHING and asking.ask(node.parents[0], node.asks is Ask.FORCE):
                    asking.old_values.add(number)
            case Process():
                if node.asks is not Ask.NOTHING:
                    asking.ask(node.parents[0], node.asks is Ask.FORCE)
                for table in node.reads:
                    asking.need_values(table)
            case _:
                pass
    return TableMetadata(frozenset(asking.materialized), frozenset(asking.old_values), _read_versioned(plan))


def with_old_values(plan: Plan, metadata: TableMetadata, tables: Collection[int]) -> TableMetadata:
    """Returns the metadata of a plan in which these tables send old values."""
    asking = _Asking(plan)
    asking.materialized |= metadata.materialized
    asking.old_values |= metadata.old_values
    for number in tables:
        asking.ask(number, force=True)
    return replace(metadata, materialized=frozenset(asking.materialized), old_values=frozenset(asking.old_values))


def _read_versioned(plan: Plan) -> frozenset[int]:
    """Returns the nodes that read a versioned table (semantics 39).

    A table is versioned if its store is; a table without a store, if the table that it reads is.

    :raises TopologyError: if one is suppressed.
    """
    versioned: set[int] = set()
    readers: set[int] = set()
    for number, node in plan.nodes.items():
        reads = any(parent in versioned for parent in node.parents)
        if reads:
            readers.add(number)
        if isinstance(node, TableStep) and node.buffer is not None:
            if reads:
                raise TopologyError(
                    f"{node.name!r} suppresses a versioned table, but its updates may be out of order: only"
                    " unversioned tables can be suppressed",
                    node=node.name,
                    made_at=text_of(node.made_at),
                )
        elif isinstance(node, TableSourceNode | TableStep):
            if node.store is None:
                own = reads
            else:
                own = node.store.supplier is not None and "history_retention_ms" in node.store.supplier.parameters
            if own:
                versioned.add(number)
    return frozenset(readers)


def _has_store(node: TableStep) -> bool:
    match node.answers:
        case Answer.ALWAYS:
            return True
        case Answer.BOTH_PARENTS:
            return node.store is not None
        case Answer.OWN_STORE | Answer.OWN_STORE_OR_PARENT:
            return node.store is not None and node.store.queryable


class _Asking:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.materialized: set[int] = set()
        self.old_values: set[int] = set()

    def enter(self, number: int, has_store: bool) -> None:
        if has_store:
            self.materialized.add(number)

    def ask(self, number: int, force: bool) -> bool:
        """Asks a table for old values; returns whether it will send them."""
        if number in self.old_values:
            return True
        if self._can(number, force):
            self.old_values.add(number)
            return True
        return False

    def need_values(self, number: int) -> None:
        """Somebody looks up values of a table: the nearest store above is read, or made."""
        if number in self.materialized:
            return
        node = self._plan.nodes[number]
        if isinstance(node, Process):
            self.need_values(node.parents[0])
        elif isinstance(node, TableStep) and node.answers in (Answer.OWN_STORE_OR_PARENT, Answer.BOTH_PARENTS):
            for parent in node.parents:
                self.need_values(parent)
        else:
            self.materialized.add(number)

    def _can(self, number: int, force: bool) -> bool:
        node = self._plan.nodes[number]
        if isinstance(node, TableStep) and node.answers is Answer.BOTH_PARENTS:
            for side in node.parents:
                self.old_values.add(side)
                self.ask(self._plan.nodes[side].parents[0], force=True)
            return True
        if number in self.materialized:
            return True
        if isinstance(node, TableStep) and node.answers is Answer.OWN_STORE_OR_PARENT:
            answers = [self.ask(parent, force) for parent in node.parents]
            return all(answers)
        if isinstance(node, TableSourceNode | TableStep):
            if force:
                self.materialized.add(number)
            return force
        raise InternalError(f"{node.name} must be a table to send old values", node=node.name)


def table_view(plan: Plan, metadata: TableMetadata, number: int, *, before: Container[str] = ()) -> TableView:
    """Returns the view of a table: its store, or what is computed from the nearest stores above.

    :param before: stores of announced tables, to be seen as they were before the change that they send on.
    """
    node = plan.nodes[number]
    if not isinstance(node, TableSourceNode | TableStep):
        raise InternalError(f"values are read from {node.name}, which is not a table", node=node.name)
    if number in metadata.materialized and node.store is not None:
        return _seen_before(TableStoreView(node.store.name), node.store.name, before)
    above = [table_view(plan, metadata, _table_of(plan, parent), before=before) for parent in node.parents]
    view = node.operator.view(above)
    if isinstance(node, TableStep) and node.buffer is not None:
        return _seen_before(view, node.buffer.name, before)
    return view


def _seen_before(view: TableView, store: str, before: Container[str]) -> TableView:
    return BeforeView(view, store) if store in before else view


def _table_of(plan: Plan, number: int) -> int:
    """Returns the table itself, or the one whose changes an operator takes that belongs to a table below."""
    node = plan.nodes[number]
    return node.parents[0] if isinstance(node, Process) else number
