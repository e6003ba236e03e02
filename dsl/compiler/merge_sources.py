"""The pass that lets streams of the same topics, or of the same pattern, share one source node (semantics 106)."""

from __future__ import annotations

from dataclasses import replace

from dsl.plan.nodes import GlobalSource, Plan, PlannedStore, PlanNode, StreamSource, TableSourceNode
from processor_api.errors import TopologyError
from processor_api.user_code.lines import at, text_of


def merge_sources(plan: Plan) -> Plan:
    """Returns a plan without doubled sources.

    :raises TopologyError: if the topics of two sources overlap but are not the same, or if their offset resets differ.
    """
    merged = _find(plan)
    if not merged:
        return plan
    nodes = {number: _reparented(node, merged) for number, node in plan.nodes.items() if number not in merged}
    return Plan(nodes, {number: plan.turns[number] for number in nodes})


def _find(plan: Plan) -> dict[int, int]:
    """The sources to leave out, each with the one that takes its place."""
    first: dict[str | tuple[str, int], tuple[int, StreamSource]] = {}
    merged: dict[int, int] = {}
    for number, node in plan.nodes.items():
        if not isinstance(node, StreamSource):
            continue
        keys: list[str | tuple[str, int]] = list(node.topics)
        if node.pattern is not None:
            keys.append((node.pattern.pattern, node.pattern.flags))
        for key in keys:
            known_number, known = first.setdefault(key, (number, node))
            if known is not node:
                _check(known, node)
                merged[number] = known_number
    return merged


def _check(known: StreamSource, node: StreamSource) -> None:
    if set(known.topics) != set(node.topics):
        both = sorted(set(known.topics) & set(node.topics))
        raise TopologyError(
            f"two streams both read {', '.join(both)}, but one reads {sorted(known.topics)}{at(known.made_at)} and the"
            f" other {sorted(node.topics)}; both must read the same topics",
            node=node.name,
            made_at=text_of(node.made_at),
        )
    if known.consumed.offset_reset != node.consumed.offset_reset:
        what = ", ".join(node.topics) or (node.pattern.pattern if node.pattern else "")
        raise TopologyError(
            f"two streams of {what} must have the same offset reset; the other is read{at(known.made_at)}",
            node=node.name,
            made_at=text_of(node.made_at),
        )


def _reparented(node: PlanNode, merged: dict[int, int]) -> PlanNode:
    if isinstance(node, StreamSource | TableSourceNode | GlobalSource | PlannedStore):
        return node
    parents = list(node.parents)
    for parent in node.parents:
        if parent in merged:  # the new parent comes last, as in Java
            parents.remove(parent)
            if merged[parent] not in parents:
                parents.append(merged[parent])
    return replace(node, parents=tuple(parents))
