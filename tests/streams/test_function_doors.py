"""Functions of the user that can never be called as the library calls them are refused where they are given."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import ConfigError, StreamsError
from processor_api.task_id import TaskId
from state.custom.context import StoreContext, StoreEnvironment
from state.engine.registry import register_engine
from state.row_format.record_context import Cursor
from streams import (
    BatchProcessor,
    Consumed,
    FixedKeyProcessor,
    KafkaStreams,
    Processor,
    Produced,
    PunctuationType,
    Repartitioned,
    Serde,
    StreamsBuilder,
    StreamsConfig,
    Topology,
    ValueTransformerWithKey,
    serde_of,
)
from streams.testing import MockProcessorContext

NAMES = {"application.id": "a", "bootstrap.servers": "localhost:9092"}


def application() -> KafkaStreams:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").to("out")
    return KafkaStreams(builder.build(), StreamsConfig.of(NAMES))


def source() -> Topology:
    return Topology().add_source("source", "in")


def stream() -> Any:
    return StreamsBuilder(key_serde="string", value_serde="string").stream("in")


@dataclass
class Door:
    """A place that takes a function.

    :param arguments: those with which it is called, as the error has them.
    """

    give: Callable[[Any], object]
    arguments: tuple[str, ...]
    uses_result: bool = True


def setting(name: str, *arguments: str, uses_result: bool = True) -> Door:
    return Door(lambda given: StreamsConfig.of({**NAMES, name: given}), arguments, uses_result)


def method_of(base: Any, name: str, build: Callable[[Any], object], *arguments: str) -> Door:
    """A method of a class of which objects are made."""

    def give(given: Any) -> object:
        own = given if not callable(given) or isinstance(given, staticmethod) else staticmethod(given)
        body = {method: lambda self, *_: None for method in ("process", "process_batch", "transform")}
        return build(type("Own", (base,), {**body, name: own}))

    return Door(give, arguments, uses_result=False)


def processed(made: Any) -> object:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").process(made)
    return builder.build()


def stream_with(serde: Serde[Any]) -> object:
    return StreamsBuilder().stream("in", value_serde=serde)


def environment() -> StoreEnvironment:
    return StoreEnvironment(
        store="rows",
        application_id="a",
        task_id=TaskId(0, 0),
        state_dir=Path("state"),
        changelog_topic=None,
        key_serde=None,
        value_serde=None,
        cursor=Cursor(),
        settings=dict,
        make_metrics=lambda: MockProcessorContext().metrics(),
        time_ms=lambda: 0,
        request_commit=lambda: None,
    )


def process(made: Any) -> object:
    return source().add_processor("p", made, "source")


def listener(call: str, name: str, *arguments: str) -> Door:
    def give(given: Any) -> object:
        return getattr(application(), call)(
            type("Own", (), {name: staticmethod(given) if callable(given) else given})()
        )

    return Door(give, arguments, uses_result=False)


PARTITIONER = ("topic", "key", "value", "headers", "partitions")
RESTORES, STANDBYS = "set_global_state_restore_listener", "set_standby_update_listener"
DOORS: dict[str, Door] = {
    **{
        f"{kind} handler": setting(f"{kind}.exception.handler", "context", "record", "error")
        for kind in ("deserialization", "processing")
    },
    "production handler": setting("production.exception.handler", "context", "record", "error", "origin"),
    "older name of a handler": setting("default.production.exception.handler", "context", "record", "error", "origin"),
    "default extractor": setting("default.timestamp.extractor", "record", "partition_time"),
    "rocksdb setter": setting("rocksdb.config.setter", "store", "options", uses_result=False),
    "processor wrapper": setting("processor.wrapper.class", "name", "supplier"),
    "oauth": setting("oauth_cb", "config", uses_result=False),
    "state listener": Door(lambda given: application().set_state_listener(given), ("new", "old"), False),
    "uncaught handler": Door(lambda given: application().set_uncaught_exception_handler(given), ("error",)),
    "restore listener": listener(RESTORES, "on_restore_end", "partition", "store", "restored"),
    "batch of a restore": listener(RESTORES, "on_batch_restored", "partition", "store", "end_offset", "restored"),
    "standby listener": listener(STANDBYS, "on_update_start", "partition", "store", "starting_offset"),
    "processor": method_of(Processor, "process", process, "record"),
    "init of a processor": method_of(Processor, "init", process, "context"),
    "close of a processor": method_of(Processor, "close", process),
    "fixed-key processor": method_of(FixedKeyProcessor, "process", process, "record"),
    "processor of the DSL": method_of(Processor, "process", processed, "record"),
    "batch processor": method_of(BatchProcessor, "process_batch", lambda made: stream().process_batch(made), "records"),
    "transformer": method_of(
        ValueTransformerWithKey,
        "transform",
        lambda made: stream().to_table().transform_values(made),
        "key",
        "value",
    ),
    "extractor of a source": Door(
        lambda given: Topology().add_source("s", "in", timestamp_extractor=given), ("record", "partition_time")
    ),
    "extractor of Consumed": Door(lambda given: Consumed(timestamp_extractor=given), ("record", "partition_time")),
    "partitioner of a sink": Door(lambda given: source().add_sink("k", "t", "source", partitioner=given), PARTITIONER),
    "partitioner of Produced": Door(lambda given: Produced(partitioner=given), PARTITIONER),
    "partitioner of Repartitioned": Door(lambda given: Repartitioned(partitioner=given), PARTITIONER),
    "topic of a sink": Door(lambda given: stream().to(given), ("key", "value", "record_context")),
    "mapper": Door(lambda given: stream().map_values(given), ("value",)),
    "punctuation": Door(
        lambda given: MockProcessorContext().schedule(1_000, PunctuationType.WALL_CLOCK_TIME, given),
        ("timestamp",),
        False,
    ),
    "restore callback": Door(lambda given: StoreContext(environment()).register(given), ("records",), False),
    "engine": Door(lambda given: register_engine("own-engine", given), ("path", "families", "config")),
    "serialize": Door(lambda given: stream_with(Serde(given, bytes.decode)), ("value",), False),
    "deserialize": Door(lambda given: stream_with(Serde(str.encode, given)), ("data",), False),
    "serde_of": Door(lambda given: serde_of(given, bytes.decode), ("value",), False),
    "serde_of with headers": Door(
        lambda given: serde_of(given, lambda data, headers: data, with_headers=True), ("value", "headers"), False
    ),
}


def taking(*parameters: str) -> Any:
    """Returns a function with these parameters."""
    return eval(f"lambda {', '.join(parameters)}: None")


def returns_nothing(*given: Any) -> Any:
    str(given)


async def awaited(*given: Any) -> Any:
    return given


def generator(*given: Any) -> Any:
    yield given


class Called:
    """An object that is called with one argument more than it takes, whatever that is."""

    def __call__(self, *, only_by_name: Any) -> Any:
        return only_by_name


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_other_arguments_are_refused(door: Door) -> None:
    names = [f"a{number}" for number in range(len(door.arguments) + 1)]
    wrong = [taking(*names), taking(*names[:-2]) if door.arguments else taking("*", "a"), Called(), taking("*", "a")]
    for function in wrong:
        with pytest.raises((StreamsError, TypeError)) as raised:
            door.give(function)
        if door.arguments:
            assert f"({', '.join(door.arguments)})" in str(raised.value)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
@pytest.mark.parametrize("function", [awaited, generator, returns_nothing], ids=lambda function: function.__name__)
def test_functions_without_a_result_are_refused(door: Door, function: Any) -> None:
    """A method or a listener whose result is not used need not return one."""
    if function is returns_nothing and not door.uses_result:
        return
    with pytest.raises((StreamsError, TypeError)):
        door.give(function)


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_functions_with_the_right_arguments_are_taken(door: Door) -> None:
    names = [f"a{number}" for number in range(len(door.arguments))]
    taken = [
        taking(*names),
        taking("*all"),
        taking(*names, "more=1"),
        functools.partial(taking("first", *names), 1),
    ]
    for function in taken:
        door.give(function)


@pytest.mark.parametrize("name", DOORS)
def test_what_is_no_function_is_refused(name: str) -> None:
    with pytest.raises((StreamsError, TypeError)):
        DOORS[name].give(5)


@pytest.mark.parametrize("call", [RESTORES, STANDBYS])
@pytest.mark.parametrize("given", [5, object(), type("Own", (), {"on_restore_end": print, "on_update_start": print})])
def test_a_listener_is_an_object_with_one_of_the_methods(call: str, given: Any) -> None:
    with pytest.raises(StreamsError, match=rf"{call} takes a \w+Listener, an object with at least one of .*on_"):
        getattr(application(), call)(given)


def test_java_arguments_of_a_production_handler_are_named() -> None:
    """Was taken, and the task failed at the first bad record: the one for which the handler is there."""
    with pytest.raises(ConfigError) as raised:
        StreamsConfig.of({**NAMES, "production.exception.handler": lambda context, record, error: None})
    assert "calls its handler with (context, record, error, origin)" in str(raised.value)
    assert "takes (context, record, error)" in str(raised.value)


def test_methods_of_a_processor_are_checked_with_their_object() -> None:
    class Java(Processor[Any, Any, Any, Any]):
        def process(self, key: Any, value: Any) -> None:  # type: ignore[override]
            """Takes what older versions of Kafka Streams gave."""

    with pytest.raises(StreamsError, match=r"calls process of its Java with \(record\), and .* takes \(key.*value"):
        source().add_processor("p", Java, "source")


def test_methods_of_a_batch_processor_are_checked_by_its_class() -> None:
    """Its objects may be large models, which only a task makes."""

    class Large(BatchProcessor[Any, Any, Any, Any]):
        def __init__(self) -> None:
            raise AssertionError("it is made")

        def process_batch(self) -> Any:  # type: ignore[override]
            return []

    with pytest.raises(StreamsError, match=r"calls process_batch of its Large with \(self, records\)"):
        stream().process_batch(Large)
