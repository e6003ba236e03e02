"""Timestamp extractors (semantics 8, 9).

An extractor is called with the deserialised record and the partition time (the largest timestamp seen in that
partition, -1 when none was). It returns the record's timestamp in ms; a negative one drops the record. ``None`` in
place of an extractor means :func:`fail_on_invalid_timestamp`, which costs the engine nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from processor_api.clock import SystemClock
from processor_api.errors import UserCodeError
from processor_api.record import HeaderList
from processor_api.user_code.durations import Timestamp

log = logging.getLogger("streams.timestamps")


class ConsumedRecord(NamedTuple):
    """A record as consumed, with key and value deserialised."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """The timestamp in ms; -1 if the record has none (KIP-32)."""
    key: Any
    value: Any
    headers: HeaderList | None


TimestampExtractor = Callable[[ConsumedRecord, int], Timestamp]
"""``(record, partition_time)`` to a timestamp: milliseconds, or a ``datetime`` with a zone."""


def fail_on_invalid_timestamp(record: ConsumedRecord, partition_time: int) -> int:
    """Returns the record's own timestamp; the default extractor.

    :raises UserCodeError: if it is negative.
    """
    if record.timestamp < 0:
        raise UserCodeError(
            f"the record has the invalid timestamp {record.timestamp}, perhaps because an old producer wrote it without"
            " one; use another timestamp extractor to process it",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
    return record.timestamp


def log_and_skip_on_invalid_timestamp(record: ConsumedRecord, partition_time: int) -> int:
    """Returns the record's own timestamp; a negative one is logged, and drops the record."""
    if record.timestamp < 0:
        log.warning(
            "record dropped: it has no valid timestamp",
            extra={"topic": record.topic, "partition": record.partition, "offset": record.offset},
        )
    return record.timestamp


def use_partition_time_on_invalid_timestamp(record: ConsumedRecord, partition_time: int) -> int:
    """Returns the record's own timestamp, or the partition time instead of a negative one.

    :raises UserCodeError: if the partition has no time yet.
    """
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time < 0:
        raise UserCodeError(
            "the record has no valid timestamp and its partition does not have a time yet to use instead",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
        )
    return partition_time


_now = SystemClock().time_ms


def wallclock_timestamp_extractor(record: ConsumedRecord, partition_time: int) -> int:
    """Returns the time of processing in ms, by the system's clock, also in the test driver."""
    return _now()
