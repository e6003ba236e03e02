"""The internal topics of an application: their names, settings and partition counts (semantics 133).

Pure functions of a topology, of the configuration under Kafka's dotted names, and of the partition counts of the topics
that exist. Names of repartition topics have two forms, as in :mod:`processor_api`: the short one of the topology, and
the full one on the cluster, which starts with the application's id.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from processor_api.errors import MissingTopicError, TopologyError
from processor_api.stores.builder import StoreBuilder
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import RepartitionTopic, SourceNode
from processor_api.topology.subtopology import Subtopology, task_subtopologies
from streams.kafka.topics.changelog_keeping import is_cut_by_tasks
from streams.kafka.topics.readers import source_topics

DAY_MS = 86_400_000
LONGEST_MS = (1 << 63) - 1
REPARTITION_SEGMENT_BYTES = 50 * 1024 * 1024

RESET_HINT = (
    "Restore the former number of partitions, or stop every worker and reset the application (`streams reset`): this"
    " deletes internal topics, committed offsets and local state, which are then created again"
)
"""Hint for the user when source topics have other partition counts than state was made for."""
ADDITIONAL_RETENTION = "windowstore.changelog.additional.retention.ms"
TOPIC_PREFIX = "topic."


class TopicRole(enum.StrEnum):
    """The role of an internal topic."""

    REPARTITION = "repartition"
    CHANGELOG = "changelog"
    SOURCE_AS_CHANGELOG = "source-as-changelog"
    """A source topic that serves as a changelog (semantics 108). It is the user's: it is not created."""


@dataclass(frozen=True, kw_only=True)
class InternalTopic:
    """An internal topic under its full name."""

    name: str
    role: TopicRole
    subtopology: int
    """The subtopology that reads it (repartition) or whose store it holds (changelog)."""
    store: str | None = None
    partitions: int | None = None
    """The count that the topology fixes; ``None`` if it follows from the source topics (`internal_topic_counts`)."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings with which Kafka Streams creates the topic."""
    is_cut_by_tasks: bool = False
    """Whether tasks delete what has expired, so that the broker must not."""

    @property
    def created_with(self) -> Mapping[str, str]:
        """The settings to create the topic with (semantics 162)."""
        return {**self.configs, "retention.ms": "-1"} if self.is_cut_by_tasks else self.configs


# ---------------------------------------------------------------------- names


def topic_prefix(config: Mapping[str, Any]) -> str:
    """Returns the start of the full names of internal topics, which is the application's id."""
    return str(config["application.id"])


def changelog_name(prefix: str, store: str) -> str:
    return f"{prefix}-{store}-changelog"


def full_name(topology: TopologyData, prefix: str, topic: str) -> str:
    """Returns the name on the cluster of a topic that a source or sink of the topology names."""
    return f"{prefix}-{topic}" if topic in topology.repartition_topics else topic


# ------------------------------------------------------------------- settings


def internal_topics(topology: TopologyData, config: Mapping[str, Any]) -> dict[str, InternalTopic]:
    """Returns every internal topic by its full name, subtopology by subtopology.

    :param config: the application's configuration under Kafka's dotted names; ``application.id``, ``topic.*`` and the
        additional retention of window changelogs are read.
    """
    prefix = topic_prefix(config)
    found: dict[str, InternalTopic] = {}
    for part in task_subtopologies(topology):
        for topic in _repartition_topics(topology, part, prefix, config):
            found[topic.name] = topic
        for topic in _changelogs(topology, part, prefix, config):
            found[topic.name] = topic
    return found


def _repartition_topics(
    topology: TopologyData, part: Subtopology, prefix: str, config: Mapping[str, Any]
) -> Iterable[InternalTopic]:
    for name in part.topics:
        declared = topology.repartition_topics.get(name)
        if declared is not None:
            yield InternalTopic(
                name=f"{prefix}-{name}",
                role=TopicRole.REPARTITION,
                subtopology=part.id,
                partitions=declared.partitions,
                configs=_repartition_configs(config),
            )


def _changelogs(
    topology: TopologyData, part: Subtopology, prefix: str, config: Mapping[str, Any]
) -> Iterable[InternalTopic]:
    for store in part.stores:
        builder = topology.stores[store]
        source = topology.source_changelogs.get(store)
        if source is not None:
            yield InternalTopic(
                name=full_name(topology, prefix, source),
                role=TopicRole.SOURCE_AS_CHANGELOG,
                subtopology=part.id,
                store=store,
            )
        elif builder.logging:
            yield InternalTopic(
                name=changelog_name(prefix, store),
                role=TopicRole.CHANGELOG,
                subtopology=part.id,
                store=store,
                configs=_changelog_configs(builder, config),
                is_cut_by_tasks=is_cut_by_tasks(builder),
            )


def _repartition_configs(config: Mapping[str, Any]) -> dict[str, str]:
    return {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "delete",
        "segment.bytes": str(REPARTITION_SEGMENT_BYTES),
        "retention.ms": "-1",
        **_topic_settings(config),
    }


def _changelog_configs(builder: StoreBuilder[Any, Any], config: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings of a changelog: built-in ones, under those of the application, of the kind of store, and of
    the store."""
    parameters = builder.supplier.parameters
    policy, needed = "compact", {}
    if "history_retention_ms" in parameters:
        needed["min.compaction.lag.ms"] = str(_sum(parameters["history_retention_ms"], DAY_MS))
    elif "retention_ms" in parameters:
        policy = "compact,delete"
        additional = int(config.get(ADDITIONAL_RETENTION, DAY_MS))
        needed["retention.ms"] = str(_sum(parameters["retention_ms"], additional))
        if parameters.get("retain_duplicates"):
            needed["cleanup.policy"] = "delete"  # a key is never written twice, so there is nothing to compact
    return {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": policy,
        **_topic_settings(config),
        **needed,
        **builder.topic_config,
    }


def _sum(first: int, second: int) -> int:
    return min(first + second, LONGEST_MS)


def _topic_settings(config: Mapping[str, Any]) -> dict[str, str]:
    return {
        name.removeprefix(TOPIC_PREFIX): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in config.items()
        if name.startswith(TOPIC_PREFIX)
    }


# ----------------------------------------------------------- partition counts


def repartition_counts(topology: TopologyData, topic_counts: Mapping[str, int]) -> dict[str, int]:
    """Returns how many partitions each repartition topic has, by its short name (semantics 103).

    A count that the user fixed holds. Otherwise it is that of the widest topic which the writing subtopologies read,
    repartition topics among them; then each group of topics that must be co-partitioned is made equal: to the topics
    that exist in it, else to a fixed count, else to the largest.

    :param topic_counts: partition counts of the topics that exist, at least of all source topics.
    :raises MissingTopicError: if a source topic does not exist.
    :raises TopologyError: if topics of a group cannot be made equal, a count follows from nothing, or two patterns
        match one topic.
    """
    parts = _parts(topology, topic_counts)
    counts = _upstream_counts(topology, parts, topic_counts)
    for group in topology.copartition_groups:
        _make_equal(topology, _group_topics(topology, group, topic_counts), topic_counts, counts)
    return counts


def task_counts(topology: TopologyData, topic_counts: Mapping[str, int]) -> dict[int, int]:
    """Returns the number of tasks of each subtopology, which is the partition count of its widest source topic
    (semantics 105).

    :raises TopologyError: as `repartition_counts`.
    """
    counts = {**topic_counts, **repartition_counts(topology, topic_counts)}
    return {
        part.id: max((counts[topic] for topic in topics), default=0) for part, topics in _parts(topology, topic_counts)
    }


def internal_topic_counts(
    topology: TopologyData, config: Mapping[str, Any], topic_counts: Mapping[str, int]
) -> dict[str, int]:
    """Returns the partition count of every internal topic that the application creates, by its full name. A changelog
    has one partition for each task.

    :raises TopologyError: as `repartition_counts`.
    """
    tasks = task_counts(topology, topic_counts)
    prefix = topic_prefix(config)
    repartition = {f"{prefix}-{name}": count for name, count in repartition_counts(topology, topic_counts).items()}
    return {
        name: tasks[topic.subtopology] if topic.role is TopicRole.CHANGELOG else repartition[name]
        for name, topic in internal_topics(topology, config).items()
        if topic.role is not TopicRole.SOURCE_AS_CHANGELOG
    }


def check_existing_topics(
    expected: Mapping[str, int], existing: Mapping[str, int], sources: Collection[str] = ()
) -> tuple[str, ...]:
    """Returns the names of internal topics that are still to be created.

    :param expected: as `internal_topic_counts` gives them.
    :param existing: partition counts of topics on the cluster.
    :param sources: topics that the application reads and that are not its own, for the error.
    :raises TopologyError: if internal topics exist with other partition counts; the error names them all, and the
        source topics that are as wide as they would have to be.
    """
    wrong = {name: count for name, count in expected.items() if existing.get(name, count) != count}
    if wrong:
        listed = "; ".join(f"{name!r} has {existing[name]}, but needs {count}" for name, count in sorted(wrong.items()))
        wide = sorted(name for name in sources if existing.get(name) in wrong.values())
        read = f" (source topic {', '.join(f'{name!r} has {existing[name]}' for name in wide)})" if wide else ""
        raise TopologyError(
            f"internal topics exist with another number of partitions than this topology needs: {listed}{read}. Keys"
            f" may be in other partitions than their state. {RESET_HINT}"
        )
    return tuple(name for name in expected if name not in existing)


_Parts = list[tuple[Subtopology, tuple[str, ...]]]


def _parts(topology: TopologyData, topic_counts: Mapping[str, int]) -> _Parts:
    """Returns the subtopologies with the topics they read, all of which exist or are repartition topics."""
    parts: _Parts = []
    missing = {store.topic for store in topology.global_stores.values() if store.topic not in topic_counts}
    for part in task_subtopologies(topology):
        nodes = [topology.nodes[name] for name in part.sources]
        topics = [
            t for node in nodes if isinstance(node, SourceNode) for t in source_topics(topology, node, topic_counts)
        ]
        missing.update(t for t in topics if t not in topology.repartition_topics and t not in topic_counts)
        parts.append((part, tuple(topics)))
    if missing:
        names = ", ".join(repr(name) for name in sorted(missing))
        raise MissingTopicError(
            f"source topics do not exist: {names}. Create them, then start again",
            topics=missing,
            topic=min(missing) if len(missing) == 1 else None,
            made_at=_lines_of(topology, missing),
        )
    return parts


def _lines_of(topology: TopologyData, topics: Iterable[str]) -> str | None:
    """Returns the lines of the user's script that read topics by their names, each with its topic."""
    readers = {t: node.name for node in topology.nodes.values() if isinstance(node, SourceNode) for t in node.topics}
    lines = [
        f"{line} (topic {topic!r})"
        for topic in sorted(topics)
        if topic in readers and (line := topology.line_of(readers[topic])) is not None
    ]
    return ", ".join(lines) or None


def _upstream_counts(topology: TopologyData, parts: _Parts, topic_counts: Mapping[str, int]) -> dict[str, int]:
    declared = topology.repartition_topics
    read = [topic for _, topics in parts for topic in topics if topic in declared]
    counts = {name: fixed for name in read if (fixed := declared[name].partitions) is not None}
    upstream = {
        name: {topic for part, topics in parts if name in part.sink_topics for topic in topics} for name in read
    }

    def set_next_count(ready: Callable[[set[str]], bool]) -> bool:
        """Sets the count of the first open topic whose upstream topics are ready."""
        for name in read:
            known = {topic for topic in upstream[name] if topic in counts or topic not in declared}
            if name not in counts and known and ready(upstream[name] - known):
                counts[name] = max(counts[topic] if topic in counts else topic_counts[topic] for topic in known)
                return True
        return False

    while len(counts) < len(set(read)):
        # In a loop of repartition topics the upstream counts are never all known: there, the known ones decide.
        if not set_next_count(lambda unknown: not unknown) and not set_next_count(lambda unknown: True):
            open_topics = sorted(set(read) - set(counts))
            raise TopologyError(
                f"the number of partitions of the repartition topics {open_topics} cannot be derived from a source"
                " topic; set the number, or create a topic that matches the pattern"
            )
    return counts


def _group_topics(topology: TopologyData, group: tuple[str, ...], topic_counts: Mapping[str, int]) -> list[str]:
    nodes = [topology.nodes[name] for name in group]
    return [t for node in nodes if isinstance(node, SourceNode) for t in source_topics(topology, node, topic_counts)]


def _make_equal(
    topology: TopologyData, topics: list[str], topic_counts: Mapping[str, int], counts: dict[str, int]
) -> None:
    declared: Mapping[str, RepartitionTopic] = topology.repartition_topics
    internal = [topic for topic in topics if topic in declared]
    external = {topic: topic_counts[topic] for topic in topics if topic not in declared}
    fixed = {topic: count for topic in internal if (count := declared[topic].partitions) is not None}
    deciding = {**external, **fixed}
    if len(set(deciding.values())) > 1:
        listed = ", ".join(f"{topic!r} has {count}" for topic, count in sorted(deciding.items()))
        raise TopologyError(
            f"topics that are joined or grouped together need the same number of partitions: {listed}. Repartition one"
            " side, or create the topics with the same number",
            made_at=_lines_of(topology, deciding),
        )
    if internal:
        count = next(iter(deciding.values())) if deciding else max(counts[topic] for topic in internal)
        counts.update(dict.fromkeys(internal, count))


POLICY = "cleanup.policy"
TIMESTAMP_TYPE = "message.timestamp.type"
AT_LEAST = ("retention.ms", "min.compaction.lag.ms")
UNLIMITED = -1


def harmful_settings(wanted: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings by which a topic loses records or their times, each with the value that it needs.

    A topic that keeps more than is needed is left as it is.

    :param wanted: the settings that the topic would be made with; those that are not in it are not compared.
    :param found: the settings that it has.
    """
    needed = {}
    policies = _words(wanted.get(POLICY, ""))
    has_policies = _words(found.get(POLICY, ""))
    if policies and has_policies - policies:
        needed[POLICY] = wanted[POLICY]
    deletes = "delete" in has_policies & policies
    for name in AT_LEAST:
        if name not in wanted or name not in found or (name == "retention.ms" and not deletes):
            continue
        if _number(found[name]) < _number(wanted[name]):
            needed[name] = wanted[name]
    if TIMESTAMP_TYPE in wanted and found.get(TIMESTAMP_TYPE, wanted[TIMESTAMP_TYPE]) != wanted[TIMESTAMP_TYPE]:
        needed[TIMESTAMP_TYPE] = wanted[TIMESTAMP_TYPE]
    return needed


def _words(policies: str) -> set[str]:
    return {word.strip() for word in policies.split(",")} - {""}


def _number(text: str) -> float:
    number = int(text)
    return float("inf") if number == UNLIMITED else number
