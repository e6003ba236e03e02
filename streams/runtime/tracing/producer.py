"""The producer of a thread that follows records: what they send has a line with its partition."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from processor_api.errors import StreamsError
from processor_api.record import HeaderList
from processor_api.task_id import TopicPartition
from processor_api.topology.partitioner import partition_for_key
from streams.kafka.ports import OffsetAndMetadata, OnDelivery, Producer
from streams.runtime.tracing.tracer import Tracer


class TracedProducer:
    """Implements `streams.kafka.ports.Producer` over another one.

    :param chooses_by_key: whether a record with a key and without a partition goes to murmur2 of the key.
    """

    def __init__(self, producer: Producer, tracer: Tracer, *, chooses_by_key: bool = True) -> None:
        self._producer = producer
        self._tracer = tracer
        self._chooses_by_key = chooses_by_key
        self.zero_timestamp_ms = producer.zero_timestamp_ms
        self.produce: Callable[..., None] = self._produce

    def _produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        delivered: OnDelivery | None,
        other: OnDelivery | None,
        timestamp: int,
        headers: HeaderList | None = None,
    ) -> None:
        self._producer.produce(topic, value, key, partition, delivered, other, timestamp, headers)
        tracer = self._tracer
        if tracer.current is None or tracer.mutes_producer:
            return
        note = "handed to the producer"
        shown_key: Any = key
        shown_value: Any = value
        if tracer.sink is not None:
            _, shown_key, shown_value = tracer.sink
        else:
            note += ", a dead letter"
        tracer.outcomes += 1
        tracer.step(
            tracer.current,
            "send",
            place=f"{topic}-{self._partition(topic, key, partition)}",
            key=shown_key,
            value=shown_value,
            note=f"{note}, timestamp {timestamp}",
        )

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def _partition(self, topic: str, key: bytes | None, partition: int) -> int | str:
        """The partition as far as it is known; the client chooses for a record without a key."""
        if partition >= 0:
            return partition
        try:
            count = self._producer.partition_count(topic)
        except StreamsError:
            return "?"
        if count == 1:
            return 0
        return "?" if key is None or not self._chooses_by_key else partition_for_key(bytes(key), count)

    def refused(self, error: Exception, topic: str) -> NoReturn:
        self._producer.refused(error, topic)

    @property
    def poll(self) -> Callable[[float], int]:
        return self._producer.poll

    def flush(self, timeout_s: float = math.inf) -> bool:
        return self._producer.flush(timeout_s)

    def init_transactions(self) -> None:
        self._producer.init_transactions()

    def begin_transaction(self) -> None:
        self._producer.begin_transaction()

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Any) -> None:
        self._producer.send_offsets(offsets, group_metadata)

    def commit_transaction(self) -> None:
        self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        self._producer.abort_transaction()

    def prepare(self, topics: Collection[str]) -> None:
        self._producer.prepare(topics)

    def partition_count(self, topic: str) -> int:
        return self._producer.partition_count(topic)

    def close(self) -> None:
        self._producer.close()
