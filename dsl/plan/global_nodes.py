"""The nodes that the calls for global tables and global stores add to the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsl.options import Consumed, chosen
from dsl.plan.builder import PlanBuilder
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize
from dsl.plan.nodes import GlobalSource
from dsl.plan.stream_nodes import SOURCE
from dsl.plan.table_nodes import TABLE_SOURCE
from dsl.processors.tables.source import TableSourceOperator
from processor_api.errors import TopologyError
from processor_api.processor import Processor, check_supplier
from processor_api.serde import Serde
from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import as_supplier
from processor_api.texts import repr_of
from processor_api.topology.topic_names import check_topic_name
from processor_api.user_code.migrating_serde import migrating

VERSIONED = "history_retention_ms"


@dataclass(frozen=True, kw_only=True)
class GlobalTable:
    """A global table in the plan, as joins use it."""

    plan_builder: PlanBuilder
    node: int
    name: str
    store: str
    """Its store, which every operator may read without being connected to it."""
    queryable: bool
    """Whether the user named the store."""
    key_serde: Serde[Any] | None
    value_serde: Serde[Any] | None


def global_table(
    plan_builder: PlanBuilder, topic: Any, how: Consumed[Any, Any], materialized: MaterializedLike
) -> GlobalTable:
    """Adds a global table: its source, its store and the operator that fills it.

    :raises TopologyError: if no topic is given, or the store is versioned.
    """
    given = as_materialized(materialized)
    if given.supplier is not None and VERSIONED in as_supplier(given.supplier).parameters:
        raise TopologyError("a global table cannot be versioned: choose another supplier", store=given.store_name)
    value_serde = migrating(how.value_serde or given.value_serde, given.migrate)
    how = replace(how, key_serde=how.key_serde or given.key_serde, value_serde=value_serde)
    given = replace(given, key_serde=how.key_serde, value_serde=how.value_serde)
    store = materialize(given, plan_builder, f"{_one_topic(topic)}-")
    store = replace(store, logging=False, topic_config={}, caching=False)
    source, name = _names(plan_builder, how)
    node = plan_builder.add(
        GlobalSource(
            name=name,
            source=source,
            topic=topic,
            consumed=how,
            supplier=TableSourceOperator(store=store.name),
            store=store,
        )
    )
    return GlobalTable(
        plan_builder=plan_builder,
        node=node,
        name=name,
        store=store.name,
        queryable=store.queryable,
        key_serde=how.key_serde,
        value_serde=how.value_serde,
    )


def add_global_store(
    plan_builder: PlanBuilder,
    builder: Any,
    topic: Any,
    consumed: Consumed[Any, Any] | None,
    supplier: Callable[[], Processor[Any, Any, Any, Any]],
) -> None:
    """Adds a global store: its source, and the processor that fills it.

    :raises TopologyError: if ``builder`` is not a store builder, or no topic is given.
    """
    if not isinstance(builder, StoreBuilder):
        raise TopologyError(f"expected a store builder, got {repr_of(builder)}; see Stores.key_value_store_builder")
    how: Consumed[Any, Any] = chosen(consumed, Consumed)
    source, name = _names(plan_builder, how)
    check_supplier(name, supplier)
    plan_builder.add(
        GlobalSource(
            name=name,
            source=source,
            topic=_one_topic(topic),
            consumed=how,
            supplier=supplier,
            store=builder.with_logging_disabled(),
        )
    )


def _one_topic(topic: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise TopologyError(f"a global store must read exactly one topic, got {repr_of(topic)}")
    check_topic_name(topic, "a global store")
    return topic


def _names(plan_builder: PlanBuilder, consumed: Consumed[Any, Any]) -> tuple[str, str]:
    return plan_builder.names.suffixed(consumed.name, "-source", SOURCE), plan_builder.names.choose(
        consumed.name, TABLE_SOURCE
    )
