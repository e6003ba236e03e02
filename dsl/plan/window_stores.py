"""The stores of windowed tables: from what a table needs to a builder of the store (semantics 49)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dsl.plan.nodes import Materialization, PlannedWindowStore
from dsl.plan.store_choice import chosen_supplier, logged
from dsl.settings import BuildSettings
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.defaults import DslSessionParams, DslWindowParams
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import StoreSupplier


def window_store_builder(
    store: Materialization, windows: PlannedWindowStore, settings: BuildSettings
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
    if windows.size_ms is None or windows.final:  # the operator decides what is late, also at the very end of the grace
        builder = _with_parameter(builder, "drop_early", False)
    if windows.end_of is not None:
        builder = _with_parameter(builder, "window_end", windows.end_of)
    if store.caching and settings.caching and windows.caching:  # late records find rows that are not deleted yet
        builder = _with_parameter(builder, "until_deleted", True).with_caching_enabled()
    return logged(builder, store.logging, store.topic_config)


def _with_parameter(builder: StoreBuilder[Any, Any], name: str, value: Any) -> StoreBuilder[Any, Any]:
    """Returns a builder with one parameter more of its supplier (:class:`state.windowed.segments.Retention`)."""
    supplier = builder.supplier
    return replace(builder, supplier=replace(supplier, parameters={**supplier.parameters, name: value}))


def _default_supplier(store: Materialization, windows: PlannedWindowStore, settings: BuildSettings) -> StoreSupplier:
    params: DslSessionParams | DslWindowParams
    if windows.size_ms is None:
        params = DslSessionParams(
            name=store.name, retention_period_ms=windows.retention_ms, emit_on_window_close=windows.final
        )
    else:
        params = DslWindowParams(
            name=store.name,
            retention_period_ms=windows.retention_ms,
            window_size_ms=windows.size_ms,
            emit_on_window_close=windows.final,
        )
    return chosen_supplier(params, store.store_type, settings)
