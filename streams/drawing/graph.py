"""The content of a picture of a topology: nodes and stores by subtopology, topics between them."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from processor_api.topology.nodes import Node, ProcessorNode, SinkNode, SourceNode
from processor_api.topology.subtopology import subtopologies
from processor_api.topology.topology import Topology


class Kind(enum.StrEnum):
    """The kind of a box; each has a shape of its own."""

    SOURCE = "source"
    PROCESSOR = "processor"
    SINK = "sink"
    STORE = "store"
    TOPIC = "topic"
    INTERNAL_TOPIC = "internal topic"
    SUBTOPOLOGY = "subtopology"
    """A whole subtopology as one box."""


@dataclass(frozen=True)
class Box:
    """One thing in the picture."""

    id: str
    kind: Kind
    name: str
    call: str | None = None
    """The call of the user's script that made a node, if it is known."""
    line: str | None = None
    """The line of that call."""


@dataclass(frozen=True)
class Link:
    """A line from one box to another, by id. Records flow along it, unless it joins a processor and a store."""

    source: str
    target: str
    flows: bool = True


@dataclass
class Graph:
    """Boxes in groups. Links inside of a group run from earlier boxes to later ones; those between may form cycles."""

    groups: dict[str, list[Box]] = field(default_factory=dict)
    """The subtopologies by title."""
    topics: list[Box] = field(default_factory=list)
    """Topics, and what else is outside of the groups."""
    links: list[Link] = field(default_factory=list)


def graph_of(topology: Topology) -> Graph:
    """Returns the graph of a topology."""
    return _GraphBuilder(topology).graph


class _GraphBuilder:
    def __init__(self, topology: Topology) -> None:
        self.graph = Graph()
        self._topology = topology
        self._ids: dict[tuple[str, str], str] = {}
        for part in subtopologies(topology):
            boxes = self.graph.groups[f"Sub-topology {part.id}"] = []
            for name in part.nodes:
                boxes.append(self._node(topology.nodes[name]))
            for name in dict.fromkeys(store for node in part.nodes for store in topology.stores_of(node)):
                if ("store", name) not in self._ids:
                    boxes.append(Box(self._id("store", name), Kind.STORE, name))
            for name in part.nodes:
                self._link_stores(name)

    def _id(self, kind: str, name: str) -> str:
        return self._ids.setdefault((kind, name), f"b{len(self._ids)}")

    def _node(self, node: Node) -> Box:
        own = self._id("node", node.name)
        made = self._topology.call_of(node.name), self._topology.line_of(node.name)
        for parent in node.parents:
            self.graph.links.append(Link(self._id("node", parent), own))
        if isinstance(node, SourceNode):
            for topic in self._read(node):
                self.graph.links.append(Link(topic, own))
            return Box(own, Kind.SOURCE, node.name, *made)
        if isinstance(node, ProcessorNode):
            return Box(own, Kind.PROCESSOR, node.name, *made)
        self.graph.links += (Link(own, topic) for topic in self._written(node))
        return Box(own, Kind.SINK, node.name, *made)

    def _link_stores(self, node: str) -> None:
        for store in self._topology.stores_of(node):
            self.graph.links.append(Link(self._id("node", node), self._id("store", store), flows=False))

    def _read(self, node: SourceNode) -> Iterable[str]:
        if node.pattern is not None:
            return [self._topic(f"topics like {node.pattern.pattern}")]
        return [self._topic(name) for name in node.topics]

    def _written(self, node: SinkNode) -> Iterable[str]:
        if node.topic is not None:
            return [self._topic(node.topic)]
        if node.declared_topics:
            return [self._topic(name) for name in node.declared_topics]
        extractor = node.topic_extractor
        return [self._topic(f"chosen by {getattr(extractor, '__name__', type(extractor).__name__)}")]

    def _topic(self, name: str) -> str:
        if ("topic", name) in self._ids:
            return self._ids["topic", name]
        kind = Kind.INTERNAL_TOPIC if name in self._topology.repartition_topics else Kind.TOPIC
        box = Box(self._id("topic", name), kind, name)
        self.graph.topics.append(box)
        return box.id
