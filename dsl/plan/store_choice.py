"""The choice of the stores that the DSL makes, where the user gives no supplier of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dsl.settings import BuildSettings
from processor_api.errors import StreamsError, TopologyError
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.defaults import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    on_engine,
)
from processor_api.stores.suppliers import StoreSupplier, as_supplier
from processor_api.texts import kind_and_text, repr_of

Params = DslKeyValueParams | DslWindowParams | DslSessionParams


def chosen_supplier(
    params: Params, store_type: DslStoreSuppliers | str | None, settings: BuildSettings
) -> StoreSupplier:
    """Returns the supplier of a store: of the choice that its table or join names, else of the application's.

    The application's choice is its suppliers, else its engine.

    :param params: the needs of the store, which say its kind.
    :raises TopologyError: if the user's suppliers fail, or give no supplier of this store.
    """
    choice = store_type or settings.suppliers or settings.engine
    suppliers = on_engine(choice) if isinstance(choice, str) else choice
    store, call = params.name, _CALLS[type(params)]
    try:
        supplier = as_supplier(getattr(suppliers, call)(params))
    except StreamsError as error:
        raise error.locate(store=store)  # noqa: B904 - the same error, with its place
    except Exception as error:
        raise TopologyError(
            f"{call} of {repr_of(suppliers)} failed for store {repr_of(store)}: {kind_and_text(error)}", store=store
        ) from error
    if supplier.name != store:
        raise TopologyError(
            f"{call} of {repr_of(suppliers)} was asked for store {repr_of(store)} and gave {repr_of(supplier.name)}",
            store=store,
        )
    return supplier


_CALLS: Mapping[type, str] = {
    DslKeyValueParams: "key_value_store",
    DslWindowParams: "window_store",
    DslSessionParams: "session_store",
}


def logged(builder: StoreBuilder[Any, Any], logging: bool, topic_config: Mapping[str, str]) -> StoreBuilder[Any, Any]:
    """Returns the builder with a changelog topic of these settings, or without one."""
    return builder.with_logging_enabled(topic_config) if logging else builder.with_logging_disabled()
