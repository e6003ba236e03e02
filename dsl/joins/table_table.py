"""The nodes that joins of two tables add to the plan: one for each side, and one for the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl.options import NamedLike, name_of
from dsl.plan.builder import PlanPlace
from dsl.plan.materialization import MaterializedLike, as_materialized, materialize, values_of
from dsl.plan.nodes import Answer, Ask, Process, TableStep
from dsl.processors.joins.table_table import TableJoinResult, TableJoinSide

MERGE = "KTABLE-MERGE-"
JOIN_THIS = "KTABLE-JOINTHIS-"
JOIN_OTHER = "KTABLE-JOINOTHER-"


def join(
    left: PlanPlace,
    right: PlanPlace,
    joiner: Callable[[Any, Any], Any],
    materialized: MaterializedLike,
    named: NamedLike,
    *,
    keeps_left: bool = False,
    keeps_right: bool = False,
) -> PlanPlace:
    """Adds a join of two tables.

    :param keeps_left: whether rows of the left table stay that have none on the right: a left join, and an outer one.
    :param keeps_right: whether rows of the right table stay that have none on the left: an outer join.
    :raises TopologyError: if the tables come from different builders.
    """
    left.same_builder(right)
    given, name, follow = as_materialized(materialized), name_of(named), left.plan_builder.models.value(joiner)
    store = None
    if (
        materialized is not None
    ):  # also one without a name: Java keeps what is joined then, and nothing else (semantics 109)
        store = materialize(materialized, left.plan_builder, MERGE, key_serde=left.key_serde, value_serde=follow)
    names = left.plan_builder.names
    merge = names.choose(name, MERGE)
    this = TableJoinSide(joiner=joiner, is_left=True, needs_own=not keeps_right, needs_other=not keeps_left)
    other = TableJoinSide(joiner=joiner, is_left=False, needs_own=not keeps_left, needs_other=not keeps_right)
    below_left = left.then(
        Process(
            name=names.suffixed(name, "-join-this", JOIN_THIS),
            parents=(left.node,),
            supplier=this,
            asks=Ask.FORCE if keeps_left else Ask.NOTHING,
            reads=(right.node,),
            copartitions=True,
        )
    )
    below_right = right.then(
        Process(
            name=names.suffixed(name, "-join-other", JOIN_OTHER),
            parents=(right.node,),
            supplier=other,
            asks=Ask.FORCE if keeps_right else Ask.NOTHING,
            reads=(left.node,),
            copartitions=True,
        )
    )
    result = TableStep(
        name=merge,
        parents=(below_left.node, below_right.node),
        operator=TableJoinResult(joiner=joiner, needs_left=not keeps_right, needs_right=not keeps_left),
        store=store,
        answers=Answer.BOTH_PARENTS,
    )
    return below_left.then(
        result,
        sources=left.sources | right.sources,
        key_serde=given.key_serde or left.key_serde,
        value_serde=values_of(given, follow),
        store=None if store is None else store.query_name,
    )
