"""Protobuf and JSON with schemas in a registry: framed as Confluent's serializers frame them."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from streams import ConfigError, JsonSchema, Protobuf, SchemaRegistry
from streams.registry.protobuf import places_in, written_index
from streams.registry.schemas import PROTOBUF, SchemaError
from streams.schemas.proto_sources import source_of

FIELD = descriptor_pb2.FieldDescriptorProto
TOPIC = {"subject.name.strategy.type": "TOPIC"}


def _file(name: str, imports: list[str], messages: dict[str, list[tuple[Any, ...]]]) -> Any:
    made = descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3", dependency=imports)
    for message, fields in messages.items():
        added = made.message_type.add(name=message)
        for number, (field, kind, type_name, label) in enumerate(fields, 1):
            added.field.add(name=field, number=number, type=kind, type_name=type_name, label=label)
    return made


ONE, MANY = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED
POOL = descriptor_pool.DescriptorPool()
POOL.Add(_file("shop/item.proto", [], {"Item": [("sku", FIELD.TYPE_STRING, None, ONE)]}))
_ORDERS = _file(
    "shop/order.proto",
    ["shop/item.proto"],
    {
        "Other": [("text", FIELD.TYPE_STRING, None, ONE)],
        "Order": [
            ("customer", FIELD.TYPE_STRING, None, ONE),
            ("cents", FIELD.TYPE_INT64, None, ONE),
            ("items", FIELD.TYPE_MESSAGE, ".shop.Item", MANY),
            ("colour", FIELD.TYPE_ENUM, ".shop.Colour", ONE),
        ],
        "WithMap": [("counts", FIELD.TYPE_MESSAGE, ".shop.WithMap.CountsEntry", MANY)],
    },
)
_COLOUR = _ORDERS.enum_type.add(name="Colour")
_COLOUR.value.add(name="RED", number=0)
_COLOUR.value.add(name="BLUE", number=1)
_INNER = _ORDERS.message_type[1].nested_type.add(name="Inner")
_INNER.field.add(name="number", number=1, type=FIELD.TYPE_INT32, label=ONE)
_ENTRY = _ORDERS.message_type[2].nested_type.add(name="CountsEntry")
_ENTRY.options.map_entry = True
_ENTRY.field.add(name="key", number=1, type=FIELD.TYPE_STRING, label=ONE)
_ENTRY.field.add(name="value", number=2, type=FIELD.TYPE_INT64, label=ONE)
POOL.Add(_ORDERS)


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"shop.{name}"))


Item, Other, Order, Inner, WithMap = map(_class, ("Item", "Other", "Order", "Order.Inner", "WithMap"))


class Purchase(BaseModel):
    customer: str
    cents: int = 0


class WithDict(BaseModel):
    counts: dict[str, int]


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> SchemaRegistry:
    return SchemaRegistry(f"mock://{request.node.nodeid}")


def bound(serde: Any, topic: str = "orders", is_key: bool = False) -> Any:
    return serde.bind(topic, is_key=is_key)


def order(customer: str = "ann", cents: int = 3) -> Any:
    return Order(customer=customer, cents=cents, items=[Item(sku="tea")], colour=1)


def test_messages_come_back_and_their_imports_are_registered_before_them(registry: SchemaRegistry) -> None:
    serde = bound(Protobuf(Order, registry=registry))
    assert serde.deserialize(serde.serialize(order())) == order()
    assert registry.client.subjects() == ["shop/item.proto", "orders-value"]
    (reference,) = registry.client.latest("orders-value").schema.references
    assert reference == ("shop/item.proto", "shop/item.proto", 1)


@pytest.mark.parametrize("message", [Other(text="a"), order(), Inner(number=7)])
def test_bytes_are_those_of_confluents_serializers(registry: SchemaRegistry, message: Any) -> None:
    """Theirs registers descriptors in base64, which registries turn into sources; the one in memory leaves them so."""
    ours = bound(Protobuf(type(message), registry=registry)).serialize(message)
    other = SchemaRegistry(f"{registry.url}-theirs")
    place = SerializationContext("orders", MessageField.VALUE)
    client = other.client._client
    theirs = ProtobufSerializer(type(message), client, {**TOPIC})(message, place)
    assert theirs[5:] == ours[5:]
    assert bound(Protobuf(type(message), registry=other)).deserialize(theirs) == message
    as_theirs = theirs[:5] + ours[5:]
    assert ProtobufDeserializer(type(message), {**TOPIC}, client)(as_theirs, place) == message


@given(st.lists(st.integers(0, 1 << 20), min_size=1, max_size=5))
def test_places_of_messages_are_those_of_confluents_header(index: list[int]) -> None:
    header = SchemaId(PROTOBUF)
    rest = header.from_bytes(BytesIO(b"\0\0\0\0\1" + written_index(index) + b"rest"))
    assert (header.message_indexes, rest.read()) == (index, b"rest")


def test_the_first_message_is_read_at_either_form_of_its_place(registry: SchemaRegistry) -> None:
    serde = bound(Protobuf(Other, registry=registry))
    data = serde.serialize(Other(text="a"))
    assert data[5:6] == b"\x00"
    assert serde.deserialize(data[:5] + b"\x02\x00" + data[6:]) == Other(text="a")


def test_the_source_of_a_file_has_all_that_it_declares() -> None:
    source = source_of(Order.DESCRIPTOR.file)
    assert [line.strip() for line in source.splitlines()] == [
        'syntax = "proto3";', "package shop;", 'import "shop/item.proto";', "message Other {", "string text = 1;", "}",
        "message Order {", "message Inner {", "int32 number = 1;", "}", "string customer = 1;", "int64 cents = 2;",
        "repeated .shop.Item items = 3;", ".shop.Colour colour = 4;", "}", "message WithMap {",
        "map<string, int64> counts = 1;", "}", "enum Colour {", "RED = 0;", "BLUE = 1;", "}",
    ]  # fmt: skip


def declared(proto: Any) -> list[str]:
    """Returns the lines of the source of a file."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    return [line.strip() for line in source_of(pool.FindFileByName(proto.name)).splitlines()]


def test_the_source_of_a_file_has_what_else_is_said_of_its_fields() -> None:
    proto = descriptor_pb2.FileDescriptorProto(name="said.proto", package="shop", syntax="proto2")
    proto.options.java_package = "com.shop"
    base = proto.message_type.add(name="Base")
    base.extension_range.add(start=100, end=200)
    base.reserved_range.add(start=8, end=9)
    base.reserved_name.append("old")
    base.field.add(name="full_name", number=1, type=FIELD.TYPE_STRING, label=ONE, json_name="NAME", default_value='"\n')
    base.field.add(name="raw", number=2, type=FIELD.TYPE_BYTES, label=ONE, json_name="raw", default_value="\\377")
    numbers = base.field.add(name="numbers", number=3, type=FIELD.TYPE_INT32, label=MANY)
    numbers.options.packed = numbers.options.deprecated = True
    kind = proto.enum_type.add(name="Kind")
    kind.value.add(name="RED", number=0).options.deprecated = True
    kind.reserved_range.add(start=5, end=(1 << 31) - 1)
    proto.extension.add(name="more", number=100, type=FIELD.TYPE_STRING, label=ONE, extendee=".shop.Base")
    assert declared(proto) == [
        'syntax = "proto2";', "package shop;", 'option java_package = "com.shop";', "message Base {",
        'optional string full_name = 1 [default = "\\042\\012", json_name = "NAME"];',
        'optional bytes raw = 2 [default = "\\377"];', "repeated int32 numbers = 3 [packed = true, deprecated = true];",
        "extensions 100 to 199;", "reserved 8 to 8;", 'reserved "old";', "}",
        "enum Kind {", "RED = 0 [deprecated = true];", "reserved 5 to max;", "}",
        "extend .shop.Base {", "optional string more = 100;", "}",
    ]  # fmt: skip


def test_the_source_of_a_file_of_an_edition_names_it_and_its_features() -> None:
    proto = descriptor_pb2.FileDescriptorProto(name="edition.proto", package="shop", syntax="editions")
    proto.edition = descriptor_pb2.EDITION_2023
    field = proto.message_type.add(name="Order").field.add(name="id", number=1, type=FIELD.TYPE_STRING, label=ONE)
    field.options.features.field_presence = descriptor_pb2.FeatureSet.IMPLICIT
    assert declared(proto) == [
        'edition = "2023";', "package shop;",
        "message Order {", "string id = 1 [features.field_presence = IMPLICIT];", "}",
    ]  # fmt: skip


def test_a_group_has_no_source() -> None:
    proto = descriptor_pb2.FileDescriptorProto(name="group.proto", package="shop", syntax="proto2")
    message = proto.message_type.add(name="Order")
    message.nested_type.add(name="Part")
    message.field.add(name="part", number=1, type=FIELD.TYPE_GROUP, type_name=".shop.Order.Part", label=ONE)
    with pytest.raises(ConfigError, match=r"field part of group\.proto is a group"):
        declared(proto)


def test_an_index_that_the_schema_has_not_is_an_error_of_the_record(registry: SchemaRegistry) -> None:
    serde = bound(Protobuf(Order, registry=registry))
    data = serde.serialize(order())
    for index in ([9], [1, 7], [0, 0, 0]):
        with pytest.raises(SchemaError, match=r"the schema does not have a message at the message indexes"):
            serde.deserialize(data[:5] + written_index(index) + data[7:])


def test_another_message_is_refused_by_its_name(registry: SchemaRegistry) -> None:
    data = bound(Protobuf(Inner, registry=registry)).serialize(Inner(number=1))
    serde = bound(Protobuf(Order, registry=registry))
    with pytest.raises(SchemaError, match=r"it is a message Order\.Inner, not Order"):
        serde.deserialize(data)
    with pytest.raises(SchemaError, match="expected Order, got Item"):
        serde.serialize(Item(sku="tea"))
    with pytest.raises(SchemaError, match=r"schema id \d+ \(subject orders-value\): the data is not a message Order"):
        serde.deserialize(serde.serialize(order())[:7] + b"\xff\xff")
    with pytest.raises(SchemaError, match="message indexes"):
        serde.deserialize(data[:5])


@pytest.mark.parametrize(("source", "places"), [
    (
        'message /* a { */ A { string message = 1; message\n B { } } // message C {\nenum E { X = 0; } message D{}',
        {"A": [0], "A.B": [0, 0], "D": [1]},
    ),
    (
        'message A { optional group G = 1 { message H {} } oneof o { string s = 3 [default = "message X {"]; } }',
        {"A": [0], "A.G": [0, 0], "A.G.H": [0, 0, 0]},
    ),
    ("message A { reserved 1; } } message B { }", {"A": [0], "B": [1]}),
])  # fmt: skip
def test_places_of_messages_in_a_source(source: str, places: dict[str, list[int]]) -> None:
    assert {name: place for place, name in places_in(source)} == places


@pytest.mark.parametrize(("part", "count"), [
    ("/* ", 0), ('"\\', 0), (" ", 0), ("message ", 0), ("group a = ", 0), ("{", 0), ("'", 0), ("message a{}", 100_000),
])  # fmt: skip
def test_a_long_source_is_read_once_for_places(part: str, count: int) -> None:
    """A comment without an end was looked for behind each of its beginnings, which took minutes."""
    assert sum(1 for _ in places_in(part * 100_000)) == count


def test_keys_with_maps_are_refused(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaError, match=r"the key\.counts is a map"):
        bound(Protobuf(WithMap, registry=registry), is_key=True)
    json_keys = bound(JsonSchema(WithDict, registry=registry), is_key=True)
    one, same = WithDict(counts={"a": 1, "b": 2}), WithDict(counts={"b": 2, "a": 1})
    assert json_keys.serialize(one) == json_keys.serialize(same)


def test_a_schema_of_another_kind_is_refused(registry: SchemaRegistry) -> None:
    data = bound(JsonSchema(Purchase, registry=registry)).serialize(Purchase(customer="ann"))
    with pytest.raises(SchemaError, match="it is a schema of JSON, not of PROTOBUF"):
        bound(Protobuf(Order, registry=registry)).deserialize(data)


def test_json_of_models_is_that_of_confluents_serializer(registry: SchemaRegistry) -> None:
    serde = bound(JsonSchema(Purchase, registry=registry))
    data = serde.serialize(Purchase(customer="ann", cents=3))
    assert data[5:] == b'{"customer":"ann","cents":3}'
    assert serde.deserialize(data) == Purchase(customer="ann", cents=3)
    place = SerializationContext("orders", MessageField.VALUE)
    schema = registry.client.latest("orders-value").schema.text
    client = registry.client._client
    assert JSONDeserializer(schema, conf={**TOPIC}, schema_registry_client=client)(data, place) == {
        "customer": "ann", "cents": 3,
    }  # fmt: skip
    theirs = JSONSerializer(schema, client, conf={**TOPIC})({"customer": "bob", "cents": 1}, place)
    assert serde.deserialize(theirs) == Purchase(customer="bob", cents=1)


def test_the_schema_of_a_model_names_its_dialect_and_title(registry: SchemaRegistry) -> None:
    schema = json.loads(JsonSchema(Purchase).format().own.text)
    assert (schema["$schema"], schema["title"]) == ("http://json-schema.org/draft-07/schema#", "Purchase")


def test_json_that_is_not_of_the_model_is_an_error_with_its_field(registry: SchemaRegistry) -> None:
    serde = bound(JsonSchema(Purchase, registry=registry))
    good = serde.serialize(Purchase(customer="ann"))
    with pytest.raises(SchemaError, match=r"schema id 1 \(subject orders-value\)[\s\S]*customer"):
        serde.deserialize(good[:5] + b'{"cents":3}')
    with pytest.raises(SchemaError, match="expected Purchase, got dict"):
        serde.serialize({"customer": "ann"})


def test_dicts_are_written_with_a_schema_given_or_the_latest(registry: SchemaRegistry) -> None:
    given_schema = bound(JsonSchema(schema={"title": "Order", "type": "object"}, registry=registry))
    data = given_schema.serialize({"b": 1, "a": 2})
    assert data[5:] == b'{"a":2,"b":1}'
    latest = bound(JsonSchema(registry=registry))
    assert latest.serialize({"a": 2, "b": 1}) == data
    assert latest.deserialize(data) == {"a": 2, "b": 1}


def test_subjects_by_the_name_of_the_record(registry: SchemaRegistry) -> None:
    options = {"registry": registry, "subject_name_strategy": "record"}
    bound(Protobuf(Inner, **options)).serialize(Inner(number=1))
    bound(JsonSchema(Purchase, **options)).serialize(Purchase(customer="ann"))
    assert {"shop.Order.Inner", "Purchase"} <= set(registry.client.subjects())
    with pytest.raises(SchemaError, match="a title"):
        bound(JsonSchema(schema={"type": "object"}, **options)).serialize({})
