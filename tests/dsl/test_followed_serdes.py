"""Serdes follow the classes that functions are annotated to return, if the builder has ``models=``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from processor_api.errors import ConfigError, ProcessingError, SerializationError, TopologyError
from processor_api.topology.describe import describe
from streams import (
    Avro,
    BatchProcessor,
    BufferConfig,
    FixedKeyProcessor,
    FixedKeyRecord,
    JoinWindows,
    JsonSchema,
    KStream,
    KTable,
    Materialized,
    Processor,
    Record,
    Repartitioned,
    SchemaRegistry,
    Serde,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyTestDriver,
    ValueTransformerWithKey,
    pydantic_serde,
)
from streams.testing import TestRecord

MINUTE = timedelta(minutes=1)


@dataclass
class Raw:
    customer: str
    euros: float


class Order(BaseModel):
    customer: str
    cents: int


@dataclass
class Total:
    cents: int = 0


@dataclass
class Enriched:
    customer: str
    cents: int
    city: str


@dataclass(frozen=True)
class Customer:
    name: str


class Opaque:
    pass


def to_order(raw: Raw) -> Order:
    return Order(customer=raw.customer, cents=round(raw.euros * 100))


def customer_of(_: str, order: Order) -> Customer:
    return Customer(order.customer)


def add(_: Any, order: Order, total: Total) -> Total:
    return Total(total.cents + order.cents)


def enrich(order: Order, city: str) -> Enriched:
    return Enriched(order.customer, order.cents, city)


def own_serde(kind: type) -> Serde[Any]:
    return pydantic_serde(kind)


class Way(NamedTuple):
    models: Any
    name: str

    @property
    def builder(self) -> StreamsBuilder:
        return StreamsBuilder(key_serde="string", models=self.models, schema_registry=SchemaRegistry("mock://followed"))


WAYS = [
    Way("json", "pydantic"),
    Way("avro", "avro"),
    Way(Avro, "avro"),
    Way(JsonSchema, "json schema"),
    Way(own_serde, "pydantic"),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: getattr(way.models, "__name__", way.models))
def test_models_are_read_back_as_models_from_each_topic_and_store(way: Way) -> None:
    """After a function they came back as dicts, or without a default serde there was an error."""
    builder = way.builder
    orders = builder.stream("raw", value_serde=Raw).map_values(to_order)
    by_customer = orders.select_key(customer_of)
    by_customer.to("orders")
    totals = by_customer.group_by_key().aggregate(Total, add, materialized="totals")
    totals.to_stream().to("totals")
    cities = builder.table("cities", key_serde=Customer, value_serde="string")
    by_customer.join(cities, enrich).repartition().to("enriched")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("cities").pipe_input(Customer("ann"), "Oslo")
        driver.create_input_topic("raw").pipe_key_values([("1", Raw("ann", 1.5)), ("2", Raw("ann", 2.5))])
        ann = Customer("ann")
        first, second = Order(customer="ann", cents=150), Order(customer="ann", cents=250)
        assert driver.create_output_topic("orders").read_key_values() == [(ann, first), (ann, second)]
        assert driver.create_output_topic("totals").read_key_values() == [(ann, Total(150)), (ann, Total(400))]
        assert driver.create_output_topic("enriched").read_values()[-1] == Enriched("ann", 250, "Oslo")
        assert driver.get_key_value_store("totals").get(ann) == Total(400)
    names = serdes_of(builder.build())
    assert names["orders"] == (f"{way.name} Customer", f"{way.name} Order")
    assert names["totals"] == (f"{way.name} Customer", f"{way.name} Total")
    assert names["totals-repartition"] == names["orders"]


def serdes_of(topology: Topology) -> dict[str, tuple[str | None, str | None]]:
    """The names of the serdes of each topic and store."""
    found = {}
    for node in topology.nodes.values():
        for topic in [getattr(node, "topic", None), *getattr(node, "topics", ())]:
            if topic is not None:
                found[topic] = (node.key_serde, node.value_serde)  # type: ignore[union-attr]
    for name, store in topology.stores.items():
        found[name] = (store.key_serde, store.value_serde)
    return {name: tuple(None if one is None else one.name for one in pair) for name, pair in found.items()}  # type: ignore[misc]


# ---------------------------------------------------------------------- each call


def as_pair(_: str, order: Order) -> tuple[Customer, Total]:
    return Customer(order.customer), Total(order.cents)


def as_pairs(_: str, order: Order) -> list[tuple[Customer, Total]]:
    return [(Customer(order.customer), Total(order.cents))]


def as_total(order: Order) -> Total | None:
    return Total(order.cents)


def as_totals(order: Order) -> Sequence[Total]:
    return [Total(order.cents)]


def batch(orders: list[Order]) -> list[Total | Exception]:
    return [Total(order.cents) for order in orders]


def with_key(_: str, order: Order) -> Total:
    return Total(order.cents)


def of_other(order: Order, other: Any) -> Total:
    return Total(order.cents)


def more(one: Total, other: Total) -> Total:
    return Total(one.cents + other.cents)


def merged(_: str, one: Total, other: Total) -> Total:
    return more(one, other)


class Forward(Processor[str, Order, Customer, Total]):
    def process(self, record: Record[str, Order]) -> None:
        self.context.forward(record.with_key(Customer("ann")).with_value(Total(1)))


class Length(FixedKeyProcessor[str, Order, Total]):
    def process(self, record: FixedKeyRecord[str, Order]) -> None:
        self.context.forward(record.with_value(Total(1)))


class Batch(BatchProcessor[str, Order, Customer, Total]):
    def process_batch(self, records: list[Record[str, Order]]) -> list[list[Record[Customer, Total]]]:
        return [[record.with_key(Customer("ann")).with_value(Total(1))] for record in records]


class Transform(ValueTransformerWithKey[str, Order, Total]):
    def transform(self, key: str, value: Order | None) -> Total | None:
        return Total(1)


Stream, Table = KStream[str, Order], KTable[str, Order]
WITHIN = JoinWindows.of_time_difference_with_no_grace(MINUTE)
ONE = BufferConfig.max_records(1)
TUMBLING, SESSIONS = TimeWindows.of_size_with_no_grace(MINUTE), SessionWindows.of_inactivity_gap_with_no_grace(MINUTE)
OF_STREAMS: dict[str, Callable[[Stream, Table], KStream[Any, Total]]] = {
    "map": lambda s, t: s.map(as_pair),
    "flat_map": lambda s, t: s.flat_map(as_pairs),
    "map_values": lambda s, t: s.map_values(as_total),
    "map_values_with_key": lambda s, t: s.map_values_with_key(with_key),
    "flat_map_values": lambda s, t: s.flat_map_values(as_totals),
    "map_values_batch": lambda s, t: s.map_values_batch(batch),
    "process": lambda s, t: s.process(Forward),
    "process_values": lambda s, t: s.process_values(Length),
    "process_batch": lambda s, t: s.process_batch(Batch),
    "join of streams": lambda s, t: s.join(s.filter(lambda k, v: True), of_other, windows=WITHIN),
    "left_join of streams": lambda s, t: s.left_join(s.filter(lambda k, v: True), of_other, windows=WITHIN),
    "join": lambda s, t: s.join(t, of_other),
    "merge": lambda s, t: s.map_values(as_total).merge(s.map_values_with_key(with_key)),
    "filter, peek": lambda s, t: s.map_values(as_total).filter(lambda k, v: True).peek(lambda k, v: None),
    "split": lambda s, t: s.map_values(as_total).split(name="p-").branch(lambda k, v: True).no_default_branch()["p-1"],
}
OF_TABLES: dict[str, Callable[[Stream, Table], KTable[Any, Total]]] = {
    "map_values": lambda s, t: t.map_values(as_total, materialized="store"),
    "map_values without a store": lambda s, t: t.map_values(as_total),
    "transform_values": lambda s, t: t.transform_values(Transform, materialized="store"),
    "join": lambda s, t: t.join(t.filter(lambda k, v: True), of_other, materialized="store"),
    "outer_join": lambda s, t: t.outer_join(t.filter(lambda k, v: True), of_other, materialized="store"),
    "foreign_key_join": lambda s, t: t.foreign_key_join(t, lambda o: o.customer, of_other, materialized="store"),
    "aggregate": lambda s, t: s.group_by_key().aggregate(Total, lambda k, v, total: total, materialized="store"),
    "aggregate by its aggregator": lambda s, t: s.group_by_key().aggregate(lambda: Total(), add, materialized="store"),
    "reduce": lambda s, t: s.map_values(lambda o: Total(1)).group_by_key().reduce(more, materialized="store"),
    "to_table": lambda s, t: s.map_values(as_total).to_table(materialized="store"),
    "cogroup": lambda s, t: s.group_by_key().cogroup(add).aggregate(Total, materialized="store"),
    "group_by, aggregate": lambda s, t: t.group_by(by_name).aggregate(Total, add, add, materialized="store"),
    "windows": lambda s, t: s.group_by_key().windowed_by(TUMBLING).aggregate(Total, add, materialized="store"),
    "sessions": lambda s, t: s.group_by_key().windowed_by(SESSIONS).aggregate(Total, add, merged, materialized="store"),
    "suppress": lambda s, t: t.map_values(as_total).suppress(Suppressed.until_time_limit(MINUTE, ONE)),
    "windowed cogroup": lambda s, t: (
        s.group_by_key().cogroup(add).windowed_by(TUMBLING).aggregate(Total, materialized="store")
    ),
}


def by_name(_: str, order: Order) -> tuple[str, Order]:
    return order.customer, order


@pytest.mark.parametrize("call", OF_STREAMS)
def test_each_call_of_a_stream_has_the_serde_of_its_result(call: str) -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    stream = builder.stream("orders", value_serde=Order)
    result = OF_STREAMS[call](stream, builder.table("table", value_serde=Order))
    result.to("out")
    result.repartition(Repartitioned(name="again")).foreach(lambda k, v: None)
    found = serdes_of(builder.build())
    changes_key = call in ("map", "flat_map", "process", "process_batch")
    assert found["out"] == ("pydantic Customer" if changes_key else "string", "pydantic Total")
    assert found["again-repartition"] == found["out"]


@pytest.mark.parametrize("call", OF_TABLES)
def test_each_call_of_a_table_has_the_serde_of_its_result(call: str) -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    stream = builder.stream("orders", value_serde=Order)
    result = OF_TABLES[call](stream, builder.table("table", value_serde=Order))
    result.to_stream().to("out")
    found = serdes_of(builder.build())
    assert found["out"][1] == "pydantic Total"
    assert found.get("store", found["out"])[1] == "pydantic Total"
    if call == "group_by, aggregate":
        assert found["store-repartition"] == ("string", "change of pydantic Order")
    if call == "suppress":
        (buffer,) = (name for name in found if "SUPPRESS" in name)
        assert found[buffer] == ("string", "pydantic Total")


def test_keys_follow_selectors() -> None:
    builder = StreamsBuilder(models="json")
    orders = builder.stream("orders", key_serde="string", value_serde=Order)
    orders.group_by(customer_of).count(materialized="counts").to_stream().to("counts")
    windowed = orders.group_by(customer_of).windowed_by(TUMBLING).count(materialized="windows").to_stream()
    windowed.to("windows")
    found = serdes_of(builder.build())
    assert found["counts"] == ("pydantic Customer", "long")
    assert found["windows-repartition"] == ("pydantic Customer", "pydantic Order")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("orders").pipe_input("1", Order(customer="ann", cents=1), timestamp=5)
        ((windowed_key, count),) = driver.create_output_topic("windows").read_key_values()
        assert (windowed_key.key, count) == (Customer("ann"), 1)


# ---------------------------------------------------------------------- what wins


def unsure(order: Order) -> Total | Customer:
    return Total(order.cents)


def nobody() -> Customer:
    return Customer("")


def test_a_serde_that_is_given_wins() -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    totals = builder.stream("orders", value_serde=Order).map_values(as_total)
    totals.to("out", value_serde=pydantic_serde(Total, exclude_none=True))
    totals.repartition(Repartitioned(name="again", value_serde=Serdes.JSON)).foreach(lambda k, v: None)
    given = Materialized[str, Total](name="store", value_serde="json")
    totals.to_table(materialized=given)
    found = serdes_of(builder.build())
    assert found["again-repartition"] == found["store"] == ("string", "json")


def test_what_is_not_certain_has_the_default() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="json", models=Avro)
    orders = builder.stream("orders", value_serde=Order)
    for number, function in enumerate((lambda order: Total(1), unsure, dict)):
        orders.map_values(function).to(f"out-{number}")
    orders.group_by_key().aggregate(nobody, add, materialized="two")
    orders.map_values(as_total).merge(orders.map_values(to_order)).to("merged")
    found = serdes_of(builder.build())
    assert {found[name][1] for name in ("out-0", "out-1", "out-2", "two", "merged")} == {"json"}


def test_without_models_nothing_follows() -> None:
    """A topology keeps the serdes that it had."""
    for default in ("json", None):
        builder = StreamsBuilder(key_serde="string", value_serde=default)
        stream, table = builder.stream("orders", value_serde=Order), builder.table("table", value_serde=Order)
        for number, call in enumerate(OF_STREAMS.values()):
            call(stream, table).to(f"out-{number}", key_serde="string")
        stream.group_by(customer_of).count(materialized="counts")
        stream.group_by_key().aggregate(Total, add, materialized="store")
        found = serdes_of(builder.build())
        assert {found[f"out-{number}"][1] for number in range(len(OF_STREAMS))} == {default}
        assert (found["counts"][0], found["store"][1]) == ("string", default)


def a_number(order: Order) -> int:
    return order.cents


def a_text(order: Order) -> str:
    return order.customer


@pytest.mark.parametrize(
    ("default", "function", "expected"),
    [
        (None, a_number, "long"),
        (None, a_text, "string"),
        ("json", a_number, "json"),
        ("json", a_text, "json"),
        ("string", a_number, "long"),
        ("integer", a_number, "integer"),
        (Order, a_text, "string"),
        (Serde(str.encode, bytes.decode, name="own"), a_text, "own"),
    ],
)
def test_text_and_numbers_have_the_default_of_the_builder_unless_it_writes_another_class(
    default: Any, function: Any, expected: str
) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=default, models="json")
    builder.stream("orders", value_serde=Order).map_values(function).to("out")
    assert serdes_of(builder.build())["out"] == ("string", expected)


def test_a_class_that_is_given_as_a_serde_is_written_as_models_are() -> None:
    registry = SchemaRegistry("mock://given")
    builder = StreamsBuilder(key_serde=Customer, models=Avro, schema_registry=registry)
    table = builder.table("orders", value_serde=Order)
    table.group_by(by_name, key_serde="string").aggregate(Total, add, add, materialized="totals")
    stream = builder.stream("more", value_serde=Order)
    stream.left_join(stream.filter(lambda k, v: True), of_other, windows=WITHIN).to("out")
    stream.group_by_key().windowed_by(TUMBLING).count().to_stream().to("windows")
    stream.to("json", value_serde=pydantic_serde(Order))
    found = serdes_of(builder.build())
    assert found["orders"] == found["more"] == ("avro Customer", "avro Order")
    assert found["totals-repartition"][1] == "change of avro Order"
    assert found["json"] == ("avro Customer", "pydantic Order")
    assert not any("pydantic" in str(one) for name, pair in found.items() if name != "json" for one in pair), found


# ---------------------------------------------------------------------- what is said


def test_the_description_with_calls_says_which_serde_was_chosen_and_why() -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    orders = builder.stream("raw", value_serde=Raw).map_values(to_order)
    orders.to("out")
    orders.group_by_key().aggregate(Total, lambda k, v, total: total, materialized="totals")
    topology = builder.build()
    text, line = describe(topology, calls=True), to_order.__code__.co_firstlineno
    assert f"value serde pydantic Order, because to_order at {__file__}:{line} returns Order" in text.replace(
        "at tests/", f"at {__file__.partition('tests/')[0]}tests/"
    )
    assert "value serde pydantic Total, because the class Total is called" in text
    assert "because" not in topology.describe()


def wrong(raw: Raw) -> Order:
    return Total(1)  # type: ignore[return-value]


def test_the_error_of_a_value_of_another_class_says_why_its_serde_was_chosen() -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    builder.stream("raw", value_serde=Raw).map_values(wrong).to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(SerializationError) as caught:
        driver.create_input_topic("raw").pipe_input("1", Raw("ann", 1))
    assert "it has the value serde pydantic Order, because wrong at " in caught.value.message
    assert "to('out', value_serde=...)" in caught.value.message.replace("to(out", "to('out'")


def test_the_error_of_a_model_that_is_a_dict_after_a_topic_names_models() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    orders = builder.stream("raw", value_serde=Raw).map_values(to_order).repartition()
    orders.map_values(lambda order: order.cents).to("out")
    with TopologyTestDriver(builder) as driver, pytest.raises(ProcessingError) as caught:
        driver.create_input_topic("raw").pipe_input("1", Raw("ann", 1))
    assert 'give StreamsBuilder(models="json")' in caught.value.message


def opaque(order: Order) -> Raw:
    return Raw("ann", 1)


def refuses(kind: type) -> Serde[Any]:
    if kind is Raw:
        raise ValueError("no such class")
    return pydantic_serde(kind)


def test_a_class_without_a_serde_is_an_error_only_where_it_is_written() -> None:
    builder = StreamsBuilder(key_serde="string", models=refuses)
    raw = builder.stream("orders", value_serde=Order).map_values(opaque)
    raw.map_values(to_order).to("out")
    raw.group_by_key().count(materialized="counts")
    builder.build()
    raw.to("raw")
    with pytest.raises(TopologyError) as caught:
        builder.build()
    text = str(caught.value)
    assert "models of StreamsBuilder cannot make a serde of Raw: ValueError: no such class" in text
    assert "because opaque at " in text
    assert "made at " in text


def test_a_function_that_returns_no_serde_is_an_error() -> None:
    builder = StreamsBuilder(key_serde="string", models=lambda kind: "json")
    builder.stream("orders", value_serde=pydantic_serde(Order)).map_values(as_total).to("out")
    with pytest.raises(TopologyError, match="serde of Total: it returned 'json', not a serde"):
        builder.build()


@pytest.mark.parametrize("given", ["string", "xml", 5, Serdes.JSON, Order])
def test_models_are_a_name_or_a_function(given: Any) -> None:
    with pytest.raises(TopologyError, match='models of StreamsBuilder must be "json", "avro" or a function'):
        StreamsBuilder(models=given)


def test_a_registry_of_the_settings_serves_followed_serdes() -> None:
    builder = StreamsBuilder(key_serde="string", models=Avro)
    builder.stream("raw", value_serde=Raw).map_values(to_order).repartition(Repartitioned(name="again")).to("out")
    with TopologyTestDriver(builder, {"schema.registry.url": "mock://of-settings"}) as driver:
        driver.create_input_topic("raw").pipe_record(TestRecord("1", Raw("ann", 1)))
        assert driver.create_output_topic("out").read_values() == [Order(customer="ann", cents=100)]


def test_a_missing_default_is_found_as_before() -> None:
    builder = StreamsBuilder(key_serde="string", models="json")
    builder.stream("orders").map_values(a_number).to("out")
    with pytest.raises(ConfigError, match="source 'KSTREAM-SOURCE-0000000000' of topic 'orders' has no value serde"):
        TopologyTestDriver(builder)
