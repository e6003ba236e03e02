"""The description of a topology as objects: what its text says, to be asked and not searched."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from processor_api.topology.nodes import TopicNameExtractor


@dataclass(frozen=True, kw_only=True)
class NodeDescription:
    """Describes a node of a topology, and the names of its neighbours."""

    name: str
    predecessors: tuple[str, ...] = ()
    """The names of the nodes above."""
    successors: tuple[str, ...] = ()
    """The names of the nodes below."""
    made_by: str | None = field(default=None, compare=False)
    """The call of the user's script that made it, such as ``map_values(to_cents)``, if it is known."""
    made_at: str | None = field(default=None, compare=False)
    """The line of that call, such as ``orders.py:14``."""


@dataclass(frozen=True, kw_only=True)
class SourceDescription(NodeDescription):
    """Describes a source."""

    topic_set: frozenset[str] | None = None
    """The topics that it names; ``None`` if it has a pattern."""
    topic_pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ProcessorDescription(NodeDescription):
    """Describes a processor, or an operator of the DSL."""

    stores: frozenset[str] = frozenset()
    """The names of the stores that are connected to it."""


@dataclass(frozen=True, kw_only=True)
class SinkDescription(NodeDescription):
    """Describes a sink."""

    topic: str | None = None
    """The topic that it writes; ``None`` if a function names one for each record."""
    topic_name_extractor: TopicNameExtractor | None = None


@dataclass(frozen=True, kw_only=True)
class SubtopologyDescription:
    """Describes a connected part of a topology, which runs as tasks."""

    id: int
    nodes: tuple[NodeDescription, ...]
    """The nodes, in the order of the text."""


@dataclass(frozen=True, kw_only=True)
class GlobalStoreDescription:
    """Describes the two nodes that fill a global store."""

    id: int
    source: SourceDescription
    processor: ProcessorDescription


class TopologyDescription(str):
    """The text of Kafka Streams' ``Topology.describe()``, with what it says as objects.

    ::

        topology = Topology().add_source("source", "lines").add_processor("shout", Shout, "source")
        (part,) = topology.describe().subtopologies
        assert [node.name for node in part.nodes] == ["source", "shout"]
        assert part.nodes[0].topic_set == {"lines"}
    """

    subtopologies: tuple[SubtopologyDescription, ...]
    """The subtopologies that run as tasks, by id."""
    global_stores: tuple[GlobalStoreDescription, ...]
    """The global stores, by id."""

    @classmethod
    def of(
        cls,
        text: str,
        subtopologies: tuple[SubtopologyDescription, ...],
        global_stores: tuple[GlobalStoreDescription, ...],
    ) -> TopologyDescription:
        """Returns a text with its objects."""
        found = cls(text)
        found.subtopologies, found.global_stores = subtopologies, global_stores
        return found
