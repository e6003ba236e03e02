"""The command line with a schema registry: schemas are checked before a deploy, and records decoded by their ids."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster_cli import ClusterCommands, commands
from registry_contract import avro_record
from streams import Avro, SchemaRegistry, StreamsBuilder, TopologyTestDriver
from streams.cli.main import main
from streams.registry.schema_serdes import DetectedSerde
from streams.schemas.avro_evolution import complaints

APP = """
from dataclasses import dataclass

@dataclass
class Order:
    customer: str
    cents: int

builder = StreamsBuilder(key_serde="string")
sums = builder.stream("orders", value_serde=Avro(Order)).group_by_key().reduce(
    lambda a, b: Order(a.customer, a.cents + b.cents), materialized="sums")
sums.to_stream().to("sums", value_serde=Avro(Order))
topology = builder.build()
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[ClusterCommands]:
    yield from commands(tmp_path)


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"mock://{request.node.name}"


def register(url: str, topic: str, *fields: str, part: str = "value") -> None:
    schema = Avro(schema=avro_record("Order", *fields)).format().own
    assert schema is not None
    SchemaRegistry(url).client.register(f"{topic}-{part}", schema)


def check(cli: ClusterCommands, app: str, *words: str) -> tuple[int, list[str]]:
    found = cli.run("registry", "check", app, *words)
    assert found.err == ""
    return found.status, found.lines


def test_new_subjects_are_named_also_those_of_internal_topics(cli: ClusterCommands, url: str) -> None:
    status, lines = check(cli, cli.app(APP), "-c", f"schema.registry.url={url}")
    assert status == 0
    assert lines == [
        f"ok    {subject}: a new subject: the schema of avro Order will be registered"
        for subject in ("orders-value", "sums-value", "shop-sums-changelog-value")
    ]
    assert SchemaRegistry(url).client.subjects() == []


def test_without_auto_register_a_missing_schema_fails_the_check(cli: ClusterCommands, url: str) -> None:
    settings = ("-c", f"schema.registry.url={url}", "-c", "auto.register.schemas=false")
    register(url, "orders", "customer:string", "cents:long")
    status, lines = check(cli, cli.app(APP), *settings)
    assert status == 1
    assert lines[0] == "ok    orders-value: the registry has this schema of avro Order, with id 1"
    assert lines[1].startswith("FAIL  sums-value: it is not in the registry") or lines[1].startswith("fail  sums-value")


def test_a_schema_that_the_registry_would_refuse_fails_the_check(cli: ClusterCommands, url: str) -> None:
    register(url, "orders", "customer:string")
    status, lines = check(cli, cli.app(APP), "-c", f"schema.registry.url={url}")
    assert status == 1
    assert "orders-value: avro Order is not compatible with version 1" in lines[0]


@pytest.mark.parametrize(("level", "status"), [("none", 0), ("forward", 0), ("backward", 1), ("full", 1)])
def test_schemas_are_held_to_the_level_asked_for(cli: ClusterCommands, url: str, level: str, status: int) -> None:
    register(url, "orders", "customer:string")
    found, lines = check(cli, cli.app(APP), "--against", level, "-c", f"schema.registry.url={url}")
    assert found == status
    if status:
        assert lines[0].endswith(
            f"orders-value: avro Order is not {level.upper()} against version 1: older records cannot be read: field"
            " 'cents' is new and does not have a default"
        )


@pytest.mark.parametrize(
    ("level", "broken_against"),
    [
        ("backward", None),
        ("backward_transitive", 1),
        ("forward", None),
        ("forward_transitive", None),
        ("full", None),
        ("full_transitive", 1),
        ("none", None),
    ],
)
def test_transitive_levels_are_kept_against_all_versions(
    cli: ClusterCommands, url: str, level: str, broken_against: int | None
) -> None:
    register(url, "orders", "customer:string")  # which the application cannot read: cents have no default
    register(url, "orders", "customer:string", "cents:long:0")
    found, lines = check(cli, cli.app(APP), "--against", level, "-c", f"schema.registry.url={url}")
    assert found == (1 if broken_against else 0)
    assert (f"is not {level.upper()} against version {broken_against}: older" in lines[0]) is bool(broken_against)


JOIN = """
from dataclasses import dataclass

@dataclass
class Key:
    number: int

@dataclass
class Order:
    customer: int

@dataclass
class Customer:
    name: str

builder = StreamsBuilder(key_serde=Avro(Key))
orders = builder.table("orders", value_serde=Avro(Order))
customers = builder.table("customers", value_serde=Avro(Customer))
joined = orders.foreign_key_join(
    customers, lambda order: Key(order.customer), lambda order, customer: customer)
joined.to_stream().to("joined", value_serde=Avro(Customer))
topology = builder.build()
"""


def test_subjects_inside_of_a_foreign_key_join_are_those_that_it_registers(cli: ClusterCommands, url: str) -> None:
    status, lines = check(cli, cli.app(JOIN), "-c", f"schema.registry.url={url}")
    assert status == 0
    named = {line.split()[1].removesuffix(":") for line in lines}
    scope: dict[str, Any] = {"StreamsBuilder": StreamsBuilder, "Avro": Avro}
    exec(JOIN, scope)
    settings = {"application.id": "shop", "schema.registry.url": url}
    with TopologyTestDriver(scope["topology"], settings) as driver:
        given = {name: driver.create_input_topic(name) for name in ("orders", "customers")}
        given["orders"].pipe_input(scope["Key"](1), scope["Order"](7))
        given["customers"].pipe_input(scope["Key"](7), scope["Customer"]("ann"))
        given["orders"].pipe_input(scope["Key"](1), scope["Order"](8))  # so that both foreign keys are written
        joined = driver.create_output_topic("joined").read_key_values()
    assert joined == [(scope["Key"](1), scope["Customer"]("ann")), (scope["Key"](1), None)]
    assert named == set(SchemaRegistry(url).client.subjects())
    inside = {name.rpartition("-topic-")[2] for name in named if "FK-JOIN-SUBSCRIPTION-REGISTRATION" in name}
    assert inside == {"key", "pk-key", "fk-key", "vh-value"}


KEYED = """
from dataclasses import dataclass

@dataclass
class Key:
    number: int
    letter: str = "a"

key = Avro(Key, name="Order"{options})
builder = StreamsBuilder(key_serde=key, value_serde="string")
builder.stream("orders").group_by_key().count(materialized="counts").to_stream().to("counts", value_serde="long")
topology = builder.build()
"""


def test_keys_of_another_version_would_not_be_found_again(cli: ClusterCommands, url: str) -> None:
    for topic in ("orders", "shop-counts-changelog"):
        register(url, topic, "number:long", part="key")
    status, lines = check(cli, cli.app(KEYED.replace("{options}", "")), "-c", f"schema.registry.url={url}")
    assert status == 1
    assert [line.split()[:2] for line in lines] == [
        ["warn", "orders-key:"],
        ["ok", "counts-key:"],
        ["fail", "shop-counts-changelog-key:"],
    ]
    assert "lookups in the store would not find its rows" in lines[2]


def test_what_is_written_with_the_latest_version_has_to_be_there_and_readable(cli: ClusterCommands, url: str) -> None:
    app, settings = (
        cli.app(KEYED.replace("{options}", ", use_latest_version=True")),
        ("-c", f"schema.registry.url={url}"),
    )
    register(url, "orders", "number:long", part="key")
    register(url, "shop-counts-changelog", "figure:long", part="key")
    status, lines = check(cli, app, *settings)
    assert status == 1
    assert lines[0] == "ok    orders-key: avro Key writes with version 1, the latest"
    assert lines[1].startswith("fail  counts-key: the latest version of subject counts-key: the registry")
    assert lines[2].endswith(
        "does not read what it writes with version 1: field 'number' is new and does not have a default"
    )


def test_a_topology_without_schemas_is_said(cli: ClusterCommands) -> None:
    plain = 'builder = StreamsBuilder(key_serde="string", value_serde="string")\nbuilder.stream("a").to("b")\n'
    status, lines = check(cli, cli.app(plain + "topology = builder.build()\n"))
    assert (status, lines) == (0, ["warn  schemas: no serde of the topology has its schemas in a registry"])


def test_a_serde_without_a_registry_fails_the_check(cli: ClusterCommands) -> None:
    """It was a line for each topic, and there is one cause."""
    status, lines = check(cli, cli.app(APP))
    assert status == 1
    (line,) = lines
    assert line.startswith("fail  schemas: the serdes of 3 topics need a registry, such as: the serde 'avro Order' of ")
    assert "does not have a schema registry: set schema.registry.url" in line
    assert "mock://test as the URL is one in memory" in line


@pytest.mark.parametrize("command", [("doctor",), ("check",), ("registry", "check")])
def test_a_registry_that_does_not_respond_is_one_finding(
    cli: ClusterCommands, command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """`doctor` called all well, and the application waited for the registry at its first record."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    app, away = cli.app(APP), f"schema.registry.url=http://127.0.0.1:{port}"
    status = main([*command, app, "-c", away, "-c", "schema.registry.timeout.ms=1"])
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("fail  schemas")]
    assert len(failed) == 1
    assert f"the registry http://127.0.0.1:{port} does not respond" in failed[0]
    assert status == 1


def test_doctor_says_that_the_registry_takes_the_schemas(
    cli: ClusterCommands, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", cli.app(APP), "-c", f"schema.registry.url={url}"])
    lines = capsys.readouterr().out.splitlines()
    assert "ok    schemas: 3 schemas can be used with the schema registry (streams registry check)" in lines


@pytest.mark.parametrize("ids", ["prefix", "header"])
def test_records_are_written_and_read_by_the_serdes_of_the_application(
    cli: ClusterCommands, url: str, ids: str
) -> None:
    app, settings = cli.app(APP), ("-c", f"schema.registry.url={url}", "-c", f"schema.registry.schema.ids={ids}")
    cli.kafka.create_topics("orders", "sums")
    made = cli.run(
        "produce", app, "orders", *settings, stdin='{"key": "a", "value": {"customer": "ann", "cents": 3}}\n'
    )
    assert made.status == 0, made.err
    read = cli.run("consume", app, "orders", *settings)
    assert json.loads(read.out)["value"] == {"customer": "ann", "cents": 3}
    assert ("__value_schema_id" in read.out) == (ids == "header")


def test_records_are_decoded_by_their_ids_without_an_application(cli: ClusterCommands, url: str) -> None:
    app, settings = cli.app(APP), ("-c", f"schema.registry.url={url}", "-c", "bootstrap.servers=localhost:9092")
    cli.kafka.create_topics("orders")
    line = '{"key": "a", "value": {"customer": "ann", "cents": 3}}\n'
    assert cli.run("produce", app, "orders", *settings, stdin=line).status == 0
    more = '{"key": "b", "value": {"customer": "bob", "cents": 4}}\n'
    by_latest = cli.run("produce", "--topic", "orders", "--key-serde", "string", *settings, stdin=more)
    assert by_latest.status == 0, by_latest.err
    read = cli.run("consume", "--topic", "orders", *settings)
    rows = [json.loads(row) for row in read.lines]
    assert sorted((row["key"], row["value"]["customer"]) for row in rows) == [("a", "ann"), ("b", "bob")]


def test_a_topology_is_tried_with_values_as_json(cli: ClusterCommands, url: str) -> None:
    line = '{"topic": "orders", "key": "a", "value": {"customer": "ann", "cents": 3}}\n'
    found = cli.run("try", cli.app(APP), "-c", f"schema.registry.url={url}", "--format", "json", stdin=line)
    assert found.status == 0, found.err
    assert '"value": {"customer": "ann", "cents": 3}' in found.out or '"cents":3' in found.out


@pytest.mark.parametrize(
    ("new", "old", "backward", "forward"),
    [
        (avro_record("R", "a:int"), avro_record("R", "a:int"), True, True),
        (avro_record("R", "a:long"), avro_record("R", "a:int"), True, False),
        (avro_record("R", "a:string"), avro_record("R", "a:bytes"), True, True),
        (avro_record("R", "a:int", "b:int"), avro_record("R", "a:int"), False, True),
        (avro_record("R", "a:int", "b:int:1"), avro_record("R", "a:int"), True, True),
        (avro_record("R", "a:int"), avro_record("R", "a:int", "b:int"), True, False),
        (avro_record("R", "a:string"), avro_record("R", "a:int"), False, False),
        ('["null", "int"]', '"int"', True, False),
        ('["int", "string"]', '["int"]', True, False),
        ('{"type": "array", "items": "long"}', '{"type": "array", "items": "int"}', True, False),
        ('{"type": "enum", "name": "E", "symbols": ["A"]}', '{"type": "enum", "name": "E", "symbols": ["A", "B"]}',
         False, True),
        ('{"type": "fixed", "name": "F", "size": 2}', '{"type": "fixed", "name": "F", "size": 3}', False, False),
    ],
)  # fmt: skip
def test_compatibility_is_that_of_avro(new: str, old: str, backward: bool, forward: bool) -> None:
    assert (complaints("BACKWARD", new, old) == []) is backward
    assert (complaints("FORWARD", new, old) == []) is forward
    assert (complaints("FULL", new, old) == []) is (backward and forward)
    assert complaints("NONE", new, old) == []


def test_recursive_schemas_are_compared() -> None:
    node = '{"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}'
    assert complaints("FULL", node, node) == []


def test_what_only_looks_like_an_id_is_shown_as_bytes(url: str) -> None:
    register(url, "orders", "customer:string")
    serde = DetectedSerde(SchemaRegistry(url), "orders", is_key=False)
    number = (1 << 24 | 0x7F0000).to_bytes(8, "big")  # its first five bytes are those of id 1
    for data in (number, b"plain", b"", b"\x00\x00\x00\x00\x63abc"):
        assert serde.deserialize(data) == data
    assert serde.deserialize(b"\x00\x00\x00\x00\x01\x06ann") == {"customer": "ann"}
    assert serde.serialize({"customer": "ann"}) == b"\x00\x00\x00\x00\x01\x06ann"
    assert serde.serialize(b"raw") == b"raw"


EVENTS = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Annotated
from pydantic import Field

@dataclass(frozen=True)
class Place:
    code: bytes

@dataclass
class Event:
    raw: bytes
    what: bytes | str
    day: date | str
    price: Annotated[Decimal, Field(max_digits=9, decimal_places=2)]

builder = StreamsBuilder(key_serde=Avro(Place), value_serde=Avro(Event))
builder.table("events", materialized="last").to_stream().to("copy")
"""
EVENT = {"raw": {"base64": "//4="}, "what": "abc", "day": "2026-01-01", "price": "1.50"}
KEY = {"code": {"base64": "/w=="}}


def test_what_was_consumed_is_produced_with_the_same_bytes(cli: ClusterCommands, url: str) -> None:
    """Bytes that are no text were refused, and texts in place of bytes became these."""
    app, settings = cli.app(EVENTS), ("-c", f"schema.registry.url={url}", "-c", "bootstrap.servers=localhost:9092")
    cli.kafka.create_topics("events", "copy", "again")
    events = [EVENT, {**EVENT, "what": {"string": "abc"}, "day": {"string": "2026-01-01"}}]
    for value in events:
        line = json.dumps({"key": KEY, "value": value})
        assert cli.run("produce", app, "events", line, *settings).err == ""
    shown = cli.run("consume", app, "events", *settings).out
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [(row["key"], row["value"]) for row in rows] == [(KEY, value) for value in events]
    assert cli.run("produce", app, "copy", *settings, stdin=shown).status == 0
    written = records(cli, "events")
    assert records(cli, "copy") == written
    assert len(set(written)) == 2

    tried = cli.run("try", app, *settings, "--format", "json", "--tables", stdin=shown)
    *copies, table = [json.loads(line) for line in tried.out.splitlines()]
    assert [(row["key"], row["value"]) for row in copies] == [(KEY, value) for value in events]
    assert (table["key"], table["value"]) == (KEY, events[1])

    without = ("--topic", "copy", *settings)
    shown = cli.run("consume", *without).out
    assert [json.loads(line)["value"] for line in shown.splitlines()] == events
    SchemaRegistry(url).client.register("again-value", schema_of(url, "copy-value"))
    SchemaRegistry(url).client.register("again-key", schema_of(url, "copy-key"))
    made = cli.run("produce", "--topic", "again", *settings, stdin=shown)
    assert made.status == 0, made.err
    assert records(cli, "again") == written


def schema_of(url: str, subject: str) -> Any:
    return SchemaRegistry(url).client.latest(subject).schema


def records(cli: ClusterCommands, topic: str) -> list[tuple[bytes, bytes]]:
    """The keys and values behind their ids, which are others in each subject of this registry."""
    return [(one.key[5:], one.value[5:]) for one in cli.kafka.read_records(topic, 2, "bytes", "bytes")]
