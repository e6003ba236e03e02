"""Objects as structs: what was read is written with the same bytes, and what has no fields is refused."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from processor_api.errors import DeserializationError
from processor_api.serde import Serde, Serdes
from streams.serdes import json_serde, list_serde, pydantic_serde
from streams.spark import SparkBridgeError
from streams.spark.rows.columns import Column, column_of
from streams.spark.rows.shipping import packed, unpacked
from streams.spark.rows.struct_types import spark_name
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


def column(serde: Serde[Any]) -> Column:
    found: Column = unpacked(packed(column_of("value", serde, structs=True)))
    return found


def again(serde: Serde[Any], data: list[bytes | None]) -> list[bytes | None]:
    rows = column(serde).array(data, lambda number: {"topic": "t", "offset": number})
    return written(writer_of("value", serde), python_values(rows), "value", serde, "t")


STOPS = st.builds(
    Stop, town=st.text(max_size=4), minutes=st.floats(), at=st.none() | st.datetimes(timezones=st.just(UTC))
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
    serde = pydantic_serde(Tour)
    data = [None, *map(serde.serialize, tours)]
    assert again(serde, data) == data


def test_models_are_structs_of_the_types_of_json() -> None:
    found = column(pydantic_serde(Trip))
    stop = "struct<`town`: string, `minutes`: double, `at`: string>"
    assert found.spark_type == f"struct<`id`: bigint, `stops`: array<{stop}>, `note`: string>"
    trip = Trip(id=7, stops=[Stop("é", math.inf, datetime(2024, 3, 1, tzinfo=UTC))])
    data = [pydantic_serde(Trip).serialize(trip), None]
    assert found.array(data, lambda _: {}).to_pylist() == [
        {"id": 7, "stops": [{"town": "é", "minutes": math.inf, "at": "2024-03-01T00:00:00Z"}], "note": None}, None,
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
class Anything:
    free: Any


@dataclass
class Cases:
    a: int
    A: int


@pytest.mark.parametrize(
    ("serde", "said"),
    [
        (json_serde(), "'value' has no single type"),
        (pydantic_serde(Node), "'value.left' has parts of its own type"),
        (pydantic_serde(Either), "'value.one' has several types"),
        (pydantic_serde(Anything), "'value.free' has no single type"),
        (pydantic_serde(Cases), "fields whose names differ in case only"),
        (list_serde("long"), "no JSON Schema"),
    ],
)
def test_objects_without_fixed_fields_are_refused(serde: Serde[Any], said: str) -> None:
    with pytest.raises(SparkBridgeError, match=f"{said}.*[Ll]eave structs out, which gives text"):
        column_of("value", serde, structs=True)


def test_a_number_that_does_not_fit_is_named() -> None:
    data = pydantic_serde(Trip).serialize(Trip(id=2**63, stops=[]))
    with pytest.raises(DeserializationError, match=r"the value b'.*9223372036854775808"):
        column(pydantic_serde(Trip)).array([data], lambda _: {"topic": "t", "offset": 4})
