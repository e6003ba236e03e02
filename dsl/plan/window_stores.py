"""The stores of windowed tables: from what a table needs to a builder of the store (semantics 49)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsl.plan.nodes import Materialization, WindowStore
from dsl.settings import BuildSettings
from processor_api.errors import StreamsError, TopologyError
from processor_api.stores.defaults import DslSessionParams, DslWindowParams, on_engine
from processor_api.stores.factory import StoreBuilder, Stores
from processor_api.stores.suppliers import StoreSupplier, as_supplier

__all__ = ["window_store_builder"]


def window_store_builder(
    store: Materialization, windows: WindowStore, settings: BuildSettings
) -> StoreBuilder[Any, Any]:
    """Returns a builder of a windowed table's store: by its supplier, or else by the application's settings.

    Stores of windows keep timestamps beside values, stores of sessions do not; either keeps headers if the application
    wants them.

    :raises TopologyError: if the supplier is of another kind, or the user's suppliers fail.
    """
    supplier = store.supplier or _default_supplier(store, windows, settings)
    headers = settings.headers and store.supplier is None
    serdes = store.key_serde, store.value_serde
    if windows.size_ms is None:
        make = Stores.session_store_with_headers_builder if headers else Stores.session_store_builder
    elif headers:
        make = Stores.timestamped_window_store_with_headers_builder
    else:
        make = Stores.timestamped_window_store_builder
    builder = make(supplier, *serdes)
    if store.caching and settings.caching and windows.caching:
        builder = _until_deleted(builder).with_caching_enabled()
    return builder.with_logging_enabled(store.topic_config) if store.logging else builder.with_logging_disabled()


def _until_deleted(builder: StoreBuilder[Any, Any]) -> StoreBuilder[Any, Any]:
    """Returns a builder of a store that shows rows until they are deleted (semantics 50): late records find them."""
    supplier = builder.supplier
    return replace(builder, supplier=replace(supplier, parameters={**supplier.parameters, "until_deleted": True}))


def _default_supplier(store: Materialization, windows: WindowStore, settings: BuildSettings) -> StoreSupplier:
    """Returns the supplier that the table names, else the application: its suppliers, else its engine."""
    chosen = store.store_type or settings.suppliers or settings.engine
    suppliers = on_engine(chosen) if isinstance(chosen, str) else chosen
    call = "session_store" if windows.size_ms is None else "window_store"
    try:
        if windows.size_ms is None:
            made = suppliers.session_store(
                DslSessionParams(
                    name=store.name, retention_period_ms=windows.retention_ms, emit_on_window_close=windows.final
                )
            )
        else:
            made = suppliers.window_store(
                DslWindowParams(
                    name=store.name,
                    retention_period_ms=windows.retention_ms,
                    window_size_ms=windows.size_ms,
                    emit_on_window_close=windows.final,
                )
            )
        supplier = as_supplier(made)
    except StreamsError as error:
        raise error.locate(store=store.name)  # noqa: B904 - the same error, with its place
    except Exception as error:
        raise TopologyError(
            f"{call} of {suppliers!r} failed for store {store.name!r}: {type(error).__name__}: {error}",
            store=store.name,
        ) from error
    if supplier.name != store.name:
        raise TopologyError(
            f"{call} of {suppliers!r} was asked for store {store.name!r} and gave {supplier.name!r}", store=store.name
        )
    return supplier
