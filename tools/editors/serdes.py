# ruff: noqa: B018 - a program of mistakes
"""Serdes, options, windows and reads of stores, as a user types them. A comment after a line has what both mypy and
pyright report: a type, or a part of an error."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, reveal_type

from streams import (
    Avro,
    Consumed,
    Grouped,
    JsonSchema,
    KafkaStreams,
    KeyQuery,
    KStream,
    Materialized,
    MultiVersionedKeyQuery,
    Produced,
    Protobuf,
    QueryableStoreTypes,
    RangeQuery,
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    Repartitioned,
    SchemaRegistry,
    Serde,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StateQueryRequest,
    StoreQueryParameters,
    Stores,
    StreamsBuilder,
    TimestampedKeyQuery,
    TimestampedKeyValueStore,
    TimeWindows,
    TopologyTestDriver,
    UnlimitedWindows,
    VersionedKeyQuery,
    VersionedKeyValueStore,
    WindowedSerdes,
    WindowKeyQuery,
    json_serde,
    list_serde,
    pydantic_serde,
    serde_of,
)
from streams.remote import RemoteStreams
from streams.testing import EmbeddedKafka, TestRecord


@dataclass(frozen=True)
class Customer:
    number: int


@dataclass(frozen=True)
class Order:
    cents: int


class Receipt:
    """Stands for a class that protoc has generated."""


unknown: Any = None

# serdes of schemas, with and without a model
reveal_type(Avro(Order))  # Avro[Order]
reveal_type(Avro(Order, name="com.shop.Order", registry=SchemaRegistry("mock://shop")))  # Avro[Order]
reveal_type(Avro(list[Order]))  # Avro[list[Order]]
reveal_type(Avro(Order | None))  # Avro[object]
reveal_type(Avro())  # Avro[Any]
reveal_type(Avro(schema={"type": "string"}))  # Avro[Any]
reveal_type(Avro(unknown))  # Avro[Any]
reveal_type(JsonSchema(Order, use_latest_version=True))  # JsonSchema[Order]
reveal_type(JsonSchema())  # JsonSchema[Any]
reveal_type(Protobuf(Receipt))  # Protobuf[Receipt]
Avro(Order).serialize(Customer(1))  # error: "Customer"
Avro(Order).deserialize(b"").cent  # error: "cent"
of_orders: Serde[Order] = Avro(Order)
of_customers: Serde[Customer] = JsonSchema(Order)  # error: Serde[Customer]

# other serdes
reveal_type(pydantic_serde(Order))  # Serde[Order]
reveal_type(list_serde(Order))  # ListSerde[Order]
reveal_type(list_serde("string"))  # ListSerde[Any]
reveal_type(json_serde())  # Serde[Any]
reveal_type(serde_of(lambda number: str(number).encode(), int))  # Serde[int]
reveal_type(Serdes.DOUBLE)  # Serde[float]
reveal_type(WindowedSerdes.time_windowed_serde_from(Avro(Customer), timedelta(minutes=1)))  # Serde[Windowed[Customer]]
reveal_type(WindowedSerdes.session_windowed_serde_from("string"))  # Serde[Windowed[Any]]
list_serde(Order).deserialize(b"")[0].cents  # error: "cents"

# arguments of the builder
builder = StreamsBuilder(key_serde="string", value_serde=Avro(), schema_registry=SchemaRegistry("mock://shop"))
StreamsBuilder(models="json")
StreamsBuilder(models=Avro)
StreamsBuilder(models=Protobuf)
StreamsBuilder(models=pydantic_serde)
StreamsBuilder(models=lambda kind: Avro(kind, use_latest_version=True))
StreamsBuilder(models="jsno")  # error: "models"
StreamsBuilder(models=Avro(Order))  # error: "models"
orders = builder.stream("orders", key_serde=Avro(Customer), value_serde=Avro(Order))
reveal_type(orders)  # KStream[Customer, Order]
reveal_type(builder.stream("orders", value_serde=JsonSchema(Order)))  # KStream[Any, Order]
reveal_type(builder.stream("orders", key_serde="string", value_serde=Protobuf(Receipt)))  # KStream[Any, Receipt]
reveal_type(builder.stream("orders", key_serde=JsonSchema(Customer), value_serde="json"))  # KStream[Customer, Any]
reveal_type(builder.stream("orders", key_serde=Customer))  # KStream[Customer, Any]
reveal_type(builder.stream("orders", Consumed(key_serde=Customer, value_serde=Avro(Order))))  # KStream[Customer, Order]
reveal_type(builder.stream("orders", Consumed(key_serde="string"), value_serde=Order))  # KStream[Any, Any]
reveal_type(builder.stream("orders"))  # KStream[Any, Any]
reveal_type(builder.table("orders", key_serde=Customer, value_serde=Avro(Order)))  # KTable[Customer, Order]
reveal_type(builder.table("orders", key_serde=Customer))  # KTable[Customer, Any]
reveal_type(builder.table("orders", materialized=Materialized(value_serde=Avro(Order))))  # KTable[Any, Order]
reveal_type(builder.global_table("orders", key_serde=Customer, value_serde=Order))  # GlobalKTable[Customer, Order]
reveal_type(builder.global_table("orders", value_serde="json"))  # GlobalKTable[Any, Any]
annotated: KStream[str, Order] = builder.stream("orders", key_serde="string", value_serde=Avro(Order))
wrong: KStream[str, Order] = builder.stream("orders", key_serde="string", value_serde=Avro(Customer))  # error: Order
orders.map_values(lambda order: order.cent)  # error: "cent"
orders.select_key(lambda customer, order: customer.numbr)  # error: "numbr"
orders.filter(lambda customer, order: order.euros > 1)  # error: "euros"

# options of operators
orders.to("copies", key_serde=Avro(Customer), value_serde=Avro(Order))
orders.to("copies", value_serde=Avro(Customer))  # error: "value_serde"
orders.to("copies", key_serde=JsonSchema(Order))  # error: "key_serde"
orders.to("copies", Produced(value_serde=Customer))  # error: Customer
reveal_type(orders.repartition(Repartitioned(value_serde=Avro(Order))))  # KStream[Customer, Order]
orders.repartition(value_serde=Customer)  # error: "type[Customer]"
by_cents = orders.group_by(lambda customer, order: order.cents, key_serde="long", value_serde=Avro(Order))
reveal_type(by_cents)  # KGroupedStream[int, Order]
orders.group_by_key(value_serde=Avro(Customer))  # error: "value_serde"
orders.group_by(lambda customer, order: order.cents, Grouped(key_serde=Serdes.STRING))  # error: str
latest = orders.to_table(materialized=Materialized(name="latest", value_serde=Avro(Order)))
reveal_type(latest)  # KTable[Customer, Order]
totals = orders.group_by_key().aggregate(lambda: Order(0), lambda k, v, total: total, value_serde=Avro(Order))
reveal_type(totals)  # KTable[Customer, Order]
totals.to_stream().foreach(lambda customer, total: print(total.cent))  # error: "cent"
orders.join(latest, lambda order, last: order.cents - last.cent)  # error: "cent"

# windows
minute, grouped = timedelta(minutes=1), orders.group_by_key()
tumbling = grouped.windowed_by(TimeWindows.of_size_and_grace(minute, minute)).count()
reveal_type(tumbling)  # KTable[Windowed[Customer], int]
reveal_type(grouped.windowed_by(SlidingWindows.of_time_difference_with_no_grace(minute)).count())
# ^ KTable[Windowed[Customer], int]
reveal_type(grouped.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(minute)).reduce(lambda one, other: one))
# ^ KTable[Windowed[Customer], Order]
reveal_type(grouped.windowed_by(UnlimitedWindows.of()).count())  # KTable[Windowed[Customer], int]
tumbling.to_stream(lambda windowed, count: windowed.key.numbr)  # error: "numbr"
tumbling.to_stream(lambda windowed, count: windowed.window.begin)  # error: "begin"
TimeWindows.of_size_with_no_grace("1m")  # error: "of_size_with_no_grace"

# stores, as they are built
reveal_type(Stores.key_value_store("last", Avro(Customer), Avro(Order)))  # StoreBuilder[Customer, Order]
reveal_type(Stores.key_value_store("last", "string", "long"))  # StoreBuilder[Any, Any]
reveal_type(Stores.window_store("last", minute, minute, "string", Avro(Order)))  # StoreBuilder[Any, Order]
reveal_type(Stores.session_store("last", minute, Customer, Serdes.LONG))  # StoreBuilder[Customer, int]


def queries(application: KafkaStreams) -> None:
    """Reads stores of a running application."""
    kinds = QueryableStoreTypes
    latest: ReadOnlyKeyValueStore[str, Order] = application.store(StoreQueryParameters("l", kinds.key_value_store()))
    windows: ReadOnlyWindowStore[str, int] = application.store(StoreQueryParameters("w", kinds.window_store()))
    sessions: ReadOnlySessionStore[str, Order] = application.store(StoreQueryParameters("s", kinds.session_store()))
    reveal_type(latest.get("ann"))  # Order | None
    reveal_type(windows.fetch("ann", 0))  # int | None
    reveal_type([(windowed.key, order.cents) for windowed, order in sessions.fetch("ann")])  # list[tuple[str, int]]
    latest.get(1)  # error: "str"
    latest.get("ann").cents  # error: "cents"
    [order.cent for _, order in latest.all()]  # error: "cent"
    any_store = StateQueryRequest.in_store("latest")
    any_value = KeyQuery("ann")
    reveal_type(any_value)  # KeyQuery[str, Any]
    reveal_type(any_store.with_query(any_value))  # StateQueryRequest[Any | None]
    reveal_type(any_store.with_query(KeyQuery[str, Order]("ann")))  # StateQueryRequest[Order | None]
    reveal_type(RangeQuery("ann", "bob"))  # RangeQuery[str, Any]
    reveal_type(TimestampedKeyQuery[str, Order]("ann"))  # TimestampedKeyQuery[str, Order]
    reveal_type(VersionedKeyQuery("ann"))  # VersionedKeyQuery[str, Any]
    reveal_type(MultiVersionedKeyQuery("ann"))  # MultiVersionedKeyQuery[str, Any]
    reveal_type(WindowKeyQuery("ann", 0, 1))  # WindowKeyQuery[str, Any]
    found = application.query(any_store.with_query(KeyQuery[str, Order]("ann"))).only_partition_result
    if found is not None and found.result is not None:
        reveal_type(found.result)  # Order
        found.result.cent  # error: "cent"
    query = RangeQuery[str, Order]()
    for one in application.query(any_store.with_query(query)).partition_results.values():
        reveal_type([order.cents for _, order in one.result])  # list[int]


def remote(streams: RemoteStreams) -> None:
    """Reads stores over HTTP, as JSON."""
    store = streams.store("latest")
    row = store.row("ann")
    reveal_type(row)  # RemoteRow | None
    reveal_type(store.get("ann"))  # Any
    reveal_type(store.count())  # int
    reveal_type([row.timestamp for row in store.range("a", "b")])  # list[int | None]
    row.value  # error: "value"
    store.windows("ann", form_time=0)  # error: "form_time"


def driver(driver: TopologyTestDriver) -> None:
    """Writes and reads topics, and reads stores, in a test."""
    written = driver.create_input_topic("orders", "string", Avro(Order))
    reveal_type(written)  # TestInputTopic[Any, Order]
    reveal_type(driver.create_input_topic("orders"))  # TestInputTopic[Any, Any]
    written.pipe_input("ann", Order(1), timestamp=5)
    written.pipe_input("ann", None)
    written.pipe_key_values([("ann", Order(1)), (None, None)])
    written.pipe_records([TestRecord("ann", Order(1)), TestRecord("ann", None)])
    written.pipe_input("ann", Customer(1))  # error: "Customer"
    written.pipe_values([Order(1), Customer(1)])  # error: Customer
    read = driver.create_output_topic("out", key_serde=Avro(Customer), value_serde=Avro(Order))
    reveal_type(read.read_key_value())  # tuple[Customer, Order]
    reveal_type(read.read_values())  # list[Order]
    reveal_type(read.read_key_values_to_map())  # dict[Customer, Order]
    reveal_type(read.read_record().value)  # Order
    read.read_value().cent  # error: "cent"
    read.read_record().key.numbr  # error: "numbr"
    counts: TimestampedKeyValueStore[str, int] = driver.get_timestamped_key_value_store("counts")
    limits: VersionedKeyValueStore[str, Order] = driver.get_versioned_key_value_store("limits")
    reveal_type(counts.get("ann"))  # ValueAndTimestamp[int] | None
    reveal_type(limits.get("ann", as_of=5))  # VersionedRecord[Order] | None
    counts.put("ann", 5)  # error: "ValueAndTimestamp[int]


def kafka(kafka: EmbeddedKafka) -> None:
    """Writes and reads topics of a broker in memory."""
    reveal_type(kafka.create_input_topic("orders", value_serde=Avro(Order)))  # TestInputTopic[Any, Order]
    reveal_type(kafka.read_records("out", 1, value_serde=Avro(Order)))  # list[TestRecord[Any, Order]]
    kafka.read_records("out", 1, value_serde=Avro(Order))[0].value.cent  # error: "cent"
