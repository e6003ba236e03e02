"""Runs a new version and the one in production in memory, on the same state and records, and compares both.

State and records are read from the cluster into a broker in memory for each version. Nothing is written to the cluster,
and the application may run (docs/decisions/command-line-and-settings.md, "A shadow compares two versions in memory").
"""

from __future__ import annotations

import argparse
import tempfile
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from processor_api.topology.nodes import SinkNode, SourceNode
from processor_api.topology.topology import Topology
from streams.cli.cluster.connection import ClusterConnection
from streams.cli.cluster.topic_formats import format_of
from streams.cli.output.causes import CLEAN, FAILED
from streams.cli.output.failures import described
from streams.cli.output.terminal import counted, json_text, say, say_error
from streams.cli.shadow.comparison import (
    LEFT_OUT,
    ComparedVersion,
    RunResults,
    VersionDifferences,
    pairs,
    plan_of,
    rows,
    versions_of,
)
from streams.kafka.cluster_clients import partitions_of

if TYPE_CHECKING:
    from streams.config import StreamsConfig
    from streams.kafka.offset_metadata import TopicPartitionMetadata
    from streams.kafka.ports import Admin, Consumer, KafkaClients
    from streams.runtime.plan.task_plan import TaskPlan
    from streams.testing import EmbeddedKafka

PAUSE_S, LINE_S = 0.05, 30.0
FLUSHED = 10_000


def run(arguments: argparse.Namespace, gathering_s: float, clients: KafkaClients | None, clock: Clock) -> int:
    """Runs both versions and prints in what they differ; returns the exit status.

    :param gathering_s: how long to gather records.
    """
    versions = versions_of(arguments)
    old = versions[0].target
    connection = ClusterConnection(old.config, clients)
    with connection.admin() as admin, connection.consumer(group=old.config.application_id) as reader:
        plans = [plan_of(version, admin) for version in versions]
        gathering = _Gathering(versions, plans, admin, reader, arguments.most_records)
        gathering.read_state()
        if not arguments.json:
            _say_begin(versions, gathering, arguments.duration)
        clock.wait(gathering_s)
        gathering.read_inputs()
    found = []
    for version, plan in zip(versions, plans, strict=True):
        say_error(f"running {version.name} on {counted(gathering.count, 'record')}")
        found.append(_Run(version, plan, gathering.topics, clock).results())
    comparison = VersionDifferences(versions, found)
    if arguments.json:
        say(json_text(comparison.as_json(records=gathering.count)))
    else:
        comparison.show(arguments.limit)
    return FAILED if comparison.differs else CLEAN


# ------------------------------------------------------------------ state and records of the cluster


@dataclass
class _ReadTopic:
    """A topic that was read into memory."""

    partitions: int
    configs: Mapping[str, str]
    records: dict[int, list[Any]] = field(default_factory=dict)
    """The messages by partition."""
    offsets: dict[int, int] = field(default_factory=dict)
    """The places in them that stand for the committed offsets."""
    metadata: dict[int, TopicPartitionMetadata] = field(default_factory=dict)

    def place_of(self, partition: int, offset: int) -> int:
        """Returns how many of the records of a partition have an earlier offset."""
        return bisect_left(self.records.get(partition, []), offset, key=lambda message: message.offset())


class _Gathering:
    """Reads what both versions begin with.

    :param reader: has the offsets of the application's group.
    """

    def __init__(
        self,
        versions: Collection[ComparedVersion],
        plans: Collection[tuple[TaskPlan, ...]],
        admin: Admin,
        reader: Consumer,
        most: int,
    ) -> None:
        self._existing = admin.topics()
        self._reader, self._most = reader, most
        tasks = [one for plan in plans for one in plan]
        read = {topic for one in tasks for topic in one.topics}
        made = {topic for one in tasks for topic in one.repartition_topics | one.topics_written}
        self._own = read & made & self._existing.keys()
        """Topics that the application writes and reads: what comes while records are gathered, both versions write."""
        self._whole = {one.changelogs[store] for one in tasks for store in one.source_changelogs}
        self._whole |= {store.topic for version in versions for store in version.topology.global_stores.values()}
        self._inputs = read - made
        changelogs = {t for one in tasks for store, t in one.changelogs.items() if store not in one.source_changelogs}
        self._changelogs = {topic for topic in changelogs if topic in self._existing}
        self._configs = _internal_configs(versions)
        self._committed: dict[TopicPartition, Any] = {}
        self.topics: dict[str, _ReadTopic] = {}
        self.count = 0

    @property
    def state_records(self) -> int:
        return sum(len(one) for name in self._changelogs for one in self.topics[name].records.values())

    def read_state(self) -> None:
        """Reads committed offsets, and then changelogs and repartition topics to where they end now.

        :raises StreamsError: if the group has no offsets, or there is more than may be read into memory.
        """
        places = partitions_of([*self._inputs, *self._own], self._existing)
        self._committed = self._reader.committed(places)
        if not self._committed:
            raise StreamsError(
                "the group of the application has no committed offset of the topics that it reads: check that it is"
                " the one in production, and give its id by --application-id"
            )
        self._read([*self._changelogs, *self._own])

    def read_inputs(self) -> None:
        """Reads the inputs from the committed offsets on to where they end now; tables and global stores whole."""
        self._read((self._inputs | self._whole) - self._own - self._changelogs)

    def _read(self, topics: Iterable[str]) -> None:
        from streams.kafka.offset_metadata import TopicPartitionMetadata
        from streams.kafka.record_ranges import read_ranges

        places = partitions_of(list(topics), self._existing)
        if not places:
            return
        begins, ends = self._reader.beginning_offsets(places), self._reader.end_offsets(places)
        ranges = {}
        for place in places:
            whole = place.topic in self._whole or place not in self._committed
            begin = begins[place] if whole else max(begins[place], self._committed[place].offset)
            ranges[place] = begin, max(begin, ends[place])
        expected = self.count + sum(end - begin for begin, end in ranges.values())
        if expected > self._most:
            raise StreamsError(
                f"up to {expected} records to read into memory exceed --most-records {self._most}. Give a larger"
                " number, or a shorter --for; for state that does not fit into memory use `streams state clone`"
            )
        for place in places:
            topic = self.topics.setdefault(
                place.topic, _ReadTopic(self._existing[place.topic].partitions, self._configs.get(place.topic, {}))
            )
            topic.records[place.partition] = []
        for message in read_ranges(self._reader, ranges):
            self.topics[message.topic()].records[message.partition()].append(message)
            self.count += 1
        for place in places:
            if place in self._committed:
                topic, one = self.topics[place.topic], self._committed[place]
                topic.offsets[place.partition] = topic.place_of(place.partition, one.offset)
                topic.metadata[place.partition] = TopicPartitionMetadata.decode(one.metadata)


def _internal_configs(versions: Iterable[ComparedVersion]) -> dict[str, Mapping[str, str]]:
    from streams.kafka.topics.internal import internal_topics

    return {
        name: topic.created_with
        for version in versions
        for name, topic in internal_topics(version.topology, version.target.settings).items()
    }


# ------------------------------------------------------------------ a run in memory


class _Run:
    """One version on a broker in memory."""

    def __init__(
        self, version: ComparedVersion, plan: tuple[TaskPlan, ...], topics: Mapping[str, _ReadTopic], clock: Clock
    ) -> None:
        self._version, self._plan, self._topics, self._clock = version, plan, topics, clock
        self._id = version.target.config.application_id

    def results(self) -> RunResults:
        """Runs the version until it has read everything.

        :raises StreamsError: if it fails.
        """
        from streams.testing import EmbeddedKafka

        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-shadow-")))
            kafka = stack.enter_context(EmbeddedKafka(folder))
            kafka.broker.auto_create_topics = True
            outputs = self._load(kafka)
            app = kafka.start(lambda _: self._version.topology, self._config(folder), wait=False)
            try:
                self._until_read(kafka, app)
            finally:
                app.close()
            if app.failure is not None:
                name = self._version.name
                raise StreamsError(f"{name} fails on these records: {described(app.failure)}") from app.failure
            return self._read(kafka, outputs)

    def _config(self, folder: Path) -> StreamsConfig:
        from streams.config import StreamsConfig

        config = self._version.target.config
        given = {n: v for n, v in config.dotted().items() if config.origin(n) != "default" and n not in LEFT_OUT}
        return StreamsConfig.of(
            {
                **given,
                "state.dir": str(folder),
                "processing.guarantee": "at_least_once",
                "commit.interval.ms": 100,
                "statestore.cache.max.bytes": 0,
                "num.standby.replicas": 0,
                "max.task.idle.ms": max(200, config.max_task_idle_ms),
                "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
                "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
            }
        )

    def _load(self, kafka: EmbeddedKafka) -> list[str]:
        """Puts state and records in their places; returns the output topics."""
        from streams.kafka.ports import OffsetAndMetadata
        from streams.kafka.topics.application import application_topics

        offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        producer = kafka.clients.producer({})
        for name, topic in self._topics.items():
            kafka.create_topics(name, partitions=topic.partitions, configs={"retention.ms": "-1", **topic.configs})
            for partition, messages in topic.records.items():
                for place, one in enumerate(messages, 1):
                    time = one.timestamp()[1]
                    producer.produce(name, one.value(), one.key(), partition, None, None, time, one.headers())
                    if place % FLUSHED == 0:
                        producer.flush()
                producer.flush()
                if partition in topic.offsets:
                    metadata = _as_loaded(topic, partition)
                    offsets[TopicPartition(name, partition)] = OffsetAndMetadata(topic.offsets[partition], metadata)
        producer.close()
        group = kafka.clients.consumer({"group.id": self._id})
        group.commit(offsets)
        group.close()
        counts = {name: topic.partitions for name, topic in self._topics.items()}
        topics = application_topics(self._version.topology, self._version.target.settings, counts)
        outputs = [one.name for one in topics if one.is_written and one.name not in self._topics]
        for name in outputs:
            kafka.create_topics(name, partitions=1)
        return outputs

    def _until_read(self, kafka: EmbeddedKafka, app: Any) -> None:
        group = kafka.clients.consumer({"group.id": self._id})
        next_line = self._clock.monotonic() + LINE_S
        try:
            while app.failure is None and (left := self._unread(group, kafka)):
                if self._clock.monotonic() > next_line:
                    next_line = self._clock.monotonic() + LINE_S
                    say_error(f"{self._version.name} has {counted(left, 'record')} left")
                SystemClock().wait(PAUSE_S)
        finally:
            group.close()

    def _unread(self, group: Consumer, kafka: EmbeddedKafka) -> int:
        """Returns how many records it has not committed yet, a topic that it makes itself included."""
        names = {topic for one in self._plan for topic in one.topics}
        existing = kafka.broker.topics
        if any(name not in existing for name in names):
            return 1
        places = [TopicPartition(name, n) for name in names for n in range(len(existing[name].partitions))]
        committed = group.committed(places)  # first: what was committed has sent its results
        ends = group.end_offsets(places)
        return sum(ends[place] - (committed[place].offset if place in committed else 0) for place in places)

    def _read(self, kafka: EmbeddedKafka, outputs: Iterable[str]) -> RunResults:
        topology = self._version.topology
        reader = kafka.clients.consumer({"isolation.level": "read_committed", "enable.partition.eof": True})
        counts = {name: len(topic.partitions) for name, topic in kafka.broker.topics.items()}
        try:
            found = RunResults(rows(reader, self._version, self._plan, counts))
            for topic in outputs:
                values = found.topics[topic] = {}
                if _depends_on_arrival(topology, topic):
                    found.by_last.add(topic)
                for key, value in pairs(reader, topic, counts[topic], format_of(self._version.target, topic)):
                    kept = values.setdefault(key, [])
                    if topic in found.by_last:
                        kept.clear()
                    kept.append(value)
        finally:
            reader.close()
        return found


def _depends_on_arrival(topology: Topology, topic: str) -> bool:
    """Returns whether results before the last of a key depend on when records arrive, and not on their times: those of
    a foreign-key join, whose answers come through topics (semantics 66)."""
    from dsl.processors.joins.foreign_key_right import ForeignKeyAnswer

    if not any(isinstance(getattr(node, "supplier", None), ForeignKeyAnswer) for node in topology.nodes.values()):
        return False
    sinks = [node for node in topology.nodes.values() if isinstance(node, SinkNode)]
    above = [node.name for node in sinks if topic in (node.topic, *node.declared_topics)]
    found: set[str] = set()
    while above:
        node = topology.nodes[above.pop()]
        if isinstance(node, SourceNode) and not topology.repartition_topics.keys().isdisjoint(node.topics):
            return True
        above += set(node.parents) - found
        found |= set(node.parents)
    return False


def _as_loaded(topic: _ReadTopic, partition: int) -> str:
    """Returns the notes of a committed offset, of which those about topics of the cluster do not hold in memory."""
    noted = topic.metadata[partition]
    skip = noted.skip and noted.skip._replace(until_offset=topic.place_of(partition, noted.skip.until_offset))
    nothing: frozenset[Any] = frozenset()
    return replace(
        noted,
        topic_id=None,
        changelogs=nothing,
        changelog_ids=nothing,
        handed_over=None,
        handover=None,
        skip=skip,
        point=None,
    ).encode()


def _say_begin(versions: Collection[ComparedVersion], gathering: _Gathering, duration: str) -> None:
    old, new = versions
    say(
        f"shadow of {old.name} by {new.name}: {counted(gathering.state_records, 'record')} of changelogs read;"
        f" gathering the input of {old.target.config.application_id} for {duration}"
    )
