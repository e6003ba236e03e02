"""Reads one range of offsets in a task of Spark; what it yields are lists of the client's own messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from processor_api.clock import SystemClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.client_errors import HEALED, LOST
from streams.kafka.ports import Consumer
from streams.spark.errors import OffsetRangeLost
from streams.spark.sources.ranges import OffsetRange

BATCH = 10_000
BATCH_BYTES = 32 << 20
"""Bytes of values after which a list is yielded though it is shorter."""
WAIT_S = 0.1
STUCK_S = 120.0
"""Time without a record or the end of the partition after which the task fails; Spark then tries it again."""


def read_range(settings: Mapping[str, Any], wanted: OffsetRange, stuck_s: float = STUCK_S) -> Iterator[list[Any]]:
    """Yields the records of the range in order, at most `BATCH` at a time, each list with one at least.

    It ends at a record at or behind the last offset, or where the partition ends: the last offsets may be markers of
    transactions, which are not records, or records that were compacted or aborted.

    :raises OffsetRangeLost: if the partition ends before the range, or does not reach back to its start.
    :raises RetryableError: if nothing comes for ``stuck_s``.
    """
    if wanted.start >= wanted.end:
        return
    from streams.kafka.confluent.clients import ConfluentClients  # Spark plans in processes that read nothing

    consumer = ConfluentClients().consumer(settings)
    try:
        consumer.assign({TopicPartition(wanted.topic, wanted.partition): wanted.start})
        yield from read_with(consumer, wanted, stuck_s)
    finally:
        consumer.close()


def read_with(consumer: Consumer, wanted: OffsetRange, stuck_s: float, *, to_end: bool = False) -> Iterator[list[Any]]:
    """Yields the records of the range as `read_range` does, by a consumer that reads its partition.

    :param to_end: whether the range ends where the partition does, when all before was read.
    """
    clock = SystemClock()
    found: list[Any] = []
    size = 0
    last_error, since = "none", clock.monotonic()
    while True:
        messages = list(consumer.consume(BATCH - len(found), 0.0))
        if not messages:
            if (first := consumer.poll(WAIT_S)) is not None:
                messages = [first]
            elif clock.monotonic() - since > stuck_s:
                raise RetryableError(
                    f"no record came for {stuck_s:g} s; the last error was: {last_error}. See whether the brokers run"
                    " and whether the executors reach them",
                    **place_of(wanted),
                )
            else:
                continue
        end = False
        if any(message.error() is not None for message in messages):
            events = [message for message in messages if message.error() is not None]
            messages = [message for message in messages if message.error() is None]
            for event in events:
                end, last_error = _event(consumer, event, wanted, end, last_error, to_end)
        if messages or end:
            since = clock.monotonic()
        if messages and (last := messages[-1].offset()) >= wanted.end - 1:
            end = end or _is_in_log(consumer, wanted, last)
            if last >= wanted.end:
                messages = [message for message in messages if message.offset() < wanted.end]
        found += messages
        size += sum(map(len, messages))
        if len(found) == BATCH or size >= BATCH_BYTES or (end and found):
            yield found
            found, size = [], 0
        if end:
            return


def _is_in_log(consumer: Consumer, wanted: OffsetRange, offset: int) -> bool:
    """Whether an offset is before the end of its partition: a batch may give its records offsets that are not, and its
    end is not theirs."""
    end = consumer.fetched_end(TopicPartition(wanted.topic, wanted.partition))
    return end is None or offset < end


def _event(
    consumer: Consumer, event: Any, wanted: OffsetRange, end: bool, last_error: str, to_end: bool
) -> tuple[bool, str]:
    """Returns whether the partition has ended, and the last error that the client reported."""
    error = event.error()
    if error.code() == consumer.partition_eof:
        if event.offset() < wanted.end and not to_end:
            raise OffsetRangeLost(
                f"{wanted.topic}-{wanted.partition} ends at {event.offset()}, before the end {wanted.end} that was"
                " pinned: it was truncated, or deleted and made again; pin its offsets again",
                **place_of(wanted),
            )
        return True, last_error
    if error.name() in LOST:
        raise OffsetRangeLost(
            f"{wanted.topic}-{wanted.partition} no longer has offset {wanted.start}: its records were deleted since"
            " they were pinned; pin its offsets again, or keep records longer",
            **place_of(wanted),
            offset=wanted.start,
        )
    if error.name() not in HEALED:
        raise StreamsError(f"the partition cannot be read: {error.str()}", **place_of(wanted))
    return end, error.str()


def place_of(wanted: OffsetRange) -> dict[str, Any]:
    """Returns the fields of an error that say where it is."""
    return {"topic": wanted.topic, "partition": wanted.partition}
