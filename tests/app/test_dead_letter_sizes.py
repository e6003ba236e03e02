"""Dead letters near the largest record that a topic takes: they leave out headers, and no record is lost."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from processor_api.handlers import HEADER_PREFIX, Response
from streams import StreamsBuilder, dead_letter_queue_records
from streams.testing import EmbeddedKafka

LIMIT = 3_000
OVERHEAD = 68
"""Bytes of a batch of one record, at least."""
CONTINUES = {
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "dead",
}
GUARANTEES = ("at_least_once", "exactly_once_v2")


def price(text: str) -> str:
    if len(text) > 10:
        raise ValueError("no price: " + "of " * 100)
    return text


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(price).to("out")
    return builder


def headers_of(size: int, settings: Mapping[str, Any], *, limit: int = LIMIT) -> tuple[list[str], str]:
    """The headers of the error that the letter of a record of this size has, and its value, after which another record
    is processed."""
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_topics("dead", configs={"max.message.bytes": str(limit)})
        kafka.start(topology(), {**CONTINUES, **settings})
        topic = kafka.create_input_topic("in")
        topic.pipe_input("a", "x" * size, headers=[("own", b"1")])
        topic.pipe_input("b", "tea")
        (found,) = kafka.read_records("out", 1, timeout=30)
        (letter,) = kafka.read_records("dead", 1, timeout=30)
        assert found.value == "tea"
        assert [name for name, _ in letter.headers][:1] == ["own"]
        return [name.removeprefix(HEADER_PREFIX) for name, _ in letter.headers][1:], letter.value


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (100, "exception message stacktrace topic partition offset node"),
        (LIMIT - 900, "exception message topic partition offset node"),
        (LIMIT - 400, "exception topic partition offset node"),
        (LIMIT - 200, "topic partition offset"),
        (LIMIT - OVERHEAD - 20, ""),
    ],
)
def test_a_letter_leaves_out_what_its_topic_does_not_take(
    size: int, expected: str, guarantee: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    names, value = headers_of(size, {"processing.guarantee": guarantee})
    assert (names, value) == (expected.split(), "x" * size)
    said = [record for record in caplog.records if "a dead letter is too large" in record.getMessage()]
    assert bool(said) == (size > 100)


def test_a_letter_that_the_client_does_not_take_is_made_smaller_too() -> None:
    names, _ = headers_of(1_500, {"producer.message.max.bytes": 2_000}, limit=100_000)
    assert names == ["exception", "topic", "partition", "offset", "node"]


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_record_that_the_topic_of_letters_cannot_take_is_not_lost(guarantee: str) -> None:
    """The application ends, and says what to do; the next one finds the record again."""
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_topics("dead", configs={"max.message.bytes": "1000"})
        app = kafka.start(topology(), {**CONTINUES, "processing.guarantee": guarantee})
        kafka.create_input_topic("in").pipe_input("a", "x" * 2_000)
        with pytest.raises(Exception, match="raise max"):
            kafka.read_records("out", 1, timeout=30)
        app.close()


def test_a_handler_of_the_users_may_send_a_large_letter() -> None:
    def decide(context: Any, record: Any, error: Exception) -> Response:
        return Response.resume(dead_letter_queue_records(context, error))

    names, _ = headers_of(LIMIT - 400, {"processing.exception.handler": decide})
    assert names == ["exception", "topic", "partition", "offset", "node"]
