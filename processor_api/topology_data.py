"""What a topology holds, for those who only read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.nodes import Node, RepartitionTopic
from processor_api.store_spec import StoreBuilder

__all__ = ["TopologyData"]


class TopologyData:
    """Nodes, stores and internal topics by name."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._stores: dict[str, StoreBuilder[Any, Any]] = {}
        self._connections: dict[str, list[str]] = {}
        self._topic_readers: dict[str, str] = {}
        self._repartition_topics: dict[str, RepartitionTopic] = {}
        self._source_changelogs: dict[str, str] = {}
        self._copartition_groups: list[tuple[str, ...]] = []

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name, parents before children."""
        return self._nodes

    @property
    def stores(self) -> Mapping[str, StoreBuilder[Any, Any]]:
        return self._stores

    @property
    def repartition_topics(self) -> Mapping[str, RepartitionTopic]:
        return self._repartition_topics

    @property
    def source_changelogs(self) -> Mapping[str, str]:
        """Topics that serve as changelogs, by store."""
        return self._source_changelogs

    @property
    def copartition_groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of source nodes whose topics need equal partition counts."""
        return tuple(self._copartition_groups)

    def stores_of(self, processor: str) -> tuple[str, ...]:
        """The stores connected to a processor, in the order of connection."""
        return tuple(self._connections.get(processor, ()))

    def children_of(self, name: str) -> tuple[str, ...]:
        """The nodes below a node, in the order in which they were added."""
        return tuple(child.name for child in self._nodes.values() if name in child.parents)
