"""The pass that puts one repartition topic after a key change instead of several further down (semantics 107).

The repartition moves up to where the key changed, unless a value changes in between: then the topic would carry another
type. What a record meets on its way stays the same; only where it crosses the topic moves. The rules, down to which of
several parents counts, are those of Kafka Streams, since the names of the topics depend on them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dsl.naming import repartition_topic
from dsl.plan.nodes import (
    GlobalSource,
    Plan,
    PlannedStore,
    PlanNode,
    Process,
    Repartition,
    StreamSource,
    TableSourceNode,
)
from processor_api.serde import Serde

log = logging.getLogger("streams.topology")


def merge_repartitions(plan: Plan) -> Plan:
    """Returns a plan with as few repartition topics as the rules allow."""
    graph = _Graph(plan)
    for origin, repartitions in _by_origin(graph).items():
        if repartitions:
            graph.move_up(origin, repartitions)
    return graph.plan()


def _by_origin(graph: _Graph) -> dict[int, list[int]]:
    """Repartitions by the node below which one could serve them all: a key change, or a merge of such."""
    origins: dict[int, list[int]] = {}
    for number, node in graph.nodes.items():
        if _changes_key(node):
            origins[number] = []
        elif isinstance(node, Repartition) and node.optimizable:
            origin = graph.find(number, lambda n: _changes_key(graph.nodes[n]))
            nearest = graph.find(number, lambda n: _changes_key(graph.nodes[n]) or _changes_value(graph.nodes[n]))
            if origin is not None and nearest == origin:
                origins[origin].append(number)
    return _through_merges(graph, origins)


def _through_merges(graph: _Graph, origins: dict[int, list[int]]) -> dict[int, list[int]]:
    merged: dict[int, list[int]] = {}
    for merge, node in graph.nodes.items():
        if isinstance(node, Process) and node.merges:
            merged[merge] = [
                origin
                for origin, repartitions in origins.items()
                if all(graph.child_towards(merge, number) is not None for number in repartitions)
                and graph.child_towards(origin, merge) is not None
            ]
    found = dict(origins)
    for merge, above in merged.items():
        found[merge] = list(dict.fromkeys(number for origin in above for number in origins[origin]))
    for origin in {origin for above in merged.values() for origin in above}:
        del found[origin]
    return found


def _changes_key(node: PlanNode) -> bool:
    return isinstance(node, Process) and node.changes_key


def _changes_value(node: PlanNode) -> bool:
    return isinstance(node, Process) and node.changes_value


class _Graph:
    """The plan's edges, to be moved; the nodes themselves stay frozen."""

    def __init__(self, plan: Plan) -> None:
        self.nodes = dict(plan.nodes)
        self._turns = dict(plan.turns)
        self._parents = {number: list(dict.fromkeys(node.parents)) for number, node in plan.nodes.items()}
        self._next = max(plan.nodes, default=-1) + 1

    def find(self, number: int, matches: Callable[[int], bool]) -> int | None:
        """The node itself or the nearest above it that matches; of several parents the first that has one decides."""
        if matches(number):
            return number
        for parent in self._parents[number]:
            found = self.find(parent, matches)
            if found is not None:
                return found
        return None

    def child_towards(self, above: int, number: int) -> int | None:
        """The child of one node through which another one is reached."""
        return self.find(number, lambda n: above in self._parents[n])

    def move_up(self, origin: int, repartitions: list[int]) -> None:
        """Replaces the repartitions by one right below ``origin``."""
        new = self._add(origin, [node for n in repartitions if isinstance(node := self.nodes[n], Repartition)])
        self._warn_of_processors(origin, repartitions)
        for number in repartitions:
            child = self.child_towards(origin, number)
            if child is not None:
                self._add_parent(child, new)
                self._parents[child].remove(origin)
            elif self.child_towards(new, number) is None:
                continue  # on a way of its own, which the new topic does not serve
            parents = self._parents.pop(number)
            del self.nodes[number], self._turns[number]
            for other, above in self._parents.items():
                if number in above:
                    for parent in parents:
                        self._add_parent(other, parent)
                    above.remove(number)
        self._parents[new] = [origin]

    def _warn_of_processors(self, origin: int, repartitions: list[int]) -> None:
        """Warns of processors of the user's that the topic is put above: they may change keys, which no type tells."""
        passed: set[int] = set()
        above = list(repartitions)
        while above:
            number = above.pop()
            if number != origin and number not in passed:
                passed.add(number)
                above.extend(self._parents[number])
        names = [
            node.name
            for n in sorted(passed)
            if isinstance(node := self.nodes[n], Process) and node.fixed_key is False and self._is_below(origin, n)
        ]
        if names:
            log.warning(
                "topology.optimization puts one repartition topic above processors, as Kafka Streams does; call"
                " repartition() below those that change keys, or records of one key end up in several partitions",
                extra={"topic": self._topic_of(repartitions), "processors": names},
            )

    def _is_below(self, origin: int, number: int) -> bool:
        return self.find(number, lambda n: n == origin) is not None

    def _topic_of(self, repartitions: list[int]) -> str:
        return repartition_topic(next(n.topic for i in repartitions if isinstance(n := self.nodes[i], Repartition)))

    def _add_parent(self, number: int, parent: int) -> None:
        if parent not in self._parents[number]:
            self._parents[number].append(parent)

    def _add(self, origin: int, replaced: list[Repartition]) -> int:
        topic = repartition_topic(replaced[0].topic)
        number = self._next
        self._next += 1
        self.nodes[number] = Repartition(
            name=f"{topic}-source",
            parents=(origin,),
            topic=topic,
            filter=f"{topic}-filter",
            sink=f"{topic}-sink",
            key_serde=_first(node.key_serde for node in replaced),
            value_serde=_first(node.value_serde for node in replaced),
            made_at=replaced[0].made_at,
        )
        self._turns[number] = self._turns[origin]
        self._parents[number] = []
        return number

    def plan(self) -> Plan:
        return Plan({number: self._rewired(number, node) for number, node in self.nodes.items()}, self._turns)

    def _rewired(self, number: int, node: PlanNode) -> PlanNode:
        if isinstance(node, StreamSource | TableSourceNode | GlobalSource | PlannedStore):
            return node
        return replace(node, parents=tuple(self._parents[number]))


def _first(serdes: Any) -> Serde[Any] | None:
    return next((serde for serde in serdes if serde is not None), None)
