"""The pass that lets a stream joined with itself do with one store (``single.store.self.join``, semantics 62)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dsl.plan.nodes import Plan, PlanNode, Process
from dsl.processors.joins.self_join import JoinResults, SelfJoin


def single_store_self_joins(plan: Plan) -> Plan:
    """Returns a plan in which joins of a stream with itself have one side, and one store."""
    nodes, turns = dict(plan.nodes), dict(plan.turns)
    for number, results, alone in _self_joins(plan):
        this_join, other_join = results.parents
        this_kept, other_kept = plan.nodes[this_join].parents[0], plan.nodes[other_join].parents[0]
        nodes[number] = replace(
            results,
            supplier=alone,
            parents=(this_kept,),
            stores=(alone.store,),
            takes_null_keys=alone.keeps_left,
        )
        for gone in (this_join, other_join, other_kept):
            del nodes[gone], turns[gone]
    return Plan(nodes, turns)


def _self_joins(plan: Plan) -> Iterator[tuple[int, Process, SelfJoin]]:
    for number, node in plan.nodes.items():
        if isinstance(node, Process) and isinstance(node.supplier, JoinResults) and node.supplier.alone is not None:
            this_join, other_join = (plan.nodes[parent] for parent in node.parents)
            if _above(plan, this_join) == _above(plan, other_join):
                yield number, node, node.supplier.alone


def _above(plan: Plan, join: PlanNode) -> tuple[int, ...]:
    """Returns the nodes from which one side of a join comes."""
    return plan.nodes[join.parents[0]].parents
