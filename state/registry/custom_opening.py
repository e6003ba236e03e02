"""Opens the engine that a custom store has to itself."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from processor_api.stores.factory import StoreBuilder
from processor_api.stores.suppliers import CUSTOM, CUSTOM_VERSIONED, CustomStoreSupplier, make_custom
from processor_api.task_id import TopicPartition
from state.custom.context import StoreContext
from state.custom.engine import CustomStoreEngine
from state.registry.kinds import family_of

__all__ = ["custom_engine"]


def custom_engine(
    builder: StoreBuilder[Any, Any],
    context: Callable[[], StoreContext],
    *,
    inputs: Collection[TopicPartition] = (),
    undoes: bool = False,
) -> CustomStoreEngine:
    """See :class:`~state.custom.engine.CustomStoreEngine`.

    :raises StateError: if the store cannot be opened.
    """
    supplier = cast(CustomStoreSupplier, builder.supplier)

    def given() -> StoreContext:
        made = context()
        made.logged_for_it = builder.kind != CUSTOM
        return made

    return CustomStoreEngine(
        builder.name,
        lambda: make_custom(builder.name, supplier.factory),
        given,
        family=None if builder.kind in (CUSTOM, CUSTOM_VERSIONED) else family_of(builder),
        inputs=inputs,
        undoes=undoes,
    )
