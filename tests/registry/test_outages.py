"""Applications whose schema registry is away: tasks wait, and no handler is asked about a record."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

import pytest

from processor_api.errors import UnreachableError, outage_behind
from processor_api.user_code.migrating_serde import MigratingSerde
from registry_server import KeptRegistry
from streams import (
    Avro,
    Consumed,
    Processor,
    Record,
    Repartitioned,
    SchemaRegistry,
    Serde,
    Stores,
    StreamsBuilder,
)
from streams.testing import EmbeddedKafka
from waiting import wait_until

AWAY = (503, {"error_code": 50301, "message": "away"})
RECORDS = 30


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int = 0


class AwayForATime(KeptRegistry):
    """A registry that answers what a test says while it is away."""

    def __init__(self) -> None:
        super().__init__([])
        self.instead: tuple[int, Any] | None = None
        self.asked = 0

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
        self.asked += 1
        return self.instead or super().answer(method, path, headers, body)


@pytest.fixture
def server() -> Iterator[AwayForATime]:
    with AwayForATime() as made:
        yield made


def reads(builder: StreamsBuilder) -> None:
    builder.stream("in", value_serde=Avro(Order)).map_values(lambda order: order.customer).to("out")


def writes(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(Order).to("out", value_serde=Avro(Order))


def keeps(builder: StreamsBuilder) -> None:
    grouped = builder.stream("in").map_values(Order).group_by_key(value_serde=Avro(Order))
    table = grouped.reduce(lambda old, new: Order(new.customer, old.cents + 1), materialized="orders")
    table.to_stream().map_values(lambda order: order.customer).to("out")


def repartitions(builder: StreamsBuilder) -> None:
    moved = builder.stream("in").map_values(Order).repartition(Repartitioned(name="moved", value_serde=Avro(Order)))
    moved.map_values(lambda order: order.customer).to("out")


def hides(builder: StreamsBuilder) -> None:
    """Has a function that raises an error of its own from that of the serde."""
    serde = Avro(Order, registry=builder_registry(builder)).bind("elsewhere", is_key=False)

    def chained(value: str) -> str:
        try:
            return written_plainly(value)
        except Exception as error:
            raise ValueError("it is wrong") from error

    def written_plainly(value: str) -> str:
        serde.serialize(Order(value))
        return value

    builder.stream("in").map_values(chained).to("out")


def builder_registry(builder: Any) -> SchemaRegistry:
    return REGISTRIES[id(builder)]


REGISTRIES: dict[int, SchemaRegistry] = {}

CONTINUES = {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
@pytest.mark.parametrize("build", [reads, writes, keeps, repartitions, hides])
def test_no_record_is_lost(server: AwayForATime, build: Callable[[StreamsBuilder], None], guarantee: str) -> None:
    registry = SchemaRegistry(server.url, subject_name_strategy="topic")
    builder = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=registry)
    REGISTRIES[id(builder)] = registry
    build(builder)
    values: Any = Avro(Order, registry=registry) if build is reads else "string"
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        given: list[Any] = [Order(f"n{n}") if build is reads else f"n{n}" for n in range(RECORDS)]
        kafka.create_input_topic("in", "string", values).pipe_key_values(
            [(f"k{n}", one) for n, one in enumerate(given)]
        )
        fresh = SchemaRegistry(server.url, subject_name_strategy="topic", request_timeout_ms=9_000)
        again = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=fresh)
        REGISTRIES[id(again)] = fresh
        build(again)
        server.instead = AWAY
        app = kafka.start(again, {"processing.guarantee": guarantee, **CONTINUES}, wait=False)
        wait_until("tasks went back twice", lambda: sum(one.outages for one in app.status().threads) > 1)
        assert app.failure is None
        asked = server.asked
        server.instead = None
        found = kafka.read_records(
            "out", RECORDS, "string", Avro(Order, registry=fresh) if build is writes else "string"
        )
        assert sorted(str(getattr(one.value, "customer", one.value)) for one in found) == sorted(
            f"n{n}" for n in range(RECORDS)
        )
        assert asked < RECORDS


@pytest.mark.parametrize("instead", [(401, {"error_code": 40101, "message": "no"}), (200, b"<html>"), (404, b"<html>")])
def test_what_is_not_an_answer_is_waited_for_too(server: AwayForATime, instead: tuple[int, Any]) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=SchemaRegistry(server.url))
    writes(builder)
    server.instead = instead
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_input_topic("in").pipe_input("a", "ann")
        app = kafka.start(builder, wait=False)
        wait_until("the task went back", lambda: sum(one.outages for one in app.status().threads))
        server.instead = None
        (found,) = kafka.read_records("out", 1, "string", Avro(Order, registry=SchemaRegistry(server.url)))
        assert found.value == Order("ann")


def test_an_outage_that_lasts_ends_the_task(server: AwayForATime) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=SchemaRegistry(server.url))
    writes(builder)
    server.instead = AWAY
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_input_topic("in").pipe_input("a", "ann")
        app = kafka.start(builder, {"task.timeout.ms": 300}, wait=False)
        wait_until("the application fails", lambda: app.failure is not None)
        failure = str(app.failure)
        app.close()
    assert "task.timeout.ms" in failure
    assert f"the registry {server.url}" in failure


def add_names(builder: StreamsBuilder) -> None:
    """Adds a global store that a processor fills from the topic of orders."""

    class Names(Processor[str, Order, None, None]):
        def process(self, record: Record[str, Order]) -> None:
            self.context.get_state_store("names").put(record.key, record.value.customer)

    store = Stores.key_value_store("names", "string", "string").with_logging_disabled()
    builder.add_global_store(store, "orders", Consumed(key_serde="string", value_serde=Avro(Order)), Names)


def test_global_stores_wait_in_place(server: AwayForATime) -> None:
    registry = SchemaRegistry(server.url)
    builder = StreamsBuilder(key_serde="string", value_serde="string", schema_registry=registry)
    add_names(builder)

    class Named(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            name = self.context.get_state_store("names").get(record.key)
            self.context.forward(record.with_value(f"{record.value} {name}"))

    builder.stream("in").process(Named).to("out")
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out", "orders")
        other = SchemaRegistry(server.url, request_timeout_ms=9_000)
        orders = kafka.create_input_topic("orders", "string", Avro(Order, registry=other))
        orders.pipe_key_values([("a", Order("ann")), ("b", Order("bob"))])
        server.instead = AWAY
        handler = {"deserialization.exception.handler": "LogAndContinueExceptionHandler"}
        asked = server.asked
        starting = threading.Thread(target=kafka.start, args=(builder, handler))
        starting.start()
        wait_until("it was asked three times", lambda: server.asked > asked + 2)
        server.instead = None
        starting.join()
        kafka.create_input_topic("in").pipe_key_values([("a", "1"), ("b", "2")])
        assert [one.value for one in kafka.read_records("out", 2)] == ["1 ann", "2 bob"]


def test_an_application_whose_global_stores_wait_can_be_closed(server: AwayForATime) -> None:
    builder = StreamsBuilder(key_serde="string", schema_registry=SchemaRegistry(server.url))
    add_names(builder)
    with EmbeddedKafka() as kafka:
        kafka.create_topics("orders")
        other = SchemaRegistry(server.url, request_timeout_ms=9_000)
        kafka.create_input_topic("orders", "string", Avro(Order, registry=other)).pipe_input("a", Order("ann"))
        server.instead, asked = AWAY, server.asked
        starting = threading.Thread(target=partial(kafka.start, builder, wait=False))
        starting.start()
        wait_until("it was asked", lambda: server.asked > asked)
        (app,) = kafka.applications
        assert app.close(30)
        starting.join()
        assert app.failure is None


def test_a_serde_of_the_user_may_say_that_a_service_is_away() -> None:
    tries: list[str] = []

    def read(data: bytes) -> str:
        tries.append(data.decode())
        if len(tries) < 3:
            raise UnreachableError("the key service does not answer")
        return data.decode()

    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in", value_serde=Serde(str.encode, read)).to("out", value_serde="string")
    handler = {"deserialization.exception.handler": "LogAndContinueExceptionHandler"}
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in", "out")
        kafka.create_input_topic("in").pipe_input("a", "x")
        kafka.start(builder, handler)
        assert [one.value for one in kafka.read_records("out", 1)] == ["x"]


def test_a_value_is_not_converted_because_of_an_outage() -> None:
    def read(data: bytes) -> str:
        raise UnreachableError("away")

    serde = MigratingSerde(Serde(str.encode, read), lambda plain: "converted")
    with pytest.raises(UnreachableError):
        serde.deserialize(b"today")


def test_the_error_of_an_outage_is_found_behind_others() -> None:
    away = UnreachableError("away")

    def look_up() -> None:
        try:
            raise away
        except UnreachableError as error:
            raise KeyError("x") from error

    def call() -> None:
        try:
            look_up()
        except KeyError:
            raise ValueError("y")  # noqa: B904 - its context counts

    with pytest.raises(ValueError, match="y") as failed:
        call()
    assert outage_behind(failed.value) is away
    plain = ValueError("x")
    plain.__cause__ = plain
    assert outage_behind(plain) is None


def test_a_read_by_http_does_not_wait_for_a_registry(server: AwayForATime) -> None:
    """It held up all answers of the worker for the time-out of the registry, and then blamed the key."""
    builder = StreamsBuilder(value_serde="string", schema_registry=SchemaRegistry(server.url))
    builder.stream("in", key_serde=Avro(Order)).group_by_key().count(materialized="counts")
    server.instead = AWAY
    with EmbeddedKafka() as kafka:
        kafka.create_topics("in")
        app = kafka.start(builder, {"http.listen": "127.0.0.1:0"})
        url = f"{app.status().endpoint}/stores/counts/get?" + urlencode({"key": '{"customer": "ann", "cents": 1}'})
        status, headers, text = answer_of(url)
        assert (status, headers["Retry-After"]) == (503, "1")
        assert "the registry" in text
        server.instead = None
        wait_until("the registry is asked again", lambda: answer_of(url)[0] == 404)


def answer_of(url: str) -> tuple[int, Mapping[str, str], str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()
