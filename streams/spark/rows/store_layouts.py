"""The layout of a store's table by the kind of the store, found on the driver."""

from __future__ import annotations

from typing import Any

from processor_api.errors import ConfigError
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.time_to_live import RECORD_TIME
from processor_api.topology.function import topology_of
from processor_api.topology.topology import Topology
from state.registry.kinds import kind_of
from state.windowed.segments import Retention
from state.write_buffer.changelog_form import ChangelogForm
from streams.config import StreamsConfig
from streams.config.import_path import NoSuchObject, import_object
from streams.kafka.topics.internal import changelog_name, topic_prefix
from streams.runtime.processing.environment import resolve_serde
from streams.spark.errors import SparkBridgeError, UnsupportedStore
from streams.spark.rows.columns import Column, column_of
from streams.spark.rows.shipping import SHIP
from streams.spark.rows.table_layout import TableLayout

_WITHOUT_COLUMNS = frozenset({ChangelogForm.CHANGES, ChangelogForm.CHANGES_BY_TIME, ChangelogForm.OWN})


def load_topology(given: Any, config: StreamsConfig) -> Topology:
    """Returns the topology that is given itself, as a function that makes it, or as ``module:function``.

    :raises SparkBridgeError: if there is no such function.
    :raises TopologyError: if it is not a topology.
    """
    if isinstance(given, str):
        try:
            given = import_object(given)
        except NoSuchObject as error:
            raise SparkBridgeError(f"the topology {error}. Where Spark has not its module: {SHIP}") from error
    return topology_of(given, config)


def table_layout(
    config: StreamsConfig,
    topology: Topology,
    store: str,
    *,
    raw: bool = False,
    structs: bool = False,
    on_disk: bool = False,
) -> TableLayout:
    """Returns the layout of a store's table.

    :param raw: keys and values as bytes.
    :param structs: objects as structs rather than text.
    :param on_disk: of a store that is read from disk, so that it needs no changelog.
    :raises UnsupportedStore: if there is no such store, it has no changelog, or its rows do not have columns.
    :raises SparkBridgeError: if objects cannot be structs.
    """
    if raw and structs:
        raise SparkBridgeError("raw=True gives bytes: leave out raw, or structs", store=store)
    builder, topic, from_source = _store(config, topology, store, on_disk=on_disk)
    kind = kind_of(builder)
    form = kind.changelog_form
    if form in _WITHOUT_COLUMNS and not raw:
        raise UnsupportedStore(
            f"store {store!r} is a {builder.kind} store, whose rows have a form of their own: read it with raw=True,"
            " which gives keys and values as bytes",
            store=store,
        )
    parameters = builder.supplier.parameters
    retention = None
    if form.tail_bytes:
        shows_limit = kind.time_first and form is ChangelogForm.WINDOWS
        retention = Retention.of(builder, persistent=builder.supplier.persistent, shows_limit=shows_limit)
    lives = builder.time_to_live
    key, value = Column("key", "binary"), Column("value", "binary")
    if not raw:
        of_records = from_source and not on_disk
        key, value = (
            column_of(name, serde if of_records else serde.inside(), structs=structs)
            for name, serde in (
                ("key", _serde("key", builder.key_serde, config.default_key_serde, store, topic)),
                ("value", _serde("value", builder.value_serde, config.default_value_serde, store, topic)),
            )
        )
    return TableLayout(
        store=store,
        topic=topic,
        form=form,
        key=key,
        value=value,
        headers=form not in _WITHOUT_COLUMNS and any("headers" in family.columns for family in kind.offline.values()),
        window_size_ms=parameters.get("window_size_ms"),
        window_end=parameters.get("window_end"),
        duplicates=bool(parameters.get("retain_duplicates")),
        retention=retention,
        time_to_live_ms=lives.ms if lives is not None and lives.by == RECORD_TIME else None,
        parameters=dict(parameters),
        from_source=from_source,
    )


def builder_of(topology: Topology, store: str) -> StoreBuilder[Any, Any] | None:
    """Returns the builder of a store, also of a global one."""
    if store in topology.global_stores:
        return topology.global_stores[store].builder
    return topology.stores.get(store)


def _store(
    config: StreamsConfig, topology: Topology, store: str, *, on_disk: bool
) -> tuple[StoreBuilder[Any, Any], str, bool]:
    builder = builder_of(topology, store)
    if builder is None:
        names = ", ".join(sorted({*topology.stores, *topology.global_stores})) or "none"
        raise UnsupportedStore(f"the topology has no store {store!r}; it has: {names}", store=store)
    if store in topology.global_stores:
        spec = topology.global_stores[store]
        if spec.reprocess and not on_disk:
            raise UnsupportedStore(
                f"the global store {store!r} holds what its processor makes of topic {spec.topic!r}, and has no"
                " changelog: read that topic by read_topic",
                store=store,
            )
        return builder, spec.topic, True
    if store in topology.source_changelogs:
        return builder, topology.source_changelogs[store], True
    if not builder.logging and not on_disk:
        raise UnsupportedStore(
            f"store {store!r} has no changelog, since its logging is disabled: read the state directory by read_state",
            store=store,
        )
    return builder, changelog_name(topic_prefix({"application.id": config.application_id}), store), False


def _serde(name: str, given: Any, default: Any, store: str, topic: str) -> Serde[Any]:
    try:
        serde = resolve_serde(given, default, f"the store {store!r}", name)
    except ConfigError as error:
        raise UnsupportedStore(f"{error.message}; or read it with raw=True", store=store) from error
    return serde.bind(topic, is_key=name == "key")
