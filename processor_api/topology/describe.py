"""``Topology.describe()``: the description as objects, and as a text that is byte for byte Kafka's (semantics 138).

Kafka orders the nodes of a subtopology by the size of the tree below them, largest first, then by name. Neighbours of a
node are kept in trees sorted by that same size while the sizes still grow, in the order of a Java hash map, so that the
text depends on both; `java_hash_order` and the tree in this module repeat that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import Node, ProcessorNode, SourceNode, TopicNameExtractor
from processor_api.topology.subtopology import Subtopology, subtopologies


@dataclass(frozen=True, kw_only=True)
class NodeDescription:
    """Describes a node of a topology, and the names of its neighbours."""

    name: str
    predecessors: tuple[str, ...] = ()
    """The names of the nodes above."""
    successors: tuple[str, ...] = ()
    """The names of the nodes below."""
    made_by: str | None = field(default=None, compare=False)
    """The call of the user's script that made it, such as ``map_values(to_cents)``, if it is known."""
    made_at: str | None = field(default=None, compare=False)
    """The line of that call, such as ``orders.py:14``."""


@dataclass(frozen=True, kw_only=True)
class SourceDescription(NodeDescription):
    """Describes a source."""

    topic_set: frozenset[str] | None = None
    """The topics that it names; ``None`` if it has a pattern."""
    topic_pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessorDescription(NodeDescription):
    """Describes a processor, or an operator of the DSL."""

    stores: frozenset[str] = frozenset()
    """The names of the stores that are connected to it."""


@dataclass(frozen=True, kw_only=True)
class SinkDescription(NodeDescription):
    """Describes a sink."""

    topic: str | None = None
    """The topic that it writes; ``None`` if a function names one for each record."""
    topic_name_extractor: TopicNameExtractor | None = None


@dataclass(frozen=True, kw_only=True)
class SubtopologyDescription:
    """Describes a connected part of a topology, which runs as tasks."""

    id: int
    nodes: tuple[NodeDescription, ...]
    """The nodes, in the order of the text."""


@dataclass(frozen=True, kw_only=True)
class GlobalStoreDescription:
    """Describes the two nodes that fill a global store."""

    id: int
    source: SourceDescription
    processor: ProcessorDescription


class TopologyDescription(str):
    """The text of Kafka Streams' ``Topology.describe()``, with what it says as objects.

    ::

        topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
        (part,) = topology.describe().subtopologies
        assert [node.name for node in part.nodes] == ["source", "shout"]
        assert part.nodes[0].topic_set == {"lines"}
    """

    subtopologies: tuple[SubtopologyDescription, ...]
    """The subtopologies that run as tasks, by id."""
    global_stores: tuple[GlobalStoreDescription, ...]
    """The global stores, by id."""

    @classmethod
    def of(
        cls,
        text: str,
        subtopologies: tuple[SubtopologyDescription, ...],
        global_stores: tuple[GlobalStoreDescription, ...],
    ) -> TopologyDescription:
        """Returns a text with its objects."""
        found = cls(text)
        found.subtopologies, found.global_stores = subtopologies, global_stores
        return found


# A red-black tree that grows as a ``java.util.TreeSet`` does, for texts whose order depends on the tree's shape.
#
# Kafka Streams keeps the neighbours of a node in such a set while what they are ordered by still changes. Where a new
# one goes then depends on which of the others it is compared with, and so on how the tree was balanced before.


class _Node:
    __slots__ = ("left", "name", "parent", "red", "right")

    def __init__(self, name: str, parent: _Node | None) -> None:
        self.name = name
        self.parent = parent
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.red = True


class JavaTree:
    """Names in the order of their ranks at the time of each insertion.

    :param rank: returns what a name is ordered by now.
    """

    def __init__(self, rank: Callable[[str], Any]) -> None:
        self._rank = rank
        self._root: _Node | None = None
        self._names: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return self._walk(self._root)

    def add(self, name: str) -> None:
        """Adds a name, unless it is there."""
        if name in self._names:
            return
        self._names.add(name)
        rank, above, below = self._rank(name), None, self._root
        while below is not None:
            above = below
            below = below.left if rank < self._rank(below.name) else below.right
        node = _Node(name, above)
        if above is None:
            self._root = node
        elif rank < self._rank(above.name):
            above.left = node
        else:
            above.right = node
        self._balance(node)

    def _walk(self, node: _Node | None) -> Iterator[str]:
        if node is not None:
            yield from self._walk(node.left)
            yield node.name
            yield from self._walk(node.right)

    def _balance(self, node: _Node) -> None:
        """Recolours and rotates until no red node is below a red one."""
        while (parent := node.parent) is not None and parent.red and (top := parent.parent) is not None:
            on_left = parent is top.left
            uncle = top.right if on_left else top.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                top.red = True
                node = top
                continue
            if node is (parent.right if on_left else parent.left):
                node = parent
                parent = self._rotate(node, to_left=on_left)
            parent.red, top.red = False, True
            self._rotate(top, to_left=not on_left)
        if self._root is not None:
            self._root.red = False

    def _rotate(self, node: _Node, *, to_left: bool) -> _Node:
        """Inserts a child of the node at its position, and returns it."""
        child = node.right if to_left else node.left
        assert child is not None
        inner = child.left if to_left else child.right
        if to_left:
            node.right, child.left = inner, node
        else:
            node.left, child.right = inner, node
        if inner is not None:
            inner.parent = node
        above = child.parent = node.parent
        node.parent = child
        if above is None:
            self._root = child
        elif above.left is node:
            above.left = child
        else:
            above.right = child
        return child


GLOBAL = " for global store (will not generate tasks)"


def describe(topology: TopologyData, *, ties_by_name: bool = False, calls: bool = False) -> str:
    """Returns the description of all subtopologies.

    :param calls: adds to each node a line with the call that made it, and the line of that: these are not Kafka's.
    :param ties_by_name: lists topics and stores that stand in one place of a Java map by their names, and not in the
        order in which they were given, which may be that of a set and differ between processes.
    """
    parts = ["  " + _subtopology(topology, part, ties_by_name, calls) for part in subtopologies(topology)]
    return "Topologies:\n " + "".join(parts)


def description(topology: TopologyData) -> TopologyDescription:
    """Returns the description of all subtopologies, as text and as objects."""
    parts: list[SubtopologyDescription] = []
    stores: list[GlobalStoreDescription] = []
    for part in subtopologies(topology):
        order = _NodeOrder(topology, part)
        names = sorted(part.nodes, key=order.rank)
        nodes = tuple(_node(topology, topology.nodes[name], order) for name in names)
        if not part.is_global:
            parts.append(SubtopologyDescription(id=part.id, nodes=nodes))
            continue
        source = next(node for node in nodes if isinstance(node, SourceDescription))
        processor = next(node for node in nodes if isinstance(node, ProcessorDescription))
        stores.append(GlobalStoreDescription(id=part.id, source=source, processor=processor))
    return TopologyDescription.of(describe(topology), tuple(parts), tuple(stores))


def _node(topology: TopologyData, node: Node, order: _NodeOrder) -> NodeDescription:
    about: dict[str, Any] = {"name": node.name, **topology.origin_of(node.name)}
    about["predecessors"] = tuple(order.predecessors[node.name])
    about["successors"] = tuple(order.successors[node.name])
    if isinstance(node, SourceNode):
        topics = None if node.pattern is not None else frozenset(node.topics)
        return SourceDescription(**about, topic_set=topics, topic_pattern=node.pattern)
    if isinstance(node, ProcessorNode):
        return ProcessorDescription(**about, stores=frozenset(topology.stores_of(node.name)))
    return SinkDescription(**about, topic=node.topic, topic_name_extractor=node.topic_extractor)


def java_hash_order(names: Iterable[str], *, copied: bool = False) -> list[str]:
    """Returns the strings in the order in which a ``java.util.HashMap`` of them iterates.

    :param copied: the map was made from a finished collection, which sizes its table a little larger.
    """
    distinct = list(dict.fromkeys(names))
    size = 16
    needed = len(distinct) / 0.75
    while size < (int(needed) + 1 if copied else needed):
        size *= 2
    return sorted(distinct, key=lambda name: _spread(name) & (size - 1))


def _spread(name: str) -> int:
    code = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        code = (code * 31 + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return code ^ code >> 16


def _subtopology(topology: TopologyData, part: Subtopology, ties_by_name: bool, calls: bool) -> str:
    order = _NodeOrder(topology, part)
    lines = [f"Sub-topology: {part.id}" + (GLOBAL if part.is_global else "")]
    for name in sorted(part.nodes, key=order.rank):
        node = topology.nodes[name]
        lines.append(f"    {_head(topology, node, ties_by_name)}")
        call = topology.call_of(name) if calls else None
        if call is not None:
            lines.append(f"      {call} at {topology.line_of(name)}")
        writes = not isinstance(node, SourceNode | ProcessorNode) or bool(topology.stores_of(name))
        lines += [f"      {one}" for one in (topology.followed_serdes(name) if calls and writes else ())]
        if not isinstance(node, SourceNode) and not isinstance(node, ProcessorNode):
            lines.append(f"      <-- {_names(order.predecessors[name])}")
            continue
        lines.append(f"      --> {_names(order.successors[name])}")
        if isinstance(node, ProcessorNode):
            lines.append(f"      <-- {_names(order.predecessors[name])}")
    return "\n".join(lines) + ("\n" if part.is_global else "\n\n")


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _head(topology: TopologyData, node: Node, ties_by_name: bool) -> str:
    def listed(names: Iterable[str]) -> str:
        return ", ".join(java_hash_order(sorted(names) if ties_by_name else names, copied=True))

    if isinstance(node, SourceNode):
        if node.pattern is not None:
            return f"Source: {node.name} (topics: {node.pattern.pattern})"
        return f"Source: {node.name} (topics: [{listed(node.topics)}])"
    if isinstance(node, ProcessorNode):
        return f"Processor: {node.name} (stores: [{listed(topology.stores_of(node.name))}])"
    if node.topic is not None:
        return f"Sink: {node.name} (topic: {node.topic})"
    extractor = node.topic_extractor
    return f"Sink: {node.name} (extractor class: {getattr(extractor, '__name__', type(extractor).__name__)})"


class _NodeOrder:
    """Sizes and neighbours of the nodes of a subtopology."""

    def __init__(self, topology: TopologyData, part: Subtopology) -> None:
        self._size = dict.fromkeys(part.nodes, 1)
        self.predecessors: dict[str, JavaTree] = {name: JavaTree(self.rank) for name in part.nodes}
        self.successors: dict[str, JavaTree] = {name: JavaTree(self.rank) for name in part.nodes}
        for name in java_hash_order(java_hash_order(part.nodes)):
            for parent in topology.nodes[name].parents:
                self.predecessors[name].add(parent)
                self.successors[parent].add(name)
                self._grow(parent, self._size[name])

    def rank(self, name: str) -> tuple[int, str]:
        return -self._size[name], name

    def _grow(self, name: str, by: int) -> None:
        self._size[name] += by
        for predecessor in self.predecessors[name]:
            self._grow(predecessor, by)
