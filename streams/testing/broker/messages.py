"""Records and events as the embedded clients hand them out.

A record is one object from the producer's call to the consumer's: what is produced is stored in the log, reported to
the delivery callback and handed to every consumer. It satisfies `streams.kafka.ports.Message` by itself, is never
changed once it is in the log, and gives its headers out as a copy.
"""

from __future__ import annotations

from typing import Any

from processor_api.record import HeaderList

PARTITION_EOF = -191
_MOST = 2**63 - 1

ERROR_CODES = {
    "_PARTITION_EOF": PARTITION_EOF,
    "_PURGE_QUEUE": -152,
    "_INVALID_DIFFERENT_RECORD": -138,
    "_FENCED": -144,
    "_DESTROY": -197,
    "_DESTROY_BROKER": -137,
    "_STATE": -172,
    "_AUTO_OFFSET_RESET": -140,
    "_TRANSPORT": -195,
    "_ALL_BROKERS_DOWN": -187,
    "_TIMED_OUT": -185,
    "UNKNOWN": -1,
    "OFFSET_OUT_OF_RANGE": 1,
    "INVALID_MSG": 2,
    "UNKNOWN_TOPIC_OR_PART": 3,
    "LEADER_NOT_AVAILABLE": 5,
    "NOT_LEADER_FOR_PARTITION": 6,
    "REQUEST_TIMED_OUT": 7,
    "MSG_SIZE_TOO_LARGE": 10,
    "NETWORK_EXCEPTION": 13,
    "COORDINATOR_NOT_AVAILABLE": 15,
    "NOT_COORDINATOR": 16,
    "FENCED_LEADER_EPOCH": 74,
    "FENCED_INSTANCE_ID": 82,
    "INVALID_TOPIC_EXCEPTION": 17,
    "RECORD_LIST_TOO_LARGE": 18,
    "NOT_ENOUGH_REPLICAS": 19,
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": 20,
    "TOPIC_AUTHORIZATION_FAILED": 29,
    "CLUSTER_AUTHORIZATION_FAILED": 31,
    "INVALID_TIMESTAMP": 32,
    "POLICY_VIOLATION": 44,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "KAFKA_STORAGE_ERROR": 56,
    "INVALID_RECORD": 87,
}
"""Errors that the embedded broker gives or can be made to give, by the names and numbers of Kafka and librdkafka."""


class ErrorInfo:
    """An error or event that a message carries instead of a record: a code, its name and a sentence.

    A name that has no code here has that of ``UNKNOWN``.
    """

    __slots__ = ("_name", "_reason")

    def __init__(self, name: str, reason: str = "") -> None:
        self._name = name
        self._reason = reason

    def code(self) -> int:
        return ERROR_CODES.get(self._name, ERROR_CODES["UNKNOWN"])

    def name(self) -> str:
        return self._name

    def __str__(self) -> str:
        return f"{self._name}: {self._reason}" if self._reason else self._name

    def __repr__(self) -> str:
        return f"ErrorInfo({self._name!r}, {self._reason!r})"

    def str(self) -> str:
        return self._reason or self._name


class LogRecord:
    """A produced and, later, consumed record.

    ``log_offset``, ``epoch`` (that of the leader) and ``stamp`` (type and ms) are set by the broker when it appends the
    record.
    """

    __slots__ = ("_headers", "_key", "_partition", "_topic", "_value", "epoch", "log_offset", "stamp")

    def __init__(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        stamp: tuple[int, int],
        headers: HeaderList | None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._key = key
        self._value = value
        self._headers = headers
        self.stamp = stamp
        self.log_offset = -1
        self.epoch = -1

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self.log_offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def leader_epoch(self) -> int | None:
        return None if self.epoch < 0 else self.epoch

    def timestamp(self) -> tuple[int, int]:
        return self.stamp

    def headers(self) -> HeaderList | None:
        headers = self._headers
        return headers[:] if headers else None

    def error(self) -> ErrorInfo | None:
        return None

    def __repr__(self) -> str:
        place = f"{self._topic}-{self._partition}@{self.log_offset}"
        return f"{type(self).__name__}({place}, key={self._key!r}, value={self._value!r}, timestamp={self.stamp[1]})"


class RefusedRecord(LogRecord):
    """A record that the broker did not take, as a delivery callback gets it: it has no offset, timestamp and
    headers."""

    __slots__ = ("_error",)

    def __init__(self, record: LogRecord, error: ErrorInfo) -> None:
        super().__init__(record.topic(), record.partition(), record.key(), record.value(), (0, -1), None)
        self._error = error

    def error(self) -> ErrorInfo:
        return self._error


class PartitionEvent:
    """An event of a partition instead of a record: its end was reached, its position is lost, ..."""

    __slots__ = ("_error", "_offset", "_partition", "_topic")

    def __init__(self, topic: str, partition: int, offset: int, error: ErrorInfo) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._error = error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes | None:
        return self._error.str().encode()

    def leader_epoch(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return (0, -1)

    def headers(self) -> None:
        return None

    def error(self) -> ErrorInfo:
        return self._error

    def __repr__(self) -> str:
        return f"Event({self._topic}-{self._partition}@{self._offset}, {self._error})"


def check_time(timestamp: int) -> None:
    """Rejects a timestamp that does not fit into 64 bits, as the client does.

    :raises OverflowError: if it has more bits.
    :raises TypeError: if it is not a whole number.
    """
    if not isinstance(timestamp, int):
        raise TypeError(f"a timestamp is a whole number of ms; got {type(timestamp).__name__}")
    if not -_MOST - 1 <= timestamp <= _MOST:
        raise OverflowError(f"the timestamp {timestamp} has more than 64 bits")


def as_bytes(data: Any) -> bytes:
    """Returns the bytes that the client sends for a key, a value or a header's value that is not bytes.

    :raises TypeError: if it is neither text nor like bytes.
    """
    return data.encode() if isinstance(data, str) else bytes(memoryview(data))
