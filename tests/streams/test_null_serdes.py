"""Every serde writes and reads ``None`` as ``None``, as Kafka Streams' own do with null; functions never see it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from processor_api.serde import HeadersSerde
from processor_api.user_code.given_serdes import as_serde
from streams import (
    Avro,
    Headers,
    JsonSchema,
    SchemaRegistry,
    Serde,
    Serdes,
    StreamsBuilder,
    TopologyTestDriver,
    WindowedSerdes,
    json_serde,
    list_serde,
    pydantic_serde,
    serde_of,
)

REGISTRY = SchemaRegistry("mock://nulls")


@dataclass
class Order:
    item: str


class Sale(BaseModel):
    item: str


def written(value: Any) -> bytes:
    return value.item.encode()  # type: ignore[no-any-return]


def read(data: bytes) -> Order:
    return Order(data.decode())


class OwnMethods(Serde[Order]):
    """Has methods in place of the two functions."""

    def __init__(self) -> None:
        self.name = "own"
        self.exact = self.write_exact = None

    def serialize(self, value: Order) -> bytes:
        return written(value)

    def deserialize(self, data: bytes) -> Order:
        return read(data)


class Derived(OwnMethods):
    def serialize(self, value: Order) -> bytes:
        return b"<" + super().serialize(value)


def serdes() -> Iterator[tuple[str, Serde[Any]]]:
    for name, found in vars(Serdes).items():
        if isinstance(found, Serde):
            yield name, found
    for is_key in (True, False):
        yield f"bound json {is_key}", Serdes.JSON.bind("topic", is_key=is_key)
    yield "json by the standard library", json_serde(use_orjson=False)
    yield "sorted json", json_serde(sort_keys=True)
    yield "dataclass", as_serde(Order)
    yield "pydantic", pydantic_serde(Sale)
    items: dict[str, Serde[Any]] = {"text": Serdes.STRING, "number": Serdes.LONG, "model": as_serde(Order)}
    for name, inner in items.items():
        yield f"list of {name}", list_serde(inner)
    yield "window", WindowedSerdes.time_windowed_serde_from("string", timedelta(seconds=1))
    yield "session", WindowedSerdes.session_windowed_serde_from("string")
    for form in (Avro, JsonSchema):
        yield f"unbound {form.__name__}", form(Order, registry=REGISTRY)
        yield f"{form.__name__}", form(Order, registry=REGISTRY).bind("orders", is_key=False)
    yield "ids in headers", Avro(Order, registry=SchemaRegistry("mock://nulls", schema_ids="header"))
    yield "functions", Serde(written, read)
    yield "serde_of", serde_of(written, read)
    with_headers = serde_of(lambda value, headers: written(value), lambda data, headers: read(data), with_headers=True)
    assert isinstance(with_headers, HeadersSerde)
    yield "headers", with_headers
    yield "headers of a record", with_headers.with_headers(Headers())
    yield "own methods", OwnMethods()
    yield "derived methods", Derived()


@pytest.mark.parametrize(("name", "serde"), [pytest.param(*one, id=one[0]) for one in serdes()])
def test_none_is_none_both_ways(name: str, serde: Serde[Any]) -> None:
    assert serde.serialize(None) is None
    assert serde.deserialize(None) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("serde", [Serde(written, read), OwnMethods(), Derived()], ids=["functions", "own", "derived"])
def test_other_values_are_as_they_were(serde: Serde[Order]) -> None:
    data = serde.serialize(Order("tea"))
    assert data.endswith(b"tea")
    assert serde.deserialize(data).item == data.decode()
    assert pickle.loads(pickle.dumps(serde)).serialize(Order("tea")) == data


def test_a_serde_of_functions_of_another_calls_them_once() -> None:
    calls: list[Any] = []

    def write(value: Any) -> bytes:
        calls.append(value)
        return b""

    inner = Serde[Any](write, bytes)
    Serde[Any](inner.serialize, inner.deserialize).serialize(1)
    assert calls == [1]


@pytest.mark.parametrize("serde", [Serde(written, read), OwnMethods(), Order], ids=["functions", "methods", "model"])
def test_functions_of_the_user_call_serdes_of_the_builder(serde: Any) -> None:
    """A reader that calls the serde of another part of its value."""
    inner = as_serde(serde)
    calls: list[Any] = []

    def both(pair: tuple[Any, Any]) -> bytes:
        calls.append(pair)
        return b"|".join(inner.serialize(one) or b"" for one in pair)

    null: Any = None
    pairs = serde_of(both, lambda data: (None, inner.deserialize(null)))
    builder = StreamsBuilder(key_serde="string", value_serde=pairs)
    builder.stream("in").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_key_values([("a", (None, None)), ("b", None)])
        assert driver.create_output_topic("out").read_key_values() == [("a", (None, None)), ("b", None)]
    assert None not in calls
