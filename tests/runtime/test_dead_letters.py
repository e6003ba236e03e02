"""A dead letter is the source record as it came: key, value and headers, whatever nodes and serdes did to them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from processor_api.handlers import origin_in
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
from streams.dead_letters import DeadLetter
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


class MessageOf:
    """A letter as a consumer gives it."""

    def __init__(self, letter: Any) -> None:
        self._letter = letter

    def __getattr__(self, name: str) -> Any:
        letter = self._letter
        found = {"timestamp": (0, letter.timestamp), "headers": list(letter.headers)}
        return lambda: found[name] if name in found else getattr(letter, name, 0)


def sent_again(letter: Any) -> tuple[Any, ...]:
    """What a replay sends, without its count."""
    read_letter = DeadLetter.of(MessageOf(letter))
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
    """With the headers that it has there, which a replay sends to that topic, and with the place that it came from."""

    def build(builder: StreamsBuilder) -> Any:
        return stream(builder).repartition(Repartitioned(name="again")).process(Marks).map_values(fails)

    (letter,) = letters(build, "v")
    headers = [header for header in letter.headers if not header[0].startswith("__streams.errors.")]
    assert headers == [("raw", b"\xff\x00"), ("none", None), ("mark", b"1"), ("__streams.origin", b"in:0:0")]
    assert dict(letter.headers)["__streams.errors.topic"] == b"test-application-again-repartition"


class Drops(Processor[Any, Any, Any, Any]):
    """Takes all headers away, and notes what was there."""

    seen: list[Any]

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record[Any, Any]) -> None:
        self.seen.extend(record.headers)
        self.context.forward(record.with_headers([]))


def moved(builder: StreamsBuilder) -> Any:
    return builder.stream("in").select_key(lambda key, _: key).process(Drops).repartition()


def summed(builder: StreamsBuilder) -> Any:
    kept: Any = Materialized(name="kept", value_serde="string")
    grouped = builder.stream("in").group_by(lambda key, _: key)
    return grouped.reduce(lambda _, value: value, materialized=kept).to_stream()


def joined(builder: StreamsBuilder) -> Any:
    right = builder.table("other")
    return builder.table("in").foreign_key_join(right, lambda value: value, lambda left, _: left).to_stream()


FAR: dict[str, Build] = {
    "behind a repartition": moved,
    "behind two": lambda builder: moved(builder).process(Drops).repartition(),
    "behind an aggregation": summed,
    "behind the cache of one": lambda builder: summed(builder).select_key(lambda key, _: key).repartition(),
}


@pytest.mark.parametrize("cache_bytes", [0, 1_000_000])
@pytest.mark.parametrize("way", FAR)
def test_a_letter_below_repartitions_names_the_record_that_it_comes_from(way: str, cache_bytes: int) -> None:
    """The fourth record of the topic fails, whatever was forwarded in between."""
    Drops.seen = []
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    last = FAR[way](builder).process(Drops)
    last.map_values(lambda value: value if value != "bad" else fails()).to("out")
    with TopologyTestDriver(builder, {**SETTINGS, "statestore.cache.max.bytes": cache_bytes}) as driver:
        source = driver.create_input_topic("in", "string", "string")
        for number, value in enumerate(["a", "b", "c", "bad", "d"]):
            source.pipe_record(TestRecord(f"k{number % 2}", value, number + 1, [("id", b"%d" % number)]))
        (letter,) = driver.create_output_topic("dead", "string", "string").read_records()
        outputs = driver.create_output_topic("out", "string", "string").read_records()
    assert DeadLetter.of(MessageOf(letter)).origin == ("in", 0, 3)
    assert [one.value for one in outputs] == ["a", "b", "c", "d"]
    assert {name for one in outputs for name, _ in one.headers} == set(), "outputs have the headers of their records"
    assert {name for name, _ in Drops.seen} <= {"id"}, "no node sees the place"


def test_records_name_no_origin_without_a_topic_of_letters() -> None:
    """The bytes of repartition topics are then those of Kafka Streams."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").repartition(Repartitioned(name="again")).to("out")
    for settings, names in (({}, []), (SETTINGS, ["__streams.origin"])):
        with TopologyTestDriver(builder, settings) as driver:
            driver.create_input_topic("in").pipe_record(TestRecord("k", "v", 1))
            (record,) = driver.create_output_topic("test-application-again-repartition").read_records()
            assert [name for name, _ in record.headers] == names
            assert list(driver.create_output_topic("out").read_record().headers) == []


def test_an_origin_that_another_application_has_left_does_not_count() -> None:
    """Here on a record of an input topic, which is the record itself."""
    Drops.seen = []
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").repartition().map_values(fails).to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        came = [("__streams.origin", b"elsewhere:7:9"), ("id", b"1")]
        driver.create_input_topic("in").pipe_record(TestRecord("k", "v", 1, came))
        (letter,) = driver.create_output_topic("dead", "string", "string").read_records()
    assert DeadLetter.of(MessageOf(letter)).origin == ("in", 0, 0)


def test_a_foreign_key_join_works_with_a_topic_of_letters() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    joined(builder).to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        driver.create_input_topic("other").pipe_input("o", "x")
        driver.create_input_topic("in").pipe_input("k", "o")
        assert driver.create_output_topic("out").read_key_values() == [("k", "o")]


@pytest.mark.parametrize(
    "value", [None, b"", b"in", b"in:0", b"in:a:1", b"in:0:1:2", b"a b:0:1", b"\xff:0:1", b"in:0:" + b"9" * 19]
)
def test_a_header_that_names_no_place_is_unknown(value: bytes | None) -> None:
    assert origin_in([("__streams.origin", value)]) is None


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
