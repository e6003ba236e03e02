"""Views of the tables in which operators look values up."""

from __future__ import annotations

from dsl.compiler.table_metadata import TableMetadata
from dsl.plan.nodes import Plan, Process, TableSource, TableStep
from dsl.table_view import StoreView, TableView
from processor_api.errors import InternalError

__all__ = ["table_view"]


def table_view(plan: Plan, metadata: TableMetadata, number: int) -> TableView:
    """Returns the view of a table: its store, or what is computed from the nearest stores above."""
    node = plan.nodes[number]
    if not isinstance(node, TableSource | TableStep):
        raise InternalError(f"values are looked up in {node.name}, which is no table", node=node.name)
    if number in metadata.materialized and node.store is not None:
        return StoreView(node.store.name)
    return node.operator.view([table_view(plan, metadata, _table(plan, parent)) for parent in node.parents])


def _table(plan: Plan, number: int) -> int:
    """Returns the table itself, or the one whose changes an operator takes that belongs to a table below."""
    node = plan.nodes[number]
    return node.parents[0] if isinstance(node, Process) else number
