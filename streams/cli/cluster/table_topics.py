"""The topics that tables read: which are created compacted, and which of those that exist lose rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dsl.processors.tables.source import TableSourceOperator
from processor_api.topology.nodes import ProcessorNode, SourceNode
from processor_api.topology.topology import Topology
from streams.kafka.topics.internal import DAY_MS, LONGEST_MS

POLICY = "cleanup.policy"
LIMITS = ("retention.ms", "retention.bytes")
_UNLIMITED = "-1"


@dataclass(frozen=True, kw_only=True)
class TableTopic:
    """A topic of the user's, each record of which is a row of a table."""

    topic: str
    table: str
    """The store of the table, or its node if it has none."""
    is_restored: bool = False
    """Whether the topic is the changelog of the table."""
    streams: tuple[str, ...] = ()
    """The places of the script that read it as a stream too."""
    expires: bool = False
    """Whether the rows of the table have a time to live."""
    history_ms: int = 0
    """The time for which a versioned table keeps versions, in ms."""

    def settings(self) -> dict[str, str]:
        """Returns the settings with which the topic is created."""
        if not self.is_restored and (self.streams or self.expires):
            return {}
        lag = {"min.compaction.lag.ms": str(min(self.history_ms + DAY_MS, LONGEST_MS))} if self.history_ms else {}
        return {POLICY: "compact"} | lag

    def remark(self, settings: Mapping[str, str]) -> str | None:
        """Returns how rows get lost in the topic, and what to do; ``None`` if none do.

        :param settings: those of the topic, under Kafka's names; empty if they cannot be seen.
        """
        policy = settings.get(POLICY)
        if policy is None or self.expires or "delete" not in policy:
            return None
        if all(settings.get(name) == _UNLIMITED for name in LIMITS):
            return None
        if self.is_restored:
            return (
                f"table {self.table!r} is restored from topic {self.topic!r}, whose cleanup.policy is {policy}: rows"
                " that Kafka deletes there are missing after a restore; set cleanup.policy=compact"
            )
        lost = (
            f"table {self.table!r} reads topic {self.topic!r}, whose cleanup.policy is {policy}: a new application, or"
            " one that is reset, lacks the rows that Kafka has deleted"
        )
        if self.streams:
            return (
                f"{lost}. Compaction would remove records of the stream that reads it too ({', '.join(self.streams)}):"
                " set retention.ms=-1 and retention.bytes=-1, or give the table a topic of its own"
            )
        return f"{lost}; set cleanup.policy=compact"


def table_topics(topology: Topology) -> dict[str, TableTopic]:
    """Returns the topics of the user's that tables and global tables read, by name."""
    restored = restored_from(topology)
    readers: dict[str, list[ProcessorNode | str]] = {}
    for node in topology.nodes.values():
        if isinstance(node, SourceNode) and node.name not in topology.global_nodes:
            below = [_reader(topology, node, child) for child in topology.children_of(node.name)]
            for topic in node.topics:
                if topic not in topology.repartition_topics:
                    readers.setdefault(topic, []).extend(below)
    found = {topic: TableTopic(topic=topic, table=store, is_restored=True) for topic, store in restored.items()}
    for topic, by in readers.items():
        tables = [one for one in by if isinstance(one, ProcessorNode)]
        streams = tuple(dict.fromkeys(one for one in by if isinstance(one, str)))
        for node in tables[:1]:
            stores = topology.stores_of(node.name)
            builder = topology.stores.get(stores[0]) if stores else None
            found[topic] = TableTopic(
                topic=topic,
                table=restored.get(topic) or (stores[0] if stores else node.name),
                is_restored=topic in restored,
                streams=streams,
                expires=builder is not None and builder.time_to_live is not None,
                history_ms=0 if builder is None else builder.supplier.parameters.get("history_retention_ms", 0),
            )
    return found


def table_remarks(topology: Topology, configs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Returns how rows of tables get lost in the topics that they read (:meth:`TableTopic.remark`).

    :param configs: the settings of topics by name; others are left out.
    """
    found = (one.remark(configs.get(topic, {})) for topic, one in sorted(table_topics(topology).items()))
    return [remark for remark in found if remark is not None]


def restored_from(topology: Topology) -> dict[str, str]:
    """Returns the stores that are restored from a topic of the user's, by the topic."""
    found = {topic: store for store, topic in topology.source_changelogs.items()}
    for name, store in topology.global_stores.items():
        if not store.reprocess:
            found[store.topic] = name
    return {topic: store for topic, store in found.items() if topic not in topology.repartition_topics}


def _reader(topology: Topology, source: SourceNode, child: str) -> ProcessorNode | str:
    """Returns a node that makes a table of a source, or the place in the script of one that reads it as a stream."""
    node = topology.nodes[child]
    if isinstance(node, ProcessorNode) and isinstance(node.supplier, TableSourceOperator):
        return node
    return topology.line_of(child) or topology.line_of(source.name) or child
