"""Rows as the objects that serdes write, and what is read of them again."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pydantic import BaseModel, Field

from processor_api.errors import DeserializationError, SerializationError
from processor_api.record import Headers
from processor_api.serde import Serde, Serdes
from streams import Avro, Consumed, JsonSchema, Produced, SchemaRegistry, StreamsBuilder
from streams.serdes import json_serde, list_serde, pydantic_serde, serde_of
from streams.spark.executor.prepared_history import Preparation, _encoded_with_headers, prepared
from streams.spark.executor.shipped_topology import ship
from streams.spark.rows.columns import HEADERS_TYPE, column_of
from streams.spark.rows.values import pairs_of, python_values, writer_of, written, written_with_headers

MONEY = pa.decimal128(10, 2)
NOON = datetime(2024, 3, 1, 12, tzinfo=UTC)


class Leg(BaseModel):
    to: str
    fare: Decimal


class Trip(BaseModel):
    at: datetime = Field(alias="startedAt")
    day: date
    legs: list[Leg]
    tags: dict[str, int]
    seats: dict[int, str] = {}
    note: bytes | None = None


TRIP = pa.struct([
    ("startedAt", pa.timestamp("us", "America/New_York")),
    ("day", pa.date32()),
    ("legs", pa.list_(pa.struct([("to", pa.string()), ("fare", MONEY)]))),
    ("tags", pa.map_(pa.string(), pa.int32())),
    ("seats", pa.map_(pa.int32(), pa.string())),
    ("note", pa.binary()),
])  # fmt: skip
ROW = {
    "startedAt": NOON, "day": date(2024, 3, 1), "legs": [{"to": "é", "fare": Decimal("1.50")}],
    "tags": [("fast", 1)], "seats": [(7, "ann")], "note": b"hi",
}  # fmt: skip


def bytes_of(column: pa.Array, serde: Serde[Any]) -> list[bytes | None]:
    return written(writer_of("value", serde), python_values(column), "value", serde, "t")


def test_values_are_what_they_look_like() -> None:
    """Maps were lists of pairs; times had the zone of the session."""
    (row, nothing) = python_values(pa.array([ROW, None], TRIP))
    assert row == {**ROW, "tags": {"fast": 1}, "seats": {7: "ann"}}
    assert row["startedAt"].utcoffset() == timedelta(0)
    assert nothing is None
    maps = pa.array([[("a", None)], None, []], pa.map_(pa.string(), TRIP))
    assert python_values(maps) == [{"a": None}, None, {}]
    nested = pa.array([[[("a", [("b", 1)])]]], pa.list_(pa.map_(pa.string(), pa.map_(pa.string(), pa.int64()))))
    assert python_values(nested) == [[{"a": {"b": 1}}]]


@pytest.mark.parametrize("use_orjson", [True, False])
def test_json_has_objects_numbers_and_times(use_orjson: bool) -> None:
    rows = pa.array([{**ROW, "note": None}], TRIP)
    (data,) = bytes_of(rows, json_serde(use_orjson=use_orjson))
    assert json.loads(data or b"") == {
        "startedAt": "2024-03-01T12:00:00+00:00", "day": "2024-03-01", "legs": [{"to": "é", "fare": 1.5}],
        "tags": {"fast": 1}, "seats": {"7": "ann"}, "note": None,
    }  # fmt: skip
    assert bytes_of(pa.array([[("fare", 1)]], pa.map_(pa.string(), pa.int32())), json_serde()) == [b'{"fare":1}']
    assert bytes_of(pa.array([Decimal("3.00")], MONEY), json_serde()) == [b"3"]


def test_a_model_takes_a_struct_and_gives_it_back() -> None:
    """By its schema and under its aliases; what is read is JSON text, and is written again from that."""
    serde = pydantic_serde(Trip)
    (data,) = bytes_of(pa.array([ROW], TRIP), serde)
    read = serde.deserialize(data or b"")
    assert (read.at, read.legs[0].fare, read.tags, read.seats, read.note) == (
        NOON, Decimal("1.50"), {"fast": 1}, {7: "ann"}, b"hi",
    )  # fmt: skip
    text = column_of("value", serde).array([data], lambda number: {})
    assert bytes_of(text, serde) == [data]
    text = column_of("value", json_serde()).array([b'{"a":[1,{"b":null}],"c":"\xc3\xa9"}', b'"v"'], lambda number: {})
    assert bytes_of(text, json_serde()) == [b'{"a":[1,{"b":null}],"c":"\xc3\xa9"}', b'"v"']


@pytest.mark.parametrize(
    ("value", "kind", "serde", "error"),
    [
        (Decimal("0.12345678901234567890"), pa.decimal128(30, 20), json_serde(), "more digits.*cast the column to str"),
        ({"b": b"x"}, pa.struct([("b", pa.binary())]), json_serde(), "JSON does not have bytes.*base64"),
        ({"to": "x"}, pa.struct([("to", pa.string())]), pydantic_serde(Leg), "fare.*Field required"),
        ("{", pa.string(), json_serde(), "cannot be written by the serde 'json'"),
        ([(b"k", 1)], pa.map_(pa.binary(), pa.int32()), json_serde(), "cast the keys of the map"),
        ("x", pa.string(), Serdes.LONG, "cannot be written by the serde 'long'"),
    ],
)
def test_what_cannot_be_written_is_refused(value: Any, kind: pa.DataType, serde: Serde[Any], error: str) -> None:
    with pytest.raises(SerializationError, match=f"(?s)the value .*{error}"):
        bytes_of(pa.array([value], kind), serde)


def test_serdes_of_ones_own_get_the_value() -> None:
    """One that refuses it gets what it reads from its JSON."""
    assert bytes_of(pa.array([[1, 2]], pa.list_(pa.int64())), list_serde(Serdes.LONG)) == [
        list_serde(Serdes.LONG).serialize([1, 2])
    ]
    upper = serde_of(lambda text: text.upper().encode(), bytes.decode)
    assert bytes_of(pa.array(["a"]), upper) == [b"A"]
    number = serde_of(lambda one: b"%d" % one, int)
    assert bytes_of(pa.array(["5"]), number) == [b"5"]
    assert bytes_of(pa.array([None], pa.string()), number) == [None]


def test_times_of_any_zone_are_the_same_moment() -> None:
    east = timezone(timedelta(hours=5))
    times = pa.array([NOON.astimezone(east)], pa.timestamp("us", "Asia/Karachi"))
    assert bytes_of(times, json_serde()) == [b'"2024-03-01T12:00:00+00:00"']


def trips() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("trips", Consumed(key_serde="string", value_serde=Trip)).to("out", Produced(value_serde=Trip))
    builder.stream("tags", Consumed(key_serde="string", value_serde="json")).to("out", Produced(value_serde="json"))
    return builder


def test_a_history_of_structs_and_maps_feeds_models_and_json() -> None:
    """As its rows are prepared in a task: a struct was refused by a source that reads models."""
    shipped = ship(trips, "app", {}, dead_letters=False)

    def prepared_values(topic: str, column: pa.Array) -> list[bytes]:
        batch = pa.RecordBatch.from_pydict({"key": pa.array(["a"] * len(column)), "value": column})
        (found,) = prepared(Preparation(shipped, topic, 1, encode=True, place=False))([batch])
        assert found.column("key").to_pylist() == [b"a"] * len(column)
        values: list[bytes] = found.column("value").to_pylist()
        return values

    (trip,) = prepared_values("trips", pa.array([ROW], TRIP))
    assert pydantic_serde(Trip).deserialize(trip).legs[0].fare == Decimal("1.50")
    assert prepared_values("tags", pa.array([[("fare", 1)], None], pa.map_(pa.string(), pa.int32()))) == [
        b'{"fare":1}', None,
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="the value of a row of the history, which the topology's source reads"):
        prepared_values("trips", pa.array([{"startedAt": NOON}], pa.struct([("startedAt", TRIP[0].type)])))


def _sealed() -> Serde[str]:
    def write(text: str, headers: Headers) -> bytes:
        if not isinstance(text, str):
            raise TypeError("no text")
        headers.add("by", b"1")
        return bytes(one ^ 1 for one in text.encode())

    def read(data: bytes, headers: Headers) -> str:
        key = headers.last("by")
        if key is None:
            raise LookupError("no header says the key")
        return bytes(one ^ int(key) for one in data).decode()

    return serde_of(write, read, name="sealed", with_headers=True)


def test_a_serde_that_takes_headers_gets_those_of_each_row() -> None:
    headers = [Headers([("n", b"0")]), Headers()]
    data = written_with_headers("value", _sealed(), ["tea", None], headers, "value", "orders")
    assert data[1] is None
    assert headers == [[("n", b"0"), ("by", b"1")], []]
    column = column_of("value", _sealed())
    assert column.takes_headers
    assert column.array(data, lambda number: {}, headers).to_pylist() == ['"tea"', None]
    with pytest.raises(DeserializationError, match="no header says the key"):
        column.array(data, lambda number: {}, [None, None])


def test_a_history_of_such_a_serde_needs_a_column_of_headers() -> None:
    serdes = (Serdes.STRING, _sealed())
    columns = {"key": pa.array(["a"]), "value": pa.array(["tea"])}
    with pytest.raises(SerializationError, match="a serde of topic 'orders' writes headers, and the history has none"):
        _encoded_with_headers(columns, serdes, "orders")
    headers = pa.nulls(1, HEADERS_TYPE)
    found = _encoded_with_headers({**columns, "headers": headers}, serdes, "orders")
    assert found["headers"].to_pylist() == [[{"key": "by", "value": b"1"}]]
    assert column_of("value", serdes[1]).array(
        found["value"].to_pylist(), lambda number: {}, pairs_of(found["headers"])
    ).to_pylist() == ['"tea"']


class Fare(BaseModel):
    to: str
    fare: Decimal = Field(max_digits=9, decimal_places=2)


class Flight(BaseModel):
    at: datetime
    day: date
    legs: list[Fare]
    tags: dict[str, int]
    note: bytes | None = None


FLIGHT = pa.struct([pa.field("at", pa.timestamp("us", "UTC")), *list(TRIP)[1:4], TRIP.field("note")])


@pytest.mark.parametrize("ids", ["prefix", "header"])
@pytest.mark.parametrize("note", [b"hi", b"\xff\xfe", None])
def test_a_registry_serde_takes_the_object_that_a_struct_looks_like(note: bytes | None, ids: str) -> None:
    """The text of the struct's JSON was read as bytes behind an id."""
    registry = SchemaRegistry("mock://rows", schema_ids=ids)
    serde = Avro(Flight, registry=registry).bind("trips", is_key=False)
    row = {"at": NOON, "day": ROW["day"], "legs": ROW["legs"], "tags": ROW["tags"], "note": note}
    headers = Headers()
    (data,) = written_with_headers("value", serde, python_values(pa.array([row], FLIGHT)), [headers], "value", "trips")
    assert data is not None
    assert bool(headers) == (ids == "header")
    found = (serde.with_headers(headers) if serde.takes_headers else serde).deserialize(data)
    legs = [Fare(to="é", fare=Decimal("1.50"))]
    assert found == Flight(at=NOON, day=ROW["day"], legs=legs, tags={"fast": 1}, note=note)


def test_a_registry_serde_without_a_model_takes_a_struct() -> None:
    fields = [
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "raw", "type": "bytes"},
        {"name": "fare", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}},
        {"name": "note", "type": ["null", "string"]},
    ]
    schema = {"type": "record", "name": "Fare", "fields": fields}
    serde = Avro(schema=schema, registry=SchemaRegistry("mock://rows-plain")).bind("fares", is_key=False)
    row = {"day": date(2024, 3, 1), "raw": b"\xff", "fare": Decimal("123456789012345678.25"), "note": None}
    kind = pa.struct(
        [("day", pa.date32()), ("raw", pa.binary()), ("fare", pa.decimal128(20, 2)), ("note", pa.string())]
    )
    (data,) = bytes_of(pa.array([row], kind), serde)
    assert data is not None
    assert serde.deserialize(data) == row


def test_a_json_schema_serde_takes_a_struct() -> None:
    serde = JsonSchema(Leg, registry=SchemaRegistry("mock://rows-json")).bind("legs", is_key=False)
    kind = pa.struct([("to", pa.string()), ("fare", MONEY)])
    (data,) = bytes_of(pa.array([{"to": "é", "fare": Decimal("1.50")}], kind), serde)
    assert data is not None
    assert serde.deserialize(data) == Leg(to="é", fare=Decimal("1.50"))
    with pytest.raises(SerializationError):
        bytes_of(pa.array([{"to": "é", "fare": None}], kind), serde)


def test_a_text_in_a_list_is_a_text_for_a_registry_serde() -> None:
    serde = Avro(schema={"type": "string"}, registry=SchemaRegistry("mock://rows-texts")).bind("texts", is_key=False)
    (data,) = bytes_of(pa.array([["1", "tea"]], pa.list_(pa.string())), list_serde(serde))
    assert data is not None
    assert list_serde(serde).deserialize(data) == ["1", "tea"]
