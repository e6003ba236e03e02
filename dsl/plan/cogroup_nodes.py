"""The nodes that aggregating several grouped streams into one table adds to the plan (KIP-150, semantics 53)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from dsl.options import NamedLike, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.group_nodes import Grouping, repartitioned
from dsl.plan.materialization import MaterializedLike, materialize
from dsl.plan.nodes import Answer, Materialization, TableStep
from dsl.processors.aggregate import Aggregate
from dsl.processors.tables.operator import TableMerge, TableOperator
from processor_api.user_code.checks import check_function

COGROUP = "COGROUPKSTREAM-AGGREGATE-"
MERGE = "COGROUPKSTREAM-MERGE-"

Aggregator = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class Cogrouping:
    """Grouped streams, each with the function that adds its records to the aggregate that they share."""

    parts: tuple[tuple[Grouping, Aggregator], ...]

    @property
    def first(self) -> Grouping:
        """The stream that was grouped first; its key serde is the table's."""
        return self.parts[0][0]

    @property
    def aggregators(self) -> tuple[Aggregator, ...]:
        """The functions of all streams."""
        return tuple(aggregator for _, aggregator in self.parts)


def cogroup(before: Cogrouping | None, grouping: Grouping, aggregator: Aggregator) -> Cogrouping:
    """Returns the streams with one more; adds no node. A stream that is there already gets the new function.

    :raises TopologyError: if the function cannot be called, or the stream comes from another builder.
    """
    check_function(aggregator, "aggregator", "cogroup", ("key", "value", "aggregate"), returns=True)
    parts: dict[int, tuple[Grouping, Aggregator]] = {}
    for part in () if before is None else before.parts:
        part[0].place.same_builder(grouping.place)
        parts[id(part[0])] = part
    parts[id(grouping)] = (grouping, aggregator)
    return Cogrouping(tuple(parts.values()))


def aggregate(
    cogrouping: Cogrouping, initializer: Callable[[], Any], materialized: MaterializedLike, named: NamedLike
) -> PlanPlace:
    """Adds an aggregation of all records of a key."""
    check_function(initializer, "initializer", "aggregate", (), returns=True)
    place = cogrouping.first.place
    follow = place.plan_builder.models.value(initializer, *cogrouping.aggregators)
    store = materialize(materialized, place.plan_builder, COGROUP, key_serde=place.key_serde, value_serde=follow)

    def operator_of(aggregator: Aggregator) -> TableOperator:
        return Aggregate(initializer=initializer, aggregator=aggregator)

    return one_table(cogrouping, operator_of, store, named)


def one_table(
    cogrouping: Cogrouping,
    operator_of: Callable[[Aggregator], TableOperator],
    store: Materialization,
    named: NamedLike,
    grace_ms: int | None = None,
) -> PlanPlace:
    """Adds a node for each stream, all with one store, and the node below them that makes one table of their changes.

    :param operator_of: makes the operator of a stream of its aggregator.
    """
    name, names = name_of(named), cogrouping.first.place.plan_builder.names
    places = [repartitioned(grouping, store.name) for grouping, _ in cogrouping.parts]
    nodes = [
        place.then(
            TableStep(
                name=names.suffixed(name, f"-cogroup-agg-{number}", COGROUP),
                parents=(place.node,),
                operator=replace(operator_of(aggregator), part=f"/{number + 1} of {len(places)}" if places[1:] else ""),
                store=store,
                answers=Answer.ALWAYS,
                shares_store=number > 0,
                grace_ms=grace_ms,
            )
        )
        for number, (place, (_, aggregator)) in enumerate(zip(places, cogrouping.parts, strict=True))
    ]
    merge = TableStep(
        name=names.suffixed(name, "-cogroup-merge", MERGE),
        parents=tuple(node.node for node in nodes),
        operator=TableMerge(),
        store=None,
        answers=Answer.OWN_STORE_OR_PARENT,
        copartitions=True,
    )
    sources = frozenset[str]().union(*(place.sources for place in places))
    return replace(nodes[0], sources=sources).then(
        merge,
        key_serde=store.key_serde,
        value_serde=store.value_serde,
        store=store.query_name,
    )
