"""Divides a topology into subtopologies (semantics 104).

Nodes belong together when one forwards to the other or when they share a store; internal topics cut. Ids follow the
order in which nodes were added, so they are the same in every worker that builds the same topology.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SinkNode, SourceNode


@dataclass(frozen=True)
class Subtopology:
    """A connected part of a topology; a task runs one for one partition."""

    id: int
    nodes: tuple[str, ...]
    sources: tuple[str, ...]
    """Names of source nodes."""
    topics: tuple[str, ...]
    """Topics the sources read, internal ones without the application's prefix."""
    stores: tuple[str, ...]
    """Stores, in the order in which they were added to the topology."""
    sink_topics: tuple[str, ...]
    is_global: bool = False
    """Whether it fills a global store: then it has an id, but no tasks."""


def task_subtopologies(topology: TopologyData) -> tuple[Subtopology, ...]:
    """Returns the subtopologies that have tasks, in the order of their ids."""
    return tuple(part for part in subtopologies(topology) if not part.is_global)


def subtopologies(topology: TopologyData) -> tuple[Subtopology, ...]:
    """Returns all subtopologies in the order of their ids, those of global stores among them."""
    found: tuple[Subtopology, ...] | None = topology.derived.get("subtopologies")
    if found is None:
        found = topology.derived["subtopologies"] = _divided(topology)
    return found


def _divided(topology: TopologyData) -> tuple[Subtopology, ...]:
    groups: dict[str, list[str]] = {}
    roots = _Roots(topology)
    for name in topology.nodes:
        groups.setdefault(roots(name), []).append(name)
    return tuple(_describe(topology, number, names) for number, names in enumerate(groups.values()))


def _describe(topology: TopologyData, number: int, names: list[str]) -> Subtopology:
    nodes = [topology.nodes[name] for name in names]
    used = {store for name in names for store in topology.stores_of(name)}
    return Subtopology(
        id=number,
        nodes=tuple(names),
        sources=tuple(node.name for node in nodes if isinstance(node, SourceNode)),
        topics=tuple(topic for node in nodes if isinstance(node, SourceNode) for topic in node.topics),
        stores=tuple(store for store in topology.stores if store in used),
        sink_topics=_unique(node.topic for node in nodes if isinstance(node, SinkNode) and node.topic),
        is_global=names[0] in topology.global_nodes,
    )


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


class _Roots:
    """Union-find over nodes and stores."""

    def __init__(self, topology: TopologyData) -> None:
        self._parent: dict[str, str] = {}
        store_users: dict[str, str] = {}
        for name, node in topology.nodes.items():
            self._parent[name] = name
            for parent in node.parents:
                self._join(parent, name)
        for name in topology.nodes:
            for store in topology.stores_of(name):
                self._join(store_users.setdefault(store, name), name)

    def __call__(self, name: str) -> str:
        while self._parent[name] != name:
            self._parent[name] = name = self._parent[self._parent[name]]
        return name

    def _join(self, first: str, second: str) -> None:
        self._parent[self(second)] = self(first)
