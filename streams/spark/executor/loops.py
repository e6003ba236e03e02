"""Finds what goes round in subtopologies that feed each other. Pure functions of their plans."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from processor_api.topology.nodes import SinkNode
from streams.runtime.plan.task_plan import TaskPlan


def topics_that_go_round(plans: Collection[TaskPlan], looped: Collection[str]) -> frozenset[str]:
    """Returns the topics whose records may go round: those from whose source a sink of a looped topic is reached.

    A sink whose topic another of the subtopologies writes too counts as one, so that the order of its records is that
    in which their causes were read; so does a sink whose topic is chosen by a function.

    :param looped: topics that the subtopologies write and read themselves.
    """
    found: set[str] = set()
    for plan in plans:
        others = {topic for other in plans if other is not plan for _, topic in _sinks(other)}
        for topic, source in plan.topics.items():
            written = set(_reached(plan, source))
            if topic in looped or None in written or written & {*looped, *others}:
                found.add(topic)
    return frozenset(found)


def loop_of(plans: Iterable[TaskPlan], looped: Collection[str]) -> list[str]:
    """Returns a line for each topic that goes round: which subtopology writes it, by which node, and which reads it."""
    plans = tuple(plans)
    lines = []
    for topic in sorted(looped):
        writers = [
            f"subtopology {plan.subtopology} ({name})"
            for plan in plans
            for name, written in _sinks(plan)
            if written == topic
        ]
        readers = [f"subtopology {plan.subtopology} ({plan.topics[topic]})" for plan in plans if topic in plan.topics]
        lines.append(f"{topic}: from {', '.join(writers)} to {', '.join(readers)}")
    return lines


def _sinks(plan: TaskPlan) -> Iterator[tuple[str, str]]:
    """Yields the sinks of a plan that name their topic, with that topic."""
    for name in plan.nodes:
        node = plan.topology.nodes[name]
        if isinstance(node, SinkNode) and node.topic is not None:
            yield name, plan.real_name(node.topic)


def _reached(plan: TaskPlan, source: str) -> Iterator[str | None]:
    """Yields the topics of the sinks that records of a source may reach; ``None`` where a function names the topic."""
    children: dict[str, list[str]] = {}
    for name in plan.nodes:
        for parent in plan.topology.nodes[name].parents:
            children.setdefault(parent, []).append(name)
    waiting, seen = [source], {source}
    while waiting:
        node = plan.topology.nodes[waiting.pop()]
        if isinstance(node, SinkNode):
            yield None if node.topic is None else plan.real_name(node.topic)
        for child in children.get(node.name, ()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)
