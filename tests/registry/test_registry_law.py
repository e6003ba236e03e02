"""What a serde with a registry reads is equal to what it wrote, or nothing was written; equal keys have equal bytes."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import os
import pickle
import subprocess
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

import pytest
from google.protobuf.any_pb2 import Any as Any_
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import BytesValue, DoubleValue
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from processor_api.serde import CurrentHeaders, Headers
from streams import Avro, AvroType, JsonSchema, Protobuf, SchemaRegistry
from streams.serdes.model_forms import difference
from streams.serdes.values import fitted, json_reader

T = TypeVar("T")
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Words(enum.Enum):
    MANY = "with a blank"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int = 0


@dataclasses.dataclass(frozen=True)
class Same:
    """Of the shape of another class."""

    x: int
    y: int = 0


class Base(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int


class Derived(Base):
    b: int = 0


class Box(BaseModel, Generic[T]):
    inside: T


@dataclasses.dataclass
class Plain:
    text: str
    number: int
    real: float
    flag: bool
    raw: bytes
    maybe: str | None = None
    either: int | str | None = None
    at: datetime.date | datetime.datetime | None = None
    time: datetime.time | None = None
    id: uuid.UUID | None = None
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)] = Decimal("0.00")
    small: Annotated[int, AvroType("int")] = 1


@dataclasses.dataclass
class Nested:
    choice: Point | Same
    points: list[Point]
    bases: list[Base | Derived]
    by_name: dict[str, Point | None]
    colours: set[Colour] = dataclasses.field(default_factory=set)
    words: Words = Words.MANY
    level: Level = Level.LOW
    size: Literal["s", "m"] = "s"
    colour_or_text: Colour | str = Colour.RED
    pair: tuple[int, ...] = ()


class Model(BaseModel):
    what: Derived | Base
    kind: Colour = Colour.RED
    price: Decimal | None = Field(None, max_digits=9, decimal_places=2)
    times: list[datetime.datetime] = []
    tags: frozenset[str] = frozenset()
    positive: int = Field(1, gt=0)
    alias_name: str = Field("x", alias="aliasName")
    box: Box[int] | Box[str] = Box[int](inside=1)


class Tree(BaseModel):
    value: int
    left: Tree | None = None
    right: Tree | None = None


@dataclasses.dataclass
class AfterInit:
    cents: int
    twice: int = dataclasses.field(init=False, default=0)

    def __post_init__(self) -> None:
        self.twice = 2 * self.cents


@dataclasses.dataclass(slots=True, kw_only=True)
class Slotted:
    a: int
    b: str = "b"


class Key(BaseModel):
    model_config = ConfigDict(frozen=True)
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]
    at: datetime.datetime
    tags: frozenset[str] = frozenset()
    choice: Base | Derived = Base(a=1)
    id: uuid.UUID = uuid.UUID(int=1)


class DictKey(BaseModel):
    more: dict[str, int] = {}
    price: Decimal = Decimal(1)
    at: datetime.datetime = NOON
    tags: frozenset[str] = frozenset()


# ------------------------------------------------------------------------------ values

texts = st.text(max_size=4) | st.sampled_from(["lone \ud83d", "null", ""])
zones = st.sampled_from([None, datetime.UTC, BERLIN, datetime.timezone(datetime.timedelta(seconds=3601))])
times = st.builds(
    lambda time, zone, fold: time.replace(tzinfo=zone, fold=fold),
    st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2300, 1, 1)),  # noqa: DTZ001 - the zone is drawn
    zones,
    st.integers(0, 1),
)
integers = st.integers(-(1 << 64), 1 << 64) | st.integers(-5, 5) | st.sampled_from(list(Level))
decimals = st.decimals(allow_nan=True) | st.decimals(-9_999_999, 9_999_999, places=2) | st.sampled_from(
    [Decimal("1E+1000000"), Decimal("1E-1000000"), Decimal("0E+100000"), Decimal("1.500"), Decimal("-0")]
)  # fmt: skip
points = st.builds(Point, integers, integers)
bases = st.builds(Base, a=st.integers(-5, 5)) | st.builds(Derived, a=st.integers(-5, 5), b=st.integers(-5, 5))
anything = st.none() | st.booleans() | integers | st.floats() | texts | times | st.uuids() | st.dates() | decimals | (
    st.binary(max_size=3) | points | bases | st.sampled_from(Colour) | st.lists(st.integers(), max_size=2)
)  # fmt: skip
VALUES: dict[Any, Any] = {
    Plain: st.builds(
        Plain,
        text=texts | anything,
        number=integers,
        real=st.floats() | integers,
        flag=st.booleans() | st.integers(0, 1),
        raw=st.binary(max_size=3) | st.binary(max_size=3).map(bytearray),
        maybe=texts | st.none(),
        either=integers | texts | st.none() | anything,
        at=st.dates() | times | st.none(),
        time=st.times(timezones=zones) | st.none(),
        id=st.uuids() | st.none(),
        price=decimals,
        small=integers,
    ),
    Nested: st.builds(
        Nested,
        choice=points | st.builds(Same, st.integers(-5, 5), st.integers(-5, 5)) | bases,
        points=st.lists(points, max_size=3) | st.tuples(points),
        bases=st.lists(bases | points, max_size=3),
        by_name=st.dictionaries(texts, points | st.none(), max_size=2),
        colours=st.sets(st.sampled_from(Colour)) | st.lists(st.sampled_from(Colour), max_size=2),
        words=st.just(Words.MANY) | st.just("with a blank"),
        level=st.sampled_from(Level) | st.integers(0, 3),
        size=st.sampled_from(["s", "m", "xl"]),
        colour_or_text=st.sampled_from(Colour) | texts | st.just("red"),
        pair=st.lists(st.integers(), max_size=2).map(tuple) | st.lists(st.integers(), max_size=2),
    ),
    Model: st.builds(
        Model.model_construct,
        what=bases | points,
        kind=st.sampled_from(Colour) | st.just("red"),
        price=decimals | st.none(),
        times=st.lists(times, max_size=2),
        tags=st.frozensets(texts, max_size=3),
        positive=st.integers(-1, 2),
        alias_name=texts,
        box=st.builds(Box[int], inside=st.integers(0, 3)) | st.builds(Box[str], inside=st.text(max_size=2)),
    ),
    Tree: st.recursive(
        st.builds(Tree, value=st.integers(-5, 5)),
        lambda inner: st.builds(Tree, value=st.integers(-5, 5), left=inner | st.none(), right=inner | st.none()),
        max_leaves=6,
    ),
    AfterInit: st.builds(AfterInit, st.integers(-5, 5)),
    Slotted: st.builds(Slotted, a=integers, b=texts),
    Box[int]: st.builds(Box[int], inside=st.integers(-5, 5)),
    list[Point]: st.lists(points, max_size=3),
    dict[str, Colour]: st.dictionaries(texts, st.sampled_from(Colour), max_size=2),
    datetime.datetime: times,
    Decimal: decimals,
    Key: st.builds(
        Key.model_construct,
        price=decimals,
        at=times,
        tags=st.frozensets(texts, max_size=4),
        choice=bases,
        id=st.uuids(),
    ),
    DictKey: st.builds(
        DictKey.model_construct,
        more=st.dictionaries(texts, integers, max_size=3),
        price=decimals,
        at=times,
        tags=st.frozensets(texts, max_size=4),
    ),
}
TYPES = {**{kind: kind for kind in VALUES}, Decimal: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]}
WITHOUT_AVRO = {DictKey}
"""Types with a decimal whose digits are not known, which has no type of Avro."""
AS_KEYS = {Avro: {Key, Point, Slotted}, JsonSchema: {Key, DictKey, Point, Slotted}}
VALUES[Point] = points


def serdes(make: Any, kind: Any, **options: Any) -> list[Any]:
    registry = SchemaRegistry("mock://law")
    if make is Avro and kind is Decimal:
        options["schema"] = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    serde = make(kind, registry=registry, **options)
    topic = f"{make.__name__}-{kind}"
    found = [serde.bind(topic, is_key=False)]
    if kind in AS_KEYS[make]:
        found.append(serde.bind(topic, is_key=True))
    return found


def written(serde: Any, value: Any) -> bytes | None:
    try:
        return bytes(serde.serialize(value))
    except (TypeError, ValueError):
        return None


PAIRS = [(make, kind) for make in (Avro, JsonSchema) for kind in VALUES if make is not Avro or kind not in WITHOUT_AVRO]


@pytest.mark.parametrize(("make", "kind"), PAIRS, ids=str)
def test_what_is_read_is_what_was_written_or_nothing_was(make: Any, kind: Any) -> None:
    bound = serdes(make, kind)

    @given(VALUES[kind] | anything)
    def law(value: Any) -> None:
        for serde in bound:
            data = None if value is None else written(serde, value)
            if data is not None:
                assert difference(serde.deserialize(data), value) is None

    law()


# ------------------------------------------------------------------------------ keys


def shuffled(value: Any, draw: Any) -> Any:
    """An equal value: its sets and dicts filled in another order, its times in another zone, more zeros."""
    if isinstance(value, BaseModel):
        fields = {name: shuffled(one, draw) for name, one in vars(value).items()}
        return type(value).model_construct(**fields)
    if isinstance(value, dict):
        return {name: value[name] for name in draw(st.permutations(list(value)))}
    if isinstance(value, frozenset):
        return frozenset(draw(st.permutations(list(value))))
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(draw(st.sampled_from([BERLIN, datetime.UTC])))
    if isinstance(value, Decimal) and value.is_finite() and 0 <= -value.as_tuple().exponent < 3:  # type: ignore[operator]
        return Decimal(f"{value}0") if value.as_tuple().exponent else Decimal(f"{value}.0")
    return value


@pytest.mark.parametrize(("make", "kind"), [(Avro, Key), (JsonSchema, Key), (JsonSchema, DictKey)])
def test_equal_keys_have_equal_bytes(make: Any, kind: Any) -> None:
    *_, serde = serdes(make, kind)

    @given(st.data())
    def law(data: Any) -> None:
        value = data.draw(VALUES[kind])
        first, second = written(serde, value), written(serde, shuffled(value, data.draw))
        assert None in (first, second) or first == second

    law()


SCRIPT = """
from tests.registry.test_registry_law import *
keys = [Key(price="1.50", at=NOON, tags=frozenset("abcdef"), choice=Derived(a=1, b=2)), DictKey(tags=frozenset("gh"))]
for make in (Avro, JsonSchema):
    for key in keys:
        if make is JsonSchema or type(key) is Key:
            print(serdes(make, type(key))[-1].serialize(key).hex())
"""


def test_each_process_writes_the_same_bytes_for_a_key() -> None:
    root = Path(__file__).parents[2]
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={
                **os.environ,
                "PYTHONHASHSEED": str(seed),
                "PYTHONPATH": os.pathsep.join(map(str, (root, root / "tests/support"))),
            },
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in (1, 2, 3)
    }
    assert len(found) == 1
    assert next(iter(found))


NAMED = [{"type": "record", "name": name, "fields": [{"name": "id", "type": "int"}]} for name in ("A", "B")]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "map", "values": "int"}, "the key is a map"),
        ({"type": "array", "items": {"type": "map", "values": "int"}}, r"the key\[\] is a map"),
        (NAMED, "the key has a union of named types"),
    ],
)
def test_schemas_in_which_equal_keys_are_two_are_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Avro(schema=schema, registry=SchemaRegistry("mock://law")).bind("t", is_key=True)


# ------------------------------------------------------------------------------ records that are passed on

EVENT = {
    "type": "record",
    "name": "shop.Event",
    "fields": [
        {"name": "what", "type": [{"type": "record", "name": name, "fields": [{"name": "id", "type": "int"}]}
                                  for name in ("Created", "Deleted")]},
        {"name": "size", "type": ["string", {"type": "enum", "name": "Size", "symbols": ["S", "M"]},
                                  {"type": "enum", "name": "Other", "symbols": ["S", "L"]}]},
        {"name": "raw", "type": ["bytes", {"type": "fixed", "name": "Two", "size": 2}]},
        {"name": "price", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "next", "type": ["null", "Event"], "default": None},
        {"name": "at", "type": ["null", {"type": "int", "logicalType": "date"},
                                {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "items", "type": {"type": "array", "items": ["null", "Created", "Deleted"]}},
    ],
}  # fmt: skip


@st.composite
def events(draw: Any, deep: int = 2) -> Any:
    name = st.sampled_from(["shop.Created", "shop.Deleted"])
    made = st.tuples(name, st.fixed_dictionaries({"id": st.integers(-5, 5)}))
    return {
        "what": draw(made),
        "size": draw(st.sampled_from([("string", "S"), ("shop.Size", "S"), ("shop.Other", "S"), ("shop.Size", "M")])),
        "raw": draw(st.sampled_from([("bytes", b"ab"), ("shop.Two", b"ab")])),
        "price": draw(st.none() | st.decimals(-9_999_999, 9_999_999, places=2)),
        "next": draw(events(deep - 1)) if deep and draw(st.booleans()) else None,
        "at": draw(st.none() | st.dates() | st.just(NOON)),
        "items": draw(st.lists(st.none() | made, max_size=3)),
    }


@given(events())
def test_what_is_only_passed_on_has_the_same_bytes(event: Any) -> None:
    registry = SchemaRegistry("mock://passed-on")
    data = Avro(schema=EVENT, registry=registry).bind("events", is_key=False).serialize(event)
    serde = Avro(registry=registry).bind("events", is_key=False)
    read = serde.deserialize(data)
    assert serde.serialize(read) == data
    assert serde.serialize(pickle.loads(pickle.dumps(read))) == data
    assert json.loads(json.dumps(read, default=str))["what"] == event["what"][1]


# ------------------------------------------------------------------------------ JSON that people see and give


def shown_again(serde: Any, data: bytes) -> bytes | None:
    """Returns the bytes of what a person gives who has seen some."""
    headers = CurrentHeaders()
    shown = json.loads(json.dumps(json_reader(serde, headers)(data)))
    return fitted(serde, shown, is_text=False).data


@dataclasses.dataclass
class Mixed:
    """Fields whose values JSON has in one form."""

    what: bytes | str | None
    when: datetime.date | datetime.datetime | str
    real: float | str
    named: dict[str, int] | Point | None
    bases: list[Base | Derived | Same]
    base64: str = ""


VALUES[Mixed] = st.builds(
    Mixed,
    what=st.binary(max_size=3) | st.sampled_from([b"a", "a", '{"base64": "/w=="}', None]),
    when=st.dates() | st.sampled_from([NOON, "2026-01-01", "a"]),
    real=st.floats(allow_nan=False) | st.sampled_from(["NaN", "Infinity", "1.5"]),
    named=st.sampled_from([{"x": 1}, {"x": 1, "y": 2}, {"Point": 1}, {"map": 1}, Point(1, 2), None]),
    bases=st.lists(bases | st.builds(Same, st.integers(-5, 5)), max_size=3),
)


class Wrapped(BaseModel):
    """Its only field has the name under which JSON has bytes."""

    base64: str


VALUES[Wrapped] = st.builds(Wrapped, base64=st.sampled_from(["", "aGk=", "no base64"]))
SHOWN = [*PAIRS, (Avro, Mixed), *((make, Wrapped) for make in (Avro, JsonSchema))]


@pytest.mark.parametrize(("make", "kind"), SHOWN, ids=str)
def test_what_is_shown_as_json_has_the_same_bytes(make: Any, kind: Any) -> None:
    bound = serdes(make, kind)

    @given(VALUES[kind])
    def law(value: Any) -> None:
        for serde in bound:
            data = None if value is None else written(serde, value)
            if data is not None:
                assert in_order(shown_again(serde, data)) == in_order(data)

    law()


def in_order(data: bytes | None) -> Any:
    """Returns bytes, of JSON with the items of sets in order, which have that of their table."""
    if data is None or b'"tags":[' not in data:
        return data
    found = json.loads(data[5:])
    return {**found, "tags": sorted(found["tags"])}


@given(events())
def test_what_is_shown_without_a_model_has_the_same_bytes(event: Any) -> None:
    """Texts in place of bytes, dates and named types were written as others, or refused."""
    registry = SchemaRegistry("mock://shown")
    serde = Avro(schema=EVENT, registry=registry).bind("events", is_key=False)
    data = serde.serialize(event)
    for one in (serde, Avro(registry=registry).bind("events", is_key=False)):
        assert shown_again(one, data) == data
    in_headers = Avro(schema=EVENT, registry=registry, schema_ids="header").bind("events", is_key=False)
    headers = CurrentHeaders()
    data = headers.handed_to(in_headers).serialize(event)
    shown = json.loads(json.dumps(json_reader(in_headers, headers)(data)))
    assert fitted(in_headers, shown, is_text=False, headers=Headers()).data == data


@dataclasses.dataclass
class Raw:
    raw: bytes
    at: datetime.datetime | None = None
    more: int = 5


def test_json_that_people_give_stands_for_a_value() -> None:
    serde = Avro(Raw, registry=SchemaRegistry("mock://law")).bind("raw", is_key=False)
    assert serde.from_json({"raw": {"base64": "//4="}, "at": "2026-01-01T12:00:00Z"}) == Raw(b"\xff\xfe", NOON)
    assert serde.from_json({"raw": b"\xff\xfe", "at": NOON, "more": "7"}) == Raw(b"\xff\xfe", NOON, 7)
    assert serde.from_json({"raw": "text"}) == Raw(b"text")
    with pytest.raises(ValueError, match="raw"):
        serde.from_json({"raw": 5})
    given_schema = Avro(schema=EVENT, registry=SchemaRegistry("mock://law")).bind("events", is_key=False)
    event = {
        "what": {"id": 1}, "size": "S", "raw": {"base64": "//4="}, "price": "1.50", "next": None, "at": "2026-01-01",
        "items": [None, {"Deleted": {"id": 2}}],
    }  # fmt: skip
    found = given_schema.deserialize(given_schema.serialize(given_schema.from_json(event)))
    assert found == {
        **event, "raw": b"\xff\xfe", "price": Decimal("1.50"), "at": NOON.date(), "items": [None, {"id": 2}],
    }  # fmt: skip
    assert [one and one.branch for one in found["items"]] == [None, "shop.Deleted"]


def test_an_object_named_as_bytes_are_keeps_its_field() -> None:
    """A record with one field, a text `base64`, became bytes."""
    schema = {"type": "record", "name": "Only", "fields": [{"name": "base64", "type": "string"}]}
    for serde in (
        Avro(schema=schema, registry=SchemaRegistry("mock://law")),
        Avro(registry=SchemaRegistry("mock://law")),
    ):
        bound = serde.bind("only", is_key=False)
        if serde.schema_options:
            bound.serialize({"base64": "aGk="})  # registers it
        assert bound.from_json({"base64": "aGk="}) == {"base64": "aGk="}


@given(st.builds(dict, raw=st.binary(), real=st.floats(allow_nan=False), number=st.integers(0, 5)))
def test_messages_are_shown_with_the_same_bytes(fields: Any) -> None:
    serde = Protobuf(Any_, registry=SchemaRegistry("mock://law")).bind("values", is_key=False)
    message = Any_(type_url="type.googleapis.com/google.protobuf.BytesValue")
    message.value = BytesValue(value=fields["raw"]).SerializeToString()
    data = serde.serialize(message)
    assert shown_again(serde, data) == data
    doubles = Protobuf(DoubleValue, registry=SchemaRegistry("mock://law")).bind("doubles", is_key=False)
    data = doubles.serialize(DoubleValue(value=fields["real"]))
    assert shown_again(doubles, data) == data


# ------------------------------------------------------------------------------ Protobuf


@given(st.dictionaries(texts, st.none() | st.booleans() | st.floats() | texts, max_size=3) | anything)
def test_messages_come_back_or_are_refused(value: Any) -> None:
    serde = Protobuf(Struct, registry=SchemaRegistry("mock://law")).bind("structs", is_key=False)
    if isinstance(value, dict):
        message = Struct()
        try:
            message.update(value)
        except (ValueError, TypeError):
            return
        value = message
    data = None if value is None else written(serde, value)
    assert data is None or serde.serialize(serde.deserialize(data)) == data


@given(st.integers(0, 1 << 33), st.integers(0, 999_999_999))
def test_messages_are_keys(seconds: int, nanos: int) -> None:
    serde = Protobuf(Timestamp, registry=SchemaRegistry("mock://law")).bind("times", is_key=True)
    message = Timestamp(seconds=seconds, nanos=nanos)
    assert serde.deserialize(serde.serialize(message)) == message
