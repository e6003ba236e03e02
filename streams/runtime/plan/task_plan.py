"""The plan of a task, as data: nodes, real topic names, stores with their changelogs.

A plan is a pure function of the topology and its topics. It belongs to a subtopology; every task of the subtopology is
opened from the same plan. The test driver makes one plan over all subtopologies. The threads of a process work by one
set of plans, which a new one may replace.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from processor_api.errors import StreamsError
from processor_api.processor import OwnTime
from processor_api.task_id import TopicPartition
from processor_api.topology.data import TopologyData
from processor_api.topology.nodes import ProcessorNode, SinkNode, SourceNode, sources_above
from processor_api.topology.subtopology import task_subtopologies
from state.registry.kinds import expires
from streams.kafka.membership.port import GroupTopology
from streams.kafka.topics.internal import changelog_name, full_name, repartition_counts, topic_prefix
from streams.kafka.topics.readers import source_topics
from streams.runtime.plan.co_partitioned import KeyWatch, meeting_topics
from streams.threads import SYSTEM_THREADS, Threads

# Finds whether a record may meet the results that it made due, by another branch of its topology.


class Branches:
    """The branches of a topology. The tasks of a plan share it: each node is looked at once."""

    def __init__(self, topology: TopologyData) -> None:
        self._topology = topology
        self._children: dict[str, set[str]] = defaultdict(set)
        for node in topology.nodes.values():
            for parent in node.parents:
                self._children[parent].add(node.name)
        self._found: dict[str, bool] = {}

    def meet_again(self, node: str) -> bool:
        """Returns whether a record that has come to a node may come, by another way, to a node below it, or to one that
        has a store together with the node or with one below it.

        What the node sends on must be there before that. If nothing of this is so, it may come later: no node can
        tell.
        """
        if node not in self._found:
            self._found[node] = self._look(node)
        return self._found[node]

    def _look(self, node: str) -> bool:
        below = self._reached({node})
        others = self._reached(sources_above(self._topology.nodes, node), without=node)
        if not below.isdisjoint(others):
            return True
        stores_of = self._topology.stores_of
        stores = {store for name in below for store in stores_of(name)}
        return bool(stores) and any(not stores.isdisjoint(stores_of(name)) for name in others)

    def _reached(self, starts: set[str], without: str | None = None) -> set[str]:
        """Returns some nodes and all below them that are reached without passing one."""
        found, new = set(starts), list(starts)
        while new:
            children = self._children.get(new.pop(), set()) - found - {without}
            found |= children
            new += children
        return found


@dataclass(frozen=True)
class TaskPlan:
    """Holds the plan of one subtopology (or of several as one, for the test driver)."""

    subtopology: int
    topology: TopologyData
    prefix: str
    nodes: tuple[str, ...]
    """Parents before children."""
    topics: Mapping[str, str]
    """Topics read, by their real names, with the source node that reads each."""
    stores: tuple[str, ...]
    changelogs: Mapping[str, str]
    """Real changelog topics of those stores that are logged."""
    source_changelogs: frozenset[str]
    """Stores whose changelog is a source topic: read at restore, never written."""
    repartition_topics: frozenset[str]
    """Real names of internal topics among the topics read, to be purged after commits."""
    partition_counts: Mapping[str, int]
    """Partitions of each topic read."""

    @property
    def tasks(self) -> int:
        """The number of tasks (semantics 105)."""
        return max(self.partition_counts.values(), default=0)

    @property
    def may_grow(self) -> bool:
        """Whether its topics may get more partitions: so without stores, whose rows belong to partitions."""
        return not self.stores

    @cached_property
    def branches(self) -> Branches:
        """The branches of its topology."""
        return Branches(self.topology)

    @cached_property
    def key_watch(self) -> KeyWatch:
        """Looks at the keys of topics that are read together."""
        return KeyWatch(tuple(meeting_topics(self.topology, self.topics)), self.partition_counts)

    @cached_property
    def shared_stores(self) -> frozenset[str]:
        """The stores that several nodes have."""
        users = Counter(chain.from_iterable(map(self.topology.stores_of, self.nodes)))
        return frozenset(store for store, count in users.items() if count > 1)

    @cached_property
    def own_times(self) -> tuple[OwnTime, ...]:
        """The names of the times that operators keep of their stores."""
        nodes = map(self.topology.nodes.__getitem__, self.nodes)
        return tuple(node.own_time for node in nodes if isinstance(node, ProcessorNode) and node.own_time is not None)

    @cached_property
    def expiring_stores(self) -> frozenset[str]:
        """The stores whose rows expire by a time that no operator keeps."""
        kept = {own.store for own in self.own_times}
        return frozenset(name for name in self.stores if name not in kept and expires(self.topology.stores[name]))

    def partitions(self, partition: int) -> tuple[TopicPartition, ...]:
        """Returns the input partitions of one task."""
        counts = self.partition_counts
        return tuple(TopicPartition(topic, partition) for topic in self.topics if partition < counts[topic])

    @property
    def topics_written(self) -> frozenset[str]:
        """The changelogs, and the topics of sinks whose topic has a fixed name."""
        nodes = map(self.topology.nodes.get, self.nodes)
        sinks = {self.real_name(node.topic) for node in nodes if isinstance(node, SinkNode) and node.topic is not None}
        return frozenset(sinks).union(
            topic for store, topic in self.changelogs.items() if store not in self.source_changelogs
        )

    @property
    def internal_topics(self) -> frozenset[str]:
        """Real names of all repartition topics of the topology."""
        return frozenset(f"{self.prefix}-{name}" for name in self.topology.repartition_topics)

    def real_name(self, topic: str) -> str:
        """Returns the name that a topic of the topology has in the cluster."""
        return full_name(self.topology, self.prefix, topic)


def plan_tasks(
    topology: TopologyData, config: Mapping[str, Any], topic_counts: Mapping[str, int]
) -> tuple[TaskPlan, ...]:
    """Returns a plan for each subtopology that has tasks.

    :param config: under Kafka's dotted names.
    :param topic_counts: partition counts of the topics that exist.
    :raises MissingTopicError: if a source topic does not exist.
    :raises TopologyError: if topics that must be co-partitioned are not, or two patterns match one topic.
    """
    prefix = topic_prefix(config)
    repartition = {f"{prefix}-{name}": count for name, count in repartition_counts(topology, topic_counts).items()}
    return tuple(
        _plan(topology, prefix, part.id, part.nodes, part.stores, topic_counts, repartition)
        for part in task_subtopologies(topology)
    )


def plan_all(topology: TopologyData, config: Mapping[str, Any], topic_counts: Mapping[str, int]) -> TaskPlan:
    """Returns one plan over all subtopologies that have tasks, each topic with one partition."""
    prefix = topic_prefix(config)
    nodes = tuple(name for name in topology.nodes if name not in topology.global_nodes)
    return _plan(topology, prefix, 0, nodes, tuple(topology.stores), topic_counts, {})


def plan_globals(topology: TopologyData, config: Mapping[str, Any]) -> TaskPlan:
    """Returns a plan of the nodes that fill the global stores; they belong to no task."""
    nodes = tuple(name for name in topology.nodes if name in topology.global_nodes)
    return _plan(topology, topic_prefix(config), -1, nodes, (), {}, {})


def _plan(
    topology: TopologyData,
    prefix: str,
    number: int,
    nodes: tuple[str, ...],
    stores: tuple[str, ...],
    topic_counts: Mapping[str, int],
    repartition_counts: Mapping[str, int],
) -> TaskPlan:
    """Returns the plan of some nodes and stores.

    :param repartition_counts: by full name; not among the others, since a pattern does not match these topics.
    """
    counts = {**topic_counts, **repartition_counts}
    topics: dict[str, str] = {}
    for name in nodes:
        node = topology.nodes[name]
        if isinstance(node, SourceNode):
            for topic in source_topics(topology, node, topic_counts):
                topics[full_name(topology, prefix, topic)] = name
    changelogs = {}
    for store in stores:
        if store in topology.source_changelogs:
            changelogs[store] = full_name(topology, prefix, topology.source_changelogs[store])
        elif topology.stores[store].logging:
            changelogs[store] = changelog_name(prefix, store)
    internal = {f"{prefix}-{name}" for name in topology.repartition_topics}
    return TaskPlan(
        subtopology=number,
        topology=topology,
        prefix=prefix,
        nodes=nodes,
        topics=topics,
        stores=stores,
        changelogs=changelogs,
        source_changelogs=frozenset(store for store in stores if store in topology.source_changelogs),
        repartition_topics=frozenset(topics) & internal,
        partition_counts={topic: counts.get(topic, 1) for topic in topics},
    )


@dataclass(frozen=True)
class Plans:
    """Holds the plan of each subtopology, and the facts about them that membership needs."""

    tasks: Mapping[int, TaskPlan]
    group: GroupTopology


class PlanBook:
    """Holds the plans in force. Written by one thread, read by any."""

    def __init__(self, plans: Plans, threads: Threads = SYSTEM_THREADS) -> None:
        self.current = plans
        self.outdated = threads.event()
        """Set by a thread that was given a task which the plans do not have."""
        self.refusal: StreamsError | None = None
        """The error if the application cannot continue with the topics as they are now; threads raise it."""
