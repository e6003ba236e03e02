"""Errors and values whose text cannot be made: each is handled, placed and shown like any other.

The error of ``str()`` took the place of the user's own, without node, topic or offset, and no handler was asked.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ProcessingError, StreamsError
from processor_api.texts import error_text, kind_and_text, plain_str, repr_of
from runtime_support.running_app import Cluster
from streams import (
    ClientState,
    Consumed,
    Produced,
    Serde,
    Serdes,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    TopologyTestDriver,
)
from streams.cli.output.failures import described, report
from streams.cli.output.logs import configure
from waiting import wait_until

TEXT = Serdes.STRING
READ: Consumed[str, str] = Consumed(key_serde=TEXT, value_serde=TEXT)
CONTINUE = {"processing.exception.handler": "LogAndContinueProcessingExceptionHandler"}


class Broken(Exception):
    """Neither its text nor its representation can be made."""

    def __str__(self) -> str:
        return f"status {self.response}"  # type: ignore[attr-defined] # it is not set yet

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Lies(Exception):
    """Its text is none."""

    __str__: Any = lambda self: 5


class ValidationError(Exception):
    """It is called as pydantic's, and is none."""

    title = property(lambda self: 1 / 0)
    errors = property(lambda self: 1 / 0)


class Value:
    """A value that can be shown, compared and hashed in no way."""

    def __str__(self) -> str:
        raise RecursionError

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        raise ZeroDivisionError


ERRORS: list[Exception] = [Broken(), Lies(), ValidationError("text"), Exception(Value()), KeyError(Value())]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_text_is_made_of_any_error(error: Exception) -> None:
    for text in (error_text(error), kind_and_text(error), plain_str(error), repr_of(error), described(error)):
        assert type(text) is str
    assert kind_and_text(error).startswith(type(error).__name__)


def test_the_words_in_place_of_a_text_say_why() -> None:
    assert plain_str(Value()) == "<Value, whose str() raises RecursionError>"
    assert repr_of([Value()]) == "<list, whose repr() raises ZeroDivisionError>"
    assert error_text(Broken()) == "<Broken, whose str() raises AttributeError>"


def test_an_error_shows_its_place_whatever_the_key_is() -> None:
    error = StreamsError("it failed", topic="in", key=Value())
    assert str(error) == "it failed [topic='in', key=<Value, whose repr() raises ZeroDivisionError>]"


def topology(function: Callable[[Any], Any]) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", READ).map_values(function).to("out", Produced(key_serde=TEXT, value_serde=TEXT))
    return builder


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_handler_is_asked_about_an_error_without_a_text(error: Exception) -> None:
    def fails(value: str) -> str:
        if value == "bad":
            raise error
        return value

    letters = {**CONTINUE, "errors.dead.letter.queue.topic.name": "dead"}
    with TopologyTestDriver(topology(fails), letters) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("k", "bad"), ("k", "good")])
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["good"]
        [letter] = driver.create_output_topic("dead", TEXT, TEXT).read_records()
        assert dict(letter.headers)["__streams.errors.message"] is not None


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_without_a_text_has_a_place(error: Exception) -> None:
    def fails(value: str) -> str:
        raise error

    with TopologyTestDriver(topology(fails)) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "bad")
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("in", 0, 0)
    assert str(caught.value).startswith(f"{type(error).__name__} in node 'KSTREAM-MAPVALUES-0000000001': ")
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_serde_that_fails_without_a_text_is_handled(error: Exception) -> None:
    def read(data: bytes) -> str:
        if data == b"bad":
            raise error
        return data.decode()

    builder = StreamsBuilder()
    source = builder.stream("in", Consumed(key_serde=TEXT, value_serde=Serde(TEXT.serialize, read)))
    source.to("out", Produced(key_serde=TEXT, value_serde=TEXT))
    settings = {"deserialization.exception.handler": "LogAndContinueExceptionHandler"}
    with TopologyTestDriver(builder, settings) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_key_values([("k", "bad"), ("k", "good")])
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["good"]


WRONG_RESULTS: dict[str, Callable[[StreamsBuilder], Any]] = {
    "flat map": lambda builder: builder.stream("in", READ).flat_map(lambda key, value: Value()),
    "map": lambda builder: builder.stream("in", READ).map(lambda key, value: Value()),
    "select key": lambda builder: builder.stream("in", READ).select_key(lambda key, value: Value()).repartition(),
    "batch": lambda builder: builder.stream("in", READ).map_values_batch(lambda values: Value(), max_records=1),
    "topic": lambda builder: builder.stream("in", READ).to(lambda key, value, context: Value()),
    "value of a sink": lambda builder: builder.stream("in", READ).map_values(lambda value: Value()).to("out"),
    "value of a store": lambda builder: (
        builder.stream("in", READ).group_by_key().aggregate(Value, lambda key, value, total: total)
    ),
    "time": lambda builder: builder.stream(
        "in", Consumed(key_serde=TEXT, value_serde=TEXT, timestamp_extractor=lambda record, time: Value())
    ),
}


@pytest.mark.parametrize("name", WRONG_RESULTS)
def test_a_wrong_result_that_cannot_be_shown_has_a_place(name: str) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    WRONG_RESULTS[name](builder)
    with TopologyTestDriver(builder) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        with pytest.raises(StreamsError) as caught:
            source.pipe_input("k", "v")
        assert (caught.value.topic, caught.value.offset) == ("in", 0)
        str(caught.value)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_application_fails_by_an_error_without_a_text(
    make_cluster: Callable[..., Cluster], capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """The thread, the handler, the log and the last line of the command all show it."""

    def fails(value: str) -> str:
        raise error

    def handler(failure: Exception) -> StreamThreadExceptionResponse:
        raise error

    def listener(new: ClientState, _: ClientState) -> None:
        raise error

    configure("json", "debug")
    cluster = make_cluster()
    app = cluster.app(topology(fails), start=False)
    app.set_uncaught_exception_handler(handler)
    app.set_state_listener(listener)
    app.start()
    cluster.send("k", "v")
    wait_until("the application has ended", lambda: app.state is ClientState.ERROR)
    assert app.close(60)
    assert isinstance(app.failure, ProcessingError)
    assert report(app.failure, trace=True) == 1
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]
    died = [line for line in lines if line["event"] == "thread dies"]
    assert len(died) == 1
    assert f"{type(error).__name__} in node " in died[0]["error"]
    logging.getLogger().handlers.clear()
