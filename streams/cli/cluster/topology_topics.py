"""The topics of a topology: which it reads and writes, which of them exist, and what is missing or wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from processor_api.errors import StreamsError
from processor_api.texts import repr_of
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.topology import Topology
from streams.kafka.topics import application, internal
from streams.kafka.topics.readers import matching_topics

if TYPE_CHECKING:
    from streams.kafka.ports import TopicInfo


@dataclass(frozen=True, kw_only=True)
class FoundTopics:
    """The topics of an application, held against those of a cluster."""

    topics: tuple[application.ApplicationTopic, ...]
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
    def missing(self) -> list[application.ApplicationTopic]:
        """Returns the topics that the user has to create."""
        return [one for one in self.topics if one.is_external and one.name not in self.existing]


def copartitioned(topology: Topology, settings: Mapping[str, Any], counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Returns the groups of topics that need the same number of partitions, under their full names."""
    prefix, readable = internal.topic_prefix(settings), application.readable_topics(topology, settings, counts)
    groups: list[tuple[str, ...]] = []
    for group in topology.copartition_groups:
        sources = [node for node in map(topology.nodes.__getitem__, group) if isinstance(node, SourceNode)]
        names = {t for node in sources for t in matching_topics(topology, node, readable)}
        full = tuple(sorted(internal.full_name(topology, prefix, name) for name in names))
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
    topics = application.application_topics(topology, settings, counts)
    problems, remarks = [], []
    missing = [one for one in topics if one.is_external and one.name not in existing]
    for one in missing:
        line = next((line for node in one.by if (line := topology.line_of(node)) is not None), None)
        line = application.DEAD_LETTERS if line is None and application.Use.DEAD_LETTERS in one.uses else line
        problems.append(
            f"{' and '.join(one.uses)} topic {one.name!r} does not exist{'' if line is None else f' ({line})'}"
        )
    if not any(one.is_read for one in missing):
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
    topics: list[application.ApplicationTopic], existing: Mapping[str, TopicInfo], restored: Mapping[str, str]
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
        read = application.readable_topics(topology, settings, counts)
        internal.check_existing_topics(
            internal.internal_topic_counts(topology, settings, read), counts, application.topology_sources(topology)
        )
    except StreamsError as error:
        return [str(error)]
    return []


def _policy_problems(topology: Topology, settings: Mapping[str, Any], policies: Mapping[str, str]) -> list[str]:
    problems = []
    for name, topic in internal.internal_topics(topology, settings).items():
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
            found = matching_topics(topology, node, application.readable_topics(topology, settings, counts))
            names = ", ".join(found) or "no topic yet"
            remarks.append(f"source {node.name!r} reads all topics that match {repr_of(node.pattern.pattern)}: {names}")
        elif isinstance(node, SinkNode) and node.topic is None and not node.declared_topics:
            remarks.append(f"sink {node.name!r} chooses a topic for each record: these are not listed")
    return remarks
