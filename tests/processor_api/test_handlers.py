"""What the built-in handlers answer, and what a dead letter consists of (semantics 131, KIP-1034)."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import pytest

from processor_api.errors import ProductionError, RetryableError
from processor_api.handlers import (
    ErrorHandlerContext,
    ProducerRecord,
    Response,
    Result,
    SerializationExceptionOrigin,
    dead_letter_queue_records,
    default_production,
    log_and_continue,
    log_and_continue_processing,
    log_and_fail,
    log_and_fail_processing,
)
from processor_api.record import Record
from processor_api.task_id import TaskId
from processor_api.timestamps import ConsumedRecord

CONTEXT = ErrorHandlerContext(
    topic="in",
    partition=2,
    offset=41,
    timestamp=7,
    headers=[("h", b"1"), ("n", None)],
    processor_node_id="node",
    task_id=TaskId(0, 2),
    source_raw_key=b"k",
    source_raw_value=b"v",
    dead_letter_queue_topic_name="dlq",
)
CONSUMED = ConsumedRecord("in", 2, 41, 7, b"k", b"v", None)
RECORD: Record[str, str] = Record("k", "v", 7)
PRODUCED = ProducerRecord("out", b"k", b"v")


class OwnError(Exception):
    pass


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_a_dead_letter_does_not_grow_with_the_text_of_the_error() -> None:
    """Which may repeat a large value, twice: the broker would refuse a letter of three times that size."""
    (letter,) = dead_letter_queue_records(CONTEXT, raised(ValueError("v" * 900_000)))
    assert sum(len(value or b"") for _, value in letter.headers or ()) < 50_000


def test_a_dead_letter_has_the_source_record_and_says_what_happened() -> None:
    """The source's bytes, timestamp and headers, then the headers of the error in Kafka Streams' order."""
    (letter,) = dead_letter_queue_records(CONTEXT, raised(ValueError("bäd")))
    assert (letter.topic, letter.key, letter.value, letter.timestamp, letter.partition) == ("dlq", b"k", b"v", 7, None)
    assert letter.headers is not None
    headers = dict(letter.headers)
    stack = headers.pop("__streams.errors.stacktrace") or b""
    assert stack.startswith(b"Traceback (most recent call last)")
    assert stack.endswith("ValueError: bäd\n".encode())
    assert headers == {
        "h": b"1",
        "n": None,
        "__streams.errors.exception": b"ValueError",
        "__streams.errors.message": "bäd".encode(),
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"2",
        "__streams.errors.offset": b"41",
        "__streams.errors.node": b"node",
    }
    assert [name.removeprefix("__streams.errors.") for name, _ in letter.headers] == [
        "h", "n", "exception", "message", "stacktrace", "topic", "partition", "offset", "node",
    ]  # fmt: skip
    assert CONTEXT.headers == [("h", b"1"), ("n", None)]


def test_an_error_of_ones_own_is_named_with_its_module() -> None:
    (letter,) = dead_letter_queue_records(CONTEXT, OwnError())
    headers = dict(letter.headers or ())
    assert headers["__streams.errors.exception"] == f"{OwnError.__module__}.OwnError".encode()
    assert headers["__streams.errors.message"] == b""


def test_a_dead_letter_of_a_punctuation_has_no_source() -> None:
    """Topic, key and value are null, partition and offset -1; without a time it is sent with the present one."""
    context = dataclasses.replace(
        CONTEXT, topic=None, partition=-1, offset=-1, timestamp=-1, source_raw_key=None, source_raw_value=None
    )
    (letter,) = dead_letter_queue_records(context, ValueError("x"))
    headers = dict(letter.headers or ())
    assert (letter.key, letter.value, letter.timestamp) == (None, None, None)
    assert headers["__streams.errors.topic"] is None
    assert headers["__streams.errors.offset"] == b"-1"


def test_without_a_topic_there_is_no_dead_letter() -> None:
    """The configured topic, or the one that a handler names, which wins."""
    context = dataclasses.replace(CONTEXT, dead_letter_queue_topic_name=None)
    assert dead_letter_queue_records(context, ValueError()) == ()
    assert [letter.topic for letter in dead_letter_queue_records(context, ValueError(), "mine")] == ["mine"]
    assert [letter.topic for letter in dead_letter_queue_records(CONTEXT, ValueError(), "mine")] == ["mine"]


@pytest.mark.parametrize(
    ("handler", "record", "result", "level"),
    [
        (log_and_fail, CONSUMED, Result.FAIL, logging.DEBUG),
        (log_and_continue, CONSUMED, Result.RESUME, logging.WARNING),
        (log_and_fail_processing, RECORD, Result.FAIL, logging.DEBUG),
        (log_and_continue_processing, RECORD, Result.RESUME, logging.WARNING),
        (log_and_continue_processing, None, Result.RESUME, logging.WARNING),
    ],
)
def test_the_built_in_handlers_log_the_place_and_send_a_dead_letter(
    handler: Any, record: Any, result: Result, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    error = ValueError("bad")
    with caplog.at_level(logging.DEBUG, "streams.errors"):
        response = handler(CONTEXT, record, error)
    assert response.result is result
    assert [letter.topic for letter in response.dead_letter_queue_records] == ["dlq"]
    (line,) = caplog.records
    assert line.levelno == level
    assert {name: line.__dict__[name] for name in ("task", "node", "topic", "partition", "offset")} == {
        "task": "0_2", "node": "node", "topic": "in", "partition": 2, "offset": 41,
    }  # fmt: skip
    assert line.exc_info is not None
    assert line.exc_info[1] is error


@pytest.mark.parametrize(
    ("error", "origin", "result"),
    [
        (RetryableError("timed out"), None, Result.RETRY),
        (ProductionError("too large"), None, Result.FAIL),
        (ValueError("bad"), SerializationExceptionOrigin.KEY, Result.FAIL),
        (RetryableError("the registry is away"), SerializationExceptionOrigin.VALUE, Result.FAIL),
    ],
)
def test_the_default_production_handler_retries_only_what_was_not_delivered_in_time(
    error: Exception, origin: SerializationExceptionOrigin | None, result: Result
) -> None:
    response = default_production(CONTEXT, PRODUCED, error, origin)
    assert response.result is result
    assert bool(response.dead_letter_queue_records) is (result is Result.FAIL)


def test_responses_take_any_iterable_of_records() -> None:
    assert Response.resume(record for record in [PRODUCED]) == Response(Result.RESUME, (PRODUCED,))
    assert Response.fail() == Response(Result.FAIL)
    assert Response.retry() == Response(Result.RETRY)
