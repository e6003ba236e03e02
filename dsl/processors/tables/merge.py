"""The operator below several that write to one store: their changes are those of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dsl.processors.tables.operator import TableOperator
from dsl.processors.tables.view import TableView
from processor_api.context import OperatorContext
from processor_api.record import Forward


@dataclass(frozen=True, kw_only=True)
class TableMerge(TableOperator):
    """Passes on the changes of the operators above it."""

    def bind(self, context: OperatorContext) -> Forward:
        return context.forward

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns the view of the store that all operators above share."""
        return above[0]
