"""A consumer's questions for offsets: over connections of our own, and by the client where these cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END

from processor_api.errors import RetryableError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.confluent.consuming.direct_offsets import PartitionOffsets
from streams.kafka.confluent.errors import Resources
from streams.kafka.ports import ClientUnusable, UnknownPartitionError
from streams.kafka.wire.messages import (
    LIST_OFFSETS,
    METADATA,
    ClusterBroker,
    ListedOffset,
    ListedTopic,
    ListOffsetsResponse,
    MetadataResponse,
    PartitionMetadata,
    TopicMetadata,
)
from tools.chaos.cluster import Proxy
from tools.kafka.broker import free_ports
from wire_support.fake_broker import HOST, FakeBroker, Request

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LOG = {OFFSET_BEGINNING: 3, OFFSET_END: 9, 50: 5, 90: -1}
"""What the broker answers for a time."""


def offsets(request: Request) -> ListOffsetsResponse:
    (topic,) = request.body.topics
    listed = tuple(ListedOffset(one.partition_index, 0, -1, LOG[one.timestamp], 5) for one in topic.partitions)
    return ListOffsetsResponse(0, (ListedTopic("t", listed),))


class NoClient:
    """A client that must not be asked."""

    def offsets_for_times(self, *_args: object, **_options: object) -> Any:
        raise AssertionError("the client was asked")


@contextmanager
def place(
    config: dict[str, Any], error: int = 0, listed: Any = offsets
) -> Iterator[tuple[PartitionOffsets, FakeBroker, Proxy]]:
    """Offsets of a consumer whose broker, the leader of both partitions, stands behind a proxy."""
    (port,) = free_ports(1)
    led = tuple(PartitionMetadata(0, number, 1, 5, (1,), (1,), ()) for number in (0, 1))
    topic = TopicMetadata(error, "t", b"\1" * 16, False, led, 0)
    metadata = MetadataResponse(0, (ClusterBroker(1, HOST, port, None),), "c", 1, (topic,))
    with FakeBroker({METADATA: metadata, LIST_OFFSETS: listed}) as broker:
        proxy = Proxy(port, broker.address.port)
        made = PartitionOffsets({"bootstrap.servers": f"{HOST}:{port}", **config}, Resources())
        try:
            with closing(made):
                yield made, broker, proxy
        finally:
            proxy.forget()
            proxy.cut()


def test_both_ends_and_times_are_found_without_the_client() -> None:
    with place({}) as (asked, _, _):
        assert asked.beginnings(NoClient(), [T0, T1]) == {T0: 3, T1: 3}
        assert asked.ends(NoClient(), [T1], 5.0) == {T1: 9}
        assert asked.for_times(NoClient(), {T0: 50, T1: 90}) == {T0: 5, T1: 9}
        assert asked.ends(NoClient(), [], 5.0) == {}


def test_a_record_that_comes_between_the_questions_is_not_left_out() -> None:
    """It is later than the time that is asked for, so the consumer has to read it."""

    def growing(request: Request) -> ListOffsetsResponse:
        answer = offsets(request)
        LOG[OFFSET_END] += 1
        return answer

    try:
        with place({}, listed=growing) as (asked, _, _):
            assert asked.for_times(NoClient(), {T0: 90}) == {T0: 9}
    finally:
        LOG[OFFSET_END] = 9


@pytest.mark.parametrize(
    ("config", "level"),
    [({}, 1), ({"isolation.level": "read_committed"}, 1), ({"isolation.level": "read_uncommitted"}, 0)],
)
def test_what_the_consumer_may_read_counts(config: dict[str, Any], level: int) -> None:
    with place(config) as (asked, broker, _):
        asked.ends(NoClient(), [T0], 5.0)
        assert [one.isolation_level for one in broker.asked(LIST_OFFSETS)] == [level]


def test_a_connection_that_was_forgotten_on_the_way_does_not_take_the_whole_time() -> None:
    """The client's would take ``socket.timeout.ms``; the answer comes within the call here, over a new connection."""
    with place({}) as (asked, _, proxy):
        for _ in range(2):
            assert asked.ends(NoClient(), [T0], 2.0) == {T0: 9}
            proxy.forget()


def test_a_topic_that_is_not_there_is_said_at_once() -> None:
    with place({}, error=3) as (asked, _, _), pytest.raises(UnknownPartitionError, match="'t' does not exist"):
        asked.beginnings(NoClient(), [T0])


def test_where_no_broker_is_the_thread_is_not_held_up() -> None:
    """It stood still for all of the time; the client took the partition for one that does not exist."""
    (port,) = free_ports(1)
    unreachable = PartitionOffsets({"bootstrap.servers": f"{HOST}:{port}"}, Resources())
    with closing(unreachable), pytest.raises(RetryableError):
        unreachable.ends(NoClient(), [T0], 1e9)


class Client:
    """A client that finds offsets after a while."""

    def __init__(self, *answers: dict[int, int]) -> None:
        self.answers = list(answers)

    def offsets_for_times(self, wanted: list[Any], timeout: float) -> list[Any]:
        found = self.answers.pop(0)
        for one in wanted:
            one.offset = found.get(one.offset, -1001)
        return wanted


def test_where_only_the_client_can_log_in_it_is_asked_until_it_answers() -> None:
    config = {"bootstrap.servers": f"{HOST}:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    with closing(PartitionOffsets(config, Resources())) as asked:
        assert asked.ends(Client({}, {}, LOG), [T0], 5.0) == {T0: 9}
        assert asked.for_times(Client(LOG, LOG), {T0: 90}) == {T0: 9}


def test_a_consumer_that_was_given_up_answers_no_question() -> None:
    consumer = ConfluentConsumer({"bootstrap.servers": f"{HOST}:1", "group.id": "g"})
    try:
        consumer._offsets.is_given_up = True
        for ask in (consumer.beginning_offsets, consumer.end_offsets):
            with pytest.raises(ClientUnusable):
                ask([T0])
    finally:
        consumer._offsets.is_given_up = False
        consumer.close()
