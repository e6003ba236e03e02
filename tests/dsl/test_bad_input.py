"""What a user of the DSL gives that cannot be is refused before anything runs, with what it is and what is wanted."""

from __future__ import annotations

import functools
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from dsl import (
    Branched,
    BufferConfig,
    Consumed,
    EmitStrategy,
    Joined,
    JoinWindows,
    Materialized,
    Printed,
    Produced,
    Repartitioned,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    UnlimitedWindows,
    ValueTransformerWithKey,
)
from processor_api.errors import ConfigError, ProcessingError, TopologyError
from processor_api.handlers import Response
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import PunctuationType
from processor_api.stores.factory import Stores
from processor_api.topology.nodes import SinkNode
from processor_api.topology.topology import Topology
from streams.testing.driver import TopologyTestDriver

ANY: Any = None
MAX = (1 << 63) - 1
STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}
TEN = TimeWindows(size_ms=10)
NEAR = JoinWindows(before_ms=5, after_ms=5)
CLOSES = Suppressed.until_window_closes(BufferConfig.unbounded())
VERSIONED = Materialized.as_(Stores.persistent_versioned_key_value_store("v", 1000))


def stream() -> Any:
    return StreamsBuilder().stream("in")


def grouped() -> Any:
    return stream().group_by_key()


def table(**options: Any) -> Any:
    return StreamsBuilder().table("t", **options)


def first(*values: Any) -> Any:
    return values[0]


def refused(make: Callable[[], object], says: str, kind: type[Exception] = TopologyError) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        make()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: TimeWindows.of_size_with_no_grace(0), "the size of windows must be at least 1 ms, got 0 ms"),
        (lambda: TimeWindows.of_size_with_no_grace(timedelta(days=-1)), "at least 1 ms, got -86400000 ms"),
        (lambda: TimeWindows.of_size_and_grace(10, -1), "the grace period must be at least 0 ms, got -1 ms"),
        (lambda: TEN.advance_by(0), "the advance of windows must be at least 1 ms, got 0 ms"),
        (lambda: TEN.advance_by(11), "at most their size, 10 ms, got 11 ms"),
        (lambda: SlidingWindows(difference_ms=-1), "the time difference of sliding windows must be at least 0 ms"),
        (lambda: SlidingWindows(difference_ms=1, grace_ms=-1), "the grace period must be at least 0 ms"),
        (lambda: SessionWindows(gap_ms=-1), "the inactivity gap of sessions must be at least 0 ms, got -1 ms"),
        (lambda: SessionWindows(gap_ms=1, grace_ms=-1), "the grace period must be at least 0 ms"),
        (lambda: UnlimitedWindows.of().start_on(-1), "the start of an unlimited window must be at least 0 ms"),
        (lambda: JoinWindows.of_time_difference_with_no_grace(-1), "their sum must not be negative"),
        (lambda: JoinWindows.of_time_difference_and_grace(1, -1), "the grace period of a join must not be negative"),
        (lambda: Suppressed.until_time_limit(-1, BufferConfig.unbounded()), "time_to_wait must not be negative"),
        (lambda: Joined(grace=-1), "the grace period of a join must not be negative"),
    ],
)
def test_a_duration_out_of_range_is_refused(make: Callable[[], object], says: str) -> None:
    refused(make, says)


@pytest.mark.parametrize("duration", ["5 minutes", 1.5, None, True, MAX + 1])
@pytest.mark.parametrize(
    "make",
    [
        TimeWindows.of_size_with_no_grace,
        SlidingWindows.of_time_difference_with_no_grace,
        SessionWindows.of_inactivity_gap_with_no_grace,
        JoinWindows.of_time_difference_with_no_grace,
        lambda duration: TimeWindows(size_ms=duration),
        lambda duration: JoinWindows(before_ms=duration, after_ms=1),
        lambda duration: Suppressed.until_time_limit(duration, BufferConfig.unbounded()),
        lambda duration: Materialized(retention="1 h" if duration is None else duration),
        lambda duration: Joined(grace="1 s" if duration is None else duration),
    ],
)
def test_a_duration_is_a_timedelta_or_a_whole_number(make: Callable[[Any], object], duration: Any) -> None:
    refused(lambda: make(duration), "must be a timedelta or integer milliseconds", TypeError)


def test_a_point_in_time_has_a_time_zone() -> None:
    refused(lambda: UnlimitedWindows.of().start_on(datetime(2020, 1, 1)), "with a time zone", TypeError)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: grouped().windowed_by(timedelta(minutes=1)), "windowed_by needs TimeWindows, SlidingWindows,"),
        (lambda: grouped().windowed_by(TimeWindows), "windowed_by needs TimeWindows, SlidingWindows,"),
        (lambda: grouped().windowed_by(NEAR), "got JoinWindows(before_ms=5"),
        (lambda: grouped().cogroup(first).windowed_by(NEAR), "got JoinWindows(before_ms=5"),
        (
            lambda: grouped().windowed_by(TEN).emit_strategy("close"),
            "emit_strategy needs EmitStrategy.on_window_close()",
        ),
        (
            lambda: grouped().windowed_by(UnlimitedWindows.of()).emit_strategy(EmitStrategy.on_window_close()),
            "only, got UnlimitedWindows",
        ),
        (lambda: stream().join(stream(), first, windows=TEN), "come from different builders"),
        (
            lambda: table().suppress(CLOSES),
            "waits until windows close, but 'KTABLE-SOURCE-0000000002' before it does not have windows",
        ),
        (lambda: table().suppress(BufferConfig.unbounded()), "suppress needs Suppressed.until_time_limit(...)"),
        (lambda: Suppressed.until_window_closes(ANY), "a suppression needs BufferConfig.max_records(...)"),
        (lambda: Suppressed.until_window_closes(BufferConfig.max_records(3)), "cannot wait for windows to close"),  # type: ignore[arg-type]
        (lambda: BufferConfig.max_records(-1), "must be a non-negative number, got -1"),
        (lambda: BufferConfig.max_bytes(1.5), "must be a non-negative number, got 1.5"),  # type: ignore[arg-type]
    ],
)
def test_windows_and_suppressions_are_of_the_kind_that_is_wanted(make: Callable[[], object], says: str) -> None:
    refused(make, says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: grouped().count(materialized=Produced()), "expected Materialized(...), got Produced(...)"),
        (lambda: grouped().count(materialized=5), "expected Materialized(...), got 5"),
        (lambda: stream().to("out", Materialized()), "expected Produced(...), got Materialized(...)"),
        (lambda: StreamsBuilder().stream("in", Produced()), "expected Consumed(...), got Produced(...)"),  # type: ignore[call-overload]
        (lambda: stream().group_by_key(Materialized()), "expected Grouped(...), got Materialized(...)"),
        (lambda: stream().repartition("r"), "expected Repartitioned(...), got 'r'"),
        (lambda: stream().print("label"), "expected Printed(...), got 'label'"),
        (lambda: stream().split().branch(first, "b"), "expected Branched(...), got 'b'"),
        (lambda: stream().filter(first, name=5), "expected a name, got 5"),
        (lambda: stream().filter(first, name="."), "the name '.' is not allowed for a topic"),
        (lambda: Materialized(caching="no"), "Materialized needs True or False as its caching, got 'no'"),  # type: ignore[arg-type]
        (lambda: StreamJoined(logging="no"), "StreamJoined needs True or False as its logging, got 'no'"),  # type: ignore[arg-type]
        (lambda: Materialized(topic_config={"segment.bytes": 5}), "a dict of strings, such as"),  # type: ignore[dict-item]
        (lambda: BufferConfig.unbounded().with_logging_enabled({"a": ANY}), "a dict of strings, such as"),
        (
            lambda: Joined(other_value_serde=ANY or "text"),
            "Joined takes as its other_value_serde a serde",
        ),
        (
            lambda: Repartitioned(number_of_partitions="3"),
            "number_of_partitions must be an integer of at least 1, got '3'",
        ),  # type: ignore[arg-type]
        (lambda: Repartitioned(number_of_partitions=True), "must be an integer of at least 1, got True"),
        (lambda: Printed(label=5), "the label of printed records must be a string, got 5"),  # type: ignore[arg-type]
        (lambda: Branched(function=5), "Branched takes a function as its function, got 5"),  # type: ignore[arg-type]
    ],
)
def test_an_option_of_another_kind_is_refused(make: Callable[[], object], says: str) -> None:
    refused(make, says)


@pytest.mark.parametrize(
    "make",
    [lambda: Materialized(cache=True), lambda: stream().map_values(len, names="x"), lambda: Consumed(reset="latest")],  # type: ignore[call-arg]
)
def test_an_unknown_option_is_refused(make: Callable[[], object]) -> None:
    refused(make, "has no argument", TypeError)


LEGAL = "contains a character other than ASCII letters, digits, '.', '_' and '-'"


@pytest.mark.parametrize(
    "make",
    [
        lambda: StreamsBuilder().stream("a b"),
        lambda: StreamsBuilder().stream(["a", "a b"]),
        lambda: StreamsBuilder().table("a b"),
        lambda: StreamsBuilder().global_table("a b"),
        lambda: stream().to("a b"),
        lambda: Topology().add_source("s", "a b"),
        lambda: Topology().add_source("s", "a").add_sink("out", "a b", "s"),
    ],
)
def test_a_topic_that_kafka_does_not_allow_is_refused(make: Callable[[], object]) -> None:
    refused(make, f"needs a legal name of a topic: the name 'a b' {LEGAL} [")


def test_a_topic_that_a_function_names_is_checked_too() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: value)
    with TopologyTestDriver(builder.build(), STRINGS) as driver, pytest.raises(ProcessingError, match="legal name"):
        driver.create_input_topic("in").pipe_input("k", "a b")


def test_a_function_names_no_topic_but_those_declared() -> None:
    """Where a topic's `to` declares them, so that they are looked for before the application starts."""
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: value, topics=["a", "b", "a"])
    topology = builder.build()
    (sink,) = [node for node in topology.nodes.values() if isinstance(node, SinkNode)]
    assert sink.declared_topics == ("a", "b")
    with TopologyTestDriver(topology, STRINGS) as driver:
        driver.create_input_topic("in").pipe_input("k", "b")
        assert driver.create_output_topic("b").read_value() == "b"
        with pytest.raises(ProcessingError, match="must return one of its topics a, b, got 'c'"):
            driver.create_input_topic("in").pipe_input("k", "c")


@pytest.mark.parametrize(
    ("topic", "topics", "says"),
    [
        ("out", ["a"], "to writes to topic 'out' only: topics are those that a function may name"),
        (lambda key, value, context: "a", "ab", "topics of to must be a list of names, such as ['ab'], got 'ab'"),
        (lambda key, value, context: "a", ["a", 1], "to needs names of topics, got 1"),
        (lambda key, value, context: "a", ["a b"], "to needs a legal name of a topic: the name 'a b'"),
    ],
)
def test_declared_topics_are_names_of_topics(topic: Any, topics: Any, says: str) -> None:
    refused(lambda: stream().to(topic, topics=topics), says)


def test_a_store_with_a_changelog_has_a_name_that_a_topic_can_have() -> None:
    store: Any = Stores.key_value_store("a b")
    refused(lambda: Topology().add_state_store(store), f"named after it, but the name {LEGAL}: choose another name")
    assert "a b" in Topology().add_state_store(store.with_logging_disabled()).stores
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized=Materialized.as_(Stores.in_memory_key_value_store("a b")))
    refused(builder.build, f"but the name {LEGAL}")


def test_a_pattern_is_one_of_text() -> None:
    refused(lambda: StreamsBuilder().stream(re.compile(b"a")), "not of bytes")  # type: ignore[arg-type]
    refused(lambda: Topology().add_source("s", re.compile(b"a")), "a pattern of text, not of bytes")  # type: ignore[arg-type]


def test_a_table_without_windows_takes_no_store_of_windows() -> None:
    for supplier in (Stores.in_memory_window_store("s", 1000, 10), Stores.in_memory_session_store("s", 1000)):
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().count(materialized=Materialized.as_(supplier))  # type: ignore[arg-type]
        refused(builder.build, "but its table is not windowed: use a supplier of a key-value store")


def test_windows_take_no_store_without_windows() -> None:
    for supplier in (Stores.in_memory_key_value_store("s"), VERSIONED.supplier):
        builder = StreamsBuilder()
        builder.stream("in").group_by_key().windowed_by(TEN).count(materialized=Materialized.as_(supplier))  # type: ignore[arg-type]
        refused(builder.build, "a window store cannot be built from a ")


def test_a_versioned_table_is_refused_where_kafka_streams_does() -> None:
    refused(lambda: StreamsBuilder().global_table("g", materialized=VERSIONED), "a global table cannot be versioned")
    builder = StreamsBuilder()
    builder.table("t", materialized=VERSIONED).suppress(Suppressed.until_time_limit(5, BufferConfig.unbounded()))
    refused(builder.build, "suppresses a versioned table")


def test_a_join_with_a_grace_period_needs_the_history_of_the_table() -> None:
    builder = StreamsBuilder()
    builder.table("plain")
    joined: Any = Joined(grace=5000)
    orders: Any = builder.stream("orders")
    refused(lambda: orders.join(builder.table("p"), first, joined=joined), "give it Materialized(supplier=")
    versions = builder.table("v", materialized=VERSIONED)
    refused(lambda: orders.join(versions, first, joined=joined), "the history retention of 'KTABLE-SOURCE-")


def test_settings_are_a_dict_or_a_configuration() -> None:
    refused(lambda: StreamsBuilder().build("x"), "a StreamsConfig or a dict of settings, got 'x'", ConfigError)  # type: ignore[arg-type]


def test_a_split_ends_once() -> None:
    split = stream().split()
    split.default_branch()
    refused(split.default_branch, "is complete: add branches before its default branch")
    refused(lambda: split.branch(first), "is complete: add branches before its default branch")


# ------------------------------------------------------------------ functions


def two_results(value: Any) -> Iterator[Any]:
    yield value
    yield value


async def endless(*values: Any) -> AsyncIterator[Any]:
    yield values


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (
            lambda: stream().map_values(lambda key, value: value, name="m"),
            "m calls its mapper with (value), and '<lambda>.<locals>.<lambda>' takes (key, value); the method with"
            " _with_key at the end of its name also passes the key",
        ),
        (
            lambda: stream().map_values_with_key(len),
            "calls its mapper with (key, value), and 'len' takes (obj, /); the",
        ),
        (lambda: stream().flat_map_values(lambda key, value: [value]), "calls its mapper with (value)"),
        (lambda: stream().filter(lambda value: True), "calls its predicate with (key, value)"),
        (lambda: stream().select_key(lambda value: value), "calls its mapper with (key, value)"),
        (lambda: stream().split().branch(lambda value: True), "calls its predicate with (key, value)"),
        (lambda: stream().to(lambda value: "out"), "to calls its topic with (key, value, record_context)"),
        (lambda: grouped().reduce(lambda value: value), "calls its reducer with (aggregate, value)"),
        (lambda: grouped().aggregate(lambda key: 0, first), "calls its initializer with ()"),
        (
            lambda: grouped().aggregate(int, lambda value, so_far: 0),
            "calls its aggregator with (key, value, aggregate)",
        ),
        (
            lambda: grouped().cogroup(lambda value, so_far: 0),
            "cogroup calls its aggregator with (key, value, aggregate)",
        ),
        (
            lambda: grouped().windowed_by(TEN).reduce(lambda one: one),
            "reduce calls its reducer with (aggregate, value)",
        ),
        (
            lambda: grouped().windowed_by(SessionWindows(gap_ms=1)).aggregate(int, first, lambda one, other: one),
            "calls its merger with (key, aggregate, other)",
        ),
        (lambda: table().group_by(lambda value: (value, value)), "calls its selector with (key, value)"),
        (lambda: table().to_stream(lambda key: key), "calls its mapper with (key, value)"),
        (lambda: Printed(mapper=lambda value: value), "Printed calls its mapper with (key, value)"),  # type: ignore[misc, arg-type]
        (
            lambda: Produced(partitioner=lambda key: {0}),  # type: ignore[misc, arg-type]
            "Produced calls its partitioner with (topic, key, value, headers, partitions)",
        ),
        (lambda: Consumed(timestamp_extractor=lambda record: 0), "with (record, partition_time)"),  # type: ignore[misc, arg-type]
        (lambda: Branched(consumer=lambda: None), "Branched calls its consumer with (stream)"),  # type: ignore[misc, arg-type]
        (lambda: stream().process(lambda task: ANY), "calls its supplier with (), and"),
    ],
)
def test_a_function_of_other_arguments_is_refused_where_it_is_given(make: Callable[[], object], says: str) -> None:
    refused(make, says)


def test_joiners_and_extractors_of_other_arguments_are_refused() -> None:
    builder = StreamsBuilder()
    orders: Any = builder.stream("orders")
    prices: Any = builder.table("prices")
    everywhere: Any = builder.global_table("everywhere")
    three = lambda key, value, other: value  # noqa: E731
    two = lambda value, other: value  # noqa: E731
    key = lambda key, value: key  # noqa: E731
    more = "calls its joiner with (value, other), and 'test_joiners_and_extractors_of_other_arguments_are_refused"
    less = "calls its joiner with (key, value, other), and "
    refused(lambda: orders.join(prices, three), more)
    refused(lambda: orders.join(orders, three, windows=NEAR), more)
    refused(lambda: orders.join(everywhere, three, key_selector=key), more)
    refused(lambda: prices.join(prices, three), more)
    refused(lambda: prices.foreign_key_join(prices, first, three), more)
    refused(lambda: orders.join_with_key(prices, two), less)
    refused(lambda: orders.left_join_with_key(orders, two, windows=NEAR), less)
    refused(
        lambda: orders.join(everywhere, two, key_selector=lambda value: value), "its key_selector with (key, value)"
    )
    refused(lambda: prices.foreign_key_join(prices, key, two), "calls its extractor with (value)")
    refused(lambda: prices.foreign_key_join_with_key(prices, len, two), "calls its extractor with (key, value)")


class Taking:
    def __call__(self, value: Any, how: int = 1, *more: Any) -> Any:
        return value

    def method(self, value: Any) -> Any:
        return value


def test_whatever_takes_the_arguments_is_taken() -> None:
    """Builtins that do not say what they take, classes, methods, defaults, and wrappers that add an argument."""

    def adding(function: Callable[[int, Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(function)
        def wrapper(value: Any) -> Any:
            return function(1, value)

        return wrapper

    for mapper in (
        str,
        int,
        len,
        str.upper,
        str.split,
        dict,
        Taking(),
        Taking().method,
        "{}".format,
        first,
        adding(max),
    ):
        assert stream().map_values(mapper) is not None
    assert grouped().aggregate(dict, first) is not None
    assert stream().flat_map_values(two_results) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda: stream().map_values(two_results),
        lambda: stream().foreach(lambda key, value: (yield)),
        lambda: stream().filter(lambda key, value: (yield)),
        lambda: grouped().aggregate(lambda: (yield), first),
        lambda: table().map_values(two_results),
    ],
)
def test_a_generator_function_is_refused_where_one_result_is_wanted(make: Callable[[], object]) -> None:
    refused(make, "has a yield: a call of it would run nothing and return a generator")


def test_an_asynchronous_generator_is_refused_also_for_many_results() -> None:
    refused(lambda: stream().flat_map_values(endless), "is made by async def")


class AsyncProcessor(Processor[Any, Any, Any, Any]):
    async def process(self, record: Any) -> None:  # type: ignore[override]
        self.context.forward(record)


class AsyncFixedKey(FixedKeyProcessor[Any, Any, Any]):
    async def process(self, record: Any) -> None:  # type: ignore[override]
        self.context.forward(record)


class Generating(Processor[Any, Any, Any, Any]):
    def process(self, record: Any) -> Iterator[Any]:  # type: ignore[override]
        yield record


class AsyncTransformer(ValueTransformerWithKey[Any, Any, Any]):
    async def transform(self, key: Any, value: Any) -> Any:
        return value


async def asynchronous(*values: Any) -> Any:
    return AsyncProcessor()


class Punctuated(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        context.schedule(5, PunctuationType.STREAM_TIME, asynchronous)

    def process(self, record: Any) -> None:
        pass


def built(call: Callable[[Any], object]) -> Any:
    builder = StreamsBuilder()
    call(builder.stream("in"))
    return builder.build()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: built(lambda s: s.process(AsyncProcessor)), "'AsyncProcessor.process' is made by async def"),
        (lambda: built(lambda s: s.process_values(AsyncFixedKey)), "'AsyncFixedKey.process' is made by async def"),
        (lambda: built(lambda s: s.process(Generating)), "'Generating.process' has a yield"),
        (lambda: stream().process(asynchronous), "takes a plain function as its supplier, and 'asynchronous'"),
        (lambda: table().transform_values(AsyncTransformer), "'AsyncTransformer.transform' is made by async def"),
        (lambda: stream().to(asynchronous), "to takes a plain function as its topic"),
        (lambda: Consumed(timestamp_extractor=asynchronous), "Consumed takes a plain function as its timestamp_ex"),  # type: ignore[arg-type]
        (
            lambda: TopologyTestDriver(built(lambda s: s.process(Punctuated)), STRINGS),
            "schedule of node 'KSTREAM-PROCESSOR-0000000001' takes a plain function as its callback",
        ),
    ],
)
def test_processors_and_options_that_would_be_awaited_are_refused(make: Callable[[], object], says: str) -> None:
    """Every record would be lost without a sound."""
    refused(make, says)


# ------------------------------------------------------------------ while records are processed


def test_a_joiner_that_raises_is_the_handler_s_to_decide_and_is_named() -> None:
    seen: list[tuple[str, str]] = []

    def handler(context: Any, record: Any, error: Exception) -> Response:
        seen.append((context.processor_node_id, str(error)))
        return Response.resume() if record.value == "skip" else Response.fail()

    def joiner(order: str, price: str) -> str:
        raise ValueError(f"no price for {order}")

    builder = StreamsBuilder()
    prices: Any = builder.table("prices")
    builder.stream("orders").left_join(prices, joiner, joined="priced").to("out")
    config = {**STRINGS, "processing.exception.handler": handler}
    with TopologyTestDriver(builder.build(), config) as driver:
        orders = driver.create_input_topic("orders")
        orders.pipe_input("a", "skip")
        with pytest.raises(ProcessingError, match="ValueError in node 'priced': no price for tea"):
            orders.pipe_input("a", "tea")
    assert seen == [("priced", "no price for skip"), ("priced", "no price for tea")]


def failure_at_a_record(made: StreamsBuilder) -> str:
    with TopologyTestDriver(made.build(), STRINGS) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("in").pipe_input("k", "v")
    return caught.value.message


MAPS: dict[str, Any] = {
    "map": lambda builder, mapper: builder.stream("in").map(mapper, name="m").to("out"),
    "flat_map": lambda builder, mapper: builder.stream("in").flat_map(lambda k, v: [mapper(k, v)], name="m").to("out"),
    "group_by": lambda builder, mapper: builder.table("in").group_by(mapper, "m").count(),
}
NO_PAIRS = ["tea", "no", None, 5, ("a", "b", "c")]


@pytest.mark.parametrize(
    ("add", "wrong"),
    [
        pytest.param(add, wrong, id=f"{name}-{wrong}")
        for name, add in MAPS.items()
        for wrong in NO_PAIRS
        if (name, wrong) != ("group_by", None)  # the row is in no group then, as in Kafka Streams
    ],
)
def test_a_mapper_that_returns_no_pair_is_told_what_is_wanted(add: Any, wrong: Any) -> None:
    """Also if it returns a text of two characters, which Python would take apart."""
    builder = StreamsBuilder()
    add(builder, lambda key, value: wrong)
    message = failure_at_a_record(builder)
    assert message.startswith("TypeError in node '")
    assert f": the lambda at {__file__.rpartition('/')[2]}" in message.replace("tests/dsl/", "")
    assert f" must return a pair (key, value), but returned {wrong!r}; correct it, or set " in message


def test_an_aggregate_of_another_type_than_its_serde_asks_for_a_serde() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().aggregate(list, lambda key, value, so_far: [*so_far, value])
    wanted = "string: expected a str, got list; for such a value give value_serde= to its builder or its Materialized"
    assert wanted in failure_at_a_record(builder)


@pytest.mark.parametrize(
    ("add", "wanted"),
    [
        (lambda stream, wrong: stream.flat_map(lambda key, value: wrong), "pairs (key, value)"),
        (lambda stream, wrong: stream.flat_map_values(lambda value: wrong), "values"),
        (lambda stream, wrong: stream.flat_map_values_with_key(lambda key, value: wrong), "values"),
    ],
    ids=["flat_map", "flat_map_values", "flat_map_values_with_key"],
)
@pytest.mark.parametrize("wrong", [None, "text", 5])
def test_a_mapper_that_returns_a_text_or_nothing_for_many_is_told_what_is_wanted(
    add: Any, wanted: str, wrong: Any
) -> None:
    """A text became a record for each of its characters."""
    builder = StreamsBuilder()
    add(builder.stream("in"), wrong).to("out")
    message = failure_at_a_record(builder)
    assert f" must return an iterable of {wanted}, such as a list, but returned {wrong!r}" in message


def test_two_topologies_of_one_builder_do_not_share_what_they_keep() -> None:
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count(materialized="n")
    first_one, second_one = builder.build(), builder.build()
    with TopologyTestDriver(first_one, STRINGS) as one, TopologyTestDriver(second_one, STRINGS) as other:
        one.create_input_topic("in").pipe_key_values([("a", "x"), ("a", "y")])
        other.create_input_topic("in").pipe_key_values([("a", "x")])
        assert (one.get_key_value_store("n").get("a"), other.get_key_value_store("n").get("a")) == (2, 1)
