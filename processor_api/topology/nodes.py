"""The nodes of a topology: frozen data, connected by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from processor_api.processor import OwnTime
from processor_api.record import HeaderList
from processor_api.serde import Serde
from processor_api.timestamps import TimestampExtractor
from processor_api.topology.partitioner import StreamPartitioner
from processor_api.user_code.checks import check_fields
from processor_api.user_code.offset_reset import AutoOffsetReset


class RecordContext(NamedTuple):
    """The place, timestamp and headers of the current record, for a topic name extractor.

    ::

        lines.to(lambda name, line, record_context: f"from_{record_context.topic}")
        # ("ann", "hello") -> from_lines("ann", "hello")
    """

    topic: str | None
    """The source topic; ``None`` in a punctuation."""
    partition: int
    offset: int
    timestamp: int
    """The timestamp in ms."""
    headers: HeaderList | None


TopicNameExtractor = Callable[[Any, Any, RecordContext], str]
"""``(key, value, record_context)`` to the name of an existing topic."""


@dataclass(frozen=True, kw_only=True)
class SourceNode:
    """A source: reads topics (or every topic that a pattern matches) with one pair of serdes."""

    name: str
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    timestamp_extractor: TimestampExtractor | None = None
    offset_reset: AutoOffsetReset | None = None

    def __post_init__(self) -> None:
        check_fields(self, f"source {self.name!r}", node=self.name)

    @property
    def parents(self) -> tuple[str, ...]:
        """The nodes above; a source has none."""
        return ()


@dataclass(frozen=True, kw_only=True)
class ProcessorNode:
    """A processor node: runs a user's processor, or an operator of the DSL."""

    name: str
    parents: tuple[str, ...]
    supplier: Any
    """A :class:`~processor_api.processor.Operator`, or a supplier of processors."""
    fixed_key: bool = False
    own_time: OwnTime | None = None
    """The names of its times, of an operator that keeps some; also where a wrapper stands before it."""


@dataclass(frozen=True, kw_only=True)
class SinkNode:
    """A sink: writes to a topic, fixed or chosen for each record."""

    name: str
    parents: tuple[str, ...]
    topic: str | None = None
    topic_extractor: TopicNameExtractor | None = None
    key_serde: Serde[Any] | None = None
    value_serde: Serde[Any] | None = None
    partitioner: StreamPartitioner | None = None
    declared_topics: tuple[str, ...] = ()
    """The topics that the extractor may choose, if they are known: then it may choose no other."""

    def __post_init__(self) -> None:
        check_fields(self, f"sink {self.name!r}", node=self.name)


Node = SourceNode | ProcessorNode | SinkNode


def sources_above(nodes: Mapping[str, Node], name: str) -> set[str]:
    """Returns the sources whose records may come to a node; of a source itself."""
    found, new = {name}, [name]
    while new:
        parents = set(nodes[new.pop()].parents) - found
        found |= parents
        new += parents
    return {one for one in found if isinstance(nodes[one], SourceNode)}


@dataclass(frozen=True, kw_only=True)
class RepartitionTopic:
    """An internal topic between two subtopologies; its real name is ``<application.id>-<name>``.

    ::

        topology = Topology().add_repartition_topic(RepartitionTopic(name="by-word-repartition", partitions=12))
        topology.add_source("source", "lines").add_sink("sink", "by-word-repartition", "source")
        topology.add_source("again", "by-word-repartition").add_processor("shout", Shout, "again")
    """

    name: str
    partitions: int | None = None
    """``None``: as many as the widest topic upstream, or as its copartition group needs (semantics 103)."""
