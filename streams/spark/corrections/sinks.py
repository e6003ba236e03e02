"""The sink through which the rows of a table reach a topic."""

from __future__ import annotations

from dataclasses import replace

from dsl.processors.stateless import ToStream
from dsl.processors.tables.operator import TableMerge, TableOperator
from dsl.processors.windows.emission import WindowedAggregate
from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from processor_api.topology.nodes import Node, ProcessorNode, SinkNode
from processor_api.topology.topology import Topology
from streams.config import StreamsConfig
from streams.runtime.processing.environment import resolve_serde
from streams.spark.errors import SparkBridgeError

ROWS = "diff.selectExpr('key', 'backfill.value as value')"
"""An example of rows as a topic has them, for errors."""


def direct_sinks(topology: Topology, store: str) -> dict[str, SinkNode]:
    """Returns the sinks that write each change of a store's table as it is, by topic.

    Between the table and the sink there is ``to_stream`` and nothing else. A suppression or final results of windows
    are not direct, because rows of the table are held back there.
    """
    found: dict[str, SinkNode] = {}
    ways = [node.name for node in topology.nodes.values() if _makes(node, store)]
    streams: set[str] = set()
    while ways:
        for name in topology.children_of(ways.pop()):
            node = topology.nodes[name]
            supplier = getattr(node, "supplier", None)
            if isinstance(supplier, TableMerge):
                ways.append(name)
            elif isinstance(supplier, ToStream) and name not in streams:
                streams.add(name)
                for child in topology.children_of(name):
                    sink = topology.nodes[child]
                    if isinstance(sink, SinkNode) and sink.topic and sink.topic not in topology.repartition_topics:
                        found[sink.topic] = sink
    return found


def _makes(node: Node, store: str) -> bool:
    """Whether a node fills a store, and passes on each change of its table."""
    if not isinstance(node, ProcessorNode) or not isinstance(node.supplier, TableOperator):
        return False
    holds_back = isinstance(node.supplier, WindowedAggregate) and node.supplier.final
    return node.supplier.store == store and not holds_back


def sink_of(topology: Topology, store: str, topic: str | None, *, mapped: bool) -> SinkNode:
    """Returns the sink to which corrections of a table go.

    :param topic: that of the sink; ``None`` for the only topic that the table is written to directly.
    :param mapped: whether the rows have the keys and values of the topic, not those of the table.
    :raises SparkBridgeError: if no sink writes this topic, several could be meant, or the topic has other rows than the
        table.
    """
    direct = direct_sinks(topology, store)
    if topic is None:
        if len(direct) == 1 and not mapped:
            return next(iter(direct.values()))
        written = ", ".join(sorted(direct)) or "none"
        what = "the rows do not say" if mapped else "the topology does not say"
        raise SparkBridgeError(
            f"{what} which topic gets the corrections of store {store!r}: give topic=. It is written directly to:"
            f" {written}; the topics of all sinks are: {', '.join(_topics(topology)) or 'none'}",
            store=store,
        )
    if topic in direct:
        return direct[topic]
    sinks = [one for one in topology.nodes.values() if isinstance(one, SinkNode) and one.topic == topic]
    if not sinks:
        raise SparkBridgeError(
            f"no sink of the topology writes to topic {repr_of(topic)}; they write to:"
            f" {', '.join(_topics(topology)) or 'none'}. Write to another topic by write_topic",
            store=store,
            topic=topic,
        )
    if not mapped:
        raise SparkBridgeError(
            f"topic {topic!r} does not have the rows of store {store!r} as they are, because other nodes are between"
            " the table and the sink: give rows with the columns key and value as the topic has them, such as"
            f" {ROWS} with the same conversion, and a null value to delete a key",
            store=store,
            topic=topic,
        )
    first = sinks[0]
    if any((one.key_serde, one.value_serde, one.partitioner) != _writer(first) for one in sinks):
        raise SparkBridgeError(
            f"several sinks write to topic {topic!r} with different serdes or partitioners: write the rows by"
            " write_topic, which takes these",
            store=store,
            topic=topic,
        )
    return first


def _writer(sink: SinkNode) -> tuple[object, ...]:
    return sink.key_serde, sink.value_serde, sink.partitioner


def _topics(topology: Topology) -> list[str]:
    named = {one.topic for one in topology.nodes.values() if isinstance(one, SinkNode) and one.topic}
    return sorted(named - topology.repartition_topics.keys())


def with_serdes(sink: SinkNode, config: StreamsConfig) -> SinkNode:
    """Returns a sink with the serdes that it has in an application, bound to its topic.

    :raises SparkBridgeError: if it has none, and the configuration has no default.
    """
    topic, what = sink.topic or "", f"sink {sink.name!r}"
    try:
        key = resolve_serde(sink.key_serde, config.default_key_serde, what, "key")
        value = resolve_serde(sink.value_serde, config.default_value_serde, what, "value")
    except ConfigError as error:
        raise SparkBridgeError(f"{error.message}, in the config of the result", topic=topic) from error
    return replace(sink, key_serde=key.bind(topic, is_key=True), value_serde=value.bind(topic, is_key=False))
