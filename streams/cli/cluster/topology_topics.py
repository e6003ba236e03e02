"""The topics of a topology: which it reads and writes, which of them exist, and what is missing or wrong."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.errors import StreamsError
from processor_api.nodes import SinkNode, SourceNode
from processor_api.subtopology import task_subtopologies
from processor_api.topology import Topology
from streams.kafka.group_topology import control_topic
from streams.kafka.internal_topics import (
    TopicRole,
    check_existing_topics,
    full_name,
    internal_topic_counts,
    internal_topics,
    source_topics,
    topic_prefix,
)

if TYPE_CHECKING:
    from streams.kafka.ports import TopicInfo

__all__ = ["FoundTopics", "TopologyTopic", "Use", "copartitioned", "find_topics", "restored_from", "topics_of"]


class Use(enum.StrEnum):
    """The use that an application makes of a topic."""

    INPUT = "input"
    OUTPUT = "output"
    GLOBAL = "global"
    REPARTITION = "repartition"
    CHANGELOG = "changelog"
    TASKS = "tasks"
    """A control topic, by which the group shares its tasks."""


EXTERNAL = frozenset((Use.INPUT, Use.OUTPUT, Use.GLOBAL))
"""Uses of topics that are the user's, and not made by the application."""


@dataclass(frozen=True, kw_only=True)
class TopologyTopic:
    """A topic of an application, under its full name, as its topology has it."""

    name: str
    uses: tuple[Use, ...]
    by: tuple[str, ...]
    """The nodes that read or write it, or the store that it restores."""
    expected: int | None = None
    """The number of partitions that it must have, where that is known."""

    @property
    def is_external(self) -> bool:
        """Whether it is the user's, and not made by the application."""
        return not EXTERNAL.isdisjoint(self.uses)


@dataclass(frozen=True, kw_only=True)
class FoundTopics:
    """The topics of an application, held against those of a cluster."""

    topics: tuple[TopologyTopic, ...]
    existing: Mapping[str, TopicInfo]
    policies: Mapping[str, str]
    """``cleanup.policy`` of those that exist and may be seen."""
    groups: tuple[tuple[str, ...], ...]
    """Topics that need the same number of partitions."""
    problems: tuple[str, ...]
    """Faults that stop the application, or make its results wrong."""
    remarks: tuple[str, ...] = ()
    """Remarks that deserve attention."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """A word about single topics."""

    @property
    def missing(self) -> list[TopologyTopic]:
        """Returns the topics that the user has to create."""
        return [one for one in self.topics if one.is_external and one.name not in self.existing]


def topics_of(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[TopologyTopic]:
    """Returns all topics that a topology names: the user's first, then the application's own.

    :param settings: those of the application, under Kafka's names.
    :param counts: the partitions of the topics that exist, for sources with a pattern.
    """
    readable = _readable(topology, settings, counts)
    uses: dict[str, dict[Use, list[str]]] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            use = Use.GLOBAL if node.name in topology.global_nodes else Use.INPUT
            found = source_topics(topology, node, readable)
        elif isinstance(node, SinkNode) and node.topic is not None:
            use, found = Use.OUTPUT, (node.topic,)
        else:
            continue
        for topic in found:
            if topic not in topology.repartition_topics:
                uses.setdefault(topic, {}).setdefault(use, []).append(node.name)
    order = list(Use)
    external = [
        TopologyTopic(
            name=name,
            uses=tuple(sorted(by_use, key=order.index)),
            by=tuple(n for nodes in by_use.values() for n in nodes),
        )
        for name, by_use in sorted(uses.items(), key=lambda one: (min(map(order.index, one[1])), one[0]))
    ]
    return [*external, *_internal(topology, settings, counts)]


def _readable(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the topics that sources may read: those they name, and all others but those of the brokers and the
    application's own, which no pattern matches."""
    named = topology_sources(topology)
    prefix = topic_prefix(settings)
    own = {control_topic(prefix, part.id) for part in task_subtopologies(topology)}
    own |= internal_topics(topology, settings).keys() - named
    return {name: n for name, n in counts.items() if name in named or not (name.startswith("__") or name in own)}


def _internal(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[TopologyTopic]:
    prefix = topic_prefix(settings)
    try:
        expected = internal_topic_counts(topology, settings, _readable(topology, settings, counts))
    except StreamsError:  # it is among the problems
        expected = {}
    found = []
    for name, topic in internal_topics(topology, settings).items():
        if topic.role is not TopicRole.SOURCE_AS_CHANGELOG:
            use = Use.REPARTITION if topic.role is TopicRole.REPARTITION else Use.CHANGELOG
            by = (topic.store,) if topic.store is not None else ()
            found.append(TopologyTopic(name=name, uses=(use,), by=by, expected=expected.get(name, topic.partitions)))
    for part in task_subtopologies(topology):
        found.append(TopologyTopic(name=control_topic(prefix, part.id), uses=(Use.TASKS,), by=()))
    return found


def copartitioned(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Returns the groups of topics that need the same number of partitions, under their full names."""
    prefix, readable = topic_prefix(settings), _readable(topology, settings, counts)
    groups: list[tuple[str, ...]] = []
    for group in topology.copartition_groups:
        sources = [node for node in map(topology.nodes.__getitem__, group) if isinstance(node, SourceNode)]
        names = {t for node in sources for t in source_topics(topology, node, readable)}
        full = tuple(sorted(full_name(topology, prefix, name) for name in names))
        if len(full) > 1 and full not in groups:
            groups.append(full)
    return groups


def restored_from(topology: Topology) -> dict[str, str]:
    """Returns the stores that are restored from a topic of the user's, by the topic."""
    found = {topic: store for store, topic in topology.source_changelogs.items()}
    for name, store in topology.global_stores.items():
        if not store.reprocess:
            found[store.topic] = name
    return {topic: store for topic, store in found.items() if topic not in topology.repartition_topics}


def find_topics(
    topology: Topology,
    settings: Mapping[str, Any],
    existing: Mapping[str, TopicInfo],
    policies: Mapping[str, str],
) -> FoundTopics:
    """Holds the topics of a topology against those of a cluster.

    :param policies: ``cleanup.policy`` of the topics of the topology, as far as they exist and may be seen.
    """
    counts = {name: info.partitions for name, info in existing.items()}
    topics = topics_of(topology, settings, counts)
    problems, remarks = [], []
    missing = [one for one in topics if one.is_external and one.name not in existing]
    for one in missing:
        line = next((line for node in one.by if (line := topology.line_of(node)) is not None), None)
        problems.append(
            f"{' and '.join(one.uses)} topic {one.name!r} does not exist{'' if line is None else f' ({line})'}"
        )
    if not any(not {Use.INPUT, Use.GLOBAL}.isdisjoint(one.uses) for one in missing):
        problems += _count_problems(topology, settings, counts)
    problems += _policy_problems(topology, settings, policies)
    restored = restored_from(topology)
    for topic, store in sorted(restored.items()):
        policy = policies.get(topic)
        if policy is not None and "compact" not in policy:
            remarks.append(
                f"table {store!r} is restored from topic {topic!r}, whose cleanup.policy is {policy}: rows that Kafka"
                " deletes there are missing after a restore; set cleanup.policy=compact"
            )
    remarks += _unlisted(topology, settings, counts)
    return FoundTopics(
        topics=tuple(topics),
        existing={name: existing[name] for name in (one.name for one in topics) if name in existing},
        policies=policies,
        groups=tuple(copartitioned(topology, settings, counts)),
        problems=tuple(problems),
        remarks=tuple(remarks),
        notes=_notes(topics, existing, restored),
    )


def _notes(
    topics: list[TopologyTopic], existing: Mapping[str, TopicInfo], restored: Mapping[str, str]
) -> dict[str, str]:
    notes = {}
    for one in topics:
        if one.name not in existing:
            notes[one.name] = "missing" if one.is_external else "made at the start"
        elif one.expected is not None and existing[one.name].partitions != one.expected:
            notes[one.name] = f"needs {one.expected} partitions"
        elif one.name in restored:
            notes[one.name] = f"restores {restored[one.name]}"
    return notes


def _count_problems(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Returns what is wrong with partition counts, when all topics that are read exist."""
    try:
        read = _readable(topology, settings, counts)
        check_existing_topics(internal_topic_counts(topology, settings, read), counts, topology_sources(topology))
    except StreamsError as error:
        return [str(error)]
    return []


def topology_sources(topology: Topology) -> set[str]:
    """Returns the topics of the user's that sources name."""
    named = {t for node in topology.nodes.values() if isinstance(node, SourceNode) for t in node.topics}
    return named - set(topology.repartition_topics)


def _policy_problems(topology: Topology, settings: Mapping[str, Any], policies: Mapping[str, str]) -> list[str]:
    problems = []
    for name, topic in internal_topics(topology, settings).items():
        wanted, policy = topic.configs.get("cleanup.policy"), policies.get(name)
        if wanted is None or policy is None or _words(wanted) == _words(policy):
            continue
        if "compact" in wanted and "compact" not in policy:
            why = "rows that Kafka deletes there are missing after a restore"
        elif "compact" not in wanted and "compact" in policy:
            why = "records that have the key of a later one are lost"
        else:
            continue
        problems.append(f"{topic.role} topic {name!r} has cleanup.policy={policy}, needs {wanted}: {why}")
    return problems


def _words(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",")}


def _unlisted(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[str]:
    """Returns words about topics that are not known before records come."""
    remarks = []
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.pattern is not None:
            found = source_topics(topology, node, _readable(topology, settings, counts))
            names = ", ".join(found) or "no topic yet"
            remarks.append(f"source {node.name!r} reads all topics that match {node.pattern.pattern!r}: {names}")
        elif isinstance(node, SinkNode) and node.topic is None:
            remarks.append(f"sink {node.name!r} chooses a topic for each record: these are not listed")
    return remarks
