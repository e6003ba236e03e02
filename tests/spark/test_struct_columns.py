"""Objects as structs: what was read is written with the same bytes, and what has no fields is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from pyspark.sql.functions import expr

from backfill_kit import SETTINGS
from processor_api.errors import DeserializationError
from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import WindowedSerdes
from streams import Consumed, Materialized, Produced, StreamsBuilder, TimeWindows
from streams.config import StreamsConfig
from streams.registry import Avro, JsonSchema, SchemaRegistry
from streams.serdes import json_serde, list_serde, pydantic_serde
from streams.spark import Backfill, History, SparkBridgeError, diff_tables
from streams.spark.corrections.encoding import encoded, encoder_of, rows_of_difference
from streams.spark.corrections.sinks import sink_of
from streams.spark.rows.columns import Column, column_of
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.store_layouts import table_layout
from streams.spark.rows.struct_types import filler, spark_name
from streams.spark.rows.values import python_values, writer_of, written


@dataclass
class Stop:
    town: str
    minutes: float = 0.0
    at: datetime | None = None


@dataclass
class Tour:
    name: str
    seats: int
    price: Decimal
    data: bytes
    stops: list[Stop] = field(default_factory=list)
    tags: dict[str, list[int]] = field(default_factory=dict)
    first: Stop | None = None
    open: bool = True


class Trip(BaseModel):
    id_: int = Field(alias="id")
    stops: list[Stop]
    note: str | None = None


REGISTRY = SchemaRegistry("mock://structs")


def of_schema(schema: Any) -> Serde[Any]:
    return JsonSchema(schema=schema, registry=REGISTRY).bind("t", is_key=False)


def column(serde: Serde[Any]) -> Column:
    found: Column = unpacked(packed(column_of("value", serde, structs=True)))
    return found


def again(serde: Serde[Any], data: list[bytes | None]) -> list[bytes | None]:
    rows = column(serde).array(data, lambda number: {"topic": "t", "offset": number})
    return written(writer_of("value", serde), python_values(rows), "value", serde, "t")


STOPS = st.builds(
    Stop,
    town=st.text(max_size=4),
    minutes=st.floats(allow_nan=False, allow_infinity=False),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
)
TOURS = st.builds(
    Tour, name=st.text(max_size=4), seats=st.integers(-(2**63), 2**63 - 1), price=st.decimals(-9, 9, places=2),
    data=st.text(max_size=3).map(str.encode), stops=st.lists(STOPS, max_size=2),
    tags=st.dictionaries(st.text(max_size=2), st.lists(st.integers(0, 9), max_size=2), max_size=2),
    first=st.none() | STOPS, open=st.booleans(),
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(TOURS, max_size=3))
def test_what_was_read_is_written_with_the_same_bytes(tours: list[Tour]) -> None:
    for serde in (pydantic_serde(Tour), JsonSchema(Tour, registry=REGISTRY).bind("t", is_key=False)):
        data = [None, *map(serde.serialize, tours)]
        assert again(serde, data) == data


@dataclass
class Flight:
    number: int
    gate: str | None
    legs: list[Stop]
    seats: dict[str, int]
    delays: list[float]
    is_late: bool
    day: date


FLIGHTS = st.builds(
    Flight, number=st.integers(-(2**63), 2**63 - 1), gate=st.none() | st.text(max_size=3),
    legs=st.lists(STOPS, max_size=2), seats=st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2),
    delays=st.lists(st.floats(), max_size=2), is_late=st.booleans(), day=st.dates(),
)  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(FLIGHTS, max_size=3))
def test_what_was_read_of_avro_is_written_with_the_same_bytes(flights: list[Flight]) -> None:
    model = Avro(Flight, registry=REGISTRY).bind("flights", is_key=False)
    data = [None, *map(model.serialize, flights)]
    for serde in (model, Avro(schema=model.schema.text, registry=REGISTRY).bind("flights", is_key=False)):
        assert again(serde, data) == data


def test_avro_models_are_structs_of_the_types_of_json() -> None:
    stop = "struct<`town`: string, `minutes`: double, `at`: string>"
    assert column(Avro(Flight, registry=REGISTRY).bind("t", is_key=False)).spark_type == (
        f"struct<`number`: bigint, `gate`: string, `legs`: array<{stop}>, `seats`: map<string, bigint>,"
        " `delays`: array<double>, `is_late`: boolean, `day`: string>"
    )


def test_models_are_structs_of_the_types_of_json() -> None:
    found = column(pydantic_serde(Trip))
    stop = "struct<`town`: string, `minutes`: double, `at`: string>"
    assert found.spark_type == f"struct<`id`: bigint, `stops`: array<{stop}>, `note`: string>"
    trip = Trip(id=7, stops=[Stop("é", 0.5, datetime(2024, 3, 1, tzinfo=UTC))])
    data = [pydantic_serde(Trip).serialize(trip), None]
    assert found.array(data, lambda _: {}).to_pylist() == [
        {"id": 7, "stops": [{"town": "é", "minutes": 0.5, "at": "2024-03-01T00:00:00Z"}], "note": None}, None,
    ]  # fmt: skip
    assert again(pydantic_serde(Trip), data) == data
    assert column_of("key", Serdes.LONG, structs=True) == column_of("key", Serdes.LONG)
    assert spark_name(pa.struct([("a`b", pa.map_(pa.string(), pa.bool_()))])) == "struct<`a``b`: map<string, boolean>>"


@dataclass
class Node:
    left: Node | None = None


@dataclass
class Either:
    one: int | str


@dataclass
class Parcel:
    data: bytes


@dataclass
class Anything:
    free: Any


@dataclass
class Cases:
    a: int
    A: int


@pytest.mark.parametrize(
    ("serde", "said"),
    [
        (json_serde(), "its serde 'json' has no JSON Schema"),
        (pydantic_serde(Node), "'value.left' has parts of its own type"),
        (pydantic_serde(Either), "'value.one' has several types"),
        (pydantic_serde(Anything), "'value.free' has no single type"),
        (pydantic_serde(Cases), "fields whose names differ in case only"),
        (list_serde("long"), "has no JSON Schema"),
        (Avro(registry=REGISTRY).bind("t", is_key=False), "has no JSON Schema"),
        (Avro(Node, registry=REGISTRY).bind("t", is_key=False), "'value.left' has parts of its own type"),
        (Avro(Either, registry=REGISTRY).bind("t", is_key=False), "'value.one' has several types"),
        (Avro(Parcel, registry=REGISTRY).bind("t", is_key=False), "'value.data' has no single type"),
        (WindowedSerdes.session_windowed_serde_from(json_serde()), "its serde 'json' has no JSON Schema"),
        (pydantic_serde(Trip, exclude_none=True), "'value.note' has a value in some records only"),
        (of_schema({"$ref": "#/$defs/other"}), "has a type that the schema does not define itself"),
        (of_schema({"type": ["string", "integer"]}), "has several types"),
    ],
)
def test_objects_without_fixed_fields_are_refused(serde: Serde[Any], said: str) -> None:
    with pytest.raises(SparkBridgeError, match=f"{said}.*[Ll]eave structs out, which gives text"):
        column_of("value", serde, structs=True)


def test_keys_in_windows_are_structs_with_numbers_for_times() -> None:
    serde = WindowedSerdes.time_windowed_serde_from(pydantic_serde(Stop).bind("t", is_key=True), 500)
    data = [serde.serialize(Windowed(Stop("é", 0.5), Window(1_000, 1_500))), None]
    found = column(serde)
    assert found.spark_type.endswith(", `window`: struct<`start`: bigint, `end`: bigint>>")
    stop = {"town": "é", "minutes": 0.5, "at": None}
    rows = [{"key": stop, "window": {"start": 1_000, "end": 1_500}}, None]
    assert found.array(data, lambda _: {}).to_pylist() == rows
    assert again(serde, data) == data
    for inner, key in ((Serdes.LONG, 2**60), (Serdes.STRING, "é"), (Serdes.DOUBLE, math.nan), (Serdes.BOOLEAN, True)):
        serde = WindowedSerdes.session_windowed_serde_from(inner)
        data = [serde.serialize(Windowed(key, Window(1_000, 1_500)))]
        assert again(serde, data) == data


FIELDS = of_schema({
    "properties": {
        "n": {"type": ["integer", "null"]}, "x": {"$ref": "#/definitions/real"}, "s": {"type": "string"},
        "b": {"type": "boolean"}, "l": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["n", "x", "s", "b", "l"], "type": "object", "definitions": {"real": {"type": "number"}},
})  # fmt: skip
RIGHT = {"n": 1, "x": 0.5, "s": "é", "b": True, "l": ["a"]}


def test_a_schema_without_a_model_makes_a_struct() -> None:
    rows = [RIGHT, {**RIGHT, "n": None, "x": 2}, {**RIGHT, "n": 3.0, "x": 1e300}]
    found = column(FIELDS)
    assert found.spark_type == "struct<`n`: bigint, `x`: double, `s`: string, `b`: boolean, `l`: array<string>>"
    data = [FIELDS.serialize(row) for row in rows]
    assert found.array(data, lambda _: {}).to_pylist() == rows
    written_again = again(FIELDS, data)
    assert [FIELDS.deserialize(one) for one in written_again if one is not None] == rows


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n": 2**63}, "9223372036854775808 is not in the range of bigint"),
        ({"n": True}, "has an integer here, got True"),
        ({"n": 0.5}, "has an integer here, got 0.5"),
        ({"x": 2**53 + 1}, "a number here that is a double, got 9007199254740993"),
        ({"x": 10**400}, "a number here that is a double"),
        ({"x": "1.5"}, "a number here that is a double, got '1.5'"),
        ({"s": 1}, "has a string here, got 1"),
        ({"b": 1}, "has a boolean here, got 1"),
        ({"l": "a"}, "has a list here, got 'a'"),
        ({"more": 1}, "the value has a field 'more', and the schema has none of this name"),
    ],
)
def test_a_value_that_does_not_fit_its_schema_is_named(wrong: dict[str, Any], said: str) -> None:
    data = [FIELDS.serialize(RIGHT), FIELDS.serialize({**RIGHT, **wrong})]
    with pytest.raises(DeserializationError, match=said) as raised:
        column(FIELDS).array(data, lambda number: {"topic": "t", "partition": 0, "offset": number})
    assert raised.value.offset == 1


def test_missing_fields_and_halves_of_surrogate_pairs_are_named() -> None:
    partly = FIELDS.serialize({name: RIGHT[name] for name in "nxsb"})
    with pytest.raises(DeserializationError, match="the schema has a field 'l', and the value has none"):
        column(FIELDS).array([partly], lambda _: {})
    with pytest.raises(ValueError, match="surrogates not allowed"):
        filler(pa.list_(pa.string()))(["\ud800"])


# ------------------------------------------------------------------------------------------- in Spark


CONFIG = {"application.id": "app", "bootstrap.servers": "in-memory:9092", **SETTINGS}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    tours = builder.stream("tours", Consumed(key_serde=pydantic_serde(Stop), value_serde=pydantic_serde(Tour)))
    stored = Materialized(name="tours", key_serde=pydantic_serde(Stop), value_serde=pydantic_serde(Tour))
    sink = Produced(key_serde=pydantic_serde(Stop), value_serde=pydantic_serde(Tour))
    tours.to_table(materialized=stored).to_stream().to("out", sink)
    counts = Materialized(name="counts", key_serde=pydantic_serde(Stop), value_serde=Serdes.LONG)
    tours.group_by_key().windowed_by(TimeWindows.of_size_with_no_grace(500)).count(materialized=counts)
    return builder


def backfill(spark: Any, path: Path, history: History) -> Any:
    options: dict[str, Any] = {"application_id": "app", "config": SETTINGS, "run_dir": path, "partitions": {"out": 1}}
    return Backfill(spark, topology, {"tours": history}, **options).run()


def test_a_history_of_structs_gives_the_structs_and_bytes_of_the_records(spark: Any, tmp_path: Path) -> None:
    """Those of an output are a history again; tables of structs are compared, with maps in them."""
    stops = [Stop("é"), Stop("b", 2.5, datetime(2024, 3, 1, tzinfo=UTC))]
    tours = [
        Tour("a", 2**62, Decimal("1.50"), b"hi", stops, {"x": [1], "y": []}, stops[0]),
        Tour("b", 0, Decimal(2), b""),
    ]
    key, value = pydantic_serde(Stop).bind("tours", is_key=True), pydantic_serde(Tour)
    rows = [(0, n, key.serialize(stops[n % 2]), value.serialize(tours[n // 2 % 2]), 1_000 + n) for n in range(6)]
    records = spark.createDataFrame(rows, "partition int, offset long, key binary, value binary, timestamp long")
    first = backfill(spark, tmp_path / "one", History(records, partitions=1))

    out = first.output("out", key=Stop, value=Tour, structs=True)
    assert dict(out.dtypes)["value"].startswith("struct<name:string,seats:bigint,price:string,data:string,stops:array<")
    seats = [row.seats for row in out.orderBy("seq").select("value.seats").collect()]
    assert seats == [2**62, 2**62, 0, 0, 2**62, 2**62]
    given = out.selectExpr("partition", "seq as offset", "key", "value", "timestamp")
    second = backfill(spark, tmp_path / "two", History(given, partitions=1, encoded=False))
    for store in ("tours", "counts"):
        tables = [one.table(store, raw=True).drop("timestamp").collect() for one in (first, second)]
        assert sorted(tables[0]) == sorted(tables[1])
        assert tables[0]

    counts = first.table("counts", structs=True)
    assert sorted((row.town, row.value) for row in counts.select("key.town", "value").collect()) == [("b", 3), ("é", 3)]
    tables = [one.table("tours", structs=True) for one in (first, second)]
    assert first.diff("tours", tables[1]).collect() == []
    assert first.diff("tours", second.table("tours")).collect() == []
    later = tables[1].withColumn("value", tables[1].value.withField("tags", expr("map('y', array(), 'x', array(1L))")))
    changed = first.diff("tours", later.where("key.town = 'b'")).orderBy("key.town").collect()
    assert [(row.key.town, row.difference) for row in changed] == [("é", "only_backfill")]
    later = tables[1].withColumn("value", tables[1].value.withField("tags", expr("map('x', array(2L))")))
    assert [row.difference for row in first.diff("tours", later).collect()] == ["different"] * 2
    layout = table_layout(StreamsConfig.of(CONFIG), first.topology, "tours")
    encoder = encoder_of(sink_of(first.topology, "tours", "out", mapped=False), StreamsConfig.of(CONFIG), 1, layout)
    differences = rows_of_difference(first.diff("tours", later), layout)
    corrections = sorted((row.key, row.value) for row in encoded(differences, encoder))
    assert corrections == sorted((key.serialize(one), value.serialize(tours[0])) for one in stops)
    with pytest.raises(SparkBridgeError, match=r"raw=True gives bytes: leave out raw, or structs"):
        first.table("tours", raw=True, structs=True)


def test_maps_in_keys_and_values_are_compared_by_their_entries(spark: Any) -> None:
    def table(*rows: str) -> Any:
        return spark.sql(f"select * from values {', '.join(rows)} as t(key, value)")

    nothing = "(null, null)"
    left = table(
        "(map('a', 1, 'b', 2), array(map(1, map('x', null))))", "(map('a', 1), array(map(1, map('x', 1)), null))",
        nothing, "(map('c', 0), array())",
    )  # fmt: skip
    right = table(
        "(map('b', 2, 'a', 1), array(map(1, map('x', null))))", "(map('a', 1), array(map(1, map('x', 2)), null))",
        nothing, "(map('d', 0), array())",
    )  # fmt: skip
    found = {(row.difference, *row.key.items()) for row in diff_tables(left, right).collect()}
    assert found == {("different", ("a", 1)), ("only_left", ("c", 0)), ("only_right", ("d", 0))}
