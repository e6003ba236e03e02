"""The nodes that windowed aggregations of several grouped streams add to the plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dsl.options import NamedLike
from dsl.plan.builder import PlanPlace
from dsl.plan.cogroup_nodes import COGROUP, Cogrouping, one_table
from dsl.plan.materialization import MaterializedLike
from dsl.processors.tables.operator import TableOperator
from dsl.windows import aggregations


@dataclass(frozen=True)
class WindowedCogrouping:
    """Grouped streams that share an aggregate in each window."""

    cogrouping: Cogrouping
    windowed: aggregations.WindowedGrouping


def window_all(cogrouping: Cogrouping, windows: Any) -> WindowedCogrouping:
    """Returns the streams with their windows; adds no node.

    :raises TopologyError: if they are not windows.
    """
    return WindowedCogrouping(cogrouping, aggregations.window(cogrouping.first, windows))


def aggregate(
    cogrouped: WindowedCogrouping, functions: aggregations.Functions, materialized: MaterializedLike, named: NamedLike
) -> PlanPlace:
    """Adds an aggregation of all records of a key in each window.

    :param functions: the initializer, and for sessions the merger; each stream has an aggregator of its own.
    """
    windowed = cogrouped.windowed
    models = windowed.grouping.place.plan_builder.models
    follow = models.value(functions.initializer, functions.merger, *cogrouped.cogrouping.aggregators)
    store = aggregations.windowed_store(windowed, materialized, COGROUP, value_serde=follow)

    def operator(aggregator: Any) -> TableOperator:
        return aggregations.operator_of(windowed, replace(functions, aggregator=aggregator))

    place = one_table(cogrouped.cogrouping, operator, store, named, aggregations.grace_of(windowed.windows))
    return replace(place, key_serde=aggregations.windowed_serde(windowed.windows, store.key_serde))
