"""The nodes that deduplicating a stream adds to the plan. They have no counterpart in Kafka Streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsl.options import NamedLike, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize, window_store_builder
from dsl.plan.nodes import Materialization, PlannedWindowStore, Process
from dsl.plan.stream_nodes import new_repartition
from dsl.processors.deduplicate import Deduplicate, DeduplicateById
from dsl.processors.record_id_serde import RecordIdSerde
from dsl.settings import BuildSettings
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.builder import StoreBuilder
from processor_api.user_code.durations import Duration, to_ms
from state.formats.keys import MAX_TIME

DEDUPLICATE = "KSTREAM-DEDUPLICATE-"


@dataclass(frozen=True, kw_only=True)
class KeptRecords:
    """The store of the records that were kept, for as long as others may be compared with them."""

    store: Materialization
    windows: PlannedWindowStore

    @property
    def name(self) -> str:
        """The name of the store."""
        return self.store.name

    @property
    def named(self) -> bool:
        """Whether the user named it."""
        return self.store.queryable

    @property
    def logging(self) -> bool:
        """Whether it has a changelog."""
        return self.store.logging

    def builder(self, settings: BuildSettings) -> StoreBuilder[Any, Any]:
        """Returns the builder of the store."""
        return window_store_builder(self.store, self.windows, settings)


def deduplicate(
    place: PlanPlace,
    within: Duration,
    grace: Duration | None,
    id_selector: Callable[[Any, Any], Any] | None,
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds a node that keeps the first of equal records, with its repartition topic if the key changed."""
    name = place.plan_builder.names.choose(name_of(named), DEDUPLICATE)
    within_ms = _checked(name, "within", within, 1)
    grace_ms = within_ms if grace is None else _checked(name, "grace", grace, 0)
    store = _store(place, name, materialized)
    if place.repartition_required:
        topic = new_repartition(place, name, key_serde=store.key_serde, value_serde=place.value_serde)
        place = place.then(
            topic, sources=frozenset((topic.name,)), key_serde=store.key_serde, repartition_required=False
        )
    options: dict[str, Any] = {"store": store.name, "within_ms": within_ms, "grace_ms": grace_ms}
    if id_selector is not None:
        store = replace(store, key_serde=RecordIdSerde(store.key_serde))
    retention_ms = min(2 * within_ms + grace_ms, MAX_TIME)
    windows = PlannedWindowStore(retention_ms=retention_ms, size_ms=within_ms, caching=False, exact=True)
    operator = Deduplicate(**options) if id_selector is None else DeduplicateById(id_selector=id_selector, **options)
    node = Process(
        name=name,
        parents=(place.node,),
        supplier=operator,
        own_stores=(KeptRecords(store=store, windows=windows),),
    )
    return place.then(node)


def _checked(node: str, what: str, duration: Duration, least: int) -> int:
    found = to_ms(duration, f"{what} of node {node!r}")
    if not least <= found <= MAX_TIME:
        raise TopologyError(f"{what} of node {node!r} is at least {least} ms, got {found} ms", node=node)
    return found


def _store(place: PlanPlace, node: str, materialized: MaterializedLike) -> Materialization:
    given = as_materialized(materialized)
    for what, value in (
        ("supplier", given.supplier),
        ("value_serde", given.value_serde),
        ("retention", given.retention),
        ("time_to_live", given.time_to_live),
    ):
        if value is not None:
            raise TopologyError(
                f"node {node!r} keeps records in its own window store: remove {what}; it accepts name, key_serde,"
                " store_type, logging and topic_config",
                node=node,
            )
    return materialize(given, place.plan_builder, DEDUPLICATE, key_serde=place.key_serde, value_serde=Serdes.BYTES)
