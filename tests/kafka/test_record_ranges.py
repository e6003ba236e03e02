"""Ranges of offsets are read to their ends, and of each only the first record where that is all that is asked."""

from __future__ import annotations

import pytest

from client_contracts.client_kit import send
from processor_api.task_id import TopicPartition
from streams.kafka.record_ranges import next_records, read_ranges
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PLACES = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def clients() -> EmbeddedClients:
    """Of a broker with a topic of two partitions, of three records each."""
    broker = EmbeddedBroker(blocking=False)
    broker.create_topic("t", len(PLACES))
    made = EmbeddedClients(broker)
    for place in PLACES:
        send(made.producer({}), "t", b"0", b"1", b"2", partition=place.partition)
    return made


@pytest.mark.parametrize("begin", [0, 1, 2, 3])
@pytest.mark.parametrize("end", [1, 2, 3])
def test_the_next_record_of_a_range_may_be_its_last(clients: EmbeddedClients, begin: int, end: int) -> None:
    """`streams groups` ended with an error wherever exactly one record was left."""
    ranges = dict.fromkeys(PLACES, (begin, end))
    assert next_records(clients.consumer({}), ranges) == dict.fromkeys(PLACES, min(begin, end))


@pytest.mark.parametrize("end", [1, 2, 3])
def test_records_behind_the_end_are_not_read(clients: EmbeddedClients, end: int) -> None:
    found = [record.offset() for record in read_ranges(clients.consumer({}), {PLACES[0]: (0, end)})]
    assert found == list(range(end))
