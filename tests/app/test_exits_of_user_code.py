"""A function of the user that ends with `SystemExit`, or another error that no `except Exception` catches.

Every such function is in a table here. The thread of global stores ended in silence and left the application RUNNING;
a listener that exited left it in PENDING_ERROR for ever, where `close` waits without an end.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from processor_api.errors import UserCodeError
from runtime_support.running_app import Cluster
from streams import (
    ClientState,
    Consumed,
    Materialized,
    Processor,
    Produced,
    PunctuationType,
    Serde,
    Serdes,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    StreamThreadExceptionResponse,
    Topology,
)
from waiting import wait_until

TEXT = Serdes.STRING
READ: Consumed[str, str] = Consumed(key_serde=TEXT, value_serde=TEXT)
WRITE: Produced[str, str] = Produced(key_serde=TEXT, value_serde=TEXT)


class End(BaseException):
    """Stands for the cancellations of libraries, which are no exceptions of the usual kind."""


RAISES: dict[str, Callable[[], object]] = {"exit": lambda: sys.exit("no more"), "other": lambda: _raise(End("no more"))}


def _raise(error: BaseException) -> None:
    raise error


@dataclass
class Place:
    """A function of the user that ends, and the settings that name it."""

    how: Callable[[], object]
    settings: dict[str, Any] = field(default_factory=dict)

    def end(self, *_: object, **__: object) -> Any:
        return self.how()


def stream(place: Place) -> tuple[StreamsBuilder, Any]:
    builder = StreamsBuilder()
    return builder, builder.stream("in", READ)


def mapper(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.map_values(place.end).to("out", WRITE)
    return builder


def predicate(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.filter(place.end).to("out", WRITE)
    return builder


def initializer(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    counted = Materialized(name="counts", key_serde=TEXT, value_serde=TEXT)
    source.group_by_key().aggregate(place.end, lambda _key, _value, total: total, materialized=counted)
    return builder


def aggregator(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    counted = Materialized(name="counts", key_serde=TEXT, value_serde=TEXT)
    source.group_by_key().aggregate(lambda: "", place.end, materialized=counted)
    return builder


def behind_a_cache(place: Place) -> StreamsBuilder:
    """It is called at the commit, by the drain of the cache."""
    builder, source = stream(place)
    source.group_by_key().reduce(lambda _, new: new).to_stream().map_values(place.end).to("out", WRITE)
    return builder


def joiner(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.left_join(builder.table("table", READ), place.end).to("out", WRITE)
    return builder


def batch(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.map_values_batch(place.end, max_records=1).to("out", WRITE)
    return builder


def of_processor(part: str) -> Callable[[Place], StreamsBuilder]:
    """The topology whose processor ends in one of its methods."""

    def topology(place: Place) -> StreamsBuilder:
        class Ends(Processor[str, str, str, str]):
            def init(self, context: Any) -> None:
                super().init(context)
                if part == "init":
                    place.end()
                if part == "wall clock":
                    context.schedule(timedelta(milliseconds=10), PunctuationType.WALL_CLOCK_TIME, place.end)
                if part == "stream time":
                    context.schedule(timedelta(milliseconds=1), PunctuationType.STREAM_TIME, place.end)

            def process(self, record: Any) -> None:
                if part == "process":
                    place.end()

            def close(self) -> None:
                if part == "close":
                    place.end()

        builder, source = stream(place)
        source.process(Ends)
        return builder

    return topology


def supplier(place: Place) -> StreamsBuilder:
    class Passes(Processor[str, str, str, str]):
        def process(self, record: Any) -> None: ...

    def make() -> Any:
        if threading.current_thread() is not threading.main_thread():  # where it is made for a look at it
            place.end()
        return Passes()

    builder, source = stream(place)
    source.process(make)
    return builder


def of_serde(part: str) -> Callable[[Place], StreamsBuilder]:
    def topology(place: Place) -> StreamsBuilder:
        ends = Serde(
            place.end if part == "serializer" else TEXT.serialize,
            place.end if part == "deserializer" else TEXT.deserialize,
        )
        builder = StreamsBuilder()
        source = builder.stream("in", Consumed(key_serde=TEXT, value_serde=ends if part == "deserializer" else TEXT))
        source.to("out", Produced(key_serde=TEXT, value_serde=ends))
        return builder

    return topology


def store_serde(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    ends = Serde(place.end, TEXT.deserialize)
    source.group_by_key().reduce(
        lambda _, new: new, materialized=Materialized(name="last", key_serde=TEXT, value_serde=ends)
    )
    return builder


def extractor(place: Place) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key_serde=TEXT, value_serde=TEXT, timestamp_extractor=place.end)).to("out", WRITE)
    return builder


def partitioner(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.to("out", Produced(key_serde=TEXT, value_serde=TEXT, partitioner=place.end))
    return builder


def topic_extractor(place: Place) -> StreamsBuilder:
    builder, source = stream(place)
    source.to(place.end, WRITE)
    return builder


def processing_handler(place: Place) -> StreamsBuilder:
    place.settings["processing.exception.handler"] = place.end
    builder, source = stream(place)
    source.map_values(lambda value: 1 / 0).to("out", WRITE)
    return builder


def deserialization_handler(place: Place) -> StreamsBuilder:
    place.settings["deserialization.exception.handler"] = place.end
    builder = StreamsBuilder()
    builder.stream("in", Consumed(key_serde=TEXT, value_serde=Serdes.LONG)).foreach(lambda *_: None)
    return builder


def production_handler(place: Place) -> StreamsBuilder:
    place.settings["production.exception.handler"] = place.end
    builder, source = stream(place)
    source.map_values(lambda _: 5).to("out", WRITE)
    return builder


def rocksdb_options(place: Place) -> StreamsBuilder:
    place.settings["rocksdb.config.setter"] = place.end
    builder, source = stream(place)
    source.group_by_key().count()
    return builder


STREAM_THREAD: dict[str, Callable[[Place], StreamsBuilder | Topology]] = {
    "mapper": mapper,
    "predicate": predicate,
    "initializer": initializer,
    "aggregator": aggregator,
    "behind a cache": behind_a_cache,
    "joiner": joiner,
    "batch": batch,
    "init": of_processor("init"),
    "process": of_processor("process"),
    "wall clock": of_processor("wall clock"),
    "stream time": of_processor("stream time"),
    "supplier": supplier,
    "deserializer": of_serde("deserializer"),
    "serializer": of_serde("serializer"),
    "serializer of a store": store_serde,
    "timestamp extractor": extractor,
    "partitioner": partitioner,
    "topic extractor": topic_extractor,
    "processing handler": processing_handler,
    "deserialization handler": deserialization_handler,
    "production handler": production_handler,
    "rocksdb options": rocksdb_options,
}
"""The functions that a stream thread calls."""


def start(cluster: Cluster, topology: Any, place: Place, **more: Any) -> Any:
    return cluster.app(topology, {"commit.interval.ms": 50, **place.settings, **more}, start=False)


@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize("name", STREAM_THREAD)
def test_an_exit_in_a_function_of_a_stream_thread_ends_the_application(
    make_cluster: Callable[..., Cluster], name: str, how: str
) -> None:
    """The error names the function, and the record where there is one; the uncaught exception handler is asked."""
    cluster = make_cluster()
    cluster.broker.create_topic("table", 1)
    place = Place(RAISES[how])
    app = start(cluster, STREAM_THREAD[name](place), place)
    asked: list[Exception] = []

    def handler(error: Exception) -> StreamThreadExceptionResponse:
        asked.append(error)
        return StreamThreadExceptionResponse.SHUTDOWN_CLIENT

    app.set_uncaught_exception_handler(handler)
    app.start()
    cluster.send("k", "v")
    wait_until("the application has ended", lambda: app.state is ClientState.ERROR)
    assert app.close(60_000)
    assert isinstance(app.failure, UserCodeError)
    assert asked == [app.failure]
    kind = "SystemExit" if how == "exit" else "End"
    assert f"{kind} was raised in a stream thread: no more, raised at " in str(app.failure)
    assert "test_exits_of_user_code.py" in str(app.failure)
    assert app.failure.__cause__ is not None
    if name not in ("behind a cache", "init", "wall clock", "stream time", "supplier", "rocksdb options"):
        assert (app.failure.topic, app.failure.partition, app.failure.offset) == ("in", 0, 0)
        assert app.failure.task == "0_0"


@pytest.mark.parametrize("how", RAISES)
def test_an_exit_in_the_close_of_a_processor_is_told_and_all_is_closed(
    make_cluster: Callable[..., Cluster], how: str
) -> None:
    cluster = make_cluster()
    place = Place(RAISES[how])
    app = start(cluster, of_processor("close")(place), place)
    app.start()
    assert app.wait(60_000, state=ClientState.RUNNING)
    assert app.close(60_000)
    assert "was raised by the close of a processor: no more" in str(app.failure)


class Fill(Processor[str, str, Any, Any]):
    """Fills a global store."""

    def __init__(self, place: Place, part: str) -> None:
        self.place, self.part = place, part

    def init(self, context: Any) -> None:
        super().init(context)
        if self.part == "init":
            self.place.end()

    def process(self, record: Any) -> None:
        if self.part == "process":
            self.place.end()

    def close(self) -> None:
        if self.part == "close":
            self.place.end()


def with_global_store(place: Place, part: str) -> StreamsBuilder:
    builder = StreamsBuilder()
    store: StoreBuilder[str, str] = Stores.key_value_store_builder(
        Stores.in_memory_key_value_store("g"), TEXT, TEXT
    ).with_logging_disabled()
    ends = Serde(TEXT.serialize, place.end)
    read = Consumed(key_serde=TEXT, value_serde=ends if part == "deserializer" else TEXT)
    builder.add_global_store(store, "table", read, lambda: Fill(place, part))
    builder.stream("in", READ).to("out", WRITE)
    return builder


@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize("when", ["while it runs", "during the start"])
@pytest.mark.parametrize("part", ["process", "deserializer", "init"])
def test_an_exit_in_a_function_of_the_global_thread_ends_the_application(
    make_cluster: Callable[..., Cluster], part: str, when: str, how: str
) -> None:
    if part == "init" and when == "while it runs":
        pytest.skip("it is called during the start")
    cluster = make_cluster()
    cluster.broker.create_topic("table", 1)
    place = Place(RAISES[how])
    app = start(cluster, with_global_store(place, part), place)
    if when == "during the start":
        cluster.send("k", "v", topic="table")
        with pytest.raises(UserCodeError, match="was raised in the thread of global stores: no more, raised at "):
            app.start()
    else:
        app.start()
        assert app.wait(60_000, state=ClientState.RUNNING)
        cluster.send("k", "v", topic="table")
    wait_until("the application has ended", lambda: app.state is ClientState.ERROR)
    assert isinstance(app.failure, UserCodeError)
    if part != "init":
        assert (app.failure.topic, app.failure.partition, app.failure.offset) == ("table", 0, 0)


@pytest.mark.parametrize("how", RAISES)
def test_an_exit_in_the_close_of_a_global_processor_is_told(make_cluster: Callable[..., Cluster], how: str) -> None:
    """The application never came to its end."""
    cluster = make_cluster()
    cluster.broker.create_topic("table", 1)
    place = Place(RAISES[how])
    app = start(cluster, with_global_store(place, "close"), place)
    app.start()
    assert app.wait(60_000, state=ClientState.RUNNING)
    assert app.close(60_000)
    assert "was raised by the close of a processor: no more" in str(app.failure)


@pytest.mark.parametrize("how", RAISES)
@pytest.mark.parametrize(
    "state", [ClientState.REBALANCING, ClientState.RUNNING, ClientState.PENDING_ERROR, ClientState.ERROR]
)
def test_an_exit_in_the_state_listener_is_logged_as_any_error_of_it(
    make_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture, state: ClientState, how: str
) -> None:
    caplog.set_level(logging.ERROR)
    cluster = make_cluster()
    place = Place(RAISES[how])
    builder, source = stream(place)
    source.map_values(lambda value: 1 / 0).to("out", WRITE)
    app = start(cluster, builder, place)
    app.set_state_listener(lambda new, _: place.end() if new is state else None)
    app.start()
    cluster.send("k", "v")
    wait_until("the application has ended", lambda: app.state is ClientState.ERROR)
    assert app.close(60_000)
    assert "ZeroDivisionError" in str(app.failure)
    assert [one for one in caplog.records if one.getMessage().startswith("the state listener ")]


@pytest.mark.parametrize("how", RAISES)
def test_an_exit_in_the_uncaught_exception_handler_ends_the_application(
    make_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    cluster = make_cluster()
    place = Place(RAISES[how])
    builder, source = stream(place)
    source.map_values(lambda value: 1 / 0).to("out", WRITE)
    app = start(cluster, builder, place)
    app.set_uncaught_exception_handler(place.end)
    app.start()
    cluster.send("k", "v")
    wait_until("the application has ended", lambda: app.state is ClientState.ERROR)
    assert app.close(60_000)
    assert "ZeroDivisionError" in str(app.failure)
    assert "the uncaught exception handler" in caplog.text


@pytest.mark.parametrize("how", RAISES)
def test_an_exit_in_a_restore_listener_is_logged(
    make_cluster: Callable[..., Cluster], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    cluster = make_cluster()
    place = Place(RAISES[how])
    builder, source = stream(place)
    source.group_by_key().reduce(lambda _, new: new, materialized="last").to_stream().to("out", WRITE)
    first = start(cluster, builder, place)
    first.start()
    cluster.send("k", "v")
    cluster.until_out("v")
    first.close()

    class Listener:
        on_restore_start = on_batch_restored = on_restore_end = on_restore_suspended = place.end

    second = start(cluster, builder, place)
    second.set_global_state_restore_listener(Listener())  # type: ignore[arg-type]
    second.start()
    assert second.wait(60_000, state=ClientState.RUNNING)
    assert "of the restore listener" in caplog.text
