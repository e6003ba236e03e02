"""A dead letter is the source record as it came: key, value and headers, whatever nodes and serdes did to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from streams import (
    Consumed,
    Headers,
    Materialized,
    Processor,
    PunctuationType,
    Record,
    Repartitioned,
    Response,
    StreamsBuilder,
    TopologyTestDriver,
    dead_letter_queue_records,
    serde_of,
)
from streams.cli.dlq.letters import DeadLetter
from streams.testing import TestRecord

SETTINGS = {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "production.exception.handler": lambda context, record, error, origin: continuing(context, error),
    "errors.dead.letter.queue.topic.name": "dead",
}
OWN = [("id", b"7"), ("id", b"8"), ("raw", b"\xff\x00"), ("none", None)]
Build = Callable[[StreamsBuilder], Any]


def continuing(context: Any, error: Exception) -> Response:
    return Response.resume(dead_letter_queue_records(context, error))


def fails(*arguments: Any) -> Any:
    raise ValueError("no")


class Marks(Processor[Any, Any, Any, Any]):
    """Adds a header and takes another one away, in place, and sets another time."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        record.headers.remove_all("id")
        record.headers.add("mark", b"1")
        self.context.forward(record.with_timestamp(record.timestamp + 1000))


def write(text: str, headers: Headers) -> bytes:
    headers.add("written", b"\xfe")
    if text == "unwritable":
        raise ValueError("unwritable")
    return text.encode()


def read(data: bytes, headers: Headers) -> str:
    headers.remove_all("id")
    headers.add("read", b"1")
    if data == b"unreadable":
        raise ValueError("unreadable")
    return data.decode()


CLAIM = serde_of(write, read, name="claim", with_headers=True)


def stream(builder: StreamsBuilder) -> Any:
    return builder.stream("in").process(Marks)


def read_by(serde: Any) -> Build:
    return lambda builder: builder.stream("in", Consumed(value_serde=serde))


def counted(builder: StreamsBuilder) -> Any:
    kept: Any = Materialized(name="kept", value_serde="long")
    return builder.stream("in").group_by_key().count(materialized=kept).to_stream().map_values(fails)


def held(builder: StreamsBuilder) -> Any:
    return builder.stream("in").map_values_batch(lambda values: [fails() for _ in values])


KINDS: dict[str, tuple[Build, Any]] = {
    "function": (lambda builder: stream(builder).map_values(fails), "v"),
    "function of a tombstone": (lambda builder: stream(builder).map_values(fails), None),
    "value read": (lambda builder: read_by(CLAIM)(builder).map_values(fails), "v"),
    "unreadable value": (lambda builder: read_by(CLAIM)(builder), "unreadable"),
    "branches": (lambda builder: stream(builder).merge(builder.stream("other")).filter(fails), "v"),
    "below a cache": (counted, "v"),
    "batch": (held, "v"),
    "sink": (lambda builder: stream(builder).to("claims", value_serde=CLAIM), "unwritable"),
    "unsendable headers": (lambda builder: stream(builder).process(Unsendable).to("out"), "v"),
}


class Unsendable(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record.with_headers([("\ud800", b"1")]))


def letters(build: Build, value: Any, settings: Any = SETTINGS) -> list[Any]:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    found = build(builder)
    if found is not None:
        found.to("out")
    with TopologyTestDriver(builder, settings) as driver:
        source = driver.create_input_topic("in", value_serde="string")
        source.pipe_record(TestRecord("k", value, 5_000, OWN))
        for time in (10_000, 20_000):  # for what waits
            source.pipe_record(TestRecord("later", "v", time))
        return [one for one in driver.create_output_topic("dead", "string", "string").read_records() if one.key == "k"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_letter_has_the_record_as_it_came(kind: str) -> None:
    build, value = KINDS[kind]
    (letter,) = letters(build, value)
    assert (letter.key, letter.value) == ("k", value)
    assert list(letter.headers)[: len(OWN)] == OWN
    assert all(name.startswith("__streams.errors.") for name, _ in list(letter.headers)[len(OWN) :])
    assert sent_again(letter) == ("k", value, 5_000, OWN)


def sent_again(letter: Any) -> tuple[Any, ...]:
    """What a replay sends, without its count."""

    class Message:
        def __getattr__(self, name: str) -> Any:
            found = {"timestamp": (0, letter.timestamp), "headers": list(letter.headers)}
            return lambda: found[name] if name in found else getattr(letter, name, 0)

    read_letter = DeadLetter.of(Message())
    return letter.key, letter.value, read_letter.source_timestamp, read_letter.headers


def test_what_nodes_have_added_is_in_a_header_of_its_own() -> None:
    (letter,) = letters(lambda builder: stream(builder).map_values(fails), "v")
    said = {name.rpartition(".")[2]: value for name, value in letter.headers}
    assert json.loads(said["headers"] or b"") == [["mark", "1"]]
    assert (said["timestamp"], letter.timestamp) == (b"5000", 6_000)
    (letter,) = letters(KINDS["sink"][0], "unwritable")
    said = {name.rpartition(".")[2]: value for name, value in letter.headers}
    assert json.loads(said["headers"] or b"") == [["mark", "1"], ["written", {"base64": "/g=="}]]


def test_a_letter_below_a_repartition_is_the_record_of_that_topic() -> None:
    """With the headers that it has there, which a replay sends to that topic."""

    def build(builder: StreamsBuilder) -> Any:
        return stream(builder).repartition(Repartitioned(name="again")).process(Marks).map_values(fails)

    (letter,) = letters(build, "v")
    headers = [header for header in letter.headers if not header[0].startswith("__streams.errors.")]
    assert headers == [("raw", b"\xff\x00"), ("none", None), ("mark", b"1")]
    assert dict(letter.headers)["__streams.errors.topic"] == b"test-application-again-repartition"


def test_a_letter_of_a_punctuation_has_no_record() -> None:
    class Ticks(Marks):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule(timedelta(seconds=1), PunctuationType.STREAM_TIME, fails)

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").process(Ticks).to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        driver.create_input_topic("in").pipe_record(TestRecord("k", "v", 5_000, OWN))
        letter = driver.create_output_topic("dead", "string", "string").read_record()
    assert (letter.key, letter.value) == (None, None)
    assert not [name for name, _ in letter.headers if not name.startswith("__streams.errors.")]


def test_a_letter_that_died_again_keeps_the_headers_that_it_came_with() -> None:
    """An application that reads dead letters has letters of them: their own headers of an error are the record's."""
    (first,) = letters(lambda builder: stream(builder).map_values(fails), "v")
    came = list(first.headers)
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").map_values(fails).to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        driver.create_input_topic("in").pipe_record(TestRecord("k", "v", 6_000, came))
        (letter,) = driver.create_output_topic("dead", "string", "string").read_records()
    assert sent_again(letter) == ("k", "v", 6_000, came)
