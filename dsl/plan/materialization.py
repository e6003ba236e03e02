"""The stores of tables: from the options that a user gave to a builder of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dsl.options import Materialized, chosen, with_serdes
from dsl.plan.builder import PlanBuilder
from dsl.plan.nodes import BufferStore, Materialization
from dsl.plan.store_choice import chosen_supplier, logged
from dsl.settings import BuildSettings
from processor_api.errors import TopologyError
from processor_api.serde import Serde
from processor_api.stores.buffers import change_buffer_builder
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.defaults import DslKeyValueParams
from processor_api.stores.factory import Stores
from processor_api.stores.suppliers import PLAIN_BYTES, as_supplier
from processor_api.user_code.durations import to_ms
from processor_api.user_code.given_serdes import SerdeLike
from processor_api.user_code.migrating_serde import migrating

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
            f"store {store.name!r} is a {supplier.kind} store, and the table it is for has no windows: take a supplier"
            " of a key-value store, or group by windows first",
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
