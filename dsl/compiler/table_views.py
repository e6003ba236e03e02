"""Views of the tables in which operators look values up."""

from __future__ import annotations

from collections.abc import Container

from dsl.compiler.table_metadata import TableMetadata
from dsl.plan.nodes import Plan, Process, TableSourceNode, TableStep
from dsl.processors.announced import BeforeView
from dsl.processors.tables.view import TableStoreView, TableView
from processor_api.errors import InternalError


def table_view(plan: Plan, metadata: TableMetadata, number: int, *, before: Container[str] = ()) -> TableView:
    """Returns the view of a table: its store, or what is computed from the nearest stores above.

    :param before: stores of announced tables, to be seen as they were before the change that they send on.
    """
    node = plan.nodes[number]
    if not isinstance(node, TableSourceNode | TableStep):
        raise InternalError(f"values are looked up in {node.name}, which is no table", node=node.name)
    if number in metadata.materialized and node.store is not None:
        return BeforeView(node.store.name) if node.store.name in before else TableStoreView(node.store.name)
    above = [table_view(plan, metadata, _table(plan, parent), before=before) for parent in node.parents]
    return node.operator.view(above)


def _table(plan: Plan, number: int) -> int:
    """Returns the table itself, or the one whose changes an operator takes that belongs to a table below."""
    node = plan.nodes[number]
    return node.parents[0] if isinstance(node, Process) else number
