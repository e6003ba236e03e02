"""The serdes of the source that reads a topic."""

from __future__ import annotations

from typing import Any

from processor_api.serde import Serde
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.kafka.topics.readers import reader_of
from streams.runtime.processing.environment import resolve_serde


def source_serdes(topology: Topology, config: StreamsConfig, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of keys and values with which a source of the topology, or a global table, reads a topic.

    :raises ConfigError: if there is none.
    :raises TopologyError: if two patterns match the topic.
    """
    what = f"topic {topic!r}"
    source = reader_of(topology, topic)
    given = (None, None) if source is None else (source.key_serde, source.value_serde)
    return (
        resolve_serde(given[0], config.default_key_serde, what, "key"),
        resolve_serde(given[1], config.default_value_serde, what, "value"),
    )
