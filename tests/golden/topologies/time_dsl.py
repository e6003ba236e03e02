"""Topologies about timestamps, beside the Java text in the recordings of the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dsl import Consumed, Grouped, Materialized, Produced, StreamsBuilder
from golden_support.calls import call
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serdes
from processor_api.timestamps import (
    ConsumedRecord,
    TimestampExtractor,
    fail_on_invalid_timestamp,
    log_and_skip_on_invalid_timestamp,
    use_partition_time_on_invalid_timestamp,
)
from processor_api.topology import Topology

S, L = Serdes.STRING, Serdes.LONG

TO_LONGS: Produced[Any, int] = Produced(key_serde=S, value_serde=L)


class Twice(Processor[Any, Any, Any, Any]):
    """Forwards a record twice, with one more header, and tells what the context says."""

    def process(self, record: Record[Any, Any]) -> None:
        context = self.context
        record.headers.add("seen", b"1")
        context.forward(record.with_timestamp(record.timestamp + 7).with_value("later"))
        context.forward(record)
        metadata = context.record_metadata
        place = "none" if metadata is None else f"{metadata.topic}/{metadata.partition}/{metadata.offset}"
        call(f"stream={context.current_stream_time_ms()} system={context.current_system_time_ms()} {place}")


def value_time(record: ConsumedRecord, partition_time: int) -> int:
    shown = "null" if record.value is None else record.value
    call(f"extract {shown} partitionTime={partition_time}")
    return -1 if record.value is None else int(record.value)


def when_small(extractor: TimestampExtractor) -> TimestampExtractor:
    """Gives the extractor a record without a valid timestamp when the value is below 5."""

    def extract(record: ConsumedRecord, partition_time: int) -> int:
        if record.value is not None and record.value < 5:
            return extractor(record._replace(timestamp=-1), partition_time)
        return record.timestamp

    return extract


def extracted(extractor: TimestampExtractor) -> Callable[[Any], Topology]:
    def build(config: Any) -> Topology:
        builder = StreamsBuilder()
        consumed = Consumed(key_serde=S, value_serde=L, timestamp_extractor=extractor)
        builder.stream("input", consumed).to("output", TO_LONGS)
        return builder.build(config)

    return build


def extractor_default_config(config: Any) -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("input", Consumed(key_serde=S, value_serde=L))
    groups = stream.group_by_key(Grouped(key_serde=S, value_serde=L))
    counts = groups.count(materialized=Materialized(name="n", key_serde=S, value_serde=L))
    counts.to_stream().to("output", TO_LONGS)
    return builder.build(config)


def stream_time_two_topics(config: Any) -> Topology:
    builder = StreamsBuilder()
    builder.stream("left").process(Twice).to("output")
    builder.stream("right").process(Twice).to("output-2")
    return builder.build(config)


CASES: dict[str, Callable[[Any], Topology]] = {
    "time-extractor-custom": extracted(value_time),
    "time-extractor-default-config": extractor_default_config,
    "time-fail-on-invalid": extracted(when_small(fail_on_invalid_timestamp)),
    "time-log-and-skip": extracted(when_small(log_and_skip_on_invalid_timestamp)),
    "time-stream-time-two-topics": stream_time_two_topics,
    "time-use-partition-time": extracted(when_small(use_partition_time_on_invalid_timestamp)),
}
