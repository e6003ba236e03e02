"""Reading the texts of committed offsets as they were committed."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.clock import ManualClock
from processor_api.errors import RetryableError, StreamsError
from processor_api.task_id import TopicPartition
from streams.kafka.wire import offset_texts
from streams.kafka.wire.messages import (
    FIND_COORDINATOR,
    OFFSET_FETCH,
    FetchedOffset,
    OffsetFetchGroup,
    OffsetFetchResponse,
    OffsetFetchTopic,
    OffsetsOfGroup,
    OffsetsOfTopic,
)
from wire_support.fake_broker import FakeBroker, here

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def fetched(*partitions: tuple[str, FetchedOffset], code: int = 0) -> OffsetFetchResponse:
    topics = tuple(OffsetsOfTopic(topic, (offset,)) for topic, offset in partitions)
    return OffsetFetchResponse(0, (OffsetsOfGroup("g", topics, code),))


def texts(answer: Any, *partitions: TopicPartition) -> Any:
    with FakeBroker({FIND_COORDINATOR: here, OFFSET_FETCH: answer}) as broker:
        found = offset_texts({"bootstrap.servers": broker.bootstrap}, "g", partitions, clock=ManualClock())
        return found, broker.asked(OFFSET_FETCH)


def test_texts_are_as_they_were_committed() -> None:
    """Without what librdkafka's client sends behind its own; a text and an offset that are not there are empty."""
    answer = fetched(
        ("a", FetchedOffset(0, 7, -1, "AgAAAAAAAAAB", 0)),
        ("a", FetchedOffset(1, 7, -1, "AgAAAAAAAAAB\0", 0)),
        ("b", FetchedOffset(0, -1, -1, None, 0)),
    )
    found, asked = texts(answer, B0, A1, A0)
    assert found == {A0: "AgAAAAAAAAAB", A1: "AgAAAAAAAAAB", B0: ""}
    (request,) = asked
    assert request.groups == (OffsetFetchGroup("g", (OffsetFetchTopic("a", (0, 1)), OffsetFetchTopic("b", (0,)))),)
    assert request.require_stable


def test_an_offset_that_a_transaction_may_change_is_asked_for_later() -> None:
    with pytest.raises(RetryableError, match=r"group 'g' in a-0 cannot be read: UNSTABLE_OFFSET_COMMIT \(88\)"):
        texts(fetched(("a", FetchedOffset(0, -1, -1, None, 88))), A0)


def test_a_refusal_is_told() -> None:
    with pytest.raises(StreamsError, match=r"offsets of group 'g' cannot be read: GROUP_AUTHORIZATION_FAILED \(30\)"):
        texts(fetched(code=30), A0)
