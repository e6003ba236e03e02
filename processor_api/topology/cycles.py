"""The cycles of a topology: sinks that write to topics from which their own records come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import Node, SinkNode, SourceNode


@dataclass(frozen=True, kw_only=True)
class Cycle:
    """A way by which a record comes back to a topic from which it was made."""

    sink: str
    """The sink that closes it, the last one that was added."""
    source: str
    """The source that reads the topic of the sink."""
    topics: tuple[str, ...]
    """The topics of the sinks on the way, that of `sink` first."""

    def __str__(self) -> str:
        topic, *others = map(repr, self.topics)
        way = f", by way of {', '.join(others)}" if others else ""
        return f"sink {self.sink!r} writes to topic {topic}, from which source {self.source!r} reads its input{way}"


def cycles_of(topology: TopologyData, *, undeclared: bool = False) -> tuple[Cycle, ...]:
    """Returns the cycles of a topology, one for each group of nodes that send records to each other.

    :param undeclared: counts a sink that chooses its topics, and does not declare them, as writing to each topic that
        the topology reads.
    """
    read_by = _Readers(topology, undeclared)
    below: dict[str, list[str]] = {name: read_by.sink(node) for name, node in topology.nodes.items()}
    for name, node in topology.nodes.items():
        for parent in node.parents:
            below[parent].append(name)
    turn = {name: number for number, name in enumerate(topology.nodes)}
    found = []
    for group in _groups(below):
        inside = set(group)
        sinks = sorted(
            (name for name in group if isinstance(topology.nodes[name], SinkNode)), key=turn.__getitem__, reverse=True
        )
        closing = [(sink, source) for sink in sinks for source in below[sink] if source in inside]
        if closing:
            sink, source = closing[0]
            topics = (_topic(topology, *pair) for pair in closing)
            found.append(Cycle(sink=sink, source=source, topics=tuple(dict.fromkeys(topics))))
    return tuple(found)


def _topic(topology: TopologyData, sink: str, source: str) -> str:
    written, read = topology.nodes[sink], topology.nodes[source]
    assert isinstance(written, SinkNode)
    assert isinstance(read, SourceNode)
    return written.topic or next(iter(read.topics), "of a pattern")


class _Readers:
    """The sources that read each topic."""

    def __init__(self, topology: TopologyData, undeclared: bool) -> None:
        self._of: dict[str, list[str]] = {}
        self._patterns: list[SourceNode] = []
        self._any: list[str] = []
        for node in topology.nodes.values():
            if not isinstance(node, SourceNode) or node.name in topology.global_nodes:
                continue
            for topic in node.topics:
                self._of.setdefault(topic, []).append(node.name)
            if node.pattern is not None:
                self._patterns.append(node)
            if undeclared and not any(topic in topology.repartition_topics for topic in node.topics):
                self._any.append(node.name)

    def sink(self, node: Node) -> list[str]:
        """Returns the sources that read what a sink writes; none of other nodes."""
        if not isinstance(node, SinkNode):
            return []
        topics = (node.topic,) if node.topic is not None else node.declared_topics
        return list(dict.fromkeys(name for topic in topics for name in self._topic(topic))) if topics else self._any[:]

    def _topic(self, topic: str) -> Iterator[str]:
        yield from self._of.get(topic, ())
        for source in self._patterns:
            if source.pattern is not None and source.pattern.fullmatch(topic):
                yield source.name


def _groups(below: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Yields the strongly connected parts of a graph, by two walks: the second against the arrows."""
    ended: list[str] = []
    seen: set[str] = set()
    for start in below:
        walk = [(start, iter(below[start]))] if start not in seen else []
        seen.add(start)
        while walk:
            name, rest = walk[-1]
            following = next((one for one in rest if one not in seen), None)
            if following is None:
                ended.append(name)
                walk.pop()
            else:
                seen.add(following)
                walk.append((following, iter(below[following])))
    above: dict[str, list[str]] = {name: [] for name in below}
    for name, others in below.items():
        for other in others:
            above[other].append(name)
    left = set(below)
    for start in reversed(ended):
        if start in left:
            yield list(_reachable(start, above, left))


def _reachable(start: str, graph: Mapping[str, Iterable[str]], left: set[str]) -> Iterator[str]:
    """Yields what can be reached among those that are left, and takes it away from them."""
    waiting = deque((start,))
    left.discard(start)
    while waiting:
        name = waiting.popleft()
        yield name
        for other in graph[name]:
            if other in left:
                left.discard(other)
                waiting.append(other)
