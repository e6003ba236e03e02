"""Topologies of the recordings of names and settings of internal topics: one store each, on a stream of "left"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.nodes import RepartitionTopic
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.store_spec import StoreBuilder, Stores
from processor_api.topology import Topology

S = Serdes.STRING
KV = Stores.key_value_store_builder


class Ignore(Processor[Any, Any, Any, Any]):
    """Does nothing with its records."""

    def process(self, record: Record[Any, Any]) -> None:
        pass


def attach(builder: StoreBuilder[Any, Any]) -> Callable[[Any], Topology]:
    """A topology whose only processor uses the store."""

    def build(config: Any) -> Topology:
        topology = Topology().add_source("source", "left", key_serde=S, value_serde=S)
        return topology.add_processor("user", Ignore, "source").add_state_store(builder, "user")

    return build


def repartition(config: Any) -> Topology:
    return (
        Topology()
        .add_repartition_topic(RepartitionTopic(name="spread-repartition", partitions=7))
        .add_source("source", "left", key_serde=S, value_serde=S)
        .add_sink("to-repartition", "spread-repartition", "source", key_serde=S, value_serde=S)
        .add_source("from-repartition", "spread-repartition", key_serde=S, value_serde=S)
        .add_sink("sink", "output", "from-repartition", key_serde=S, value_serde=S)
    )


SETTINGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "1000",
    "segment.ms": "60000",
    "message.timestamp.type": "LogAppendTime",
}

CASES: dict[str, Callable[[Any], Topology]] = {
    "kv_store": attach(KV(Stores.persistent_key_value_store("store"), S, S)),
    "kv_store_memory": attach(KV(Stores.in_memory_key_value_store("store"), S, S)),
    "kv_store_timestamped": attach(
        Stores.timestamped_key_value_store_builder(Stores.persistent_timestamped_key_value_store("store"), S, S)
    ),
    "kv_store_no_logging": attach(KV(Stores.persistent_key_value_store("store"), S, S).with_logging_disabled()),
    "kv_store_settings": attach(KV(Stores.persistent_key_value_store("store"), S, S).with_logging_enabled(SETTINGS)),
    "repartition": repartition,
}
