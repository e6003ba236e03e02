"""Finds the first records of partitions that are of a time or later, exactly.

A broker looks a time up among batches, and the markers at the ends of transactions are batches too: they have the time
at which they were written. In a topic of transactions whose records have earlier times, the marker of the first
transaction is found, whatever time is asked for. No record before the offset that the broker gives is of the time or
later, so the records from there on are read until one is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import HEALED, LOST
from streams.kafka.ports import Consumer
from streams.spark.errors import OffsetRangeLost

BATCH = 10_000
WAIT_S = 0.1


def first_records(
    consumer: Consumer,
    offsets: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    timestamp_ms: int,
    timeout_s: float,
    clock: Clock | None = None,
) -> dict[TopicPartition, int]:
    """Returns the offset of the first record with a timestamp or a later one, and the end where there is none.

    :param consumer: reads what it is assigned, and reports the ends of partitions; nothing is assigned to it.
    :param offsets: before which no record is of that time or later, as the broker gives them.
    :param ends: offsets behind which nothing counts.
    :param timeout_s: how long the brokers may send nothing.
    :raises OffsetRangeLost: if records are deleted meanwhile.
    :raises RetryableError: if the brokers send nothing for so long.
    """
    clock = clock or SystemClock()
    found = {place: min(offset, ends[place]) for place, offset in offsets.items()}
    left = {place for place, offset in found.items() if offset < ends[place]}
    consumer.assign({place: found[place] for place in left})
    since, last_error = clock.monotonic(), "none"
    try:
        while left:
            messages = list(consumer.consume(BATCH, 0.0)) or _first(consumer)
            if not messages and clock.monotonic() - since > timeout_s:
                raise RetryableError(
                    f"no record of {min(left)} came for {timeout_s:g} s; the last error was: {last_error}. See whether"
                    " the brokers run",
                    topic=min(left).topic,
                )
            for message in messages:
                error, place = message.error(), TopicPartition(message.topic(), message.partition())
                if error is not None and error.code() != consumer.partition_eof:
                    last_error = _passing(error, place)
                elif place in left:
                    since = clock.monotonic()
                    offset = message.offset() if error is None else ends[place]
                    if offset >= ends[place] or message.timestamp()[1] >= timestamp_ms:
                        found[place] = min(offset, ends[place])
                        left.discard(place)
                        consumer.unassign([place])
    finally:
        consumer.unassign(left)
    return found


def _first(consumer: Consumer) -> list[Any]:
    message = consumer.poll(WAIT_S)
    return [] if message is None else [message]


def _passing(error: Any, place: TopicPartition) -> str:
    """Returns the text of an error that passes.

    :raises StreamsError: if it does not.
    """
    if error.name() in LOST:
        raise OffsetRangeLost(
            f"records of {place} were deleted while a time was looked up: pin the offsets again",
            topic=place.topic,
            partition=place.partition,
        )
    if error.name() not in HEALED:
        raise StreamsError(f"{place} cannot be read: {error.str()}", topic=place.topic, partition=place.partition)
    return str(error.str())
