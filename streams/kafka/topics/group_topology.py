"""The subtopologies of an application with their topics, as a group of the streams protocol has to know them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from processor_api.errors import TopologyError
from processor_api.texts import repr_of
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import Node, SourceNode
from processor_api.topology.subtopology import Subtopology, task_subtopologies
from streams.kafka.own_names import control_topic
from streams.kafka.streams_group import GroupSubtopology, GroupTopic
from streams.kafka.topics.internal import InternalTopic, TopicRole, full_name, internal_topics, topic_prefix
from streams.kafka.topics.readers import reads_pattern


def group_subtopologies(
    topology: TopologyData, settings: Mapping[str, Any], replication_factor: int
) -> tuple[GroupSubtopology, ...]:
    """Returns the subtopologies that have tasks. Every worker of the application gives the same, so they depend on
    nothing but the program and its settings: a partition count that the topology leaves open is left to the group, and
    the topics of a pattern are stood for by the control topic of the subtopology, whose partitions are its tasks.

    :param settings: those of the application, under Kafka's names.
    :param replication_factor: of internal topics; -1 is the default of the brokers.
    :raises TopologyError: if topics of a pattern are joined with a repartition topic whose number of partitions is left
        open.
    """
    internal = internal_topics(topology, settings)
    replicas = max(0, replication_factor)
    return tuple(_part(topology, part, settings, internal, replicas) for part in task_subtopologies(topology))


def _part(
    topology: TopologyData,
    part: Subtopology,
    settings: Mapping[str, Any],
    internal: Mapping[str, InternalTopic],
    replicas: int,
) -> GroupSubtopology:
    prefix = topic_prefix(settings)
    named = {name for name in part.topics if name not in topology.repartition_topics}
    own = sorted((one for one in internal.values() if one.subtopology == part.id), key=lambda one: one.name)
    return GroupSubtopology(
        id=part.id,
        sources=tuple(sorted({*named, *([control_topic(prefix, part.id)] if reads_pattern(topology, part) else [])})),
        changelogs=tuple(_topic(one, replicas) for one in own if one.role is TopicRole.CHANGELOG),
        repartition_sinks=tuple(
            sorted(f"{prefix}-{name}" for name in part.sink_topics if name in topology.repartition_topics)
        ),
        repartition_sources=tuple(_topic(one, replicas) for one in own if one.role is TopicRole.REPARTITION),
        copartitions=_copartitions(topology, part, prefix),
    )


def _topic(topic: InternalTopic, replicas: int) -> GroupTopic:
    configs = tuple(sorted(topic.created_with.items()))
    return GroupTopic(topic.name, topic.partitions or 0, replicas, configs)


def _copartitions(topology: TopologyData, part: Subtopology, prefix: str) -> tuple[tuple[str, ...], ...]:
    found = set()
    for group in topology.copartition_groups:
        nodes = [topology.nodes[name] for name in group if name in part.sources]
        _check_pattern(topology, nodes)
        topics = {
            full_name(topology, prefix, topic)
            for node in nodes
            if isinstance(node, SourceNode)
            for topic in node.topics
        }
        if len(topics) > 1:
            found.add(tuple(sorted(topics)))
    return tuple(sorted(found))


def _check_pattern(topology: TopologyData, nodes: Collection[Node]) -> None:
    """Checks topics that go together, where a pattern is among them: the group does not know how many partitions those
    that it matches have, and cannot make a repartition topic as wide.

    :raises TopologyError: if one is to be made so.
    """
    sources = [node for node in nodes if isinstance(node, SourceNode)]
    pattern = next((node for node in sources if node.pattern is not None), None)
    if pattern is None or pattern.pattern is None:
        return
    for topic in sorted(topic for node in sources for topic in node.topics):
        found = topology.repartition_topics.get(topic)
        if found is not None and found.partitions is None:
            raise TopologyError(
                f"source {pattern.name!r} reads topics by a pattern ({repr_of(pattern.pattern.pattern)}), and they are"
                f" joined with the repartition topic {topic!r}: with group.protocol=streams, this needs a number of"
                " partitions (Repartitioned) because the group does not have the topics of a pattern; or set"
                " group.protocol to classic",
                node=pattern.name,
            )
