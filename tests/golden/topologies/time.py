"""Topologies that choose the time of their records, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from golden_support.user_code import Twice, value_time
from processor_api.serde import Serdes
from processor_api.timestamps import (
    ConsumedRecord,
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from processor_api.topology.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

LONGS: Consumed[str, int] = Consumed(key_serde=S, value_serde=L)
TO_LONGS: Produced[str, int] = Produced(key_serde=S, value_serde=L)


def extracted_by(extractor: TimestampExtractor) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        consumed: Consumed[str, int] = Consumed(key_serde=S, value_serde=L, timestamp_extractor=extractor)
        builder.stream("input", consumed).to("output", TO_LONGS)
        return builder.build(config)

    return build


def small_values_have_no_time(policy: TimestampExtractor) -> TimestampExtractor:
    """Gives the policy a record without a valid timestamp when the value is below 5."""

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        invalid = record.value is not None and record.value < 5
        return policy(record._replace(timestamp=-1) if invalid else record, partition_time)

    return extract


def default_config(config: Any) -> Topology:
    builder = StreamsBuilder()
    groups = builder.stream("input", LONGS).group_by_key(Grouped(key_serde=S, value_serde=L))
    counts: Materialized[str, int] = Materialized(name="n", key_serde=S, value_serde=L)
    groups.count(materialized=counts).to_stream().to("output", TO_LONGS)
    return builder.build(config)


def two_topics(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("left").process(Twice).to("output")
    builder.stream("right").process(Twice).to("output-2")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "time-extractor-custom": extracted_by(value_time),
    "time-extractor-default-config": default_config,
    "time-fail-on-invalid": extracted_by(small_values_have_no_time(fail_on_invalid_timestamp)),
    "time-log-and-skip": extracted_by(small_values_have_no_time(log_and_skip_on_invalid_timestamp)),
    "time-stream-time-two-topics": two_topics,
    "time-use-partition-time": extracted_by(small_values_have_no_time(use_partition_time_on_invalid_timestamp)),
}
