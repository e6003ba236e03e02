"""The pass that finds which sources must have topics with the same number of partitions (semantics 103)."""

from __future__ import annotations

from collections.abc import Iterator

from dsl.plan.nodes import Plan, Process, Repartition, StreamSource, TableRepartition, TableSource, TableStep


def copartition_groups(plan: Plan) -> Iterator[frozenset[str]]:
    """Yields the names of the sources of each group: those from which the two sides of a join come, or
    the streams that are aggregated together.

    It looks at the plan as it will be written, so that it knows the sources of merged repartition topics.
    """
    for node in plan.nodes.values():
        if isinstance(node, Process | TableStep) and node.copartitions:
            reads = node.reads if isinstance(node, Process) else ()
            yield frozenset().union(*(_sources(plan, number) for number in (*node.parents, *reads)))


def _sources(plan: Plan, number: int) -> frozenset[str]:
    node = plan.nodes[number]
    match node:
        case TableSource():
            return frozenset((node.source,))
        case StreamSource() | Repartition() | TableRepartition():
            return frozenset((node.name,))
        case _:
            return frozenset().union(*(_sources(plan, parent) for parent in node.parents))
