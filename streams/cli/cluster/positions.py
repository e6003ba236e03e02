"""The offsets at which a command begins to read, those at which an application begins after a reset, and the reading
between two offsets."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from processor_api.forms.times import time_ms
from processor_api.task_id import TopicPartition
from processor_api.texts import shown
from streams.cli.output.causes import CannotRun

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer

WAIT_S = 0.2
BATCH = 500


@dataclass(frozen=True)
class Start:
    """A point in a topic, which is another offset in each of its partitions."""

    kind: str
    """``beginning``, ``end``, ``offset`` (negative: this many before the end) or ``time``."""
    number: int = 0
    """The offset, or the ms since 1970."""


def start_of(text: str) -> Start:
    """Reads a point as the option ``--from`` has it.

    :raises CannotRun: if it is none.
    """
    if text in ("beginning", "earliest"):
        return Start("beginning")
    if text in ("end", "latest"):
        return Start("end")
    if re.fullmatch(r"-?\d{1,19}", text):
        return Start("offset", int(text))
    try:
        return Start("time", time_ms(text))
    except ValueError:
        raise CannotRun(
            f"--from {text!r} is not a position: give beginning, end, an offset, -5 for the last five of each"
            " partition, or an ISO 8601 time such as 2026-01-31T12:00:00Z"
        ) from None


def start_offsets(
    start: Start,
    consumer: Consumer,
    partitions: Collection[TopicPartition],
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Returns the offset of a point in each partition; offsets that do not exist become the nearest that do.

    :param ends: the ends of the partitions.
    """
    if not partitions:
        return {}
    if start.kind == "end":
        return {one: ends[one] for one in partitions}
    beginnings = consumer.beginning_offsets(partitions)
    if start.kind == "beginning":
        return {one: beginnings[one] for one in partitions}
    if start.kind == "time":
        found = consumer.offsets_for_time(dict.fromkeys(partitions, start.number))
        return {one: min(found[one], ends[one]) for one in partitions}
    number = start.number
    wanted = {one: ends[one] + number if number < 0 else number for one in partitions}
    return {one: max(beginnings[one], min(offset, ends[one])) for one, offset in wanted.items()}


class PartitionReading:
    """Reads partitions from their starts: to the ends that they had, or on and on."""

    def __init__(
        self,
        consumer: Consumer,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
    ) -> None:
        self._consumer, self._starts = consumer, starts
        self._ends = ends
        self._left = {one for one, offset in starts.items() if ends is None or offset < ends[one]}

    def batches(self) -> Iterator[list[Any]]:
        """Yields records as they come."""
        consumer = self._consumer
        consumer.assign({one: self._starts[one] for one in self._left})
        while self._left:
            messages = list(consumer.consume(BATCH, 0))
            if not messages:
                one = consumer.poll(WAIT_S)
                messages = [] if one is None else [one]
            records = [message for message in messages if self._is_wanted(message)]
            if records:
                yield records
            if self._ends is not None:
                self._drop_finished()

    def _is_wanted(self, message: Any) -> bool:
        if message.error() is not None:
            if message.error().code() != self._consumer.partition_eof:
                raise CannotRun(
                    f"{message.topic()}-{message.partition()} cannot be read: {shown(message.error().str())}"
                )
            return False
        if self._ends is None:
            return True
        return bool(message.offset() < self._ends[TopicPartition(message.topic(), message.partition())])

    def _drop_finished(self) -> None:
        """Ends partitions whose position has reached their ends: their last offsets may hold no record."""
        assert self._ends is not None
        for one in list(self._left):
            position = self._consumer.position(one)
            if position is not None and position >= self._ends[one]:
                self._left.discard(one)
                self._consumer.unassign([one])
