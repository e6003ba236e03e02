"""The pass that finds the repartition topics through which records without a key pass (semantics 28, 126)."""

from __future__ import annotations

from dsl.plan.nodes import Plan, Process, Repartition


def repartitions_with_null_keys(plan: Plan) -> frozenset[int]:
    """Returns the numbers of the repartition nodes with an operator below that has a use for records without a key."""
    found: set[int] = set()
    waiting = [number for number, node in plan.nodes.items() if isinstance(node, Process) and node.takes_null_keys]
    seen = set(waiting)
    while waiting:
        for parent in plan.nodes[waiting.pop()].parents:
            if parent not in seen:
                seen.add(parent)
                waiting.append(parent)
                if isinstance(plan.nodes[parent], Repartition):
                    found.add(parent)
    return frozenset(found)
