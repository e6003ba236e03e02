"""Errors of drains and punctuations reach the handlers with the context of the row's last put, or with none."""

from __future__ import annotations

from typing import Any

import pytest

from processor_api.errors import ProcessingError, SerializationError, TopologyError
from processor_api.handlers import ErrorHandlerContext, Response, dead_letter_queue_records
from processor_api.processor import FixedKeyProcessor, Processor
from processor_api.punctuation import PunctuationType
from processor_api.record import FixedKeyRecord, Record
from processor_api.serde import Serde, Serdes
from processor_api.topology.topology import Topology
from streams import Grouped, Materialized, Produced, StreamsBuilder
from streams.testing import TestRecord, TopologyTestDriver

TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}
Place = tuple[str | None, int, int, bytes | None, bytes | None]
NOWHERE: Place = (None, -1, -1, None, None)


class Handler:
    """Goes on, sends a dead letter where there is a queue, and remembers nodes, places and records."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Place, Any]] = []

    def __call__(self, context: ErrorHandlerContext, record: Any, error: Exception, *origin: Any) -> Response:
        raw = context.source_raw_key, context.source_raw_value
        self.calls.append((context.processor_node_id, (context.topic, context.partition, context.offset, *raw), record))
        if context.dead_letter_queue_topic_name is None:
            return Response.resume()
        return Response.resume(dead_letter_queue_records(context, error))


def refusing(*bad: str) -> Serde[Any]:
    def write(value: Any) -> bytes:
        if str(value) in bad:
            raise ValueError(f"cannot write {value}")
        return str(value).encode()

    return Serde(write, bytes.decode)


def refuse_two(value: Any) -> str:
    if str(value) == "2":
        raise ValueError("two")
    return str(value)


def counts(sink: Produced[Any, Any], function: Any = str) -> Topology:
    """Counts by value, through a repartition topic and a cache."""
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by(lambda key, value: value, Grouped(name="by-value"))
    table = grouped.count(materialized=Materialized[Any, Any](name="n", value_serde=Serdes.LONG))
    table.to_stream().map_values(function, name="shown").to("out", sink)
    return builder.build()


class Ticking(FixedKeyProcessor[Any, Any, Any]):
    """Forwards each record, and "2" for key "tick" by both clocks."""

    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(100, PunctuationType.STREAM_TIME, self.tick)
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.tick)

    def tick(self, now_ms: int) -> None:
        self.context.forward(FixedKeyRecord("tick", "2", now_ms))

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        self.context.forward(record)


def ticking(function: Any = str, sink: Produced[Any, Any] | None = None, *, table: bool) -> Topology:
    """Punctuations whose records go on at once, or wait in the cache of a table."""
    builder = StreamsBuilder()
    stream = builder.stream("in").process_values(Ticking, name="ticking")
    if table:
        stream = stream.to_table(materialized=Materialized[Any, Any](name="t")).to_stream()
    stream.map_values(function, name="shown").to("out", sink or Produced())
    return builder.build()


# ---------------------------------------------------------------------- drains


def test_a_node_that_fails_in_a_drain_is_asked_about_with_the_record_that_put_the_row() -> None:
    """That of the topic which the task read it from: behind a repartition, the internal one."""
    handler = Handler()
    config = {**TEXT, "processing.exception.handler": handler}
    with TopologyTestDriver(counts(Produced(), refuse_two), config) as driver:
        source, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        for value in ("a", "a", "b", "a"):
            source.pipe_input("k", value, 7)
        assert out.read_key_values() == [("a", "1"), ("b", "1"), ("a", "3")]
        assert driver.metrics()["dropped-records-total"] == 1
    place = ("test-application-by-value-repartition", 0, 1, b"a", b"a")
    assert handler.calls == [("shown", place, Record("a", 2, 7))]


def test_a_sink_that_cannot_write_in_a_drain_asks_with_the_record_that_put_the_row() -> None:
    """And its dead letter is that record."""
    handler = Handler()
    config = {**TEXT, "production.exception.handler": handler, "errors.dead.letter.queue.topic.name": "dlq"}
    with TopologyTestDriver(counts(Produced(value_serde=refusing("2"))), config) as driver:
        source = driver.create_input_topic("in")
        for value in ("a", "b", "a"):
            source.pipe_input("k", value, 7)
        assert driver.create_output_topic("out").read_values() == ["1", "1"]
        (letter,) = driver.create_output_topic("dlq").read_records()
        assert (letter.key, letter.value) == ("a", "a")
        assert letter.headers.last("__streams.errors.offset") == b"2"
    ((_, place, record),) = handler.calls
    assert place == ("test-application-by-value-repartition", 0, 2, b"a", b"a")
    assert (record.topic, record.key, record.value) == ("out", "a", "2")


def test_a_drain_that_fails_says_where_its_record_came_from() -> None:
    """By the default handlers, for a node and for a sink."""
    place = {"topic": "test-application-by-value-repartition", "partition": 0, "offset": 1, "task": "0_0"}
    for topology, kind, node in (
        (counts(Produced(), refuse_two), ProcessingError, "shown"),
        (counts(Produced(value_serde=refusing("2"))), SerializationError, "KSTREAM-SINK-0000000006"),
    ):
        with TopologyTestDriver(topology, TEXT) as driver:
            source = driver.create_input_topic("in")
            source.pipe_input("k", "a", 7)
            with pytest.raises(kind) as caught:
                source.pipe_input("k", "a", 7)
            found = caught.value.place()
            assert {name: found[name] for name in place} == place
            assert found["node"].startswith(node[:12])


# ---------------------------------------------------------------------- punctuations


@pytest.mark.parametrize("clock", ["stream time", "wall clock"])
@pytest.mark.parametrize("table", [False, True], ids=["at once", "from a cache"])
def test_a_node_that_fails_for_a_punctuation_has_no_source(table: bool, clock: str) -> None:
    """Its record is told; there is no topic and nothing raw. Also where the record waited in a cache until the commit,
    and though a record of a topic was in work shortly before."""
    handler = Handler()
    config = {**TEXT, "processing.exception.handler": handler}
    with TopologyTestDriver(ticking(refuse_two, table=table), config) as driver:
        source, out = driver.create_input_topic("in"), driver.create_output_topic("out")
        if clock == "stream time":
            source.pipe_input("k", "1", 150)
        else:
            driver.advance_wall_clock_time(150)
            source.pipe_input("k", "1", 50)
            handler.calls[1:] = []  # the first tick by stream time is at its first record
        assert out.read_values() == ["1"]
    assert handler.calls == [("shown", NOWHERE, Record("tick", "2", 150))]


@pytest.mark.parametrize("table", [False, True], ids=["at once", "from a cache"])
def test_a_sink_that_cannot_write_for_a_punctuation_has_no_source(table: bool) -> None:
    """The dead letter is empty but for what is known of the error."""
    handler = Handler()
    config = {**TEXT, "production.exception.handler": handler, "errors.dead.letter.queue.topic.name": "dlq"}
    topology = ticking(sink=Produced(value_serde=refusing("2")), table=table)
    with TopologyTestDriver(topology, config) as driver:
        driver.advance_wall_clock_time(100)
        (letter,) = driver.create_output_topic("dlq").read_records()
        assert (letter.key, letter.value) == (None, None)
        assert letter.headers.last("__streams.errors.message") == b"cannot write 2"
        assert not driver.produced_topic_names() & {"out"}
    ((_, place, record),) = handler.calls
    assert place == NOWHERE
    assert (record.topic, record.key, record.value, record.timestamp) == ("out", "tick", "2", 100)


def test_the_last_put_of_a_row_counts() -> None:
    """A punctuation that puts a row again, before the commit of the record that put it first."""
    handler = Handler()
    with TopologyTestDriver(
        ticking(refuse_two, table=True), {**TEXT, "processing.exception.handler": handler}
    ) as driver:
        source = driver.create_input_topic("in")
        source.pipe_input("tick", "2", 50)
        source.pipe_input("tick", "2", 60)
    place = ("in", 0, 1, b"tick", b"2")
    assert handler.calls == [("shown", NOWHERE, Record("tick", "2", 50)), ("shown", place, Record("tick", "2", 60))]


class Failing(Processor[Any, Any, Any, Any]):
    def init(self, context: Any) -> None:
        super().init(context)
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.fail)
        context.schedule(100, PunctuationType.WALL_CLOCK_TIME, self.go_on)

    def fail(self, now_ms: int) -> None:
        raise ValueError(f"at {now_ms}")

    def go_on(self, now_ms: int) -> None:
        self.context.forward(Record("other", "went on", now_ms))

    def process(self, record: Record[Any, Any]) -> None:
        self.context.forward(record)


def failing() -> Topology:
    topology = Topology().add_source("source", "in").add_processor("failing", Failing, "source")
    return topology.add_sink("sink", "out", "failing")


def test_a_punctuation_that_fails_itself_has_neither_record_nor_source() -> None:
    """It is asked about at its node, counted, and comes again; others go on."""
    handler = Handler()
    with TopologyTestDriver(failing(), {**TEXT, "processing.exception.handler": handler}) as driver:
        driver.create_input_topic("in").pipe_input("k", "v", 7)
        driver.advance_wall_clock_time(100)
        driver.advance_wall_clock_time(100)
        assert driver.create_output_topic("out").read_values() == ["v", "went on", "went on"]
        assert driver.metrics()["dropped-records-total"] == 2
    assert handler.calls == [("failing", NOWHERE, None)] * 2


def test_a_punctuation_that_fails_fails_the_task_by_default() -> None:
    with TopologyTestDriver(failing(), TEXT) as driver:
        with pytest.raises(ProcessingError, match="ValueError in a punctuation of node 'failing': at 100") as caught:
            driver.advance_wall_clock_time(100)
        assert caught.value.place() == {"task": "0_0", "node": "failing"}


# ---------------------------------------------------------------------- what a test gives

new_driver: Any = TopologyTestDriver


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda driver: driver.create_input_topic("in").pipe_key_values(["a", "b"]),
            "pairs of a key and a value, got 'a'",
        ),
        (lambda driver: driver.create_input_topic("in").pipe_key_values({"a": "b"}), r"of a dict give its items\(\)"),
        (lambda driver: driver.create_input_topic("in").pipe_key_values([("a", "b", 3)]), "got \\('a', 'b', 3\\)"),
        (lambda driver: driver.create_input_topic("in").pipe_key_values(None), "pairs must be a collection, got None"),
        (lambda driver: driver.create_input_topic("in").pipe_values(None), "values must be a collection, got None"),
        (lambda driver: driver.create_input_topic("in").pipe_records([("a", "b")]), "takes a TestRecord, got"),
        (lambda driver: driver.create_input_topic("in").pipe_input("a", "b", [("h", b"1")]), "before the headers"),
        (lambda driver: driver.create_input_topic("in").pipe_input("a", "b", 1, {"h": b"1"}), "headers must be a list"),
        (lambda driver: TestRecord("a", "b", [("h", b"1")], 1), "the timestamp is before the headers"),  # type: ignore[arg-type]
        (lambda driver: driver.create_input_topic(["in"]), "a topic must be given by its name, a string, got"),
        (lambda driver: driver.create_output_topic(["out"]), "a topic must be given by its name, a string, got"),
        (lambda driver: driver.expect(None), "a topic must be given by its name, a string, got None"),
        (lambda driver: driver.get_state_store(["n"]), "a store must be given by its name, a string, got"),
        (lambda driver: driver.pipe_raw("in", "a", "b", 0), "pipe_raw takes bytes, got a string"),
        (
            lambda driver: driver.create_input_topic("in", "string", "string", 0, 5),
            "it takes by name start_timestamp=, auto_advance=",
        ),
        (lambda driver: new_driver(counts(Produced()), {}, 0), "it takes by name initial_wall_clock_time="),
    ],
)
def test_what_a_test_gives_wrongly_is_told(call: Any, says: str) -> None:
    """These were errors from the inside, such as a value that cannot be unpacked."""
    with (
        TopologyTestDriver(counts(Produced()), TEXT) as driver,
        pytest.raises((TypeError, TopologyError), match=says),
    ):
        call(driver)
