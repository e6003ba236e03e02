"""All topics of an application: the one list by which they are checked, created, reset, shown and started with."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.errors import StreamsError
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.subtopology import task_subtopologies
from streams.kafka.own_names import control_topic, looking_like_shadow_topics
from streams.kafka.topics.internal import TopicRole, internal_topic_counts, internal_topics, topic_prefix
from streams.kafka.topics.readers import matching_topics, reads_pattern

SHADOW_OF = "shadow.of"
"""The setting that names the application whose shadow this one is."""
DEAD_LETTERS = "errors.dead.letter.queue.topic.name"
"""The setting that names the topic of dead letters."""


class Use(enum.StrEnum):
    """The use that an application makes of a topic."""

    INPUT = "input"
    OUTPUT = "output"
    GLOBAL = "global"
    DEAD_LETTERS = "dead letters"
    REPARTITION = "repartition"
    CHANGELOG = "changelog"
    TASKS = "tasks"
    """A control topic, by which the group shares its tasks."""


READ = frozenset((Use.INPUT, Use.GLOBAL))
WRITTEN = frozenset((Use.OUTPUT, Use.DEAD_LETTERS))
EXTERNAL = READ | WRITTEN
"""Uses of topics that are the user's, and not made by the application."""


@dataclass(frozen=True, kw_only=True)
class ApplicationTopic:
    """A topic of an application, under its full name."""

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

    @property
    def is_read(self) -> bool:
        """Whether the application reads it, and it is the user's."""
        return not READ.isdisjoint(self.uses)

    @property
    def is_written(self) -> bool:
        """Whether the application writes it, and it is the user's."""
        return not WRITTEN.isdisjoint(self.uses)


def dead_letter_topic(settings: Mapping[str, Any]) -> str | None:
    """Returns the topic that the settings name for dead letters, if they name one."""
    name = settings.get(DEAD_LETTERS)
    return None if name is None else str(name)


def application_topics(
    topology: TopologyData, settings: Mapping[str, Any], counts: Mapping[str, int]
) -> list[ApplicationTopic]:
    """Returns all topics that an application is known to use: the user's first, then its own.

    Not among them are topics that a sink's function names for each record, unless the sink declares them, and those of
    dead letters that a handler addresses itself.

    :param settings: those of the application, under Kafka's names.
    :param counts: the partitions of the topics that exist, for sources with a pattern.
    """
    readable = readable_topics(topology, settings, counts)
    uses: dict[str, dict[Use, list[str]]] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode):
            use = Use.GLOBAL if node.name in topology.global_nodes else Use.INPUT
            found = matching_topics(topology, node, readable)
        elif isinstance(node, SinkNode):
            use, found = Use.OUTPUT, node.declared_topics if node.topic is None else (node.topic,)
        else:
            continue
        for topic in found:
            if topic not in topology.repartition_topics:
                uses.setdefault(topic, {}).setdefault(use, []).append(node.name)
    letters = dead_letter_topic(settings)
    if letters is not None:
        uses.setdefault(letters, {}).setdefault(Use.DEAD_LETTERS, [])
    order = list(Use)
    external = [
        ApplicationTopic(
            name=name,
            uses=tuple(sorted(by_use, key=order.index)),
            by=tuple(n for nodes in by_use.values() for n in nodes),
        )
        for name, by_use in sorted(uses.items(), key=lambda one: (min(map(order.index, one[1])), one[0]))
    ]
    return [*external, *_internal(topology, settings, readable, counts)]


def control_topics_of(topology: TopologyData, settings: Mapping[str, Any]) -> dict[int, str]:
    """Returns the control topics by which the group shares its tasks, by their subtopologies.

    Where the brokers place tasks, only subtopologies that read a pattern have one: the brokers count its partitions in
    place of those of the topics that match."""
    by_group = str(settings.get("group.protocol", "classic")) == "streams"
    prefix = topic_prefix(settings)
    return {
        part.id: control_topic(prefix, part.id)
        for part in task_subtopologies(topology)
        if not by_group or reads_pattern(topology, part)
    }


def readable_topics(topology: TopologyData, settings: Mapping[str, Any], counts: Mapping[str, int]) -> dict[str, int]:
    """Returns the topics that sources may read, with their partitions: those that they name, and all others but those
    of the brokers and the application's own, which no pattern matches."""
    named = topology_sources(topology)
    prefix = topic_prefix(settings)
    own = {control_topic(prefix, part.id) for part in task_subtopologies(topology)}
    own |= internal_topics(topology, settings).keys() - named
    if settings.get(SHADOW_OF) is not None:
        own |= looking_like_shadow_topics(prefix, counts, ()).keys()
    return {name: n for name, n in counts.items() if name in named or not (name.startswith("__") or name in own)}


def topology_sources(topology: TopologyData) -> set[str]:
    """Returns the topics of the user's that sources name."""
    named = {t for node in topology.nodes.values() if isinstance(node, SourceNode) for t in node.topics}
    return named - set(topology.repartition_topics)


def _internal(
    topology: TopologyData, settings: Mapping[str, Any], readable: Mapping[str, int], counts: Mapping[str, int]
) -> list[ApplicationTopic]:
    prefix = topic_prefix(settings)
    try:
        expected = internal_topic_counts(topology, settings, readable)
    except StreamsError:  # what is wrong with the counts is said elsewhere
        expected = {}
    found = []
    for name, topic in internal_topics(topology, settings).items():
        if topic.role is not TopicRole.SOURCE_AS_CHANGELOG:
            use = Use.REPARTITION if topic.role is TopicRole.REPARTITION else Use.CHANGELOG
            by = (topic.store,) if topic.store is not None else ()
            found.append(ApplicationTopic(name=name, uses=(use,), by=by, expected=expected.get(name, topic.partitions)))
    needed = control_topics_of(topology, settings)
    for part in task_subtopologies(topology):
        name = control_topic(prefix, part.id)
        if part.id in needed or name in counts:  # they may be left of another group protocol
            found.append(ApplicationTopic(name=name, uses=(Use.TASKS,), by=()))
    return found
