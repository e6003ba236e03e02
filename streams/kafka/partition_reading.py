"""Reads partitions from an offset of each, to its end or on and on, without a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from processor_api.errors import StreamsError
from processor_api.task_id import TopicPartition
from processor_api.texts import shown

if TYPE_CHECKING:
    from streams.kafka.ports import Consumer

WAIT_S = 0.2
BATCH = 500


class PartitionUnreadable(StreamsError):
    """A partition cannot be read, and its client does not recover by itself."""

    is_permanent = True


class PartitionReading:
    """Reads partitions from their starts: to the ends that they had, or on and on.

    :param check: is called before each request for records, and ends the reading by raising an error.
    """

    def __init__(
        self,
        consumer: Consumer,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        self._consumer, self._starts = consumer, starts
        self._ends, self._check = ends, check
        self._left = {one for one, offset in starts.items() if ends is None or offset < ends[one]}

    def batches(self) -> Iterator[list[Any]]:
        """Yields records as they come."""
        consumer = self._consumer
        consumer.assign({one: self._starts[one] for one in self._left})
        while self._left:
            self._check()
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
                raise PartitionUnreadable(
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
