"""The plan to read a topic, which executors and other processes get, and the batches that it yields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from processor_api.user_code.given_serdes import SerdeLike, optional_serde
from streams.spark.errors import SparkBridgeError
from streams.spark.rows.columns import HEADERS, HEADERS_TYPE, TIME_TYPE, Column, column_of, headers_array, time_array
from streams.spark.sources.partition_reader import read_range
from streams.spark.sources.ranges import OffsetRange, OffsetRanges

if TYPE_CHECKING:
    from streams.config import StreamsConfig

TIME_TYPES = (None, "CreateTime", "LogAppendTime")
TIMES = ("timestamp", "ms")
NO_TIMESTAMP = -1


@dataclass(frozen=True)
class TopicPlan:
    """Everything that a task needs to read its range; sent to the executors."""

    settings: Mapping[str, Any]
    """The consumer's."""
    ranges: tuple[OffsetRange, ...]
    key: Column
    value: Column
    headers: bool = False
    times: str = "timestamp"
    """``"timestamp"``, or ``"ms"`` for a column of integers."""

    @property
    def schema(self) -> str:
        """The columns in Spark's notation."""
        time = "timestamp" if self.times == "timestamp" else "long"
        columns = (
            f"topic string, partition int, offset long, timestamp {time}, timestamp_type string,"
            f" key {self.key.spark_type}, value {self.value.spark_type}"
        )
        return f"{columns}, headers {HEADERS}" if self.headers else columns

    @property
    def arrow_schema(self) -> pa.Schema:
        time = TIME_TYPE if self.times == "timestamp" else pa.int64()
        fields = [
            ("topic", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", time),
            ("timestamp_type", pa.string()),
            ("key", self.key.arrow_type),
            ("value", self.value.arrow_type),
        ]
        return pa.schema([*fields, ("headers", HEADERS_TYPE)] if self.headers else fields)

    def batches(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yields the records of a range."""
        schema = self.arrow_schema
        for messages in read_range(self.settings, wanted):
            yield self._batch(messages, wanted, schema)

    def _batch(self, messages: list[Any], wanted: OffsetRange, schema: pa.Schema) -> pa.RecordBatch:
        kind, count = type(messages[0]), len(messages)
        offsets = list(map(kind.offset, messages))

        def place(number: int) -> Mapping[str, Any]:
            return {"topic": wanted.topic, "partition": wanted.partition, "offset": offsets[number]}

        types, times = zip(*map(kind.timestamp, messages), strict=True)
        if NO_TIMESTAMP in times or 0 in types:
            times = tuple(
                None if ms == NO_TIMESTAMP or not type_ else ms for type_, ms in zip(types, times, strict=True)
            )
        needed = self.headers or self.key.takes_headers or self.value.takes_headers
        headers: Any = list(map(kind.headers, messages)) if needed else None
        columns = [
            pa.array([wanted.topic] * count, pa.string()),
            pa.array([wanted.partition] * count, pa.int32()),
            pa.array(offsets, pa.int64()),
            time_array(times, place) if self.times == "timestamp" else pa.array(times, pa.int64()),
            pa.array(list(map(TIME_TYPES.__getitem__, types)), pa.string()),
            self.key.array(list(map(kind.key, messages)), place, headers),
            self.value.array(list(map(kind.value, messages)), place, headers),
        ]
        if self.headers:
            columns.append(headers_array(headers))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


def plan_of(
    config: StreamsConfig,
    topic: str,
    offsets: OffsetRanges,
    key: SerdeLike[Any] | None,
    value: SerdeLike[Any] | None,
    *,
    headers: bool,
    times: str,
    max_rows_per_task: int | None,
    structs: bool = False,
) -> TopicPlan:
    """Returns the plan to read a topic.

    :raises SparkBridgeError: if an option cannot have its value.
    """
    from streams.spark.sources.offsets import consumer_settings

    if times not in TIMES:
        raise SparkBridgeError(f"times is one of {', '.join(TIMES)}, not {times!r}", topic=topic)
    if max_rows_per_task is not None and max_rows_per_task < 1:
        raise SparkBridgeError(f"max_rows_per_task is a positive number, not {max_rows_per_task}", topic=topic)
    serdes = {
        name: None if found is None else found.bind(topic, is_key=name == "key")
        for name, given in (("key", key), ("value", value))
        for found in [optional_serde(given, name, "read_topic", topic=topic)]
    }
    ranges = offsets.ranges if max_rows_per_task is None else offsets.split(max_rows_per_task)
    return TopicPlan(
        consumer_settings(config, offsets.isolation),
        ranges,
        column_of("key", serdes["key"], structs=structs),
        column_of("value", serdes["value"], structs=structs),
        headers=headers,
        times=times,
    )
