"""The topics of the test driver, each as one log, and the producer that writes to them.

A cluster has brokers that refuse, groups and transactions; a driver has one task that reads everything and never fails
to write. This module has only the parts of Kafka that it needs, so that a piped record costs little more than its
processing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn

from processor_api.errors import ProductionError
from processor_api.record import HeaderList, TimestampType
from processor_api.task_id import TopicPartition
from processor_api.texts import error_text
from processor_api.topology.partitioner import partition_for_key
from streams.kafka.headers import UnsendableHeaders, sendable
from streams.kafka.ports import OffsetAndMetadata, OnDelivery
from streams.runtime.processing.inputs import InputQueue
from streams.testing.broker.messages import LogRecord, as_bytes, check_time
from streams.testing.driver_parts.arrivals import Arrivals

Written = tuple[bytes | None, bytes | None, int, HeaderList | None, int]
"""``(key, value, timestamp_ms, headers, partition)``"""

_CREATE_TIME = int(TimestampType.CREATE_TIME)


class DriverTopic:
    """The records of a topic. All its partitions are one log here, in the order in which records are written."""

    __slots__ = ("end_offset", "name", "queue", "unread", "written")

    def __init__(self, name: str) -> None:
        self.name = name
        self.end_offset = 0
        self.queue: InputQueue | None = None
        """The queue by which the task reads it, if it does."""
        self.unread: deque[Written] = deque()
        """Records that the task wrote and the test has not read yet. Tuples, which the garbage collector does not
        track."""
        self.written = False
        """Whether the task ever wrote to it."""

    def empty(self) -> None:
        """Empties the topic, as if nothing was written or read."""
        self.end_offset = 0
        self.queue = None
        self.unread.clear()
        self.written = False


def new_message(
    topic: DriverTopic, key: bytes | None, value: bytes | None, timestamp: int, headers: HeaderList | None
) -> LogRecord:
    """Returns a record at the end of a topic."""
    message = LogRecord(topic.name, 0, key, value, (_CREATE_TIME, timestamp), headers)
    message.log_offset = offset = topic.end_offset
    topic.end_offset = offset + 1
    return message


class DriverProducer:
    """Implements `streams.kafka.ports.Producer` for a task of the driver. A record is in its topic at once, and read
    again where a source reads the topic. Only failures are reported, as by the task's producer on a cluster, and here
    there are none."""

    zero_timestamp_ms = 0

    def __init__(self, topics: dict[str, DriverTopic], arrivals: Arrivals, partitions: Mapping[str, int]) -> None:
        self._topics = topics
        self._arrivals = arrivals
        self._partitions = partitions

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        callback: OnDelivery | None,
        on_delivery: OnDelivery | None,
        timestamp: int,
        headers: HeaderList | None = None,
    ) -> None:
        """Appends a record to its topic.

        :raises ProductionError: if the topic has no such partition.
        :raises UnsendableHeaders: if no client could send the headers.
        :raises OverflowError: if the timestamp has more than 64 bits.
        """
        count = self.partition_count(topic)
        if partition >= count:
            raise ProductionError(
                f"topic {topic!r} has {count} partition{'s' if count > 1 else ''} in the test driver, there is no"
                f" number {partition}; TopologyTestDriver(..., partitions={{{topic!r}: n}}) gives it more",
                topic=topic,
                partition=partition,
            )
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = DriverTopic(topic)
        if type(value) is not bytes and value is not None:
            value = as_bytes(value)
        if type(key) is not bytes and key is not None:
            key = as_bytes(key)
        headers = list(sendable(headers)) if headers else None
        check_time(timestamp)
        found.written = True
        if partition < 0:
            partition = partition_for_key(key, count) if count > 1 and key is not None else 0
        found.unread.append((key, value, timestamp, headers, partition))
        queue = found.queue
        if queue is not None:
            self._arrivals.add(queue, new_message(found, key, value, timestamp, headers))
        else:
            found.end_offset += 1

    @property
    def produce_plain(self) -> Callable[..., None]:
        return self.produce

    def refused(self, error: Exception, topic: str) -> NoReturn:
        """Raises the error of a record that cannot be sent."""
        if isinstance(error, UnsendableHeaders):
            raise error.locate(topic=topic)
        raise ProductionError(f"cannot send a record to topic {topic!r}: {error_text(error)}", topic=topic) from error

    def poll(self, timeout: float = 0) -> int:
        return 0

    def flush(self, timeout_s: float = math.inf) -> bool:
        """Does nothing: everything is written."""
        return True

    def prepare(self, topics: Collection[str]) -> None:
        """Does nothing: there is no broker to ask."""

    def partition_count(self, topic: str) -> int:
        return self._partitions.get(topic, 1)

    # One task commits everything at once, and no consumer reads uncommitted records.

    def init_transactions(self) -> None:
        """Does nothing: there is no other producer to fence."""

    def begin_transaction(self) -> None:
        """Does nothing: a driver has no transactions."""

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group_metadata: Any) -> None:
        """Does nothing: a driver commits no offsets."""

    def commit_transaction(self) -> None:
        """Does nothing: a driver has no transactions."""

    def abort_transaction(self) -> None:
        """Does nothing: a driver has no transactions."""

    def close(self) -> None:
        """Does nothing: there is no connection."""
