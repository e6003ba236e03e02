"""Errors of user code: who is asked, what the answer does, and what the failure says (semantics 112 to 115).

What Kafka Streams for Java does with the same topologies is in the recordings ``error-*``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dsl import Grouped, Materialized, StreamsBuilder
from processor_api.errors import (
    DeserializationError,
    InternalError,
    ProcessingError,
    ProductionError,
    RetryableError,
    SerializationError,
    StateError,
    StoreError,
    StreamsError,
    TaskMigratedError,
)
from processor_api.handlers import (
    ErrorHandlerContext,
    ProducerRecord,
    Response,
    Result,
    SerializationExceptionOrigin,
    dead_letter_queue_records,
)
from processor_api.processor import Processor
from processor_api.record import Record
from processor_api.serde import Serde, Serdes
from processor_api.task_id import TaskId
from processor_api.topology.topology import Topology
from runtime_support.task_kit import TaskKit
from state.row_format.record_context import Cursor
from streams.config import StreamsConfig
from streams.kafka.ports import NotDelivered
from streams.kafka.producing.record_collector import RecordCollector
from streams.runtime.processing.error_policy import error_policy_for
from streams.testing import TopologyTestDriver
from streams.testing.broker import EmbeddedBroker, EmbeddedClients

TEXT = {"default.key.serde": Serdes.STRING, "default.value.serde": Serdes.STRING}

Handler = Callable[..., Any]


def driver(topology: Topology, **config: Any) -> TopologyTestDriver:
    return TopologyTestDriver(topology, {**TEXT, **config})


def calling(function: Callable[[str], str]) -> Topology:
    """``in`` -> outer -> inner, which calls the function -> ``out``."""

    class Outer(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record)

    class Inner(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.forward(record.with_value(function(record.value)))

    topology = Topology()
    topology.add_source("source", "in").add_processor("outer", Outer, "source")
    return topology.add_processor("inner", Inner, "outer").add_sink("sink", "out", "inner")


def failing(error: Exception) -> Callable[[str], str]:
    def function(value: str) -> str:
        if value == "bad":
            raise error
        return value

    return function


class Asked:
    """A handler that remembers what it was asked, and gives one answer."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = Response.resume() if answer is None else answer
        self.calls: list[tuple[Any, ...]] = []

    def __call__(self, *asked: Any) -> Any:
        self.calls.append(asked)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


# ---------------------------------------------------------------------- processing


def test_by_default_an_error_fails_the_task_and_says_where() -> None:
    """Node, task, key, and topic, partition and offset of the source record; the cause is chained."""
    cause = ValueError("no such thing")
    with driver(calling(failing(cause))) as run:
        run.pipe_raw("in", b"k", b"good", 1)
        with pytest.raises(ProcessingError, match="ValueError in node 'inner': no such thing") as caught:
            run.pipe_raw("in", b"k", b"bad", 2)
    assert caught.value.__cause__ is cause
    assert caught.value.place() == {
        "topic": "in", "partition": 0, "offset": 1, "task": "0_0", "node": "inner", "key": "k",
    }  # fmt: skip


def test_the_handler_is_asked_once_at_the_innermost_node() -> None:
    """The nodes above, through which a failure passes, do not ask again (semantics 113)."""
    handler = Asked(Response.fail())
    config = {"processing.exception.handler": handler}
    with driver(calling(failing(ValueError("x"))), **config) as run, pytest.raises(ProcessingError, match="ValueError"):
        run.pipe_raw("in", b"k", b"bad", 2, [("h", b"1")])
    ((context, record, error),) = handler.calls
    assert isinstance(error, ValueError)
    assert record == Record("k", "bad", 2, [("h", b"1")])
    assert context == ErrorHandlerContext(
        topic="in",
        partition=0,
        offset=0,
        timestamp=2,
        headers=[("h", b"1")],
        processor_node_id="inner",
        task_id=TaskId(0, 0),
        source_raw_key=b"k",
        source_raw_value=b"bad",
    )


def test_going_on_drops_the_record_and_counts_it() -> None:
    with driver(calling(failing(ValueError("x"))), **{"processing.exception.handler": Asked()}) as run:
        run.pipe_raw("in", b"k", b"bad", 2)
        run.pipe_raw("in", b"k", b"good", 3)
        assert [record.value for record in run.take_produced()["out"]] == [b"good"]
        assert run.metrics()["dropped-records-total"] == 1


@pytest.mark.parametrize("kind", [InternalError, RetryableError, TaskMigratedError, StateError, ProductionError])
def test_errors_of_the_engine_are_no_handlers_business(kind: type[StreamsError]) -> None:
    """They pass through user code as they are."""
    handler, error = Asked(), kind("engine")
    with driver(calling(failing(error)), **{"processing.exception.handler": handler}) as run:
        with pytest.raises(kind) as caught:
            run.pipe_raw("in", b"k", b"bad", 2)
        assert caught.value is error
    assert handler.calls == []


def test_a_store_that_was_used_wrongly_is_the_users_business() -> None:
    handler = Asked()
    with driver(calling(failing(StoreError("wrong"))), **{"processing.exception.handler": handler}) as run:
        run.pipe_raw("in", b"k", b"bad", 2)
    assert len(handler.calls) == 1


@pytest.mark.parametrize("part", ["partitioner", "extractor"])
def test_functions_of_a_sink_are_processing_too(part: str) -> None:
    """A partitioner or topic extractor that fails is asked about at the sink."""
    handler = Asked()

    def bad(*arguments: Any) -> Any:
        raise ValueError(part)

    topology = Topology().add_source("source", "in")
    if part == "partitioner":
        topology.add_sink("sink", "out", "source", partitioner=bad)
    else:
        topology.add_sink("sink", bad, "source")
    with driver(topology, **{"processing.exception.handler": handler}) as run:
        run.pipe_raw("in", b"k", b"v", 2)
        assert run.metrics()["dropped-records-total"] == 1
    ((context, record, error),) = handler.calls
    assert (context.processor_node_id, record, str(error)) == ("sink", Record("k", "v", 2), part)


def test_a_value_that_a_store_cannot_hold_fails_at_the_operator_that_put_it() -> None:
    """The serde of a store is user code: its error is asked about where the put was, with the place of the record."""
    handler = Asked()
    numbers = Materialized[str, Any](name="n", key_serde=Serdes.STRING, value_serde=Serdes.LONG)

    def topology() -> Topology:
        builder = StreamsBuilder()
        groups = builder.stream("in").group_by_key(Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
        groups.aggregate(int, lambda k, v, total: "text" if v == "bad" else total + 1, materialized=numbers)
        return builder.build({})

    with driver(topology()) as run, pytest.raises(ProcessingError, match="store 'n': the long serde") as caught:
        run.pipe_raw("in", b"k", b"bad", 2)
    assert (caught.value.node, caught.value.topic, caught.value.offset) == ("KSTREAM-AGGREGATE-0000000001", "in", 0)
    with driver(topology(), **{"processing.exception.handler": handler}) as run:
        for value in (b"good", b"bad", b"good"):
            run.pipe_raw("in", b"k", value, 2)
        assert run.get_state_store("n").get("k").value == 2
    assert [context.processor_node_id for context, _, _ in handler.calls] == ["KSTREAM-AGGREGATE-0000000001"]


# --------------------------------------------------------------- handlers that fail


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (KeyError("oops"), "failed itself: KeyError: 'oops'"),
        (Response(Result.RESUME, ("letter",)), "must be ProducerRecords"),  # type: ignore[arg-type]
        ("RESUME", "returned 'RESUME': it must return Response.resume"),
        (False, "returned False: it must return Response.resume"),
    ],
)
@pytest.mark.parametrize("setting", ["deserialization", "processing", "production"])
def test_a_handler_that_does_not_answer_fails_the_task_and_is_named(setting: str, answer: Any, says: str) -> None:
    """The failure tells also what the handler was asked about."""
    kinds = {"deserialization": DeserializationError, "processing": ProcessingError, "production": ProductionError}

    def unreadable(data: bytes) -> str:
        raise ValueError("unreadable") if data == b"bad" else NotImplementedError

    def unwritable(value: str) -> bytes:
        raise ValueError("unwritable")

    topology = calling(failing(ValueError("unprocessable")))
    if setting == "deserialization":
        topology = Topology().add_source("source", "in", value_serde=Serde(str.encode, unreadable))
    if setting == "production":
        topology = Topology().add_source("source", "in")
        topology.add_sink("sink", "out", "source", value_serde=Serde(unwritable, bytes.decode))
    handler = Asked(answer)
    name = f"{setting}.exception.handler"
    with driver(topology, **{name: handler}) as run, pytest.raises(kinds[setting]) as caught:
        run.pipe_raw("in", b"k", b"bad", 2)
    text = str(caught.value)
    assert f"the {name} " in text
    assert "Asked" in text
    assert says in text
    assert "it was called for: ValueError: un" in text
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("in", 0, 0)
    assert len(handler.calls) == 1


def test_a_handler_that_returns_nothing_is_named() -> None:
    def forgetful(context: ErrorHandlerContext, record: Any, error: Exception) -> None:
        return None  # without the statement it is refused when it is given

    config = {"processing.exception.handler": forgetful}
    with driver(calling(failing(ValueError("x"))), **config) as run, pytest.raises(ProcessingError) as caught:
        run.pipe_raw("in", b"k", b"bad", 2)
    assert "forgetful returned None: it must return Response.resume() or Response.fail()" in str(caught.value)


@pytest.mark.parametrize("setting", ["deserialization", "processing", "production"])
def test_retry_is_failure_where_there_is_nothing_to_wait_for(setting: str) -> None:
    """Only records that were not delivered in time can be retried; the failure says so."""
    picky: Serde[str] = Serde(failing_bytes, bytes.decode)
    topology = calling(failing(ValueError("x")) if setting == "processing" else str)
    if setting == "deserialization":
        topology = Topology().add_source("source", "in", value_serde=Serdes.LONG)
    if setting == "production":
        topology = Topology().add_source("source", "in").add_sink("sink", "out", "source", value_serde=picky)
    handler = Asked(Response.retry())
    says = "returned RETRY, which is only for records that were not delivered in time"
    config = {f"{setting}.exception.handler": handler}
    with driver(topology, **config) as run, pytest.raises(StreamsError, match=says):
        run.pipe_raw("in", b"k", b"bad", 2)


def failing_bytes(value: str) -> bytes:
    raise ValueError("x")


# ------------------------------------------------------------------ reading, writing


@pytest.mark.parametrize(("key", "value", "part"), [(b"123", b"12345678", "key"), (b"12345678", b"1", "value")])
def test_the_deserialization_handler_gets_the_raw_record(key: bytes, value: bytes, part: str) -> None:
    handler = Asked()
    topology = Topology().add_source("source", "in", key_serde=Serdes.LONG, value_serde=Serdes.LONG)
    with driver(topology, **{"deserialization.exception.handler": handler}) as run:
        run.pipe_raw("in", key, value, 5, [("h", b"1")])
        assert run.metrics()["dropped-records-total"] == 1
    ((context, record, _),) = handler.calls
    assert record == ("in", 0, 0, 5, key, value, [("h", b"1")])
    assert (context.processor_node_id, context.timestamp, context.headers) == ("source", 5, [("h", b"1")])
    with driver(topology) as run, pytest.raises(DeserializationError, match=f"the {part} cannot be read") as caught:
        run.pipe_raw("in", key, value, 5)
    assert caught.value.place() == {"topic": "in", "partition": 0, "offset": 0, "task": "0_0", "node": "source"}


def test_the_production_handler_is_told_which_part_cannot_be_written() -> None:
    """It gets the record as the topology gave it to the sink."""
    handler = Asked()
    topology = Topology().add_source("source", "in")
    topology.add_sink("numbers", "out", "source", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    topology.add_sink("keys", "out", "source", key_serde=Serdes.LONG)
    with driver(topology, **{"production.exception.handler": handler}) as run:
        run.pipe_raw("in", b"k", b"v", 5, [("h", b"1")])
        assert "out" not in run.take_produced()
        assert run.metrics()["dropped-records-total"] == 2
    told = [(context.processor_node_id, origin) for context, _, _, origin in handler.calls]
    assert told == [("numbers", SerializationExceptionOrigin.VALUE), ("keys", SerializationExceptionOrigin.KEY)]
    assert handler.calls[0][1] == ProducerRecord("out", "k", "v", 5, [("h", b"1")])
    with driver(topology) as run, pytest.raises(SerializationError, match="value cannot be written to topic 'out'"):
        run.pipe_raw("in", b"k", b"v", 5)


NAMES: dict[str, Any] = {"fine": "fine", "half": "\ud800", "nul": "a\0b", "number": 7}


class Tag(Processor[str, str, str, str]):
    """Names a header by the value."""

    def process(self, record: Record[str, str]) -> None:
        self.context.forward(record.with_headers([(NAMES[record.value], b"1")]))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_the_production_handler_is_told_of_headers_that_cannot_be_sent(guarantee: str) -> None:
    """The record has not reached the broker, so that nothing is lost with it in either guarantee."""
    topology = Topology().add_source("source", "in").add_processor("tag", Tag, "source").add_sink("sink", "out", "tag")
    handler, settings = Asked(), {"processing.guarantee": guarantee}
    with driver(topology, **{"production.exception.handler": handler}, **settings) as run:
        for name in NAMES:
            run.pipe_raw("in", b"k", name.encode(), 5)
        assert [record.headers for record in run.take_produced()["out"]] == [[("fine", b"1")]]
        assert run.metrics()["dropped-records-total"] == 3
    assert [origin for *_, origin in handler.calls] == [SerializationExceptionOrigin.HEADERS] * 3
    assert [record.headers for _, record, _, _ in handler.calls][2] == [(7, b"1")]
    with (
        driver(topology, **settings) as run,
        pytest.raises(SerializationError, match="the headers cannot be") as caught,
    ):
        run.pipe_raw("in", b"k", b"half", 5)
    assert caught.value.place() | {"node": None} == {
        "topic": "in", "partition": 0, "offset": 0, "task": "0_0", "node": None, "key": b"k",
    }  # fmt: skip


def test_a_driver_takes_no_headers_that_no_client_could_have_sent() -> None:
    with driver(Topology().add_source("source", "in")) as run, pytest.raises(SerializationError, match="surrogate"):
        run.pipe_raw("in", b"k", b"v", 5, [("\ud800", b"1")])


# ---------------------------------------------------------------------- dead letters


def policy_on(broker: EmbeddedBroker, **config: Any) -> Any:
    clients = EmbeddedClients(broker)
    settings = StreamsConfig.of({"application.id": "a", "bootstrap.servers": "b:1", **config})
    producer = clients.producer({"linger.ms": 5})
    return error_policy_for(settings, TaskId(0, 0), RecordCollector(producer, broker.clock)), producer


@pytest.mark.parametrize(("guarantee", "there"), [("at_least_once", 1), ("exactly_once_v2", 0)])
def test_a_dead_letter_is_out_before_the_task_fails(guarantee: str, there: int) -> None:
    """Under exactly-once it is rolled back with the rest, so that nobody waits for it."""
    broker = EmbeddedBroker(auto_create_topics=True)
    config = {"errors.dead.letter.queue.topic.name": "dlq", "processing.guarantee": guarantee}
    policy, producer = policy_on(broker, **config)
    with pytest.raises(ProcessingError, match="ValueError in node 'n'"):
        policy.processing("n", ValueError("x"), "k", "v", 1, None, Cursor())
    found = broker.records("dlq", read_committed=False) if "dlq" in broker.topics else []
    assert len(found) == there
    producer.flush()


def counted(name: str) -> Topology:
    """Counts ``in``, and fails for counts of two further down, where a commit brings them."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    counts = groups.count(materialized=Materialized(name="n", key_serde=Serdes.STRING, value_serde=Serdes.LONG))

    def refuse_two(count: int) -> str:
        if count == 2:
            raise ValueError("two")
        return str(count)

    counts.to_stream().map_values(refuse_two, name=name).to("out")
    return builder.build({})


def test_a_change_that_waited_in_a_cache_still_knows_its_source_record(tmp_path: Path) -> None:
    """The dead letter of a failure at a commit is the last record that changed the row."""
    config = {
        "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
        "errors.dead.letter.queue.topic.name": "dlq",
    }
    with TaskKit(counted("m"), tmp_path, config) as kit:
        kit.pipe("in", b"a", b"first", 1)
        kit.pipe("in", b"a", b"second", 2)
        kit.pipe("in", b"b", b"other", 3)
        kit.commit()
        assert kit.sent("dlq") == [(b"a", b"second", 2)]
        assert kit.sent("out") == [(b"b", b"1", 3)]
        assert kit.budget.cached == sum(len(key) + 8 + 45 for key in ("a", "b"))


def test_without_a_handler_that_could_ask_caches_keep_no_messages(tmp_path: Path) -> None:
    """Not by default, nor for a handler of records that cannot be read; the metadata is there all the same."""
    seen: list[ErrorHandlerContext] = []
    config = {"deserialization.exception.handler": Asked()}
    with TaskKit(counted("m"), tmp_path / "1", config) as kit:
        assert not kit.environment.errors.wants_messages
        kit.pipe("in", b"a", b"first", 1)
        kit.pipe("in", b"a", b"second", 2)
        with pytest.raises(ProcessingError) as caught:
            kit.commit()
        assert (caught.value.topic, caught.value.offset, caught.value.node) == ("in", 1, "m")

    def look(context: ErrorHandlerContext, record: Any, error: Exception) -> Response:
        seen.append(context)
        return Response.resume()

    with TaskKit(counted("m"), tmp_path / "2", {"processing.exception.handler": look}) as kit:
        assert kit.environment.errors.wants_messages
        for value in (b"first", b"second"):
            kit.pipe("in", b"a", value, 1)
        kit.commit()
    assert [(context.offset, context.source_raw_value) for context in seen] == [(1, b"second")]


# -------------------------------------------------------------- refused by the broker


def undelivered(answer: Any, failure: StreamsError, **config: Any) -> tuple[Any, list[Any], Asked]:
    handler = Asked(answer)
    policy, _ = policy_on(EmbeddedBroker(), **{"production.exception.handler": handler, **config})
    verdict, letters = policy.undelivered("sink", failure, ProducerRecord("out", b"k", b"v", 3, [("h", b"1")], 4))
    return verdict, list(letters), handler


def test_going_on_after_a_refusal_gives_no_failure() -> None:
    """The handler is shown the record that was refused; what was in work by then is unknown."""
    failure = ProductionError("too large")
    verdict, letters, handler = undelivered(None, failure)
    assert (verdict, letters) == (None, [])
    ((context, record, error, origin),) = handler.calls
    assert (record, error, origin) == (ProducerRecord("out", b"k", b"v", 3, [("h", b"1")], 4), failure, None)
    assert (context.topic, context.partition, context.offset, context.processor_node_id) == (None, -1, -1, "sink")


def test_a_refused_record_can_become_a_dead_letter() -> None:
    def to_queue(context: ErrorHandlerContext, record: Any, error: Exception, origin: Any) -> Response:
        return Response.resume(dead_letter_queue_records(context, error))

    config = {"production.exception.handler": to_queue, "errors.dead.letter.queue.topic.name": "dlq"}
    policy, _ = policy_on(EmbeddedBroker(), **config)
    failure, (letter,) = policy.undelivered("sink", ProductionError("x"), ProducerRecord("out", b"k", b"v", 3))
    assert failure is None
    assert (letter.topic, letter.key, letter.value, letter.timestamp) == ("dlq", b"k", b"v", 3)


def test_only_what_was_not_delivered_in_time_is_retried() -> None:
    """RETRY for anything else, and FAIL, are a :class:`ProductionError` with the node and the reason."""
    late, large = NotDelivered("late"), ProductionError("large")
    late.reason = "_MSG_TIMED_OUT"
    assert undelivered(Response.retry(), late)[0] is late
    assert undelivered(Response.retry(), large)[0] is large
    verdict, _, _ = undelivered(Response.fail(), late)
    assert type(verdict) is ProductionError
    assert (verdict.reason, verdict.node, verdict.task) == ("_MSG_TIMED_OUT", "sink", "0_0")


def test_nobody_is_asked_about_a_refusal_under_exactly_once() -> None:
    """The transaction cannot be committed any more, whatever the answer would be; what was late is tried again."""
    config = {"processing.guarantee": "exactly_once_v2"}
    for failure, kind in ((ProductionError("x"), ProductionError), (NotDelivered("x"), NotDelivered)):
        verdict, _, handler = undelivered(None, failure, **config)
        assert type(verdict) is kind
        assert handler.calls == []


def test_a_handler_that_fails_over_a_refusal_does_not_raise_in_the_callback() -> None:
    verdict, letters, _ = undelivered(KeyError("oops"), ProductionError("x"))
    assert isinstance(verdict, ProductionError)
    assert "failed itself: KeyError: 'oops'" in str(verdict)
    assert letters == []


def test_a_change_that_waited_in_two_caches_knows_its_own_source_record(tmp_path: Path) -> None:
    """A table's cache is filled from the cache of the table before, where several changes wait."""
    builder = StreamsBuilder()
    groups = builder.stream("in").group_by_key(Grouped(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
    counts = groups.count(materialized=Materialized(name="n", key_serde=Serdes.STRING, value_serde=Serdes.LONG))
    doubled: Materialized[str, int] = Materialized(name="m", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
    twice = counts.map_values(lambda count: 2 * count, materialized=doubled)

    def refuse(count: int) -> str:
        raise ValueError("never")

    twice.to_stream().map_values(refuse).to("out")
    config = {
        "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
        "errors.dead.letter.queue.topic.name": "dlq",
    }
    with TaskKit(builder.build({}), tmp_path, config) as kit:
        for key in (b"a", b"b", b"c"):
            kit.pipe("in", key, b"of " + key)
        kit.commit()
        assert [(key, value) for key, value, _ in kit.sent("dlq")] == [
            (b"a", b"of a"),
            (b"b", b"of b"),
            (b"c", b"of c"),
        ]


def test_messages_that_a_cache_keeps_count_towards_its_limit(tmp_path: Path) -> None:
    """Each once, while it waits: large source records make the cache send earlier."""
    config = {"errors.dead.letter.queue.topic.name": "dlq", "statestore.cache.max.bytes": 10_000}
    row = 1 + 8 + 45
    with TaskKit(counted("m"), tmp_path, {**config, "processing.exception.handler": Asked()}) as kit:
        for size in (1000, 3000, 2000):
            kit.pipe("in", b"a", b"x" * size)
            assert kit.budget.cached == row + 1 + size
        kit.pipe("in", b"b", b"y" * 8000)
        assert kit.sent("out") == [(b"a", b"3", 0), (b"b", b"1", 0)]
        assert kit.budget.cached == 2 * row
        kit.pipe("in", b"a", b"z" * 500)
        assert kit.budget.cached == 3 * row + 501
        kit.task.roll_back()
        assert kit.budget.cached == 0
