"""Opens the engine that a custom store has to itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import CustomStoreSupplier, make_custom
from processor_api.task_id import TopicPartition
from state.custom.context import StoreContext
from state.custom.engine import CustomStoreEngine
from state.registry.kinds import family_of, kind_of


def custom_engine(
    builder: StoreBuilder[Any, Any],
    context: Callable[[], StoreContext],
    *,
    inputs: Collection[TopicPartition] = (),
    undoes: bool = False,
) -> CustomStoreEngine:
    """Returns a custom store as an engine (:class:`~state.custom.engine.CustomStoreEngine`).

    :raises StateError: if the store cannot be opened.
    """
    supplier, kind = cast(CustomStoreSupplier, builder.supplier), kind_of(builder)

    def given() -> StoreContext:
        made = context()
        made.changes.logged_for_it = not kind.logs_itself
        return made

    return CustomStoreEngine(
        builder.name,
        lambda: make_custom(builder.name, supplier.factory),
        given,
        family=family_of(builder) if kind.has_rows else None,
        inputs=inputs,
        undoes=undoes,
    )
