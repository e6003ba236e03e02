"""A function of the user that ends with `SystemExit`, or another error that no `except Exception` catches.

Every such function is in a table here. The thread of global stores ended in silence and left the application RUNNING;
a listener that exited left it in PENDING_ERROR for ever, where `close` waits without an end.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from processor_api.errors import ConfigError, UserCodeError
from public_calls import calls
from runtime_support.running_app import Cluster
from state_support.texts import InMemory
from streams import (
    BatchProcessor,
    ClientState,
    Consumed,
    FixedKeyProcessor,
    Materialized,
    MetricName,
    Printed,
    Processor,
    Produced,
    PunctuationType,
    Serde,
    Serdes,
    SessionWindows,
    StoreBuilder,
    Stores,
    StreamsBuilder,
    StreamsConfig,
    StreamThreadExceptionResponse,
    TableJoined,
    Topology,
    ValueTransformerWithKey,
)
from streams.config.keys import KEYS
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


def keyed(how: Callable[[Place, Any], object]) -> Callable[[Place], StreamsBuilder]:
    """The topology of an operator of the stream; all serdes are those of texts."""

    def topology(place: Place) -> StreamsBuilder:
        builder = StreamsBuilder(key_serde="string", value_serde="string")
        how(place, builder.stream("in"))
        return builder

    return topology


def of_grouped_table(part: str) -> Callable[[Place], StreamsBuilder]:
    def topology(place: Place, source: Any) -> None:
        grouped = (
            source.flat_map_values(lambda value: [value, value + "!"])
            .to_table()
            .group_by(lambda key, value: (key, value))
        )
        adder = place.end if part == "adder" else lambda key, value, total: total
        subtractor = place.end if part == "subtractor" else lambda key, value, total: total
        grouped.aggregate(lambda: "", adder, subtractor)

    return keyed(topology)


def foreign_key(part: str) -> Callable[[Place], StreamsBuilder]:
    def topology(place: Place, source: Any) -> None:
        left, right = source.to_table(), source.map_values(lambda value: value).to_table()
        extract = place.end if part == "extractor" else lambda value: value
        partitioner = place.end if part == "partitioner" else None
        joined = TableJoined(partitioner=partitioner, other_partitioner=partitioner) if partitioner else None
        left.foreign_key_join(right, extract, lambda one, other: one, joined=joined)

    return keyed(topology)


def session_merger(place: Place, source: Any) -> None:
    """Two sessions are made one by the record between them."""
    windows = SessionWindows.of_inactivity_gap_with_no_grace(10)
    times = source.flat_map_values(lambda value: [value, value])
    times.group_by_key().windowed_by(windows).aggregate(lambda: "", lambda key, value, total: value, place.end)


def global_selector(place: Place) -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").join(builder.global_table("table"), lambda one, other: one, key_selector=place.end)
    return builder


class EndsFixed(FixedKeyProcessor[str, str, str]):
    def __init__(self, place: Place) -> None:
        self.place = place

    def process(self, record: Any) -> None:
        self.place.end()


class EndsBatch(BatchProcessor[str, str, str, str]):
    def __init__(self, place: Place) -> None:
        self.place = place

    def process_batch(self, records: Any) -> Any:
        self.place.end()
        return []


class EndsTransform(ValueTransformerWithKey[str, str, str]):
    def __init__(self, place: Place) -> None:
        self.place = place

    def transform(self, key: str, value: str | None) -> str:
        self.place.end()
        return ""


def wrapped(place: Place) -> StreamsBuilder:
    """The processor that a wrapper has put around another one."""

    def wrap(name: str, supplier: Any) -> Any:
        return lambda: EndsAround(place)

    place.settings["processor.wrapper.class"] = wrap
    builder, source = stream(place)
    source.process(lambda: EndsAround(Place(lambda: None)))
    return builder


class EndsAround(Processor[str, str, str, str]):
    def __init__(self, place: Place) -> None:
        self.place = place

    def process(self, record: Any) -> None:
        self.place.end()


def measured(place: Place) -> StreamsBuilder:
    """A measure of the user's own, which a sensor calls for each value."""

    class Measure:
        measure = record = place.end

    class Measuring(Processor[str, str, str, str]):
        def init(self, context: Any) -> None:
            super().init(context)
            self.sensor = context.metrics().add_sensor("mine")
            self.sensor.add(MetricName("mine", "all"), Measure())

        def process(self, record: Any) -> None:
            self.sensor.record(1.0)

    builder, source = stream(place)
    source.process(Measuring)
    return builder


def custom_store(part: str) -> Callable[[Place], Topology]:
    """A store of the user's own that ends in one of its methods."""

    def topology(place: Place) -> Topology:
        class Ends(InMemory):
            def init(self, context: Any) -> None:
                if part == "init":
                    place.end()
                super().init(context)

            def put(self, key: str, value: str | None) -> None:
                if part == "put":
                    place.end()
                super().put(key, value)

            def commit(self, offsets: Any) -> None:
                if part == "commit" and threading.current_thread() is not threading.main_thread():
                    place.end()
                super().commit(offsets)

        def make() -> Any:
            if part == "supplier" and threading.current_thread() is not threading.main_thread():
                place.end()
            return Ends()

        class Puts(Processor[str, str, str, str]):
            def process(self, record: Any) -> None:
                self.context.get_state_store("store").put(record.key, record.value)

        made = Topology().add_source("s", "in", key_serde=TEXT, value_serde=TEXT).add_processor("p", Puts, "s")
        return made.add_state_store(Stores.custom("store", make), "p")

    return topology


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
    "flat mapper": keyed(lambda place, source: source.flat_map(place.end)),
    "mapper of keys": keyed(lambda place, source: source.select_key(place.end)),
    "selector of groups": keyed(lambda place, source: source.group_by(place.end).count()),
    "action": keyed(lambda place, source: source.foreach(place.end)),
    "predicate of a branch": keyed(lambda place, source: source.split().branch(place.end)),
    "printed": keyed(lambda place, source: source.print(Printed(path=os.devnull, mapper=place.end))),
    "identity": keyed(lambda place, source: source.deduplicate(within=10, id_selector=place.end)),
    "reducer": keyed(
        lambda place, source: source.flat_map_values(lambda value: [value, value]).group_by_key().reduce(place.end)
    ),
    "adder": of_grouped_table("adder"),
    "merger of sessions": keyed(session_merger),
    "extractor of foreign keys": foreign_key("extractor"),
    "partitioner of a foreign-key join": foreign_key("partitioner"),
    "selector of a global table": global_selector,
    "fixed-key processor": keyed(lambda place, source: source.process_values(lambda: EndsFixed(place))),
    "batch processor": keyed(lambda place, source: source.process_batch(lambda: EndsBatch(place), max_records=1)),
    "transformer": keyed(lambda place, source: source.to_table().transform_values(lambda: EndsTransform(place))),
    "wrapped processor": wrapped,
    "measure": measured,
    "custom store, supplier": custom_store("supplier"),
    "custom store, init": custom_store("init"),
    "custom store, put": custom_store("put"),
    "custom store, commit": custom_store("commit"),
}
"""The functions that a stream thread calls."""


WITHOUT_RECORD = {
    "behind a cache", "init", "wall clock", "stream time", "supplier", "rocksdb options", "custom store, supplier",
    "custom store, init", "custom store, commit", "adder", "extractor of foreign keys",
    "partitioner of a foreign-key join",
}  # fmt: skip
"""Those that are called when no record is processed, such as behind a cache."""


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
    assert app.close(60)
    assert isinstance(app.failure, UserCodeError)
    assert asked == [app.failure]
    kind = "SystemExit" if how == "exit" else "End"
    assert f"{kind} was raised in a stream thread: no more, raised at " in str(app.failure)
    assert "test_exits_of_user_code.py" in str(app.failure)
    assert app.failure.__cause__ is not None
    if name not in WITHOUT_RECORD:
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
    assert app.wait(60, state=ClientState.RUNNING)
    assert app.close(60)
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
        assert app.wait(60, state=ClientState.RUNNING)
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
    assert app.wait(60, state=ClientState.RUNNING)
    assert app.close(60)
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
    assert app.close(60)
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
    assert app.close(60)
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
    assert second.wait(60, state=ClientState.RUNNING)
    assert "of the restore listener" in caplog.text


# ---------------------------------------------------------------------- whether the tables are whole

TAKES_FUNCTIONS = re.compile(
    r"Callable|Partitioner|Extractor|Supplier|Joiner|Selector|Handler|Listener|Punctuator|StateStoreBuilder|Stat\b"
)
"""Types of parameters through which a function of the user comes in, or an object with such."""
ELSEWHERE = {
    "handler": "test_an_exit_in_the_uncaught_exception_handler_ends_the_application",
    "listener": "test_an_exit_in_the_state_listener_is_logged_as_any_error_of_it",
}
CALLED: dict[str, str] = {
    "action": "action", "adder": "adder", "aggregator": "aggregator", "builder": "custom store, supplier",
    "callback": "stream time", "deserialize": "deserializer", "serialize": "serializer",
    "extractor": "extractor of foreign keys", "function": "batch", "id_selector": "identity",
    "initializer": "initializer", "joiner": "joiner", "key_mapper": "mapper of keys",
    "key_selector": "selector of a global table", "mapper": "mapper",
    "other_partitioner": "partitioner of a foreign-key join", "partitioner": "partitioner", "predicate": "predicate",
    "reducer": "reducer", "selector": "selector of groups", "session_merger": "merger of sessions", "stat": "measure",
    "subtractor": "adder", "supplier": "supplier", "timestamp_extractor": "timestamp extractor",
    "topic": "topic extractor", "other_store_supplier": "custom store, supplier",
    "this_store_supplier": "custom store, supplier", "store": "custom store, supplier",
    "default.timestamp.extractor": "timestamp extractor",
    "deserialization.exception.handler": "deserialization handler",
    "default.deserialization.exception.handler": "deserialization handler",
    "default.production.exception.handler": "production handler",
    "processing.exception.handler": "processing handler", "production.exception.handler": "production handler",
    "processor.wrapper.class": "wrapped processor", "rocksdb.config.setter": "rocksdb options",
    "exact": "serializer of a store", "write_exact": "serializer of a store", "default": "serializer",
}  # fmt: skip
"""The row for each parameter and setting that takes a function of the user."""
NOT_OF_USERS = (
    "StreamsConfig",
    "TestOutputTopic",
    "ExpectedRecords",
    "BranchedKStream",
    "log_and",
    "default_production",
    "dead_letter",
)
"""Starts of names of calls that the library makes, or that take a setting of the list by another name."""
WHILE_BUILT = {"consumer", "store_type", "stores", "key_serde", "models"}
"""Called or looked into by the thread that builds the topology, or asks who has a key; the
exit ends that as anywhere else in a script."""


def functions_of_users() -> set[str]:
    """The parameters of public calls, and the settings, that take functions."""
    found = {
        name
        for call in calls()
        for name, parameter in call.parameters.items()
        if TAKES_FUNCTIONS.search(str(parameter.annotation))
        and (call.name == "BranchedKStream.branch" or not call.name.startswith(NOT_OF_USERS))
    }
    for key in KEYS:
        with contextlib.suppress(ConfigError):
            StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", key.name: lambda *_: None})
            found.add(key.name)
    return found


def test_each_function_of_a_user_is_in_a_table() -> None:
    assert functions_of_users() == CALLED.keys() | ELSEWHERE.keys() | WHILE_BUILT


def test_the_rows_that_are_named_exist() -> None:
    assert set(CALLED.values()) <= STREAM_THREAD.keys()
    assert all(name in globals() for name in ELSEWHERE.values())
