"""The first record of a time: the broker's answer is where the search begins, since markers have times of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.spark.sources.offsets import first_records
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

PLACES = [TopicPartition("events", number) for number in range(3)]


@pytest.fixture(name="clients")
def clients_fixture() -> EmbeddedClients:
    """Partition 0 has records of the times 10 to 60 in transactions of two, the second one aborted; 1 has one record
    without a transaction; 2 has none. Offsets 2, 5 and 8 of the first are markers."""
    broker = EmbeddedBroker()
    broker.create_topic("events", 3)
    clients = EmbeddedClients(broker)
    producer = clients.producer({"transactional.id": "writer"})
    producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        for time in (10, 20):
            producer.produce("events", b"v", b"k", 0, None, None, 20 * number + time, None)
        producer.abort_transaction() if number == 1 else producer.commit_transaction()
    plain = clients.producer({})
    plain.produce("events", b"v", b"k", 1, None, None, 35, None)
    plain.flush()
    return clients


@pytest.fixture(name="find")
def find_fixture(clients: EmbeddedClients) -> Callable[..., list[int]]:
    def find(ms: int, begins: list[int], ends: list[int]) -> list[int]:
        consumer = clients.consumer({"isolation.level": "read_committed", "enable.partition.eof": "true"})
        try:
            given = dict(zip(PLACES, begins, strict=True)), dict(zip(PLACES, ends, strict=True))
            found = first_records(consumer, *given, ms, 10.0)
            assert consumer.poll(0) is None, "nothing is assigned any more"
            return [found[place] for place in PLACES]
        finally:
            consumer.close()

    return find


@pytest.mark.parametrize(
    ("ms", "expected"),
    [(0, [0, 0, 0]), (20, [1, 0, 0]), (21, [6, 0, 0]), (36, [6, 1, 0]), (60, [7, 1, 0]), (61, [9, 1, 0])],
)
def test_markers_and_aborted_records_are_no_records_of_a_time(
    find: Callable[..., list[int]], ms: int, expected: list[int]
) -> None:
    """Wherever the broker begins before it, a marker included, the answer is the same."""
    for begin in range(min(expected[0], 9) + 1):
        assert find(ms, [begin, 0, 0], [9, 1, 0]) == expected


def test_records_behind_the_end_do_not_count(find: Callable[..., list[int]]) -> None:
    assert find(50, [0, 0, 0], [3, 1, 0]) == [3, 1, 0]
    assert find(60, [2, 0, 0], [7, 0, 0]) == [7, 0, 0]


def test_a_broker_that_sends_nothing_is_an_error(clients: EmbeddedClients) -> None:
    """The end is behind what the log has."""
    consumer = clients.consumer({"isolation.level": "read_committed"})
    with pytest.raises(RetryableError, match=r"no record of events-2 came for 0\.2 s"):
        first_records(consumer, {PLACES[2]: 0}, {PLACES[2]: 5}, 1, 0.2)
    consumer.close()
