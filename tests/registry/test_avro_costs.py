"""What data and schemas of others may cost: memory and steps that grow with their bytes, and no code.

Steps are calls, as the interpreter counts them, and memory is what it allocates: both are the same on a busy machine.
"""

from __future__ import annotations

import json
import struct
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processor_api.record import Headers
from streams import Avro, SchemaRegistry
from streams.registry.schemas import SchemaError, SchemaText

REGISTRY = SchemaRegistry("mock://costs", auto_register_schemas=False, use_latest_version=True)
NOTE = {"name": "name", "type": "string"}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}


@dataclass
class Order:
    name: str = ""


def record(name: str, *fields: tuple[Any, ...]) -> Any:
    parts = ("name", "type", "default")
    return {"type": "record", "name": name, "fields": [dict(zip(parts, one, strict=False)) for one in fields]}


def order(kind: Any) -> Any:
    return record("Order", ("a", kind), ("name", "string"))


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def number(value: int) -> bytes:
    left = value << 1 if value >= 0 else (-value << 1) - 1
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def registered(schema: Any) -> tuple[str, bytes]:
    """Returns a topic with a schema, as a registry may have it that checks nothing, and what is in front of data."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    topic = f"topic-{abs(hash(text))}"
    found = REGISTRY.client.register(f"{topic}-value", SchemaText(text))
    return topic, b"\0" + struct.pack(">I", found.id)


def serdes(schema: Any) -> tuple[list[Any], bytes]:
    topic, front = registered(schema)
    return [Avro(model, registry=REGISTRY).bind(topic, is_key=False) for model in (None, Order)], front


def steps(call: Callable[[], Any]) -> int:
    """Returns the number of calls that a function makes, of Python's functions and of compiled ones."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        call()
    except SchemaError:
        pass
    finally:
        sys.setprofile(None)
    return count


def allocated(call: Callable[[], Any]) -> int:
    """Returns the most bytes that were allocated at once."""
    tracemalloc.start()
    try:
        call()
    except SchemaError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


# ------------------------------------------------------------------------------ code


@pytest.mark.parametrize("place", ["size", "name", "symbol", "precision", "logicalType", "field"])
def test_no_text_of_a_schema_becomes_code(place: str, tmp_path: Path) -> None:
    proof = tmp_path / "written"
    code = f"2 or open({str(proof)!r}, 'w')"
    kinds: dict[str, Any] = {
        "size": {"type": "fixed", "name": "Id", "size": code},
        "name": {"type": "fixed", "name": f"Id'+({code})+'", "size": 2},
        "symbol": {"type": "enum", "name": "Id", "symbols": [f"a'+({code})+'"]},
        "precision": {"type": "bytes", "logicalType": "decimal", "precision": code, "scale": code},
        "logicalType": {"type": "string", "logicalType": code},
    }
    schema = order(kinds.get(place, "string"))
    if place == "field":
        schema["fields"].append({"name": f"x'+({code})+'", "type": "string"})
    bound, front = serdes(schema)
    for value in ({"a": b"ab", "name": "x"}, {"a": "ab", "name": "x"}):
        for call in (
            lambda value=value: bound[0].serialize(value),
            lambda: bound[1].deserialize(front + b"\x04ab\x02x"),
        ):
            try:
                call()
            except SchemaError:
                pass
    assert not proof.exists()


# ------------------------------------------------------------------------------ data

EMPTY = ["null", record("Empty"), {"type": "fixed", "name": "None", "size": 0}, record("Nulls", ("x", "null"))]


@pytest.mark.parametrize("items", EMPTY, ids=str)
@pytest.mark.parametrize("count", [3_000_000, -3_000_000, 1 << 40])
def test_items_of_no_bytes_are_limited_by_the_bytes_of_the_data(items: Any, count: int) -> None:
    bound, front = serdes(order(array(items)))
    size = number(5) if count < 0 else b""
    for serde in bound:
        data = front + number(count) + size + b"\0\x02x"
        assert allocated(lambda serde=serde, data=data: serde.deserialize(data)) < 1_000_000
        with pytest.raises(SchemaError, match="more items than the data has bytes"):
            serde.deserialize(data)
    few = bound[0].deserialize(front + number(3) + b"\0\x02x")
    assert len(few["a"]) == 3
    assert bound[0].serialize({"a": few["a"], "name": "x"}) == front + number(3) + b"\0\x02x"
    with pytest.raises(SchemaError, match="more items than the data has bytes"):
        bound[0].serialize({"a": few["a"] * 1_000, "name": "x"})


@pytest.mark.parametrize("size", [6, 50_000, 1_000_000])
def test_a_decimal_beyond_its_precision_is_refused(size: int) -> None:
    bound, front = serdes(order(DECIMAL))
    with pytest.raises(SchemaError, match=f"{size} bytes of a decimal have more than 10 digits"):
        bound[0].deserialize(front + number(size) + b"\x7f" * size + b"\x02x")
    padded = bound[0].deserialize(front + number(size) + bytes(size - 1) + b"\x7b\x02x")
    assert str(padded["a"]) == "1.23"


def nested(levels: int) -> Any:
    inner: Any = "string"
    for level in range(levels):
        inner = record(f"R{level}", ("x", inner))
    return inner


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (nested(100), "too many values for its bytes"),
        (record("Self", ("me", "Self")), "the record Self contains itself endlessly"),
        (record("Self", ("me", record("Other", ("me", "Self")))), "the record Self contains itself endlessly"),
        (record("Wide", *[(f"n{number}", "null") for number in range(100)]), "too many values for its bytes"),
        (json.loads('{"type":"array","items":' * 300 + '"int"' + "}" * 300), "nested deeper than 200 types"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 10**9}, "but 1000 are the limit"),
        ({"type": "fixed", "name": "Id", "size": -1}, "the size of Id is not a whole number"),
        ({"type": "fixed", "name": "Id", "size": True}, "the size of Id is not a whole number"),
        (["long", {"type": "long", "logicalType": "timestamp-millis"}], "two branches of one type"),
    ],
)
def test_schemas_that_make_much_of_few_bytes_are_refused(kind: Any, why: str) -> None:
    bound, front = serdes(order(kind))
    with pytest.raises(SchemaError, match=why):
        bound[0].deserialize(front + bytes(10))


def doubling(levels: int, around: Callable[[Any], Any]) -> Any:
    """A schema in which each record has two of the one before."""
    inner = record("R0", ("x", "string"))
    for level in range(1, levels):
        inner = record(f"R{level}", ("a", around(inner)), ("b", around(f"R{level - 1}")))
    return array(inner)


@pytest.mark.parametrize(
    "around", [array, lambda kind: ["null", kind], lambda kind: kind], ids=["array", "union", "record"]
)
def test_a_schema_is_looked_at_in_steps_that_grow_with_its_length(around: Callable[[Any], Any]) -> None:
    found = []
    for levels in (8, 16, 32):
        bound, front = serdes(order(doubling(levels, around)))
        data = front + b"\0\x02x"
        found.append([steps(lambda serde=serde, data=data: serde.deserialize(data)) for serde in bound])
    for few, twice, more in zip(*found, strict=True):
        assert twice < 3 * few
        assert more < 3 * twice


def test_defaults_that_double_are_limited() -> None:
    inner = record("R0", ("x", "int", 1))
    for level in range(1, 25):
        inner = record(f"R{level}", ("a", inner, {}), ("b", f"R{level - 1}", {}))
    schema = record("Order", ("a", inner, {}), ("name", "string"))
    bound, _ = serdes(schema)
    with pytest.raises(SchemaError, match="defaults have more than 100000 values"):
        bound[0].serialize({"name": "x"})


def test_a_chain_of_records_of_a_long_schema_does_not_end_the_process() -> None:
    chain = [("f0", record("R0", ("x", "int")))]
    chain += [(f"f{level}", ["null", record(f"R{level}", ("up", f"R{level - 1}"))]) for level in range(1, 5_000)]
    bound, front = serdes(record("Order", *chain, ("name", "string")))
    with pytest.raises(SchemaError, match="too many values for its bytes"):
        bound[0].deserialize(front + bytes(10_000))


def test_data_of_a_schema_that_holds_itself_are_read_where_the_stack_is_watched() -> None:
    inner: Any = "Node"
    for level in range(20):
        inner = record(f"K{level}", ("x", inner))
    bound, front = serdes(record("Node", ("next", ["null", inner])))
    with pytest.raises(SchemaError, match="nested too deeply"):
        bound[0].deserialize(front + b"\x02" * 4_000 + b"\0")
    with pytest.raises(SchemaError, match="more than ten bytes"):
        bound[0].deserialize(front + b"\x80" * 1_000_000)


SCHEMAS = [
    order(array("null")),
    order(array(record("Point", ("x", "int"), ("n", "null")))),
    order(["null", DECIMAL, {"type": "map", "values": array("null")}]),
    order({"type": "map", "values": ["null", "Order"]}),
    record("Order", ("next", ["null", "Order"]), ("more", array(["null", "Order"])), ("name", "string")),
    order([record("A", ("x", DECIMAL)), record("B", ("y", {"type": "long", "logicalType": "timestamp-micros"}))]),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_any_data_are_read_or_refused_with_memory_and_steps_of_their_length(schema: Any) -> None:
    bound, front = serdes(schema)
    for serde in bound:
        steps(lambda serde=serde: serde.deserialize(front))  # makes the reader
    parts = st.binary(min_size=1, max_size=4) | st.integers(-(1 << 62), 1 << 62).map(number) | st.just(b"\x02" * 50)

    @given(st.lists(parts, max_size=40).map(b"".join))
    def law(data: bytes) -> None:
        for serde in bound:
            assert steps(lambda serde=serde: serde.deserialize(front + data)) < 10_000 + 200 * len(data)
            assert allocated(lambda serde=serde: serde.deserialize(front + data)) < 200_000 + 2_000 * len(data)

    law()


# ------------------------------------------------------------------------------ what is kept


def test_headers_of_records_make_nothing_that_is_kept() -> None:
    serde = Avro(registry=SchemaRegistry(REGISTRY.url, schema_ids="header")).bind("headers", is_key=False)
    _, front = registered(order("int"))
    for junk in (b"x", b"\0\0", b"a" * 100):
        with pytest.raises(SchemaError, match="does not contain a schema id"):
            serde.with_headers(Headers([("__value_schema_id", front + junk)])).deserialize(b"\x02\x02x")
    good = serde.with_headers(Headers([("__value_schema_id", front)])).deserialize(b"\x02\x02x")
    assert good == {"a": 1, "name": "x"}


def test_copies_of_a_schema_have_one_writer() -> None:
    registry = SchemaRegistry("mock://copies")
    serde = Avro(registry=registry).bind("copies", is_key=False)
    read = Avro(registry=REGISTRY).bind("any", is_key=False).deserialize(registered(order("int"))[1] + b"\x02\x02x")

    def again() -> None:
        read.schema = SchemaText(f"{read.schema.text} "[:-1])
        serde.serialize(read)

    again()
    assert allocated(lambda: [again() for _ in range(3_000)]) < 1_000_000
