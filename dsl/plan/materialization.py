"""The stores of tables, windowed ones too: from the options that a user gave, and the choice where none was given, to a
builder of the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dsl.options import Materialized, chosen, with_serdes
from dsl.plan.builder import PlanBuilder
from dsl.plan.nodes import BufferStore, Materialization, PlannedWindowStore
from dsl.settings import BuildSettings
from processor_api.errors import StreamsError, TopologyError
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder, change_buffer_builder
from processor_api.stores.defaults import (
    DslKeyValueParams,
    DslSessionParams,
    DslStoreSuppliers,
    DslWindowParams,
    on_engine,
)
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import PLAIN_BYTES, StoreSupplier, as_supplier
from processor_api.texts import kind_and_text, repr_of
from processor_api.user_code.durations import to_ms
from processor_api.user_code.given_serdes import SerdeLike
from processor_api.user_code.migrating_serde import migrating

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
            f"{call} of {repr_of(suppliers)} must return a supplier of store {repr_of(store)}, but returned one of"
            f" {repr_of(supplier.name)}",
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


MaterializedLike = Materialized[Any, Any] | str | None

_BUILDERS: Mapping[str, Callable[..., StoreBuilder[Any, Any]]] = {
    "key-value": Stores.timestamped_key_value_store_builder,
    "timestamped-key-value": Stores.timestamped_key_value_store_builder,
    "headers-key-value": Stores.timestamped_key_value_store_with_headers_builder,
    "lru-map": Stores.timestamped_key_value_store_builder,
    "timestamped-lru-map": Stores.timestamped_key_value_store_builder,
    PLAIN_BYTES: Stores.timestamped_key_value_store_builder,
}
"""Tables keep timestamps: what makes their stores, by the kind of the supplier; other kinds are taken as they are."""

_CAN_HAVE_HEADERS = frozenset({"key-value", "timestamped-key-value", "headers-key-value"})
"""Kinds of supplier whose stores keep headers where the application wants them."""


def as_materialized(materialized: MaterializedLike) -> Materialized[Any, Any]:
    """Returns the options of a store, of which a string is the name."""
    return Materialized(name=materialized) if isinstance(materialized, str) else chosen(materialized, Materialized)


def of_aggregates(materialized: MaterializedLike, value_serde: SerdeLike[Any] | None) -> MaterializedLike:
    """Returns what was given for the store of an aggregation, with the serde of its values that stands beside it."""
    if value_serde is None:
        return materialized
    return with_serdes(as_materialized(materialized), Materialized, "aggregate", None, value_serde)


def materialize(
    materialized: MaterializedLike,
    plan_builder: PlanBuilder,
    prefix: str,
    *,
    key_serde: Serde[Any] | None = None,
    value_serde: Serde[Any] | None = None,
) -> Materialization:
    """Returns the store of a table that may need one.

    :param prefix: the beginning of a generated name.
    :param key_serde: for a store that was given none; so ``value_serde``.
    """
    given = as_materialized(materialized)
    name = given.store_name
    return Materialization(
        name=plan_builder.names.store(prefix) if name is None else name,
        queryable=name is not None,
        key_serde=key_serde if given.key_serde is None else given.key_serde,
        value_serde=values_of(given, value_serde),
        supplier=None if given.supplier is None else as_supplier(given.supplier),
        store_type=given.store_type,
        logging=given.logging,
        topic_config=given.topic_config,
        caching=given.caching,
        retention_ms=None if given.retention is None else to_ms(given.retention, "retention"),
        time_to_live=given.time_to_live,
    )


def values_of(given: Materialized[Any, Any], value_serde: Serde[Any] | None = None) -> Serde[Any] | None:
    """Returns the serde of a table's values, for its store and for all that keeps or sends them behind it.

    :param value_serde: for a table that was given none.
    """
    return migrating(value_serde if given.value_serde is None else given.value_serde, given.migrate)


def materialize_if_named(
    materialized: MaterializedLike,
    plan_builder: PlanBuilder,
    prefix: str,
    *,
    key_serde: Serde[Any] | None = None,
    value_serde: Serde[Any] | None = None,
) -> Materialization | None:
    """Returns the store of a table that has one only if it can be queried (semantics 109).

    It uses up a number of the counter, as Java does.
    """
    if materialized is None:
        return None
    store = materialize(materialized, plan_builder, prefix, key_serde=key_serde, value_serde=value_serde)
    return store if store.queryable else None


def key_value_builder(store: Materialization, settings: BuildSettings) -> StoreBuilder[Any, Any]:
    """Returns a builder of a table's store: by its supplier, or else by the application's settings.

    It keeps timestamps, and headers if the application wants them; a supplier of another kind is taken as it is.
    """
    supplier = store.supplier or chosen_supplier(DslKeyValueParams(name=store.name), store.store_type, settings)
    make = _BUILDERS.get(supplier.kind)
    if settings.headers and store.supplier is None and supplier.kind in _CAN_HAVE_HEADERS:
        make = Stores.timestamped_key_value_store_with_headers_builder
    if "retention_ms" in supplier.parameters:
        raise TopologyError(
            f"store {store.name!r} is a {supplier.kind} store, but its table is not windowed: use a supplier of a"
            " key-value store, or group by windows first",
            store=store.name,
        )
    if make is not None:
        builder = make(supplier, store.key_serde, store.value_serde)
        if store.caching and settings.caching and builder.supplier.can_be_cached:
            builder = builder.with_caching_enabled()
    else:
        builder = StoreBuilder(supplier=supplier, key_serde=store.key_serde, value_serde=store.value_serde)
    if store.time_to_live is not None:
        builder = builder.with_time_to_live(store.time_to_live.duration, store.time_to_live.by)
    return logged(builder, store.logging, store.topic_config)


def buffer_builder(store: BufferStore, settings: BuildSettings) -> StoreBuilder[Any, Any]:
    """Returns a builder of a suppression's buffer on the application's engine.

    On RocksDB, what waits is still there after a restart, without a restore.
    """
    builder = change_buffer_builder(
        store.name, store.key_serde, store.value_serde, engine=settings.engine, headers=settings.headers
    )
    return logged(builder, store.logging, store.topic_config)


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
    cached = store.caching and settings.caching and windows.caching
    # Late records find rows that are not deleted yet: with a cache as in Kafka Streams, and without one the same ones.
    if cached or not (windows.exact or settings.keeps_java_defects):
        builder = _with_parameter(builder, "until_deleted", True)
    if cached:
        builder = builder.with_caching_enabled()
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
