"""Operators of streams that look at one record at a time."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dsl import KStream, Produced, Repartitioned, StreamsBuilder
from dsl_support.fake_task import FakeTask, Output
from processor_api.errors import TopologyError

Text = KStream[str, str]
Build = Callable[[Text], Any]


def run(build: Build, *records: tuple[Any, Any], **options: Any) -> FakeTask:
    """Builds on the stream of the topic "in", and pipes records with timestamps 0, 1, 2, ..."""
    builder = StreamsBuilder()
    build(builder.stream("in"))
    task = FakeTask(builder.build(), **options)
    for timestamp, (key, value) in enumerate(records):
        task.pipe("in", key, value, timestamp, [("h", b"%d" % timestamp)])
    return task


def outputs(build: Callable[[Text], KStream[Any, Any]], *records: tuple[Any, Any]) -> list[tuple[Any, Any]]:
    return run(lambda stream: build(stream).to("out"), *records).values("out")


A, B, NULL = ("a", "x"), ("b", "y"), (None, None)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.filter(lambda k, v: v == "x"), [A]),
        (lambda s: s.filter_not(lambda k, v: v == "x"), [B, NULL]),
        (lambda s: s.map(lambda k, v: (v, k)), [("x", "a"), ("y", "b"), NULL]),
        (lambda s: s.map_values(lambda v: f"{v}!"), [("a", "x!"), ("b", "y!"), (None, "None!")]),
        (lambda s: s.map_values_with_key(lambda k, v: f"{k}{v}"), [("a", "ax"), ("b", "by"), (None, "NoneNone")]),
        (lambda s: s.select_key(lambda k, v: v), [("x", "x"), ("y", "y"), NULL]),
        (lambda s: s.flat_map(lambda k, v: {k: v, v: k}.items() if k else ()), [A, ("x", "a"), B, ("y", "b")]),
        (lambda s: s.flat_map_values(lambda v: (v, v) if v else ()), [A, A, B, B]),
        (lambda s: s.flat_map_values_with_key(lambda k, v: [k, v]), [("a", "a"), A, ("b", "b"), B, NULL, NULL]),
        (lambda s: s.peek(lambda k, v: None), [A, B, NULL]),
        (lambda s: s.merge(s), [A, B, NULL]),
        (lambda s: s.merge(s.filter(lambda k, v: k == "b")), [A, B, B, NULL]),
        (lambda s: s.repartition(), [A, B]),
    ],
)
def test_results_and_their_order(build: Callable[[Text], Text], expected: list[tuple[Any, Any]]) -> None:
    assert outputs(build, A, B, NULL) == expected


def test_timestamps_and_headers_stay() -> None:
    task = run(lambda s: s.map(lambda k, v: (v, k)).flat_map_values(lambda v: [v]).to("out"), A, B)
    assert task.take("out") == [Output("x", "a", 0, [("h", b"0")]), Output("y", "b", 1, [("h", b"1")])]


def test_children_get_each_record_in_the_order_in_which_they_were_added() -> None:
    seen: list[str] = []

    def build(stream: Text) -> None:
        stream.foreach(lambda k, v: seen.append(f"1{k}"))
        stream.peek(lambda k, v: seen.append(f"2{k}")).foreach(lambda k, v: seen.append(f"3{k}"))

    run(build, A, B)
    assert seen == ["1a", "2a", "3a", "1b", "2b", "3b"]


def boom(*arguments: Any) -> Any:
    if "x" in arguments:
        raise KeyError("boom")
    return True


def boom_later(*arguments: Any) -> Iterator[Any]:
    yield "k", "v"
    boom(*arguments)


FAILING: list[Build] = [
    lambda s: s.filter(boom, name="n").to("out"),
    lambda s: s.filter_not(boom, name="n").to("out"),
    lambda s: s.map(boom, name="n").to("out"),
    lambda s: s.map_values(boom, name="n").to("out"),
    lambda s: s.map_values_with_key(boom, name="n").to("out"),
    lambda s: s.select_key(boom, name="n").to("out"),
    lambda s: s.flat_map(boom_later, name="n").to("out"),
    lambda s: s.flat_map_values(boom_later, name="n").to("out"),
    lambda s: s.flat_map_values_with_key(boom_later, name="n").to("out"),
    lambda s: s.peek(boom, name="n").to("out"),
    lambda s: s.foreach(boom, name="n"),
    lambda s: s.split(name="n").branch(boom).default_branch()["n0"].to("out"),
]


@pytest.mark.parametrize("build", FAILING)
def test_an_error_of_the_function_goes_to_the_handler_and_drops_the_record(build: Build) -> None:
    """The handler gets the record as it came to the node; a generator that fails half-way has forwarded nothing."""
    task = run(build, A, continue_on_error=True)
    [(node, error, record)] = task.failures
    assert (node, type(error), record) == ("n", KeyError, Output("a", "x", 0, [("h", b"0")]))
    assert task.take("out") == []


@pytest.mark.parametrize("build", FAILING)
def test_a_handler_that_fails_stops_the_task(build: Build) -> None:
    with pytest.raises(KeyError, match="boom"):
        run(build, A)


PASSING: list[Callable[[Text], KStream[Any, Any]]] = [
    lambda s: s.filter(lambda k, v: True),
    lambda s: s.filter_not(lambda k, v: False),
    lambda s: s.map(lambda k, v: (k, v)),
    lambda s: s.map_values(lambda v: v),
    lambda s: s.map_values_with_key(lambda k, v: v),
    lambda s: s.select_key(lambda k, v: k),
    lambda s: s.flat_map(lambda k, v: [(k, v)]),
    lambda s: s.flat_map_values(lambda v: [v]),
    lambda s: s.flat_map_values_with_key(lambda k, v: [v]),
    lambda s: s.peek(lambda k, v: None),
    lambda s: s.merge(s.filter(lambda k, v: False)),
    lambda s: s.split().branch(lambda k, v: True).no_default_branch().popitem()[1],
]


@pytest.mark.parametrize("build", PASSING)
def test_an_error_further_down_is_handled_there_and_only_there(build: Callable[[Text], KStream[Any, Any]]) -> None:
    """An operator must not take its children's errors for its own (semantics 113)."""
    builder = StreamsBuilder()
    build(builder.stream("in")).foreach(boom, name="below")
    task = FakeTask(builder.build())
    with pytest.raises(KeyError, match="boom"):
        task.pipe("in", "a", "x")
    assert [node for node, _, _ in task.failures] == ["below"]


def test_a_sink_may_choose_the_topic_for_each_record() -> None:
    task = run(lambda s: s.to(lambda key, value, context: f"out-{key}-{context.timestamp}"), A, B)
    assert (task.values("out-a-0"), task.values("out-b-1")) == ([A], [B])


def test_a_pattern_must_match_the_whole_name_of_a_topic() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile("in-[12]")).to("out")
    task = FakeTask(builder.build())
    task.pipe("in-1", "a", "x")
    task.pipe("in-2", "b", "y")
    assert task.values("out") == [A, B]
    with pytest.raises(AssertionError, match="nobody reads in-12"):
        task.pipe("in-12", "c", "z")


@pytest.mark.parametrize("topics", ["", [], ["a", ""], [1], None])
def test_a_stream_needs_topics(topics: Any) -> None:
    with pytest.raises(TopologyError, match="a stream must read one or more topics, or a compiled pattern, got "):
        StreamsBuilder().stream(topics)


@pytest.mark.parametrize("topic", ["", None, 7])
def test_a_sink_needs_a_topic(topic: Any) -> None:
    with pytest.raises(
        TopologyError, match="the topic of a stream must be a name, or a function that returns one, got "
    ):
        StreamsBuilder().stream("in").to(topic)


def test_serdes_come_down_as_far_as_they_fit() -> None:
    """A changed key or value has no known serde; what stays keeps the one it had."""
    from dsl import Consumed
    from processor_api.serde import Serdes

    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    stream.filter(lambda k, v: True).peek(lambda k, v: None).to("both", Produced(name="both"))
    stream.map_values(lambda v: v).to("key", Produced(name="key"))
    stream.select_key(lambda k, v: k).to("value", Produced(name="value"))
    stream.map(lambda k, v: (k, v)).to("none", Produced(name="none"))
    stream.merge(stream.filter(lambda k, v: True)).to("merged", Produced(name="merged"))
    stream.repartition(Repartitioned.as_("r")).to("moved", Produced(name="moved"))
    nodes: Any = builder.build().nodes
    found = {name: (nodes[name].key_serde, nodes[name].value_serde) for name in nodes if hasattr(nodes[name], "topic")}
    text, long = Serdes.STRING, Serdes.LONG
    assert found == {
        "both": (text, long),
        "key": (text, None),
        "value": (None, long),
        "none": (None, None),
        "merged": (None, None),
        "moved": (text, long),
        "r-repartition-sink": (text, long),
    }


def test_streams_of_different_builders_cannot_be_merged() -> None:
    with pytest.raises(TopologyError, match="different builders"):
        StreamsBuilder().stream("a").merge(StreamsBuilder().stream("b"))
