"""Everything a task writes to Kafka goes through here: sinks, changelogs, and what became of each record.

A record that could not be delivered is never followed by a commit: each has a delivery callback, the first failure is
kept and raised at the next flush or batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.clock import Clock
from processor_api.errors import ProductionError, RetryableError, StreamsError
from processor_api.nodes import RecordContext, SinkNode
from processor_api.partitioner import StreamPartitioner
from processor_api.record import Forward, HeaderList
from processor_api.serde import Serde
from state.cursor import Cursor
from streams.kafka.ports import Producer

__all__ = ["Changelog", "RecordCollector", "SerializationHandler"]

SerializationHandler = Callable[[str, str, Exception, str, Any, Cursor], None]
"""``(node, topic, error, "key" or "value", key, cursor)``: returns to drop the record, else raises."""

QUEUE_FULL_WAIT_S = 0.1
QUEUE_FULL_DEADLINE_S = 120.0


class Changelog:
    """One partition of a changelog topic, as its task writes it."""

    __slots__ = ("log", "offset", "partition", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.offset: int | None = None
        """Offset of the last record the broker has acknowledged; ``None`` before the first."""
        self.log: Callable[[bytes, bytes | None, int], None]


class RecordCollector:
    """Of one stream thread; its tasks share the producer."""

    def __init__(self, producer: Producer, clock: Clock) -> None:
        self._producer = producer
        self._clock = clock
        self._failure: StreamsError | None = None
        self.records_sent = 0

    @property
    def producer(self) -> Producer:
        return self._producer

    def replace(self, producer: Producer) -> None:
        """Goes on with a new producer; functions made before belong to the old one and must be made again."""
        self._producer = producer
        self._failure = None

    # ------------------------------------------------------------------ results

    def delivered(self, error: Any, message: Any) -> None:
        """The delivery callback shared by all records."""
        if error is not None and self._failure is None:
            topic = message.topic() if message is not None else None
            self._failure = ProductionError(
                f"the broker refused a record for topic {topic!r}: {error}; no offset after it was committed",
                topic=topic,
                partition=message.partition() if message is not None else None,
            )

    def check(self) -> None:
        """Raises the first failure, if there was one."""
        if self._failure is not None:
            raise self._failure

    def forget_failure(self) -> None:
        """After an abort: what failed was rolled back."""
        self._failure = None

    def flush(self) -> None:
        """Waits for all deliveries.

        :raises ProductionError: if one failed.
        """
        self._producer.flush()
        self.check()

    def poll(self) -> None:
        """Serves callbacks; to be called once per batch."""
        self._producer.poll(0)
        if self._failure is not None:
            raise self._failure

    # ------------------------------------------------------------------ writers

    def _sender(self) -> Callable[..., None]:
        produce, poll, refused = self._producer.produce, self._producer.poll, self._producer.refused
        check, now = self.check, self._clock.monotonic

        def send(*record: Any) -> None:
            deadline = now() + QUEUE_FULL_DEADLINE_S
            while True:
                try:
                    produce(*record)
                    return
                except BufferError:
                    poll(QUEUE_FULL_WAIT_S)
                    check()
                    if now() > deadline:
                        raise RetryableError(
                            "the producer's queue has been full for two minutes: is the broker reachable?"
                        ) from None
                except Exception as error:
                    refused(error, record[0])

        return send

    def changelog(self, topic: str, partition: int) -> Changelog:
        """A writer to one partition of a changelog that knows how far the broker has acknowledged."""
        changelog = Changelog(topic, partition)
        produce, send, delivered_one, clock = self._producer.produce, self._sender(), self.delivered, self._clock
        zero, refused = self._producer.zero_timestamp_ms, self._producer.refused

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                changelog.offset = message.offset()
            else:
                delivered_one(error, message)

        def log(key: bytes, value: bytes | None, timestamp: int) -> None:
            if timestamp <= 0:
                timestamp = zero if timestamp == 0 else clock.time_ms()
            try:
                produce(topic, value, key, partition, delivered, None, timestamp, None)
            except BufferError:
                send(topic, value, key, partition, delivered, None, timestamp, None)
            except Exception as error:
                refused(error, topic)

        changelog.log = log
        return changelog

    def sink(
        self,
        node: SinkNode,
        topic: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        on_error: SerializationHandler,
        on_drop: Callable[[], None],
        cursor: Cursor,
    ) -> Forward:
        """The function of a sink with a fixed topic; ``on_drop`` counts what a partitioner drops."""
        if node.partitioner is not None:
            return self._partitioned(node, topic, key_serde, value_serde, on_error, on_drop, cursor, node.partitioner)
        write_key, write_value, name = key_serde.serialize, value_serde.serialize, node.name
        produce, send, delivered = self._producer.produce, self._sender(), self.delivered
        zero, refused = self._producer.zero_timestamp_ms, self._producer.refused

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            part = "key"
            try:
                raw_key = None if key is None else write_key(key)
                part = "value"
                raw_value = None if value is None else write_value(value)
            except Exception as error:
                return on_error(name, topic, error, part, key, cursor)
            try:
                produce(topic, raw_value, raw_key, -1, delivered, None, timestamp or zero, headers)
            except BufferError:
                send(topic, raw_value, raw_key, -1, delivered, None, timestamp or zero, headers)
            except Exception as error:
                refused(error, topic)

        return sink

    def _partitioned(
        self,
        node: SinkNode,
        topic: str,
        key_serde: Serde[Any],
        value_serde: Serde[Any],
        on_error: SerializationHandler,
        on_drop: Callable[[], None],
        cursor: Cursor,
        partitioner: StreamPartitioner,
    ) -> Forward:
        write_key, write_value, name = key_serde.serialize, value_serde.serialize, node.name
        send, delivered, count = self._sender(), self.delivered, self._producer.partition_count
        zero = self._producer.zero_timestamp_ms

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            part = "partition"
            try:
                partitions = _chosen(partitioner(topic, key, value, headers, total := count(topic)), total, name)
                part = "key"
                raw_key = None if key is None else write_key(key)
                part = "value"
                raw_value = None if value is None else write_value(value)
            except Exception as error:
                return on_error(name, topic, error, part, key, cursor)
            if not partitions:
                on_drop()
            for partition in partitions:
                send(topic, raw_value, raw_key, partition, delivered, None, timestamp or zero, headers)

        return sink

    def dynamic_sink(self, node: SinkNode, sink_for: Callable[[str], Forward], cursor: Cursor) -> Forward:
        """The function of a sink that names a topic for each record."""
        extractor = node.topic_extractor
        sinks: dict[str, Forward] = {}

        def sink(key: Any, value: Any, timestamp: int, headers: HeaderList | None) -> None:
            context = RecordContext(*cursor.source, cursor.message.offset(), timestamp, headers)
            topic = extractor(key, value, context)  # type: ignore[misc]
            found = sinks.get(topic)
            if found is None:
                if not topic or type(topic) is not str:
                    raise ProductionError(
                        f"the topic extractor of sink {node.name!r} returned {topic!r}", node=node.name
                    )
                found = sinks[topic] = sink_for(topic)
            found(key, value, timestamp, headers)

        return sink


def _chosen(partitions: Any, total: int, node: str) -> list[int]:
    """What a partitioner's answer means: -1 leaves the choice to the producer."""
    if partitions is None:
        return [-1]
    chosen = sorted(set(partitions))
    for partition in chosen:
        if not 0 <= partition < total:
            raise ValueError(f"the partitioner of sink {node!r} chose partition {partition} of {total}")
    return chosen
