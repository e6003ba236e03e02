"""Finds the source of a topology that reads a topic: by its name, or by a pattern that matches the whole name.

A topic is read by one source only (semantics 152). What can be seen in the topology alone is refused where it is built;
that two patterns match one topic is seen here, where the topic is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from processor_api.errors import TopologyError
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.subtopology import Subtopology
from processor_api.user_code.lines import at


def matching_topics(topology: TopologyData, source: SourceNode, existing: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics that a source names, or the existing ones that its pattern matches; another pattern may match
    these too."""
    if source.pattern is None:
        return source.topics
    internal = topology.repartition_topics
    return tuple(topic for topic in sorted(existing) if topic not in internal and source.pattern.fullmatch(topic))


def source_topics(topology: TopologyData, source: SourceNode, existing: Iterable[str]) -> tuple[str, ...]:
    """Returns the topics that a source reads: those it names, or all existing ones that its pattern matches.

    :raises TopologyError: if another pattern matches one of them.
    """
    found = matching_topics(topology, source, existing)
    patterns = _patterns(topology) if source.pattern is not None else []
    if len(patterns) > 1:
        for topic in found:
            _check_one(topology, topic, [node for node in patterns if _matches(node, topic)])
    return found


def reader_of(topology: TopologyData, topic: str) -> SourceNode | None:
    """Returns the source that reads a topic of the user's, by its name or by a pattern; ``None`` if there is none.

    :raises TopologyError: if two patterns match the topic.
    """
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and topic in node.topics and topic not in topology.repartition_topics:
            return node
    found = [node for node in _patterns(topology) if topic in matching_topics(topology, node, (topic,))]
    _check_one(topology, topic, found)
    return found[0] if found else None


def writer_of(topology: TopologyData, topic: str) -> SinkNode | None:
    """Returns the sink that writes a topic by its name, otherwise the only one whose function may choose it, if any.

    Of several whose functions may choose it and that have the same serdes, it is the first.
    """
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode)]
    for node in sinks:
        if node.topic == topic or topic in node.declared_topics:
            return node
    choosing = choosing_sinks(topology)
    same = {(id(node.key_serde), id(node.value_serde)) for node in choosing}
    return choosing[0] if len(same) == 1 else None


def choosing_sinks(topology: TopologyData) -> list[SinkNode]:
    """Returns the sinks whose functions may choose any topic."""
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode)]
    return [node for node in sinks if node.topic is None and not node.declared_topics]


def _patterns(topology: TopologyData) -> list[SourceNode]:
    return [node for node in topology.nodes.values() if isinstance(node, SourceNode) and node.pattern is not None]


def _matches(node: SourceNode, topic: str) -> bool:
    return node.pattern is not None and node.pattern.fullmatch(topic) is not None


def _check_one(topology: TopologyData, topic: str, readers: Sequence[SourceNode]) -> None:
    if len(readers) < 2:
        return
    first, second = readers[:2]
    patterns = [node.pattern.pattern if node.pattern is not None else "" for node in (first, second)]
    raise TopologyError(
        f"topic {topic!r} matches the patterns of two sources: {patterns[0]!r} of {first.name!r}"
        f"{at(topology.line_of(first.name))} and {patterns[1]!r} of {second.name!r}; a topic can be read by one source"
        " only: make the patterns exclude each other, or read both with one stream",
        node=second.name,
        topic=topic,
        made_at=topology.line_of(second.name),
    )


def reads_pattern(topology: TopologyData, part: Subtopology) -> bool:
    """Whether a source of a subtopology reads topics by a pattern, so that it may get more tasks."""
    nodes = [topology.nodes[name] for name in part.sources]
    return any(isinstance(node, SourceNode) and node.pattern is not None for node in nodes)
