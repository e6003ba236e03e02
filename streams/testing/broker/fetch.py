"""Reads one partition for a consumer: its position and the next records."""

from __future__ import annotations

from typing import Any

from processor_api.task_id import TopicPartition
from streams.kafka.ports import AT_BEGINNING, AT_END
from streams.testing.broker.broker import EmbeddedBroker
from streams.testing.broker.messages import ErrorInfo, Event
from streams.testing.broker.partition_log import PartitionLog


class Fetch:
    """Reads one assigned partition. Nothing here takes a lock: the consumer holds the broker's around every call.

    ``reset_to`` is where to go when the position is outside the log: `AT_BEGINNING`, `AT_END`, or ``None`` for an event
    and a stop until the next :meth:`seek`.
    """

    __slots__ = ("_broker", "_committed", "_eof_at", "_log", "_partition", "_reports_eof", "_reset_to", "_stopped",
                 "_topic", "_unknown", "moved", "paused", "position")  # fmt: skip

    def __init__(
        self, broker: EmbeddedBroker, partition: TopicPartition, *, committed: bool, reset_to: int | None, eof: bool
    ) -> None:
        self._broker = broker
        self._partition = partition
        self._committed = committed
        self._reset_to = reset_to
        self._reports_eof = eof
        self._log: PartitionLog | None = None
        self._topic: Any = None
        self._unknown = False
        """Whether it was reported that the partition does not exist."""
        self.paused = False
        self.seek(AT_END)

    def seek(self, offset: int) -> None:
        """Reads on from an offset, or from an end of the log as it is now."""
        self.position = offset
        self.moved = False
        self._eof_at = -1
        self._stopped = False
        if self._find_log():
            self._resolve()

    def take(self, count: int) -> list[Any]:
        """Returns up to ``count`` records, or the event that is to be reported."""
        if self.paused or self._stopped:
            return []
        log = self._log
        if log is None or self._topic.deleted:
            if not self._find_log():
                return self._report_unknown()
            log = self._log
            assert log is not None
            self._resolve()
        position = self.position
        limit = log.last_stable_offset if self._committed else log.end_offset
        messages: list[Any] = []
        if log.start_offset <= position < limit:
            messages[:], self.position = log.read(position, count, self._committed)
            self.moved = True
        elif not log.start_offset <= position <= log.end_offset:
            return self._reset(log, count)
        if self._reports_eof and self.position == limit != self._eof_at and len(messages) < count:
            self._eof_at = limit
            reason = f"the end of the partition was reached at offset {limit}"
            messages.append(self._event("_PARTITION_EOF", limit, reason))
        return messages

    def _find_log(self) -> bool:
        topic = self._broker.topics.get(self._partition.topic)
        if topic is None or not 0 <= self._partition.partition < len(topic.partitions):
            self._log = None
            return False
        self._topic = topic
        self._log = topic.partitions[self._partition.partition]
        self._unknown = False
        return True

    def _resolve(self) -> None:
        assert self._log is not None
        if self.position == AT_BEGINNING:
            self.position = self._log.start_offset
        elif self.position == AT_END:
            self.position = self._log.limit(self._committed)

    def _reset(self, log: PartitionLog, count: int) -> list[Any]:
        if self._reset_to is not None:
            self.seek(self._reset_to)
            return self.take(count)
        self._stopped = True
        where = f"from {log.start_offset} to {log.end_offset}"
        reason = f"offset {self.position} of {self._partition} is outside its log, which goes {where}"
        return [self._event("_AUTO_OFFSET_RESET", self.position, reason)]

    def _report_unknown(self) -> list[Any]:
        if self._unknown:
            return []
        self._unknown = True
        reason = f"partition {self._partition} does not exist"
        return [self._event("UNKNOWN_TOPIC_OR_PART", self.position, reason)]

    def _event(self, name: str, offset: int, reason: str) -> Event:
        return Event(self._partition.topic, self._partition.partition, offset, ErrorInfo(name, reason))
