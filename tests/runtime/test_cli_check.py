"""`streams check`: mistakes, serdes, layout, schemas and rows on disk in one go, with one exit status."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from registry_contract import avro_record
from runtime_support.running_app import Cluster
from streams import Avro, SchemaRegistry
from streams.app.states import ClientState
from streams.cli.main import main
from streams.cli.topology_function import load_topology
from streams.config import StreamsConfig
from waiting import wait_until

APP = """
from dataclasses import dataclass
from streams import Avro, StreamsBuilder

@dataclass
class Order:
    customer: str
    cents: int

builder = StreamsBuilder({serdes})
builder.stream("in").group_by_key().{aggregation}.to_stream().to("{out}")
{more}
"""
STRINGS = 'key_serde="string", value_serde="string"'


def app(
    folder: Path, aggregation: str = 'reduce(lambda a, b: b, materialized="last")', out: str = "out", **given: str
) -> str:
    path = folder / f"app_{uuid.uuid4().hex}.py"  # A module is imported once.
    path.write_text(
        APP.format(serdes=given.get("serdes", STRINGS), aggregation=aggregation, out=out, more=given.get("more", ""))
    )
    return str(path)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def check(capsys: pytest.CaptureFixture[str], state: Path, *words: str) -> tuple[int, list[str]]:
    capsys.readouterr()
    status = main(["check", *words, "--state-dir", str(state), "-c", "application.id=app"])
    return status, capsys.readouterr().out.splitlines()


def test_a_line_for_each_check_of_an_application_that_is_right(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, lines = check(capsys, state, app(tmp_path))
    assert status == 0
    assert lines == [
        "ok    topology: no likely mistakes",
        "ok    serdes: each source, sink and store has its serdes",
        f"ok    state: {state} does not have state of app",
    ]


def test_a_likely_mistake_is_a_warning_and_fails_a_strict_check(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = app(tmp_path, "aggregate(list, lambda k, v, a: a.append(v), value_serde='json')", out="in")
    status, lines = check(capsys, state, wrong)
    assert (status, [line[:17] for line in lines[:2]]) == (0, ["warn  topology: t", "warn  topology: s"])
    assert "returns the result of list.append()" in lines[0]
    assert "writes to topic 'in'" in lines[1]
    assert check(capsys, state, wrong, "--strict")[0] == 1


def test_a_missing_serde_fails(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = check(capsys, state, app(tmp_path, serdes='key_serde="string"'))
    assert status == 1
    assert lines[1].startswith("fail  serdes: ")


def test_a_layout_that_takes_turns_fails(tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = app(tmp_path)
    assert check(capsys, state, app(tmp_path), "--diff", old)[1][2].startswith("ok    layout: the same. Workers")
    assert main(["describe", old, "--layout"]) == 0
    layout = tmp_path / "layout.json"
    layout.write_text(capsys.readouterr().out)
    other = app(tmp_path, 'reduce(lambda a, b: b, materialized="other")')
    status, lines = check(capsys, state, other, "--diff", str(layout))
    assert status == 1
    assert any(line.startswith("fail  layout: store last is gone") for line in lines)


def test_a_schema_that_the_registry_would_refuse_fails(
    tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"mock://{uuid.uuid4().hex}"
    schema = Avro(schema=avro_record("Order", "customer:string")).format().own
    assert schema is not None
    SchemaRegistry(url).client.register("in-value", schema)
    orders = app(tmp_path, serdes='key_serde="string", value_serde=Avro(Order)')
    status, lines = check(capsys, state, orders, "-c", f"schema.registry.url={url}")
    assert status == 1
    assert any(line.startswith("fail  in-value: ") for line in lines)
    assert any(line.startswith("ok    out-value: a new subject") for line in lines)


def test_rows_on_disk_that_cannot_be_read_fail(
    cluster: Cluster, tmp_path: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = app(tmp_path)
    given = StreamsConfig.of({"application.id": "app", "bootstrap.servers": "in-memory:9092"})
    running = cluster.app(load_topology(old, lambda: given), {"state.dir": str(state)})
    cluster.until_state(running, ClientState.RUNNING)
    cluster.send("3")
    wait_until("it is committed", lambda: cluster.values()[-1:] == ["3"])
    assert running.close(10)
    assert check(capsys, state, old)[1][-1] == "ok    0_0 last: the same format"
    status, lines = check(capsys, state, app(tmp_path, serdes='key_serde="string", value_serde="long"'))
    assert status == 1
    assert lines[-1].startswith("fail  0_0 last: value: they are written as string")
