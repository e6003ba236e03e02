"""What a recording tells of a topology without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.java_names import BUILD_ERRORS
from streams.config import StreamsConfig
from streams.kafka.topics.internal import TopicRole, internal_topics

__all__ = ["expected_parts", "parts"]


def expected_parts(case: Mapping[str, Any]) -> dict[str, Any]:
    """A case without its runs, in the form of `parts`."""
    if "build_throws" in case:
        return {"build_throws": True}
    return {"describe": case["describe"], "internal_topics": case["internal_topics"]}


def parts(case: Mapping[str, Any], build: Callable[[Any], Any], config: StreamsConfig) -> dict[str, Any]:
    """The text and the internal topics of the topology built here, or that it cannot be built. The recordings show
    topics without the application's own settings for them (``topic.*``)."""
    throws = case.get("build_throws")
    try:
        topology = build(config)
    except Exception as error:
        if throws and isinstance(error, BUILD_ERRORS[throws[0]]):
            return {"build_throws": True}
        raise
    if throws:
        return {"build_throws": False}
    settings = {name: value for name, value in config.dotted().items() if not name.startswith("topic.")}
    topics = {
        name: {"role": str(topic.role), "partitions": topic.partitions}
        | ({} if topic.role is TopicRole.SOURCE_AS_CHANGELOG else {"configs": dict(topic.configs)})
        for name, topic in internal_topics(topology, settings).items()
    }
    return {"describe": str(topology.describe()), "internal_topics": topics}
