"""Avro with schemas in a registry: the bytes are those of Confluent's serializer, and each reads the other's."""

from __future__ import annotations

import datetime
import enum
import json
import pickle
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, BaseModel, Field, model_validator

from registry_contract import avro_record
from streams import Avro, AvroType, SchemaRegistry
from streams.registry.schemas import SchemaError
from streams.serdes.model_forms import difference

PLACE = SerializationContext("orders", MessageField.VALUE)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    sku: str
    count: Annotated[int, AvroType("int")] = 1


@dataclass
class Cash:
    cents: int


@dataclass
class Card:
    number: str
    name: str | None = None


@dataclass
class Order:
    id: uuid.UUID
    customer: str
    paid: bool
    weight: float
    raw: bytes
    colour: Colour
    items: list[Item]
    labels: dict[str, int]
    payment: Cash | Card
    price: Annotated[Decimal, AvroType(DECIMAL)]
    at: datetime.datetime
    day: datetime.date
    note: str | None = None
    tags: list[str] = field(default_factory=list)


ITEM_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Item",
    "fields": [{"name": "sku", "type": "string"}, {"name": "count", "type": ["null", "int"]}],
}


class ItemModel(BaseModel):
    sku: str
    count: Annotated[int, AvroType("int")] = 1


class OrderModel(BaseModel):
    customer: str
    items: list[ItemModel]
    colour: Colour = Colour.RED
    price: Decimal = Field(max_digits=9, decimal_places=2)
    note: str | None = None
    payment_kind: str = Field(default="cash", alias="paymentKind")


def registry_of(test: Any) -> SchemaRegistry:
    return SchemaRegistry(f"mock://{test.node.nodeid}")


@pytest.fixture
def registry(request: pytest.FixtureRequest) -> SchemaRegistry:
    return registry_of(request)


def bound(serde: Any, topic: str = "orders", is_key: bool = False) -> Any:
    return serde.bind(topic, is_key=is_key)


TEXT = st.text(max_size=5)
ITEMS = st.builds(Item, TEXT, INT)
ORDERS = st.builds(
    Order,
    id=st.uuids(),
    customer=TEXT,
    paid=st.booleans(),
    weight=st.floats(allow_nan=False),
    raw=st.binary(max_size=5),
    colour=st.sampled_from(Colour),
    items=st.lists(ITEMS, max_size=3),
    labels=st.dictionaries(TEXT, LONG, max_size=3),
    payment=st.builds(Cash, LONG) | st.builds(Card, TEXT, TEXT | st.none()),
    price=st.decimals("-1000000", "1000000", places=2),
    at=st.integers(-(1 << 51), 1 << 52).map(lambda us: EPOCH + datetime.timedelta(microseconds=us)),
    day=st.dates(datetime.date(1900, 1, 1), datetime.date(2200, 1, 1)),
    note=TEXT | st.none(),
    tags=st.lists(TEXT, max_size=3),
)


@given(ORDERS)
def test_objects_come_back_as_they_were(order: Order) -> None:
    serde = bound(Avro(Order, name="com.shop.Order", registry=SchemaRegistry("mock://round-trip")))
    assert serde.deserialize(serde.serialize(order)) == order


@given(st.builds(Item, TEXT, INT))
def test_bytes_are_those_of_confluents_serializer(item: Item) -> None:
    registry = SchemaRegistry("mock://equal-bytes")
    ours = Avro(Item, registry=registry)
    theirs = their_client(registry)
    schema = ours.format().own.text
    fields = {"sku": item.sku, "count": item.count}
    written = bound(ours).serialize(item)
    conf = {"subject.name.strategy.type": "TOPIC"}
    assert AvroSerializer(theirs, schema, conf=conf)(fields, PLACE) == written
    assert AvroDeserializer(theirs, conf=conf)(written, PLACE) == fields


def their_client(registry: SchemaRegistry) -> SchemaRegistryClient:
    """The client in memory that the serdes use, as any other program on the registry would see it."""
    found = registry.client._client
    assert isinstance(found, SchemaRegistryClient)
    return found


def test_models_of_pydantic_come_back_validated_under_their_aliases(registry: SchemaRegistry) -> None:
    serde = bound(Avro(OrderModel, registry=registry))
    order = OrderModel(customer="ann", items=[ItemModel(sku="tea")], price=Decimal("1.20"), paymentKind="card")
    assert serde.deserialize(serde.serialize(order)) == order
    schema = json.loads(Avro(OrderModel, registry=registry).format().own.text)
    names = [one["name"] for one in schema["fields"]]
    assert names == ["customer", "items", "colour", "price", "note", "paymentKind"]


def test_the_schema_of_a_class_has_its_defaults_unions_and_logical_types(registry: SchemaRegistry) -> None:
    fields = {one["name"]: one for one in json.loads(Avro(Order, name="com.shop.Order").format().own.text)["fields"]}
    assert fields["note"] == {"name": "note", "type": ["null", "string"], "default": None}
    assert fields["tags"] == {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
    assert fields["at"]["type"] == {"type": "long", "logicalType": "timestamp-micros"}
    assert fields["price"]["type"] == DECIMAL
    assert fields["colour"]["type"] == {"type": "enum", "name": "com.shop.Colour", "symbols": ["red", "blue"]}
    assert [one["name"] for one in fields["payment"]["type"]] == ["com.shop.Cash", "com.shop.Card"]


def test_dicts_are_written_with_the_schema_given(registry: SchemaRegistry) -> None:
    schema = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
    serde = bound(Avro(schema=schema, registry=registry))
    assert serde.deserialize(serde.serialize({"sku": "tea"})) == {"sku": "tea"}


def test_a_record_without_a_model_is_written_with_the_schema_it_was_read_with(registry: SchemaRegistry) -> None:
    written = bound(Avro(Item, registry=registry)).serialize(Item("tea", 2))
    record = bound(Avro(registry=registry)).deserialize(written)
    assert record == {"sku": "tea", "count": 2}
    for same in (record, pickle.loads(pickle.dumps(record))):
        copied = bound(Avro(registry=registry), "copies").serialize(same)
        assert copied[5:] == written[5:]
    assert bound(Avro(Item, registry=registry), "copies").deserialize(copied) == Item("tea", 2)


def test_a_plain_dict_is_written_with_the_latest_schema_of_its_subject(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaError, match="latest version of subject orders-value"):
        bound(Avro(registry=registry)).serialize({"sku": "tea", "count": 2})
    bound(Avro(Item, registry=registry)).serialize(Item("tea"))
    assert bound(Avro(registry=registry)).serialize({"sku": "tea", "count": 2})[5:] == b"\x06tea\x04"


@pytest.mark.parametrize("value", ["tea", b"tea", True, 7, 1.5])
def test_plain_values_have_the_schemas_of_javas_serde(registry: SchemaRegistry, value: Any) -> None:
    serde = bound(Avro(registry=registry))
    found = serde.deserialize(serde.serialize(value))
    assert (found, type(found)) == (value, type(value))


# ---------------------------------------------------------------------- schemas that change


@dataclass
class ItemOfLater:
    name: Annotated[str, AvroType(aliases=["sku"])]
    colour: str = "white"


def test_a_later_schema_reads_older_records_by_alias_and_default(registry: SchemaRegistry) -> None:
    data = bound(Avro(Item, registry=registry)).serialize(Item("tea", 3))
    assert bound(Avro(ItemOfLater, name="Item", registry=registry)).deserialize(data) == ItemOfLater("tea", "white")


def test_an_older_schema_reads_later_records_without_their_new_fields(registry: SchemaRegistry) -> None:
    later = avro_record("Item", "new:long", "sku:string", "count:int")
    data = bound(Avro(schema=later, registry=registry)).serialize({"new": 1, "sku": "tea", "count": 3})
    assert bound(Avro(Item, registry=registry)).deserialize(data) == Item("tea", 3)


def test_one_topic_may_have_records_of_several_schemas(registry: SchemaRegistry) -> None:
    first = bound(Avro(Item, registry=registry)).serialize(Item("tea"))
    second = bound(Avro(ItemOfLater, name="Item", registry=registry)).serialize(ItemOfLater("milk", "red"))
    serde = bound(Avro(ItemOfLater, name="Item", registry=registry))
    read = [serde.deserialize(data) for data in (first, second, first)]
    assert read == [ItemOfLater("tea"), ItemOfLater("milk", "red"), ItemOfLater("tea")]


def test_references_are_fetched_for_writing_and_reading(registry: SchemaRegistry) -> None:
    bound(Avro(Item, name="shop.Item", registry=registry), "items").serialize(Item("tea"))
    schema = {"type": "record", "name": "shop.Box", "fields": [{"name": "item", "type": "shop.Item"}]}
    serde = bound(Avro(schema=schema, references=[("shop.Item", "items-value", 1)], registry=registry), "boxes")
    box = {"item": {"sku": "tea", "count": 2}}
    assert bound(Avro(registry=registry), "boxes").deserialize(serde.serialize(box)) == box


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"sku": "tea", "count": 1.5}, "field count must be int. got 1.5"),
        ({"sku": "tea", "count": 1 << 31}, "field count must be int. got 2147483648"),
        ({"sku": "tea", "count": True}, "field count must be int. got True"),
        ({"sku": None, "count": 1}, "field sku must be string. got None"),
        ({"sku": "tea"}, "field count is missing"),
        ({"sku": "tea", "count": 1, "colour": "red"}, "field colour is not in the schema of Item"),
        ("tea", "the value must be record Item"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(registry: SchemaRegistry, value: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why) as failed:
        bound(Avro(schema=ITEM_SCHEMA, registry=registry)).serialize(value)
    assert "schema id 1 of subject orders-value" in str(failed.value)


def test_a_field_inside_of_others_is_named_by_its_way(registry: SchemaRegistry) -> None:
    @dataclass
    class Box:
        items: list[Item]

    with pytest.raises(SchemaError, match=r"field items\[1\].count must be int, got 1.5"):
        bound(Avro(Box, registry=registry)).serialize(Box([Item("tea"), Item("milk", 1.5)]))  # type: ignore[arg-type]


def test_a_time_without_a_zone_is_refused(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaError, match="no time zone"):
        bound(Avro(datetime.datetime, registry=registry)).serialize(datetime.datetime(2024, 1, 1))  # noqa: DTZ001


class Open(BaseModel):
    count: int
    model_config = {"extra": "allow"}


class Limited(BaseModel):
    count: int = Field(gt=0)


@dataclass
class Parcel(Item):
    weight: int = 0


@dataclass
class Choice:
    size: Literal["s", "m"]


@dataclass
class Box:
    items: list[Item]


@dataclass
class Priced:
    price: Annotated[Decimal, Field(max_digits=5, decimal_places=2)]


@dataclass
class Ratio:
    value: float


NINE = datetime.time(9, 0, 0, 1500)


def negative() -> Limited:
    made = Limited(count=1)
    made.count = -1
    return made


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (Open, Open(count=1, more=2), "Open has fields that its schema does not have: more"),  # type: ignore[call-arg]
        (Limited, negative(), "could not be read: .*count: Input should be greater than 0"),
        (Item, Parcel("tea"), "it would come back as Item, not Parcel"),
        (Box, Box([Parcel("tea")]), "it would come back as Item, not Parcel"),
        (Choice, Choice("xl"), "could not be read: .*size"),  # type: ignore[arg-type]
        (Priced, Priced(Decimal("1234.50")), "field price has more than 3 digits before the point"),
        (Priced, Priced(Decimal("1.505")), "field price has 3 digits after the point, but its type has 2"),
        (Priced, Priced(Decimal("NaN")), "field price must be number"),
        (Ratio, Ratio((1 << 53) + 1), "field value must be double"),
        (datetime.time, NINE.replace(tzinfo=datetime.UTC), "has a time zone, which time-micros does not store"),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_a_value_that_would_not_come_back_is_refused_when_it_is_written(
    registry: SchemaRegistry, kind: Any, value: Any, why: str
) -> None:
    with pytest.raises(SchemaError, match=why):
        bound(Avro(kind, registry=registry)).serialize(value)


@pytest.mark.parametrize("logical", ["timestamp-millis", "local-timestamp-millis", "time-millis"])
def test_microseconds_are_refused_where_the_schema_keeps_milliseconds(registry: SchemaRegistry, logical: str) -> None:
    zone = datetime.UTC if logical == "timestamp-millis" else None
    exact: Any = datetime.datetime(2024, 1, 1, 9, 0, 0, 1000, zone)
    if logical == "time-millis":
        exact = exact.time()
    schema = {"type": "int" if logical == "time-millis" else "long", "logicalType": logical}
    serde = bound(Avro(schema=schema, registry=registry))
    assert serde.deserialize(serde.serialize(exact)) == exact
    with pytest.raises(SchemaError, match=f"has microseconds, but {logical} stores milliseconds"):
        serde.serialize(exact.replace(microsecond=1001))


def test_what_pydantic_says_of_a_field_of_a_dataclass_counts(registry: SchemaRegistry) -> None:
    serde = bound(Avro(Priced, registry=registry))
    for price in ("123.45", "-999.99", "0", "0.00"):
        assert serde.deserialize(serde.serialize(Priced(Decimal(price)))) == Priced(Decimal(price))


@pytest.mark.parametrize("value", [Ratio(float("nan")), Ratio(float("inf")), Ratio(1 << 53), Box([Item("tea", 2)])])
def test_what_comes_back_is_not_refused(registry: SchemaRegistry, value: Any) -> None:
    serde = bound(Avro(type(value), registry=registry))
    assert difference(serde.deserialize(serde.serialize(value)), value) is None


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "0 bytes are too few: the schema id before a value needs 5"),
        (b"\x00\x00", "2 bytes are too few: the schema id before a value needs 5"),
        (b"\x01\x00", "2 bytes are too few: the schema id before a value needs 17"),
        (b"\x05abcdef", "7 bytes that begin with 05616263 do not contain a schema id: the first byte must be 0 or 1"),
        (b"\x00\x00\x00\x00\x63abc", r"schema id 99: the registry mock://.* does not have the schema"),
        (b"\x01" + bytes(16) + b"abc", "schema GUID 00000000-0000-0000-0000-000000000000"),
        (b"\x00\x00\x00\x00\x01\x06te", "schema id 1 .subject orders-value.: the data ends in the middle of a value"),
    ],
)
def test_data_that_cannot_be_read_name_topic_subject_and_id(registry: SchemaRegistry, data: bytes, why: str) -> None:
    serde = bound(Avro(Item, registry=registry))
    serde.serialize(Item("tea"))
    with pytest.raises(SchemaError, match=why) as failed:
        serde.deserialize(data)
    assert "orders" in str(failed.value)


def test_a_prefix_with_a_guid_is_read(registry: SchemaRegistry) -> None:
    serde = bound(Avro(Item, registry=registry))
    data = serde.serialize(Item("tea"))
    guid = registry.client.latest("orders-value").guid
    assert guid is not None
    assert serde.deserialize(b"\x01" + uuid.UUID(guid).bytes + data[5:]) == Item("tea")


def test_a_key_with_a_map_is_refused_when_it_is_bound(registry: SchemaRegistry) -> None:
    with pytest.raises(SchemaError, match=r"the key\.labels is a map"):
        bound(Avro(Order, registry=registry), is_key=True)


def test_equal_keys_have_equal_bytes_however_their_fields_are_ordered(registry: SchemaRegistry) -> None:
    serde = bound(Avro(schema=ITEM_SCHEMA, registry=registry), is_key=True)
    assert serde.serialize({"sku": "tea", "count": 1}) == serde.serialize({"count": 1, "sku": "tea"})


def test_data_nested_deeper_than_the_stack_are_an_error(registry: SchemaRegistry) -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    serde = bound(Avro(schema=node, registry=registry))
    shallow: Any = None
    for _ in range(50):
        shallow = {"next": shallow}
    assert serde.deserialize(serde.serialize(shallow)) == shallow
    with pytest.raises(SchemaError, match="nested too deeply"):
        serde.deserialize(serde.serialize({"next": None})[:5] + b"\x02" * 1_000_000 + b"\x00")
    deep: Any = None
    for _ in range(100_000):
        deep = {"next": deep}
    with pytest.raises(SchemaError, match="nested too deeply"):
        serde.serialize(deep)


# ---------------------------------------------------------------------- ids in headers


class FewHeaders(list[tuple[str, bytes]]):
    """Headers as a record has them."""

    def add(self, name: str, value: bytes) -> None:
        self.append((name, value))

    def last(self, name: str) -> bytes | None:
        return next((value for known, value in reversed(self) if known == name), None)

    def remove_all(self, name: str) -> None:
        self[:] = [one for one in self if one[0] != name]


def test_ids_in_headers_are_those_of_confluents_serdes(registry: SchemaRegistry) -> None:
    serde, headers = bound(Avro(Item, registry=registry, schema_ids="header")), FewHeaders()
    data = serde.with_headers(headers).serialize(Item("green tea", 2))
    assert data == b"\x12green tea\x04"
    guid = registry.client.latest("orders-value").guid
    assert headers == [("__value_schema_id", b"\x01" + uuid.UUID(guid).bytes)]
    theirs = SerializationContext("orders", MessageField.VALUE, headers=list(headers))
    conf = {"subject.name.strategy.type": "TOPIC"}
    assert AvroDeserializer(their_client(registry), conf=conf)(data, theirs) == {"sku": "green tea", "count": 2}
    assert serde.with_headers(headers).deserialize(data) == Item("green tea", 2)


def test_a_record_that_is_written_again_has_the_id_once(registry: SchemaRegistry) -> None:
    serde, headers = bound(Avro(Item, registry=registry, schema_ids="header")), FewHeaders()
    for _ in range(2):
        serde.with_headers(headers).serialize(Item("tea"))
    assert [name for name, _ in headers] == ["__value_schema_id"]


def test_records_with_ids_in_front_are_read_beside_those_with_headers(registry: SchemaRegistry) -> None:
    data = bound(Avro(Item, registry=registry)).serialize(Item("tea", 2))
    serde = bound(Avro(Item, registry=registry, schema_ids="header"))
    assert serde.with_headers(FewHeaders()).deserialize(data) == Item("tea", 2)


def test_a_header_of_another_registry_is_an_error_with_its_guid(registry: SchemaRegistry) -> None:
    other = SchemaRegistry(f"{registry.url}-other", schema_ids="header")
    headers = FewHeaders()
    data = bound(Avro(Item, registry=other)).with_headers(headers).serialize(Item("tea", 2))
    serde = bound(Avro(Item, registry=registry, schema_ids="header"))
    with pytest.raises(SchemaError, match=r"schema GUID .* \(subject orders-value\).* does not have the schema"):
        serde.with_headers(headers).deserialize(data)
    with pytest.raises(SchemaError, match="the header 02 does not contain a schema id"):
        serde.with_headers(FewHeaders([("__value_schema_id", b"\x02")])).deserialize(data)


@pytest.mark.parametrize("is_key", [True, False])
def test_ids_are_in_front_inside_of_messages_and_stores(registry: SchemaRegistry, is_key: bool) -> None:
    serde, headers = bound(Avro(Item, registry=registry, schema_ids="header"), "sums-changelog", is_key), FewHeaders()
    assert serde.takes_headers
    inside = pickle.loads(pickle.dumps(serde.inside()))
    assert not inside.takes_headers
    written = inside.serialize(Item("tea"))
    assert written[:1] == b"\x00"
    assert not inside.inside().takes_headers
    data = serde.with_headers(headers).serialize(Item("tea"))
    moved = serde.moved_inside(data, headers)
    assert inside.deserialize(moved) == Item("tea")
    assert moved == written or not is_key
    assert serde.moved_inside(written, FewHeaders()) == written


# ---------------------------------------------------------------------- readers of another schema

MILLIS: dict[str, Any] = {"type": "long", "logicalType": "timestamp-millis"}
MICROS: dict[str, Any] = {"type": "long", "logicalType": "timestamp-micros"}
SECOND = EPOCH + datetime.timedelta(seconds=1)
FINER = {**DECIMAL, "scale": 4}


def of_one_field(kind: Any) -> Any:
    return {"type": "record", "name": "One", "fields": [{"name": "it", "type": kind}]}


@pytest.mark.parametrize(
    ("former", "now", "value", "expected"),
    [
        ("long", MILLIS, 1000, SECOND),
        (MILLIS, "long", SECOND, 1000),
        (MILLIS, MICROS, SECOND, SECOND),
        (["null", "int"], MICROS, 1_000_000, SECOND),
        ("long", ["null", MILLIS], 1000, SECOND),
        ("string", "bytes", "a", b"a"),
        ("bytes", "string", b"a", "a"),
        ("int", "double", 1, 1.0),
        ("bytes", DECIMAL, b"\x00\x96", Decimal("1.50")),
        (DECIMAL, FINER, Decimal("1.50"), Decimal("1.5000")),
        ("string", {"type": "string", "logicalType": "uuid"}, str(uuid.UUID(int=7)), uuid.UUID(int=7)),
    ],
    ids=range(11),
)
def test_values_have_the_type_of_the_reader(
    registry: SchemaRegistry, former: Any, now: Any, value: Any, expected: Any
) -> None:
    data = bound(Avro(schema=of_one_field(former), registry=registry)).serialize({"it": value})
    found = bound(Avro(schema=of_one_field(now), registry=registry)).deserialize(data)["it"]
    assert (found, type(found)) == (expected, type(expected))


@dataclass
class Grown:
    id: int
    at: datetime.datetime = EPOCH
    raw: bytes = b"\xff"
    item: Item = field(default_factory=lambda: Item("made"))
    items: list[Item] = field(default_factory=list)
    choice: Cash | Card = field(default_factory=lambda: Card("1"))
    token: str = field(default_factory=lambda: uuid.uuid4().hex)


def test_new_fields_get_the_defaults_of_the_class_and_no_two_records_share_one(registry: SchemaRegistry) -> None:
    data = bound(Avro(schema=avro_record("Grown", "id:long"), registry=registry)).serialize({"id": 1})
    serde = bound(Avro(Grown, registry=registry))
    first, second = serde.deserialize(data), serde.deserialize(data)
    assert (first.at, first.raw, first.item, first.choice) == (EPOCH, b"\xff", Item("made"), Card("1"))
    assert first.items == []
    assert first.items is not second.items
    assert first.item is not second.item
    assert first.token != second.token
    assert Avro(Grown, registry=registry).format().problems(avro_record("Grown", "id:long")) == []
    schema = json.loads(Avro(Grown).format().own.text)
    assert [one["name"] for one in schema["fields"] if "default" not in one] == ["id", "item", "choice", "token"]


def test_records_of_a_schema_have_defaults_of_their_own(registry: SchemaRegistry) -> None:
    inner = {
        "type": "record",
        "name": "In",
        "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string", "default": "q"}],
    }
    schema = {
        "type": "record",
        "name": "Out",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "inner", "type": inner, "default": {"x": 1}},
            {"name": "list", "type": {"type": "array", "items": MILLIS}, "default": [0]},
            {"name": "either", "type": [inner["name"], "null"], "default": {"x": 2, "y": "z"}},
        ],
    }
    data = bound(Avro(schema=avro_record("Out", "id:long"), registry=registry)).serialize({"id": 1})
    serde = bound(Avro(schema=schema, registry=registry))
    expected = {"id": 1, "inner": {"x": 1, "y": "q"}, "list": [EPOCH], "either": {"x": 2, "y": "z"}}
    first = serde.deserialize(data)
    assert first == expected
    first["list"].append(EPOCH)
    first["inner"]["x"] = 5
    assert serde.deserialize(data) == expected
    assert serde.deserialize(serde.serialize({"id": 1})) == expected


def test_a_class_reads_a_larger_schema_and_writes_a_smaller_one_where_nothing_is_lost(registry: SchemaRegistry) -> None:
    serde = bound(Avro(Card, schema=avro_record("Card", "number:string"), registry=registry))
    assert serde.deserialize(serde.serialize(Card("1"))) == Card("1")
    with pytest.raises(SchemaError, match=r"it\.name would come back as None, not 'ann'"):
        serde.serialize(Card("1", "ann"))
    larger = avro_record("Cash", "cents:long", 'note:string:"none"')
    wide = bound(Avro(Cash, schema=larger, registry=registry))
    assert wide.deserialize(wide.serialize(Cash(5))) == Cash(5)


class Renamed(BaseModel):
    full_name: str = Field(validation_alias=AliasChoices("full_name", "name"))


class Worked(BaseModel):
    cents: int

    @model_validator(mode="before")
    @classmethod
    def convert(cls, given: Any) -> Any:
        return {"cents": round(given["euros"] * 100)} if isinstance(given, dict) and "euros" in given else given


def test_a_model_reads_older_records_by_other_names_and_by_functions(registry: SchemaRegistry) -> None:
    data = bound(Avro(schema=avro_record("Renamed", "name:string"), registry=registry)).serialize({"name": "ann"})
    assert bound(Avro(Renamed, registry=registry)).deserialize(data) == Renamed(full_name="ann")
    old = avro_record("Worked", "euros:double")
    data = bound(Avro(schema=old, registry=registry), "worked").serialize({"euros": 1.5})
    serde = bound(Avro(Worked, registry=registry), "worked")
    assert serde.deserialize(data) == Worked(cents=150)
    assert serde.deserialize(serde.serialize(Worked(cents=3))) == Worked(cents=3)
    assert Avro(Worked, registry=registry).format().problems(old) is None
