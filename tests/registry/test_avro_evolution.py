"""Avro schemas that follow each other: what one reads of the other, in words and as fastavro reads it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from dsl import StreamsBuilder
from dsl.options import Consumed, Materialized
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.registry.schema_registry import SchemaRegistry
from streams.registry.schema_serdes import Avro
from streams.schemas.avro_evolution import problems
from waiting import wait_until


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [dict(one) for one in fields]}


def part(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


TREE = record(part("v", "int"), part("next", ["null", "R"], default=None))
COLOURS = {"type": "enum", "name": "C", "symbols": ["red", "blue"]}
FEWER = {"type": "enum", "name": "C", "symbols": ["red"]}
LENIENT = {"type": "enum", "name": "C", "symbols": ["red"], "default": "red"}
FOUR, EIGHT = ({"type": "fixed", "name": "F", "size": size} for size in (4, 8))
CENTS = record(part("cents", "int"))

VALUES: list[tuple[Any, list[Any]]] = [
    ("int", [1]),
    ("long", [1 << 40]),
    ("double", [0.5]),
    ("string", ["a"]),
    ("bytes", [b"\0"]),
    ("boolean", [True]),
    (["null", "int"], [None, 1]),
    (["null", "string"], [None, "a"]),
    (["int", "string"], [1, "a"]),
    ({"type": "array", "items": "int"}, [[], [1]]),
    ({"type": "array", "items": "long"}, [[1 << 40]]),
    ({"type": "map", "values": "int"}, [{"a": 1}]),
    (COLOURS, ["red", "blue"]),
    (FEWER, ["red"]),
    (LENIENT, ["red"]),
    (FOUR, [b"abcd"]),
    (EIGHT, [b"abcdefgh"]),
    (CENTS, [{"cents": 3}]),
    (record(part("cents", "long"), part("zone", "string", default="all")), [{"cents": 3, "zone": "x"}]),
    (record(part("cents", "int"), part("zone", "string")), [{"cents": 3, "zone": "x"}]),
    (record(part("pence", "int", aliases=["cents"])), [{"pence": 3}]),
    (record(part("cents", "string")), [{"cents": "many"}]),
    (TREE, [{"v": 1, "next": {"v": 2, "next": None}}]),
    (record(part("v", "long"), part("next", ["null", "R"], default=None)), [{"v": 1, "next": None}]),
]


def is_read(former: Any, now: Any, value: Any) -> bool:
    stream = BytesIO()
    schemaless_writer(stream, parse_schema(former), value)
    try:
        schemaless_reader(BytesIO(stream.getvalue()), parse_schema(former), parse_schema(now))
    except Exception:  # of several kinds
        return False
    return True


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_what_is_called_compatible_is_read_and_nothing_else_is(number: int) -> None:
    former, values = VALUES[number]
    for now, _ in VALUES:
        wrong = problems(json.dumps(former), json.dumps(now))
        assert all(is_read(former, now, value) for value in values) == (wrong == []), (now, wrong)


@pytest.mark.parametrize(
    ("former", "now", "wrong"),
    [
        (
            CENTS,
            record(part("cents", "int"), part("zone", "string")),
            ["field 'zone' is new and does not have a default"],
        ),
        (CENTS, record(part("cents", "string")), ["field 'cents' was int and is string"]),
        (COLOURS, FEWER, ["the value could be blue, which was removed, and does not have a default"]),
        (FOUR, EIGHT, ["the value had 4 bytes and has 8"]),
        (TREE, record(part("v", "string"), part("next", ["null", "R"])), ["field 'v' was int and is string"]),
        (["null", "int"], "int", ["the value was null and is int"]),
        (
            record(part("at", {"type": "long", "logicalType": "timestamp-millis"})),
            record(part("at", {"type": "long", "logicalType": "timestamp-micros"})),
            ["field 'at' was timestamp-millis and is timestamp-micros"],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            ["the value had scale 2 and has 3"],
        ),
    ],
)
def test_each_difference_is_named_by_its_field(former: Any, now: Any, wrong: list[str]) -> None:
    assert problems(json.dumps(former), json.dumps(now)) == wrong


def test_every_pair_of_unions_ends() -> None:
    unions = [["null", "int"], ["string", "int"], ["null", TREE], [TREE, COLOURS]]
    for former, now in product(unions, unions):
        assert isinstance(problems(json.dumps(former), json.dumps(now)), list)


# ---------------------------------------------------------------------- in an application


@dataclass
class First:
    cents: int


@dataclass
class WithDefault:
    cents: int
    zones: list[str] = field(default_factory=list)


@dataclass
class WithoutDefault:
    cents: int
    zone: str


def summing(model: Any, first: Any, **how: Any) -> Topology:
    registry = SchemaRegistry("mock://evolution")
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    kept = Materialized(name="sums", key_serde="string", value_serde=Avro(model, name="Sum", registry=registry), **how)

    def add(_key: str, word: str, total: Any) -> Any:
        total.cents += int(word)
        return total

    sums = stream.group_by_key().aggregate(lambda: first, add, materialized=kept)
    sums.to_stream().map_values(str).to("out")
    return builder.build()


def run(cluster: Cluster, state: Path, topology: Topology, expected: str) -> None:
    app = cluster.app(topology, {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("3")
    wait_until(f"{expected} is written", lambda: cluster.values()[-1:] == [expected])
    assert app.close(10)


def test_versions_of_a_model_follow_each_other(tmp_path: Path) -> None:
    with Cluster(tmp_path / "apps") as cluster:
        state = tmp_path / "state"
        run(cluster, state, summing(First, First(0)), "First(cents=3)")
        run(cluster, state, summing(WithDefault, WithDefault(0)), "WithDefault(cents=6, zones=[])")
        app = cluster.app(summing(WithoutDefault, WithoutDefault(0, "")), {"state.dir": str(state)})
        cluster.until_state(app, ClientState.ERROR)
        assert "value: field 'zone' is new and does not have a default" in str(app.failure)
        app.close(10)

        def migrate(old: Any) -> Any:
            return {"cents": old["cents"], "zone": "old"}

        third = summing(WithoutDefault, WithoutDefault(0, ""), migrate=migrate)
        run(cluster, state, third, "WithoutDefault(cents=9, zone='old')")


def test_records_that_double_each_other_are_compared_once() -> None:
    def schema(leaf: str) -> str:
        made: Any = leaf
        for level in range(40):
            fields = [{"name": "a", "type": made}, {"name": "b", "type": made if level == 0 else f"L{level - 1}"}]
            made = {"type": "record", "name": f"L{level}", "fields": fields}
        return json.dumps(made)

    assert problems(schema("string"), schema("int")) == [
        f"field '{'a.' * 39}{name}' was string and is int" for name in "ab"
    ]
