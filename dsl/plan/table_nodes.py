"""The nodes that calls on a table add to the plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsl.change import ChangeSerde
from dsl.naming import REPARTITION_SUFFIX
from dsl.options import Consumed, Grouped, NamedLike, name_of
from dsl.plan.builder import PlanBuilder, PlanPlace
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize, materialize_if_named, values_of
from dsl.plan.nodes import Answer, Ask, Materialization, Process, TableRepartition, TableSourceNode, TableStep
from dsl.plan.stream_nodes import SINK, SOURCE, check_store_names
from dsl.processors.stateless import ToStream
from dsl.processors.tables.aggregate import TableAggregate, TableGroupBy, TableReduce
from dsl.processors.tables.operator import TableOperator
from dsl.processors.tables.source import TableSourceOperator
from dsl.processors.tables.stateless import TableFilter, TableMapValues
from dsl.processors.tables.transform import TableTransformValues
from dsl.value_transformer import ValueTransformerWithKey
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.texts import repr_of
from processor_api.topology.topic_names import check_topic_name
from processor_api.user_code.checks import check_made
from processor_api.user_code.migrating_serde import migrating

FILTER = "KTABLE-FILTER-"
MAPVALUES = "KTABLE-MAPVALUES-"
TRANSFORMVALUES = "KTABLE-TRANSFORMVALUES-"
AGGREGATE = "KTABLE-AGGREGATE-"
REDUCE = "KTABLE-REDUCE-"
TABLE_SOURCE = "KTABLE-SOURCE-"
_TRANSFORMER_METHODS = {"init": ("context",), "transform": ("key", "value"), "close": ()}


def table(plan_builder: PlanBuilder, topic: str, how: Consumed[Any, Any], materialized: MaterializedLike) -> PlanPlace:
    """Adds a table of a topic: its source, its store and the operator that fills it.

    :raises TopologyError: if no topic is given.
    """
    found: object = topic
    if not isinstance(found, str) or not found:
        raise TopologyError(f"a table must read exactly one topic, got {repr_of(found)}")
    check_topic_name(topic, "a table")
    given = as_materialized(materialized)
    value_serde = migrating(how.value_serde or given.value_serde, given.migrate)
    how = replace(how, key_serde=how.key_serde or given.key_serde, value_serde=value_serde)
    given = replace(given, key_serde=how.key_serde, value_serde=how.value_serde)
    store = materialize(given, plan_builder, f"{topic}-")
    source = plan_builder.names.suffixed(how.name, "-source", SOURCE)
    name = plan_builder.names.choose(how.name, TABLE_SOURCE)
    node = plan_builder.add(
        TableSourceNode(
            name=name, source=source, topic=topic, consumed=how, operator=TableSourceOperator(), store=store
        )
    )
    return PlanPlace(
        plan_builder=plan_builder,
        node=node,
        name=name,
        sources=frozenset((source,)),
        key_serde=how.key_serde,
        value_serde=how.value_serde,
        store=store.query_name,
    )


def filter_(
    place: PlanPlace,
    predicate: Callable[[Any, Any], object],
    negate: bool,
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds a filter of a table."""
    given = as_materialized(materialized)
    store = materialize_if_named(
        materialized, place.plan_builder, FILTER, key_serde=place.key_serde, value_serde=place.value_serde
    )
    return _step(
        place,
        TableFilter(predicate=predicate, negate=negate),
        store,
        place.plan_builder.names.choose(name_of(named), FILTER),
        Ask.IF_AVAILABLE,
        key_serde=given.key_serde or place.key_serde,
        value_serde=values_of(given, place.value_serde),
    )


def map_values(
    place: PlanPlace,
    mapper: Callable[..., Any],
    with_key: bool,
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds a node that changes a table's values."""
    given = as_materialized(materialized)
    follow = place.plan_builder.models.value(mapper)
    store = materialize_if_named(
        materialized, place.plan_builder, MAPVALUES, key_serde=place.key_serde, value_serde=follow
    )
    return _step(
        place,
        TableMapValues(mapper=mapper, with_key=with_key),
        store,
        place.plan_builder.names.choose(name_of(named), MAPVALUES),
        Ask.NOTHING,
        key_serde=given.key_serde or place.key_serde,
        value_serde=values_of(given, follow),
    )


def transform_values(
    place: PlanPlace,
    supplier: Callable[[], Any],
    stores: tuple[str, ...],
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds a node that transforms a table's values by a user's transformer.

    :raises TopologyError: if the supplier makes no transformers, or the same one twice.
    """
    given = as_materialized(materialized)
    store, (_, follow) = None, place.plan_builder.models.forwarded(supplier, ValueTransformerWithKey)
    if given.store_name is not None:
        store = materialize(
            materialized, place.plan_builder, TRANSFORMVALUES, key_serde=place.key_serde, value_serde=follow
        )
    name = place.plan_builder.names.choose(name_of(named), TRANSFORMVALUES)
    kind = ValueTransformerWithKey
    check_made(supplier, repr(name), kind.__name__, (kind,), _TRANSFORMER_METHODS, node=name)
    check_store_names(name, stores)
    node = TableStep(
        name=name,
        parents=(place.node,),
        operator=TableTransformValues(supplier=supplier, connected=stores),
        store=store,
        answers=Answer.OWN_STORE_OR_PARENT,
        stores=stores,
    )
    return place.then(
        node,
        key_serde=given.key_serde or place.key_serde,
        value_serde=values_of(given, follow),
        store=None if store is None else store.name,
    )


def _step(
    place: PlanPlace, operator: TableOperator, store: Materialization | None, name: str, asks: Ask, **serdes: Any
) -> PlanPlace:
    node = TableStep(
        name=name,
        parents=(place.node,),
        operator=operator,
        store=store,
        answers=Answer.OWN_STORE_OR_PARENT,
        asks=asks,
    )
    return place.then(node, store=None if store is None else store.name, **serdes)


def to_stream(place: PlanPlace, named: NamedLike) -> PlanPlace:
    """Adds a node that turns changes into records."""
    name = place.plan_builder.names.choose(name_of(named), "KTABLE-TOSTREAM-")
    node = Process(name=name, parents=(place.node,), supplier=ToStream())
    return place.then(node, store=None)


@dataclass
class TableGrouping:
    """A grouped table. A repartition topic that the user named serves all its aggregations."""

    place: PlanPlace
    name: str | None
    repartition: int | None = None


def group_by(
    place: PlanPlace, selector: Callable[[Any, Any], tuple[Any, Any] | None], how: Grouped[Any, Any]
) -> TableGrouping:
    """Adds a node that selects groups, and groups by them."""
    name = place.plan_builder.names.choose(how.name, "KTABLE-SELECT-")
    node = Process(name=name, parents=(place.node,), supplier=TableGroupBy(selector), asks=Ask.FORCE)
    key_serde, value_serde = place.plan_builder.models.pair(selector)
    serdes = {"key_serde": how.key_serde or key_serde, "value_serde": how.value_serde or value_serde}
    below = place.then(node, **serdes, store=None)
    return TableGrouping(below, how.name)


def count(grouping: TableGrouping, materialized: MaterializedLike, named: NamedLike) -> PlanPlace:
    """Adds a count of the rows of each group, with its repartition topic."""
    operator = TableAggregate(initializer=_zero, adder=_one_more, subtractor=_one_less)
    place = grouping.place
    store = materialize(materialized, place.plan_builder, AGGREGATE, key_serde=place.key_serde, value_serde=Serdes.LONG)
    return _aggregated(grouping, operator, store, AGGREGATE, named)


def _zero() -> int:
    return 0


def _one_more(key: Any, value: Any, aggregate: int) -> int:
    return aggregate + 1


def _one_less(key: Any, value: Any, aggregate: int) -> int:
    return aggregate - 1


def reduce(
    grouping: TableGrouping,
    adder: Callable[[Any, Any], Any],
    subtractor: Callable[[Any, Any], Any],
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds a reduction of each group, with its repartition topic."""
    place = grouping.place
    store = materialize(
        materialized,
        place.plan_builder,
        AGGREGATE,
        key_serde=place.key_serde,
        value_serde=place.value_serde or place.plan_builder.models.value(adder, subtractor),
    )
    return _aggregated(grouping, TableReduce(adder=adder, subtractor=subtractor), store, REDUCE, named)


def aggregate(
    grouping: TableGrouping,
    initializer: Callable[[], Any],
    adder: Callable[[Any, Any, Any], Any],
    subtractor: Callable[[Any, Any, Any], Any],
    materialized: MaterializedLike,
    named: NamedLike,
) -> PlanPlace:
    """Adds an aggregation of each group, with its repartition topic."""
    place = grouping.place
    follow = place.plan_builder.models.value(initializer, adder, subtractor)
    store = materialize(materialized, place.plan_builder, AGGREGATE, key_serde=place.key_serde, value_serde=follow)
    operator = TableAggregate(initializer=initializer, adder=adder, subtractor=subtractor)
    return _aggregated(grouping, operator, store, AGGREGATE, named)


def _aggregated(
    grouping: TableGrouping, operator: TableOperator, store: Materialization, prefix: str, named: NamedLike
) -> PlanPlace:
    place, given = grouping.place, name_of(named)
    names = place.plan_builder.names
    sink = names.suffixed(given, "-sink", SINK)
    source = names.suffixed(given, "-source", SOURCE)
    name = names.choose(given, prefix)
    below = _repartitioned(grouping, sink, source, (grouping.name or store.name) + REPARTITION_SUFFIX)
    node = TableStep(name=name, parents=(below.node,), operator=operator, store=store, answers=Answer.ALWAYS)
    return below.then(
        node,
        key_serde=store.key_serde,
        value_serde=store.value_serde,
        store=store.query_name,
    )


def _repartitioned(grouping: TableGrouping, sink: str, source: str, topic: str) -> PlanPlace:
    place = grouping.place
    number = grouping.repartition
    if number is not None:
        place.plan_builder.add_again(number)
        source = place.plan_builder.node(number).name
        return replace(place, node=number, name=source, sources=frozenset((source,)))
    node = TableRepartition(
        name=source,
        parents=(place.node,),
        topic=topic,
        sink=sink,
        key_serde=place.key_serde,
        value_serde=ChangeSerde(place.value_serde),
    )
    below = place.then(node, sources=frozenset((source,)))
    if grouping.name is not None:
        grouping.repartition = below.node
    return below
