"""The topics of a topology whose keys have to lie in the same partitions, since one task reads them together."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from processor_api.processor import Operator
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import ProcessorNode, SinkNode, SourceNode, sources_above
from state.formats.windowed_serdes import windowed_partitioner
from streams.kafka.producing.key_places import PlacedKeys, disagreeing

log = logging.getLogger("streams.tasks")

FIRST_KEYS = 200
"""The number of records of each partition that are checked first."""
EVERY = 64
"""Then one batch in this many is checked,"""
SOME_KEYS = 8
"""with this many records."""


@dataclass(frozen=True)
class MeetingTopics:
    """Holds topics that a task reads together by their keys, such as both sides of a join."""

    topics: tuple[str, ...]
    """The topics that others write, by their real names."""
    by_murmur2: bool
    """Whether they meet a repartition topic, which this application writes by murmur2 of the key."""
    calls: str
    """The calls that read them together, with their lines."""


def meeting_topics(topology: TopologyData, topics: Mapping[str, str]) -> Iterator[MeetingTopics]:
    """Yields the topics that meet; those that meet the topic of a partitioner of the user's are left out.

    :param topics: the source of each topic that is read, by real name.
    """
    internal = {name for name, node in topology.nodes.items() if _is_internal(topology, node)}
    for group in _groups(topology):
        read = tuple(topic for topic, source in topics.items() if source in group and source not in internal)
        repartitioned = internal.intersection(group)
        if not read or len(read) + len(repartitioned) < 2 or not all(_by_key(topology, one) for one in repartitioned):
            continue
        yield MeetingTopics(read, bool(repartitioned), joining_calls(topology, group))


def _is_internal(topology: TopologyData, node: object) -> bool:
    return isinstance(node, SourceNode) and not topology.repartition_topics.keys().isdisjoint(node.topics)


def _groups(topology: TopologyData) -> set[frozenset[str]]:
    """Returns the sources of each join, and those of each operator with a store of its own."""
    found = {frozenset(group) for group in topology.copartition_groups}
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode) and isinstance(node.supplier, Operator) and topology.stores_of(node.name):
            found.add(frozenset(sources_above(topology.nodes, node.name)))
    return {group for group in found if not any(group < other for other in found)}


def _by_key(topology: TopologyData, source: str) -> bool:
    """Whether all that is written to the repartition topic of a source is placed by murmur2 of the key."""
    node = topology.nodes[source]
    topics = node.topics if isinstance(node, SourceNode) else ()
    sinks = [one for one in topology.nodes.values() if isinstance(one, SinkNode) and one.topic in topics]
    return all(one.partitioner is None and _has_plain_keys(one) for one in sinks)


def _has_plain_keys(sink: SinkNode) -> bool:
    return sink.key_serde is None or windowed_partitioner(sink.key_serde) is None


def joining_calls(topology: TopologyData, group: Collection[str]) -> str:
    """Returns the calls that read several of these sources together, with their lines: joins, or else aggregations."""
    connected: dict[str, set[str]] = defaultdict(set)
    for name in topology.nodes:
        for store in topology.stores_of(name):
            connected[store] |= sources_above(topology.nodes, name)
    joins: dict[str | None, str] = {}
    others: dict[str | None, str] = {}
    for name in topology.nodes:
        call, stores = (topology.call_of(name) or "").partition("(")[0], topology.stores_of(name)
        met = sources_above(topology.nodes, name).union(*(connected[store] for store in stores))
        if len(met.intersection(group)) > min(1, len(group) - 1):
            if "join" in call:
                joins.setdefault(topology.line_of(name), call)
            elif stores:
                others.setdefault(topology.line_of(name), call)
    return " or ".join(f"{call} at {line}" for line, call in (joins or others).items()) or "a join"


class KeySample:
    """Takes a sample of the keys of one input partition, without cost for the batches between."""

    __slots__ = ("_batches", "_left", "_partition", "_topic", "_watch", "misplaced")

    def __init__(self, watch: KeyWatch, topic: str, partition: int) -> None:
        self._watch, self._topic, self._partition = watch, topic, partition
        self._left = FIRST_KEYS
        self._batches = 0
        self.misplaced = 0
        """Keys of the sample that lie in another partition than those that they are read together with."""

    def look(self, messages: Sequence[Any]) -> int:
        """Looks at some of the messages of a batch; returns how many of them have a misplaced key."""
        if self._left > 0:
            some, self._left = messages[: self._left], self._left - len(messages)
        else:
            self._batches += 1
            if self._batches % EVERY:
                return 0
            some = messages[:SOME_KEYS]
        found = self._watch.look(self._topic, self._partition, [message.key() for message in some])
        self.misplaced += found
        return found


class KeyWatch:
    """Finds topics that are read together and whose producers place keys differently; the tasks of a plan share it.

    :param counts: the partitions of each topic that is read.
    """

    def __init__(self, meetings: Collection[MeetingTopics], counts: Mapping[str, int]) -> None:
        self._meetings = meetings
        self._placed = {
            topic: PlacedKeys(counts[topic]) for one in meetings for topic in one.topics if counts[topic] > 1
        }
        self._warned: set[str] = set()

    def sample(self, topic: str, partition: int) -> KeySample | None:
        """Returns what looks at an input partition; ``None`` for one that meets no other."""
        return KeySample(self, topic, partition) if topic in self._placed else None

    def look(self, topic: str, partition: int, keys: Collection[bytes | None]) -> int:
        """Looks at keys, and warns once for each topic; returns how many of them lie elsewhere than they should."""
        placed = self._placed[topic]
        wrong = placed.look(partition, keys)
        found = 0
        for meeting in self._meetings:
            if topic not in meeting.topics:
                continue
            known = {name: self._placed[name] for name in meeting.topics if name in self._placed}
            for name in disagreeing(known, by_murmur2=meeting.by_murmur2):
                found = wrong if name == topic else found
                if name not in self._warned:
                    self._warned.add(name)
                    log.warning(
                        "keys lie in other partitions than those of the topic that they are read together with, so that"
                        " some never meet",
                        extra={
                            "topic": name,
                            "keys": self._placed[name].text(),
                            "read_by": meeting.calls,
                            "do": self._placed[name].remedy(),
                        },
                    )
        return found
