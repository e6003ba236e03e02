"""The topics of each subtopology, in the form of the recordings of names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from processor_api.subtopology import subtopologies
from streams.kafka.internal_topics import InternalTopic, TopicRole, full_name, internal_topics, topic_prefix

__all__ = ["expected_topics", "topic_settings", "topics"]

_SETTINGS_OF_JAVA = ("kind",)


def topic_settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration of a recorded entry."""
    return {"application.id": entry["application_id"], "bootstrap.servers": "unused:9092", **entry["settings"]}


def expected_topics(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry's subtopologies in the form of `topics`: without Java's class names, and without settings for a source
    topic that serves as changelog, which is not created."""
    return {
        number: {
            "source_topics": part["source_topics"],
            "sink_topics": part["sink_topics"],
            "changelogs": _topics(part["changelogs"], given=part["source_topics"]),
            "repartitions": _topics(part["repartitions"]),
        }
        for number, part in entry["subtopologies"].items()
    }


def _topics(recorded: Any, given: Any = ()) -> dict[str, Any]:
    if isinstance(recorded, list):
        return dict.fromkeys(recorded)
    return {
        name: None if name in given else {field: topic[field] for field in topic if field not in _SETTINGS_OF_JAVA}
        for name, topic in recorded.items()
    }


def topics(
    build: Callable[[Any], Any], config: Any, settings: Mapping[str, Any], *, names_only: bool
) -> dict[str, Any]:
    """What the topology built here reads, writes and creates.

    :param config: the configuration that the topology is built with; ``settings``: the same under dotted names.
    """
    topology = build(config)
    prefix = topic_prefix(settings)
    internal = internal_topics(topology, settings).values()
    return {
        str(part.id): {
            "source_topics": sorted(full_name(topology, prefix, topic) for topic in part.topics),
            "sink_topics": sorted(full_name(topology, prefix, topic) for topic in part.sink_topics),
            "changelogs": {
                topic.name: None if names_only else _shown(topic)
                for topic in internal
                if topic.subtopology == part.id and topic.role is not TopicRole.REPARTITION
            },
            "repartitions": {
                topic.name: None if names_only else _shown(topic)
                for topic in internal
                if topic.subtopology == part.id and topic.role is TopicRole.REPARTITION
            },
        }
        for part in subtopologies(topology)
    }


def _shown(topic: InternalTopic) -> dict[str, Any] | None:
    if topic.role is TopicRole.SOURCE_AS_CHANGELOG:
        return None
    return {
        "partitions": topic.partitions,
        "partitions_enforced": topic.partitions is not None,
        "configs": dict(topic.configs),
    }
