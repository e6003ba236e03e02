"""Applications whose topics, stores and errors have schemas in a registry."""

from __future__ import annotations

import pickle
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import AssociationCreateOrUpdateInfo, AssociationCreateOrUpdateRequest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from registry_contract import avro_record
from streams import (
    Avro,
    ConfigError,
    Consumed,
    DeserializationError,
    Materialized,
    Produced,
    SchemaRegistry,
    SerializationError,
    StreamsBuilder,
    StreamsConfig,
    TopologyTestDriver,
    list_serde,
    log_and_continue,
)
from streams.testing import EmbeddedKafka


@dataclass
class Order:
    customer: str
    cents: int


@dataclass
class Customer:
    name: str
    city: str


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> SchemaRegistry:
    return SchemaRegistry(f"mock://{request.node.nodeid}")


def subjects(registry: SchemaRegistry) -> list[str]:
    return sorted(registry.client.subjects())


def test_internal_topics_have_the_subjects_of_java(registry: SchemaRegistry) -> None:
    builder = StreamsBuilder(key_serde="string", schema_registry=registry)
    orders = builder.stream("orders", value_serde=Avro(Order))
    by_customer = orders.group_by(lambda _, order: order.customer, "by-customer", value_serde=Avro(Order))
    sums = by_customer.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums")
    sums.to_stream().to("sums", value_serde=Avro(Order))
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("orders")
        topic.pipe_key_values([("1", Order("ann", 1)), ("2", Order("bob", 5)), ("3", Order("ann", 2))])
        assert driver.get_key_value_store("sums").get("ann") == Order("ann", 3)
        assert driver.create_output_topic("sums").read_key_values_to_map()["ann"] == Order("ann", 3)
    application = "test-application"
    assert subjects(registry) == sorted(
        [
            "orders-value",
            "sums-value",
            f"{application}-by-customer-repartition-value",
            f"{application}-sums-changelog-value",
        ]
    )


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("topic", ["orders-key", "orders-value"]),
        ("record", ["com.shop.Customer", "com.shop.Order"]),
        ("io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
         ["orders-com.shop.Customer", "orders-com.shop.Order"]),
        ("associated", ["orders-key", "orders-value"]),
    ],
)  # fmt: skip
def test_subjects_are_named_by_the_strategy(registry: SchemaRegistry, strategy: str, expected: list[str]) -> None:
    named = SchemaRegistry(registry.url, subject_name_strategy=strategy)
    key = Avro(Customer, name="com.shop.Customer", registry=named).bind("orders", is_key=True)
    value = Avro(Order, name="com.shop.Order", registry=named).bind("orders", is_key=False)
    assert key.deserialize(key.serialize(Customer("ann", "Rome"))) == Customer("ann", "Rome")
    assert value.deserialize(value.serialize(Order("ann", 1))) == Order("ann", 1)
    assert subjects(registry) == expected


def test_an_associated_subject_wins_over_that_of_the_topic(registry: SchemaRegistry) -> None:
    info = AssociationCreateOrUpdateInfo("everything", "value", None, None, None, None)
    request = AssociationCreateOrUpdateRequest("orders", "cluster", "id-of-orders", "topic", [info])
    registry.client._client.create_association(request)
    serde = Avro(Order, registry=registry).bind("orders", is_key=False)
    serde.serialize(Order("ann", 1))
    assert subjects(registry) == ["everything"]


def test_a_schema_that_is_not_there_is_an_error_where_none_is_registered(registry: SchemaRegistry) -> None:
    strict = SchemaRegistry(registry.url, auto_register_schemas=False)
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=strict)
    builder.stream("orders", value_serde=Avro(Order, registry=registry)).to("out", value_serde=Avro(Order))
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("orders")
        with pytest.raises(SerializationError, match=r"subject out-value: the registry .* auto\.register\.schemas"):
            topic.pipe_input("1", Order("ann", 1))
    assert subjects(registry) == ["orders-value"]


def test_the_latest_version_is_written_where_it_is_asked_for(registry: SchemaRegistry) -> None:
    wider = avro_record("Order", "customer:string", "cents:long", 'note:string:"none"')
    Avro(schema=wider, registry=registry).bind("orders", is_key=False).serialize(
        {"customer": "ann", "cents": 1, "note": "x"}
    )
    serde = Avro(Order, registry=registry, use_latest_version=True).bind("orders", is_key=False)
    data = serde.serialize(Order("ann", 1))
    assert Avro(registry=registry).bind("orders", is_key=False).deserialize(data) == {
        "customer": "ann", "cents": 1, "note": "none",
    }  # fmt: skip
    assert len(registry.client.versions("orders-value")) == 1


def test_records_that_cannot_be_read_are_asked_about_with_topic_offset_and_id(registry: SchemaRegistry) -> None:
    asked: list[Any] = []

    def handler(context: Any, record: Any, error: Exception) -> Any:
        asked.append((context.topic, context.partition, context.offset, str(error)))
        return log_and_continue(context, record, error)

    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=registry)
    builder.stream("orders").to("out")
    with TopologyTestDriver(builder, {"deserialization.exception.handler": handler}) as driver:
        raw = driver.create_input_topic("orders", "string", "bytes")
        good = driver.create_input_topic("orders")
        good.pipe_input("1", Order("ann", 1))
        raw.pipe_input("2", b"\x00\x00\x00\x00\x07abc")
        raw.pipe_input("3", b"{}")
        good.pipe_input("4", Order("bob", 2))
        assert driver.create_output_topic("out").read_values() == [Order("ann", 1), Order("bob", 2)]
    assert [place[:3] for place in asked] == [("orders", 0, 1), ("orders", 0, 2)]
    assert "schema id 7" in asked[0][3]
    assert "orders-value" in asked[0][3]
    assert "do not contain a schema id" in asked[1][3]


def test_a_record_that_cannot_be_read_fails_the_task_by_default(registry: SchemaRegistry) -> None:
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=registry)
    builder.stream("orders").to("out")
    with TopologyTestDriver(builder) as driver:
        raw = driver.create_input_topic("orders", "string", "bytes")
        with pytest.raises(DeserializationError, match="schema id 7") as failed:
            raw.pipe_input("2", b"\x00\x00\x00\x00\x07abc")
    assert (failed.value.topic, failed.value.offset) == ("orders", 0)


def test_windows_joins_lists_and_foreign_keys_keep_their_schemas(registry: SchemaRegistry) -> None:
    builder = StreamsBuilder(key_serde="string", schema_registry=registry)
    orders = builder.table("orders", value_serde=Avro(Order))
    customers = builder.table("customers", value_serde=Avro(Customer))
    joined = orders.foreign_key_join(
        customers, lambda order: order.customer, lambda order, customer: [Order(customer.city, order.cents)]
    )
    joined.to_stream().to("cities", value_serde=list_serde(Avro(Order)))
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("customers").pipe_input("ann", Customer("ann", "Rome"))
        driver.create_input_topic("orders").pipe_input("1", Order("ann", 7))
        assert driver.create_output_topic("cities").read_key_value() == ("1", [Order("Rome", 7)])
    assert "cities-value" in subjects(registry)


def test_a_registry_in_the_settings_is_that_of_serdes_without_one(registry: SchemaRegistry) -> None:
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(key_serde="string", value_serde=Avro(Order))).to(
        "out", Produced(key_serde="string", value_serde=Avro(Order))
    )
    with TopologyTestDriver(builder, {"schema.registry.url": registry.url}) as driver:
        driver.create_input_topic("orders").pipe_input("1", Order("ann", 1))
    with pytest.raises(
        ConfigError, match=r"'avro Order' of topic '\w+' does not have a schema registry: set schema\.registry"
    ):
        TopologyTestDriver(builder)


def test_two_applications_of_a_process_have_registries_of_their_own(registry: SchemaRegistry) -> None:
    for name in ("one", "two"):
        builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order))
        builder.stream("orders").to(f"out-{name}")
        with TopologyTestDriver(builder, {"schema.registry.url": f"{registry.url}-{name}"}) as driver:
            driver.create_input_topic("orders").pipe_input("1", Order("ann", 1))
        assert subjects(SchemaRegistry(f"{registry.url}-{name}")) == ["orders-value", f"out-{name}-value"]


def test_javas_settings_of_serdes_are_read(registry: SchemaRegistry) -> None:
    avro = "io.confluent.kafka.streams.serdes.avro.GenericAvroSerde"
    config = StreamsConfig.of(
        {
            "application.id": "shop",
            "bootstrap.servers": "b:9092",
            "default.value.serde": avro,
            "schema.registry.url": registry.url,
            "auto.register.schemas": "false",
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": "ann:rosebud",
            "value.subject.name.strategy": "io.confluent.kafka.serializers.subject.RecordNameStrategy",
        }
    )
    assert config.shown()["default.value.serde"] == "avro"
    assert "rosebud" not in repr(config) + str(config.shown()) + repr(config.default_value_serde)
    assert StreamsConfig.of(config.dotted()) == config
    again = pickle.loads(pickle.dumps(config.default_value_serde))
    assert again.registry == again.inner.registry == config.default_value_serde.registry  # type: ignore[union-attr]


def test_state_is_restored_and_results_are_read_on_a_broker(registry: SchemaRegistry, tmp_path: Path) -> None:
    def topology() -> StreamsBuilder:
        builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=registry)
        sums = builder.stream("orders").group_by_key()
        reduced = sums.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums")
        reduced.to_stream().to("sums")
        return builder

    with EmbeddedKafka(tmp_path) as kafka:
        topic = kafka.create_input_topic("orders", "string", Avro(Order, registry=registry))
        kafka.create_topics("sums")
        for cents in (1, 2):
            config = {"application.id": "shop", "state.dir": str(tmp_path / f"state-{cents}")}
            application = kafka.start(topology(), config)
            topic.pipe_input("ann", Order("ann", cents))
            (record,) = kafka.read_records("sums", 1, "string", Avro(Order, registry=registry))
            application.close()
        assert record.value == Order("ann", 3)


def test_ids_in_headers_go_through_an_application(registry: SchemaRegistry) -> None:
    in_headers = SchemaRegistry(registry.url, schema_ids="header")
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=in_headers)
    sums = builder.stream("orders").group_by(lambda _, order: order.customer, "by-customer")
    sums.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums").to_stream().to("sums")
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("orders")
        topic.pipe_key_values([("1", Order("ann", 1)), ("2", Order("ann", 2))])
        raw = driver.create_output_topic("sums", "string", "bytes").read_records()
        assert driver.get_key_value_store("sums").get("ann") == Order("ann", 3)
    header = ("__value_schema_id", b"\x01" + uuid.UUID(registry.client.latest("sums-value").guid).bytes)
    assert [record.value for record in raw] == [b"\x06ann\x02", b"\x06ann\x06"]
    assert all([one for one in record.headers if one[0].startswith("__")] == [header] for record in raw)


def test_an_id_in_a_header_is_not_left_to_bytes_that_have_one_in_front(registry: SchemaRegistry) -> None:
    """A record that was read with a header kept it when it was written with another schema, in front of the data, so
    its readers took the former one."""
    in_headers = SchemaRegistry(registry.url, schema_ids="header")
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(Order), schema_registry=in_headers)
    names = builder.stream("orders").map_values(lambda order: Customer(order.customer, ""))
    names.to("names", value_serde=Avro(Customer, registry=registry))
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("orders").pipe_input("1", Order("ann", 1), headers=[("trace", b"7")])
        output = driver.create_output_topic("names", "string", Avro(Customer, registry=in_headers))
        record = output.read_record()
    assert (record.value, record.headers) == (Customer("ann", ""), [("trace", b"7")])


@dataclass(frozen=True)
class OrderKey:
    id: int


@dataclass
class LaterOrder:
    buyer: str
    cents: int


@pytest.mark.parametrize("ids", ["prefix", "header"])
@pytest.mark.parametrize("kind", ["table", "global_table"])
def test_a_table_converts_older_values_wherever_their_ids_are(registry: SchemaRegistry, ids: str, kind: str) -> None:
    """With `migrate`, records with ids in headers could not be read."""
    named = SchemaRegistry(registry.url, schema_ids=ids)
    builder = StreamsBuilder(key_serde="string", value_serde=Avro(LaterOrder), schema_registry=named)
    kept: Materialized[str, LaterOrder] = Materialized(
        name="kept", migrate=lambda old: {"buyer": old["customer"], "cents": old["cents"]}
    )
    getattr(builder, kind)("orders", materialized=kept)
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("orders", "string", Avro(Order, registry=named)).pipe_input("a", Order("ann", 1))
        driver.create_input_topic("orders").pipe_input("b", LaterOrder("bob", 2))
        found = {key: driver.get_key_value_store("kept").get(key) for key in "ab"}
    assert found == {"a": LaterOrder("ann", 1), "b": LaterOrder("bob", 2)}


def test_foreign_keys_and_grouped_keys_have_ids_in_front_inside_of_messages(registry: SchemaRegistry) -> None:
    found = {}
    for ids in ("prefix", "header"):
        named = SchemaRegistry(f"{registry.url}-{ids}", schema_ids=ids)
        builder = StreamsBuilder(value_serde=Avro(Order), schema_registry=named)
        orders = builder.table("orders", key_serde=Avro(OrderKey), value_serde=Avro(Order))
        customers = builder.table("customers", key_serde=Avro(Customer), value_serde=Avro(Customer))
        joined = orders.foreign_key_join(
            customers, lambda order: Customer(order.customer, ""), lambda order, one: Order(one.city, order.cents)
        )
        joined.to_stream().to("cities")
        by_city = joined.group_by(lambda key, order: (Customer(order.customer, ""), order), key_serde=Avro(Customer))
        by_city.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), lambda a, b: a).to_stream().to("sums")
        with TopologyTestDriver(builder) as driver:
            keys = [Avro(kind, registry=named) for kind in (OrderKey, Customer)]
            values = Avro(Order, registry=named)
            people = driver.create_input_topic("customers", keys[1], keys[1])
            people.pipe_input(Customer("ann", ""), Customer("ann", "Ulm"))
            topic = driver.create_input_topic("orders", keys[0], values)
            topic.pipe_key_values([(OrderKey(7), Order("ann", 1)), (OrderKey(8), Order("ann", 2))])
            found[ids] = [
                driver.create_output_topic(name, key, values).read_key_values()
                for name, key in (("cities", keys[0]), ("sums", keys[1]))
            ]
    assert found["header"] == found["prefix"]
    assert found["header"][0] == [(OrderKey(7), Order("Ulm", 1)), (OrderKey(8), Order("Ulm", 2))]


@pytest.mark.parametrize("optimization", ["none", "all"])
def test_tables_whose_records_have_ids_in_headers_are_restored(
    registry: SchemaRegistry, tmp_path: Path, optimization: str
) -> None:
    named = SchemaRegistry(registry.url, schema_ids="header")
    keys, values = Avro(OrderKey, registry=named), Avro(Order, registry=named)

    def topology() -> StreamsBuilder:
        builder = StreamsBuilder(schema_registry=named)
        table = builder.table("orders", key_serde=keys, value_serde=values)
        shared = builder.global_table("shared", key_serde=keys, value_serde=values)
        lines = builder.stream("lines", key_serde=keys, value_serde=values)
        with_order = lines.join(table, lambda line, order: Order(order.customer, line.cents + order.cents))
        with_both = with_order.join(
            shared, lambda order, one: Order(one.customer, order.cents + one.cents), key_selector=lambda key, _: key
        )
        with_both.to("sums", value_serde=values)
        return builder

    with EmbeddedKafka(tmp_path) as kafka:
        kafka.create_topics("orders", "shared", "lines", "sums")
        inputs = {name: kafka.create_input_topic(name, keys, values) for name in ("orders", "shared", "lines")}
        inputs["orders"].pipe_input(OrderKey(1), Order("ann", 1))
        inputs["shared"].pipe_input(OrderKey(1), Order("bob", 10))
        for start in (1, 2):
            folder = str(tmp_path / f"state-{start}")  # the second one is restored from the topics
            config = {"application.id": "shop", "state.dir": folder, "topology.optimization": optimization}
            application = kafka.start(topology(), config)
            inputs["lines"].pipe_input(OrderKey(1), Order("x", 100 * start))
            (record,) = kafka.read_records("sums", 1, keys, values)
            application.close()
            assert (record.key, record.value) == (OrderKey(1), Order("bob", 11 + 100 * start))


def test_a_changelog_that_another_serializer_has_written_is_gone_on_with(
    registry: SchemaRegistry, tmp_path: Path
) -> None:
    """As one of Java's applications leaves it: the id of a schema of its own, with the name that Java has for it."""
    schema = Avro(Order, name="com.shop.Order").format().own.text
    serializer = AvroSerializer(registry.client._client, schema, conf={"subject.name.strategy.type": "TOPIC"})
    changelog = "shop-sums-changelog"
    written = serializer({"customer": "ann", "cents": 40}, SerializationContext(changelog, MessageField.VALUE))
    orders = Avro(Order, name="com.shop.Order", registry=registry)
    builder = StreamsBuilder(key_serde="string", value_serde=orders)
    sums = builder.stream("orders").group_by_key()
    sums.reduce(lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums").to_stream().to("sums")
    with EmbeddedKafka(tmp_path) as kafka:
        kafka.create_topics("orders", "sums")
        kafka.create_topics(changelog, configs={"cleanup.policy": "compact"})
        kafka.produce(changelog, b"ann", written, 1)
        kafka.start(builder, {"application.id": "shop"})
        kafka.create_input_topic("orders", "string", orders).pipe_input("ann", Order("ann", 2))
        (record,) = kafka.read_records("sums", 1, "string", orders)
    assert record.value == Order("ann", 42)
