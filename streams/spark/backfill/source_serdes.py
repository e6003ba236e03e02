"""The serdes of the source that reads a topic."""

from __future__ import annotations

from typing import Any

from processor_api.nodes import SourceNode
from processor_api.serde import Serde
from processor_api.topology import Topology
from streams.config import StreamsConfig
from streams.runtime.processing.environment import resolve_serde

__all__ = ["source_serdes"]


def source_serdes(topology: Topology, config: StreamsConfig, topic: str) -> tuple[Serde[Any], Serde[Any]]:
    """Returns the serdes of keys and values with which a source of the topology, or a global table, reads a topic.

    :raises ConfigError: if there is none.
    """
    sources = [node for node in topology.nodes.values() if isinstance(node, SourceNode)]
    named = [node for node in sources if topic in node.topics]
    matching = [node for node in sources if node.pattern is not None and node.pattern.fullmatch(topic)]
    source, what = (named or matching)[0], f"topic {topic!r}"
    return (
        resolve_serde(source.key_serde, config.default_key_serde, what, "key"),
        resolve_serde(source.value_serde, config.default_value_serde, what, "value"),
    )
