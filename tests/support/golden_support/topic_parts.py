"""The topics of each subtopology, in the form of the recordings of names and settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.replay import start_driver
from processor_api.topology.subtopology import task_subtopologies
from streams.config import StreamsConfig
from streams.kafka.topics.internal import InternalTopic, TopicRole, full_name, internal_topics, topic_prefix

__all__ = ["expected_records", "expected_topics", "is_supported", "records", "topics"]

START_MS = 100_000
BETWEEN_RECORDS_MS = 1_001

_SETTINGS_OF_JAVA = ("kind",)


def is_supported(entry: Mapping[str, Any]) -> bool:
    """Named topologies and prefixes other than the application's id, internal features of Kafka Streams, are not."""
    return entry["named_topology"] is None and "__internal.override.topic.prefix__" not in entry["settings"]


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


def topics(build: Callable[[Any], Any], config: StreamsConfig, *, names_only: bool) -> dict[str, Any]:
    """What the topology built here reads, writes and creates."""
    topology = build(config)
    settings = config.dotted()
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
        for part in task_subtopologies(topology)
    }


def expected_records(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with recorded bytes, in the form of `records`."""
    topics = {name: [dict(record) for record in written] for name, written in entry["topics"].items()}
    return {"description": entry["description"], "topics": _in_comparable_order(topics)}


def records(
    entry: Mapping[str, Any],
    build: Callable[[Any], Any],
    config: StreamsConfig,
    driver_of: Callable[[Any, Any, int], Any] = start_driver,
) -> dict[str, Any]:
    """Every record written when the recorded inputs are repeated, by topic."""
    topology = build(config)
    written: dict[str, list[dict[str, Any]]] = {}
    driver = driver_of(topology, config, START_MS)
    try:
        for record in entry["inputs"]:
            headers = [(name, None if data is None else bytes.fromhex(data)) for name, data in record["headers"]]
            value = None if record["value"] is None else record["value"].encode()
            driver.pipe_raw(record["topic"], record["key"].encode(), value, record["timestamp"], headers)
            driver.advance_wall_clock_time(BETWEEN_RECORDS_MS)
            for topic, produced in driver.take_produced().items():
                written.setdefault(topic, []).extend(map(_raw, produced))
    finally:
        driver.close()
    return {"description": str(topology.describe()), "topics": _in_comparable_order(written)}


def _raw(record: Any) -> dict[str, Any]:
    """Where Java leaves the time to the producer, it is the wall clock's here, and later than that of every input."""
    return {
        "key_hex": None if record.key is None else record.key.hex(),
        "value_hex": None if record.value is None else record.value.hex(),
        "timestamp": None if record.timestamp >= START_MS else record.timestamp,
        "headers": [[name, None if value is None else value.hex()] for name, value in record.headers or ()],
    }


def _in_comparable_order(topics: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Java's suppress buffer logs a commit's keys in the order of a hash set: there, the order per key counts."""
    return {
        topic: sorted(written, key=lambda record: str(record["key_hex"])) if "buffer-store" in topic else written
        for topic, written in sorted(topics.items())
    }


def _shown(topic: InternalTopic) -> dict[str, Any] | None:
    if topic.role is TopicRole.SOURCE_AS_CHANGELOG:
        return None
    return {
        "partitions": topic.partitions,
        "partitions_enforced": topic.partitions is not None,
        "configs": dict(topic.configs),
    }
