"""Committed offsets of a consumer are read over a connection of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from processor_api.errors import AuthorizationError
from processor_api.task_id import TopicPartition
from streams.kafka.confluent.consumer import ConfluentConsumer
from streams.kafka.ports import OffsetAndMetadata
from streams.kafka.wire.messages import (
    API_VERSIONS,
    FIND_COORDINATOR,
    OFFSET_FETCH,
    ApiVersionsResponse,
    FetchedOffset,
    OffsetFetchResponse,
    OffsetsOfGroup,
    OffsetsOfTopic,
    SupportedApi,
)
from streams.kafka.wire.offset_commits import OffsetCommits
from wire_support.fake_broker import FakeBroker, here

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
UNSTABLE = 88


@pytest.fixture
def consumer() -> Iterator[ConfluentConsumer]:
    """Its client reaches nobody: what it is asked for fails."""
    with closing(ConfluentConsumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})) as consumer:
        yield consumer


def answer(*partitions: FetchedOffset, code: int = 0) -> OffsetFetchResponse:
    return OffsetFetchResponse(0, (OffsetsOfGroup("g", (OffsetsOfTopic("a", partitions),), code),))


def committed(consumer: ConfluentConsumer, *answers: Any) -> Any:
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_FETCH: list(answers)}) as broker, asking(consumer, broker):
        found = consumer.committed([A0, A1])
        return found, len(broker.asked(OFFSET_FETCH))


@contextmanager
def asking(consumer: ConfluentConsumer, broker: FakeBroker) -> Iterator[None]:
    """Has the consumer's own connection go to a broker, to which its client does not."""
    with closing(OffsetCommits({"bootstrap.servers": broker.bootstrap}, "g")) as offsets:
        consumer._offsets.direct.connection = offsets
        yield


def test_partitions_without_an_offset_are_left_out(consumer: ConfluentConsumer) -> None:
    found = answer(FetchedOffset(0, 7, -1, "text\0more\0", 0), FetchedOffset(1, -1, -1, None, 0))
    assert committed(consumer, found) == ({A0: OffsetAndMetadata(7, "text\0more")}, 1)


def test_a_transaction_that_may_change_an_offset_is_waited_for(consumer: ConfluentConsumer) -> None:
    later = answer(FetchedOffset(0, -1, -1, None, UNSTABLE))
    assert committed(consumer, later, later, answer(FetchedOffset(0, 7, -1, "", 0))) == (
        {A0: OffsetAndMetadata(7, "")},
        3,
    )


def test_a_refusal_names_the_right(consumer: ConfluentConsumer) -> None:
    with pytest.raises(AuthorizationError, match="allow READ on group 'g'"):
        committed(consumer, answer(code=30))
    with pytest.raises(AuthorizationError, match="TOPIC_AUTHORIZATION_FAILED"):
        committed(consumer, answer(FetchedOffset(0, -1, -1, None, 29)))


def test_a_broker_that_is_older_than_the_request_is_asked_by_the_client(consumer: ConfluentConsumer) -> None:
    apis = tuple(
        SupportedApi(api.key, 0, most) for api, most in ((API_VERSIONS, 3), (FIND_COORDINATOR, 4), (OFFSET_FETCH, 7))
    )
    with (
        FakeBroker({FIND_COORDINATOR: here, API_VERSIONS: ApiVersionsResponse(0, apis, 0)}) as broker,
        asking(consumer, broker),
    ):
        for _ in range(2):
            assert consumer._offsets.direct.committed([A0]) is None
        assert broker.asked(OFFSET_FETCH) == []
