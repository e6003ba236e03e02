"""Reads ranges of offsets of partitions to their ends, without a group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from processor_api.clock import Clock, SystemClock
from processor_api.errors import AuthorizationError, RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.ports import Consumer

READ_ROWS = 10_000
SILENT_S = 60.0
"""How long a broker may send nothing before a read gives up."""


def read_ranges(
    reader: Consumer,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    clock: Clock | None = None,
    *,
    firsts: bool = False,
) -> Iterator[Any]:
    """Yields the committed records in ranges of offsets; the order holds within a partition.

    :param firsts: yields the first record of each range only.
    :raises AuthorizationError: if a topic may not be read.
    :raises RetryableError: if the broker sends nothing for a minute.
    """
    clock = clock or SystemClock()
    ends = {place: end for place, (begin, end) in ranges.items() if begin < end}
    if not ends:
        return
    starts = {place: ranges[place][0] for place in ends}
    reader.assign(starts)
    last = clock.monotonic()
    try:
        while ends:
            messages = reader.consume(READ_ROWS, 0.0) or _first(reader)
            if messages:
                last = clock.monotonic()
            elif clock.monotonic() - last > SILENT_S:
                place = min(ends)
                raise RetryableError(
                    f"the broker sent no records of {place} for {SILENT_S:.0f} s, before offset {ends[place]}:"
                    " try again",
                    topic=place.topic,
                    partition=place.partition,
                )
            for message in messages:
                for record in _one(reader, message, ends):
                    yield record
                    if firsts:
                        place = TopicPartition(record.topic(), record.partition())
                        ends.pop(place, None)
                        reader.unassign([place])
    finally:
        reader.unassign(reader.assignment() & starts.keys())


def next_records(reader: Consumer, ranges: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """Returns the offset of the first committed record in each range of offsets; the end of those that have none: only
    markers of transactions and aborted records are in them.

    :raises AuthorizationError: if a topic may not be read.
    :raises RetryableError: if the broker sends nothing for a minute.
    """
    found = {place: end for place, (_, end) in ranges.items()}
    for record in read_ranges(reader, ranges, firsts=True):
        found[TopicPartition(record.topic(), record.partition())] = record.offset()
    return found


def _first(reader: Consumer) -> list[Any]:
    message = reader.poll(0.1)
    return [] if message is None else [message]


def _one(reader: Consumer, message: Any, ends: dict[TopicPartition, int]) -> Iterator[Any]:
    """Yields a message that is a record of a range, and ends ranges whose end was reached."""
    error = message.error()
    if error is not None and error.name() == "TOPIC_AUTHORIZATION_FAILED":
        raise AuthorizationError(
            f"topic {message.topic()!r} cannot be read: {error.str()}; allow READ on it", topic=message.topic()
        )
    if error is not None and error.code() != reader.partition_eof:
        return  # the client tries again itself; if it cannot, no more records arrive
    place = TopicPartition(message.topic(), message.partition())
    end = ends.get(place)
    if end is None:
        return
    if error is None and message.offset() < end:
        yield message
    if message.offset() + (error is None) >= end:
        ends.pop(place, None)  # the caller that wants first records alone has ended the range
