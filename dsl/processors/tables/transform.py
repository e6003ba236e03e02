"""The operator that transforms a table's values by a user's transformer, which may use stores (semantics 29)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from dsl.processors.tables.operator import TableOperator
from dsl.processors.tables.stateless import bind_computed
from dsl.processors.tables.view import LookUp, LookUpAsOf, Row, TableView
from dsl.processors.user_functions import user_function
from dsl.value_transformer import CurrentRow, ValueTransformerContext, ValueTransformerWithKeySupplier
from processor_api.context import OperatorContext
from processor_api.errors import ProcessingError, StreamsError, TopologyError
from processor_api.processor import connected_stores
from processor_api.record import NO_TIMESTAMP, Forward, HeaderList
from processor_api.stores.builder import StoreBuilder
from processor_api.texts import kind_and_text


@dataclass(frozen=True, kw_only=True)
class TableTransformValues(TableOperator):
    """Replaces each value of a table by the one that a transformer returns; it sees deletions too."""

    supplier: ValueTransformerWithKeySupplier = field(metadata=user_function())
    connected: tuple[str, ...] = ()
    """The stores that the transformer uses and that were added elsewhere."""

    def bind(self, context: OperatorContext) -> Forward:
        """Returns the function for the changes of one task."""
        transform, row = _transform(context, self.supplier)
        compute = bind_computed(context, self, transform, skip_nothing=False)
        enter, leave = row.enter, row.leave

        def process(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            enter(timestamp, headers)
            try:
                compute(key, value, timestamp, headers)
            finally:
                leave()

        return process

    def stores(self) -> Iterable[StoreBuilder[Any, Any]]:
        """Returns the builders of the stores that the supplier brings along."""
        return connected_stores(self.supplier, "transform_values")

    def view(self, above: Sequence[TableView]) -> TableView:
        """Returns a view with a transformer of its own, as in Kafka Streams."""
        brought = tuple(builder.name for builder in self.stores())
        return TransformedView(above[0], self.supplier, (*self.connected, *brought))


@dataclass(frozen=True)
class TransformedView:
    """The view of a transformed table without a store: it transforms at each look-up, also where there is no value."""

    above: TableView
    supplier: ValueTransformerWithKeySupplier = field(metadata=user_function())
    used: tuple[str, ...]
    """The stores that the transformer uses."""

    @property
    def stores(self) -> tuple[str, ...]:
        """Those of the table above and of the transformer."""
        return tuple(dict.fromkeys((*self.above.stores, *self.used)))

    def bind(self, context: OperatorContext, *, forwarded: bool = False) -> LookUp:
        """Returns a look-up that transforms."""
        above, transform = self.above.bind(context, forwarded=forwarded), _transform(context, self.supplier)

        def look_up(key: Any) -> Row | None:
            return _row(above(key), key, *transform)

        return look_up

    def bind_as_of(self, context: OperatorContext) -> LookUpAsOf | None:
        """Returns a look-up that transforms the row of that time."""
        above = self.above.bind_as_of(context)
        if above is None:
            return None
        transform = _transform(context, self.supplier)

        def look_up(key: Any, as_of: int) -> Row | None:
            return _row(above(key, as_of), key, *transform)

        return look_up


def _row(found: Row | None, key: Any, transform: Callable[[Any, Any], Any], row: CurrentRow) -> Row | None:
    value_above, timestamp = (None, NO_TIMESTAMP) if found is None else found
    row.enter(timestamp, None)
    try:
        value = transform(key, value_above)
    finally:
        row.leave()
    return None if value is None else (value, timestamp)


def _transform(
    context: OperatorContext, supplier: ValueTransformerWithKeySupplier
) -> tuple[Callable[[Any, Any], Any], CurrentRow]:
    """Makes a transformer for one task, prepares it, and has it closed with the task; returns its function, and what
    holds the row."""
    transformer = supplier()
    row = CurrentRow(context.through(_refuse).processing_context())
    _called(lambda: transformer.init(cast(ValueTransformerContext, row)), "initialised", context.node)
    context.on_close(lambda: _called(transformer.close, "closed", context.node))
    return transformer.transform, row


def _refuse(*_: Any) -> None:
    raise TopologyError("a value transformer cannot forward: return the new value, or use KStream.process")


def _called(call: Callable[[], None], what: str, node: str) -> None:
    try:
        call()
    except StreamsError as error:
        raise error.locate(node=node)  # noqa: B904 - the same error, with its place
    except Exception as error:
        failed = f"the transformer of node {node!r} could not be {what}: {kind_and_text(error)}"
        raise ProcessingError(failed, node=node) from error
