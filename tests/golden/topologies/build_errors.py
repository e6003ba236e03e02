"""Topologies that must not build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Materialized, StreamsBuilder
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.topology.topology import Topology


class Drop(Processor[Any, Any, Any, Any]):
    def process(self, record: Record[Any, Any]) -> None:
        return None


def bad_name(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").filter(lambda k, v: True, name="a b").to("output")
    return builder.build(config)


def duplicate_name(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").map_values(lambda v: v, name="m").map_values(lambda v: v, name="m").to("output")
    return builder.build(config)


def duplicate_store(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input").group_by_key()
    store: Materialized[Any, int] = Materialized(name="n", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    groups.count(materialized=store)
    groups.count(materialized=store)
    return builder.build(config)


def overlapping_topics(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream(["a", "b"]).to("output")
    builder.stream(["b", "c"]).to("output")
    return builder.build(config)


def same_processor_twice(config: Any) -> Topology:
    builder = StreamsBuilder()
    one = Drop()
    builder.stream("input").process(lambda: one)
    return builder.build(config)


def table_and_stream_of_one_topic(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.table("input").to_stream().to("o1")
    builder.table("input").to_stream().to("o2")
    return builder.build(config)


def unknown_store(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("input").process(Drop, "nowhere")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "build-bad-name": bad_name,
    "build-duplicate-name": duplicate_name,
    "build-duplicate-store": duplicate_store,
    "build-overlapping-topics": overlapping_topics,
    "build-same-processor-twice": same_processor_twice,
    "build-table-and-stream-of-one-topic": table_and_stream_of_one_topic,
    "build-unknown-store": unknown_store,
}
