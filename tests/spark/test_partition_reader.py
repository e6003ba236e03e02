"""The end of a range of offsets is found also where a batch gives its records offsets that are not in the log."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.task_id import TopicPartition
from streams.spark.sources.partition_reader import read_with
from streams.spark.sources.ranges import OffsetRange
from streams.testing.broker import EmbeddedBroker, EmbeddedClients
from streams.testing.broker.messages import LogRecord

PLACE = TopicPartition("t", 0)


class Sized(LogRecord):
    """A record whose length is that of its value, as the client's messages have it."""

    def __len__(self) -> int:
        return len(self.value() or b"")


class OneByOne:
    """A consumer of three records that gives them out one by one; some have other offsets than those of the log."""

    def __init__(self, offsets: dict[int, int]) -> None:
        clients = EmbeddedClients(EmbeddedBroker(auto_create_topics=True))
        producer = clients.producer({})
        for value in (b"0", b"1", b"2"):
            producer.produce("t", value, b"k", 0)
        self._inner = clients.consumer({"group.id": "g", "enable.partition.eof": True})
        self._inner.assign({PLACE: 0})
        self._offsets = offsets
        self.partition_eof = self._inner.partition_eof
        self.fetched_end = lambda partition: 3

    def consume(self, most: int, timeout_s: float) -> list[Any]:
        found = self._inner.consume(1, timeout_s)
        return [one if one.error() is not None else self._given(one) for one in found]

    def _given(self, record: Any) -> Sized:
        made = Sized(record.topic(), record.partition(), record.key(), record.value(), record.stamp, None)
        made.log_offset = self._offsets.get(record.offset(), record.offset())
        return made

    def poll(self, timeout_s: float) -> Any:
        return next(iter(self.consume(1, timeout_s)), None)


@pytest.mark.parametrize(
    ("offsets", "end", "values"),
    [
        ({}, 3, [b"0", b"1", b"2"]),
        ({}, 2, [b"0", b"1"]),
        ({1: 1_000}, 3, [b"0", b"2"]),
        ({1: 0}, 3, [b"0", b"1", b"2"]),
    ],
)
def test_an_offset_behind_the_log_is_not_the_end_of_a_range(
    offsets: dict[int, int], end: int, values: list[bytes]
) -> None:
    """The records behind it were left out, without a word."""
    read = read_with(OneByOne(offsets), OffsetRange("t", 0, 0, end), 10.0)  # type: ignore[arg-type]
    assert [message.value() for messages in read for message in messages] == values
