"""The nodes that grouping a stream and aggregating it add to the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsl.options import Grouped, NamedLike, name_of, with_serdes
from dsl.plan.builder import PlanPlace
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize
from dsl.plan.nodes import Answer, Materialization, TableStep
from dsl.plan.stream_nodes import new_repartition, select_key
from dsl.processors.aggregate import Aggregate, Count, Reduce
from dsl.processors.tables.operator import TableOperator
from processor_api.serde import Serdes
from processor_api.user_code.given_serdes import SerdeLike

AGGREGATE = "KSTREAM-AGGREGATE-"
REDUCE = "KSTREAM-REDUCE-"


@dataclass
class Grouping:
    """A grouped stream. A repartition topic that the user named serves all its aggregations (semantics 102)."""

    place: PlanPlace
    name: str | None
    repartitioned: PlanPlace | None = None


def as_grouped(
    grouped: Grouped[Any, Any] | str | None,
    call: str,
    key_serde: SerdeLike[Any] | None,
    value_serde: SerdeLike[Any] | None,
) -> Grouped[Any, Any]:
    """Returns the options of a group, of which a string is the name, with serdes that stand beside them in a call."""
    how = Grouped(name=grouped) if isinstance(grouped, str) else grouped
    return with_serdes(how, Grouped, call, key_serde, value_serde)


def _grouping(place: PlanPlace, grouped: Grouped[Any, Any]) -> Grouping:
    place = replace(
        place,
        key_serde=grouped.key_serde or place.key_serde,
        value_serde=grouped.value_serde or place.value_serde,
    )
    return Grouping(place, grouped.name)


def group_by_key(place: PlanPlace, how: Grouped[Any, Any]) -> Grouping:
    """Groups a stream by its keys; adds no node."""
    return _grouping(place, how)


def group_by(place: PlanPlace, selector: Callable[[Any, Any], Any], how: Grouped[Any, Any]) -> Grouping:
    """Adds a node that selects keys, and groups by them."""
    return _grouping(select_key(place, selector, how.name), how)


def count(grouping: Grouping, materialized: MaterializedLike, named: NamedLike) -> PlanPlace:
    """Adds a count, with its repartition topic if the key changed."""
    place = grouping.place
    if materialized is not None and as_materialized(materialized).store_name is None:
        place.plan_builder.names.store(AGGREGATE)  # Java uses up one more number here
    store = materialize(materialized, place.plan_builder, AGGREGATE, key_serde=place.key_serde, value_serde=Serdes.LONG)
    return _aggregated(grouping, Count(), store, AGGREGATE, named)


def reduce(
    grouping: Grouping, reducer: Callable[[Any, Any], Any], materialized: MaterializedLike, named: NamedLike
) -> PlanPlace:
    """Adds a reduction, with its repartition topic if the key changed."""
    place = grouping.place
    store = materialize(
        materialized,
        place.plan_builder,
        REDUCE,
        key_serde=place.key_serde,
        value_serde=place.value_serde or place.plan_builder.models.value(reducer),
    )
    return _aggregated(grouping, Reduce(reducer=reducer), store, REDUCE, named)


def aggregate(
    grouping: Grouping,
    initializer: Callable[[], Any],
    aggregator: Callable[[Any, Any, Any], Any],
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds an aggregation, with its repartition topic if the key changed."""
    place = grouping.place
    follow = place.plan_builder.models.value(initializer, aggregator)
    store = materialize(materialized, place.plan_builder, AGGREGATE, key_serde=place.key_serde, value_serde=follow)
    operator = Aggregate(initializer=initializer, aggregator=aggregator)
    return _aggregated(grouping, operator, store, AGGREGATE, named)


def _aggregated(
    grouping: Grouping, operator: TableOperator, store: Materialization, prefix: str, named: NamedLike
) -> PlanPlace:
    name = grouping.place.plan_builder.names.choose(name_of(named), prefix)
    place = repartitioned(grouping, store.name)
    table = TableStep(name=name, parents=(place.node,), operator=operator, store=store, answers=Answer.ALWAYS)
    return place.then(
        table,
        key_serde=store.key_serde,
        value_serde=store.value_serde,
        store=store.query_name,
    )


def repartitioned(grouping: Grouping, store: str) -> PlanPlace:
    """Returns the place from which an aggregation reads: below a repartition topic if the key changed."""
    place = grouping.place
    if not place.repartition_required:
        return place
    node = new_repartition(place, grouping.name or store, key_serde=place.key_serde, value_serde=place.value_serde)
    if grouping.repartitioned is not None:
        place.plan_builder.add_again(grouping.repartitioned.node)
        return grouping.repartitioned
    below = place.then(node, sources=frozenset((node.name,)), repartition_required=False)
    if grouping.name is not None:
        grouping.repartitioned = below
    return below
