"""What a serde with a registry reads is equal to what it wrote, or nothing was written; equal keys have equal bytes."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pickle
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.any_pb2 import Any as Any_
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import BytesValue, DoubleValue
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from processor_api.serde import CurrentHeaders, Headers
from serde_support.registry_values import (
    BERLIN,
    NOON,
    PAIRS,
    VALUES,
    Base,
    Derived,
    DictKey,
    Key,
    Point,
    Same,
    anything,
    bases,
    serdes,
    texts,
)
from serde_support.values import written
from streams import Avro, JsonSchema, Protobuf, SchemaRegistry
from streams.serdes.model_forms import difference
from streams.serdes.values import fitted, json_reader


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
from streams import Avro, JsonSchema
from serde_support.registry_values import NOON, Derived, DictKey, Key, serdes
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
