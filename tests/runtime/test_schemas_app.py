"""Versions of an application whose values have another form: rows are read, converted, or refused by field."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from dsl import StreamsBuilder
from dsl.options import Consumed, Materialized
from processor_api.serde import Serde
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.serdes import pydantic_serde, serde_of
from waiting import wait_until


class First(BaseModel):
    cents: int


class WithDefault(BaseModel):
    cents: int
    zone: str = "all"


class WithoutDefault(BaseModel):
    cents: int
    zone: str


class Euros(BaseModel):
    euros: float


def summing(value: Any, add: Any, first: Any, **how: Any) -> Topology:
    """Sums what comes, in a store of a model, and writes the sum as JSON."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    kept = Materialized(name="sums", key_serde=how.pop("key", "string"), value_serde=value, **how)
    sums = stream.group_by_key().aggregate(first, lambda key, one, total: add(total, int(one)), materialized=kept)
    sums.to_stream().map_values(lambda total: total.model_dump_json()).to("out")
    return builder.build()


def cents(model: Any, **how: Any) -> Topology:
    return summing(
        pydantic_serde(model),
        lambda total, more: total.model_copy(update={"cents": total.cents + more}),
        lambda: model(cents=0, **({"zone": "new"} if model is WithoutDefault else {})),
        **how,
    )


@pytest.fixture
def rows(cluster: Cluster, tmp_path: Path) -> Path:
    """The state of an application whose store has one row of the first form."""
    run(cluster, tmp_path / "state", cents(First), "3", '{"cents":3}')
    return tmp_path / "state"


def run(cluster: Cluster, state: Path, topology: Topology, given: str, expected: str) -> None:
    app = cluster.app(topology, {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send(given)
    wait_until(f"{expected} is written", lambda: cluster.values()[-1:] == [expected])
    assert app.close(10)


def refused(cluster: Cluster, state: Path, topology: Topology) -> str:
    app = cluster.app(topology, {"state.dir": str(state)})
    cluster.until_state(app, ClientState.ERROR)
    said = str(app.failure)
    app.close(10)
    return said


def test_a_field_with_a_default_is_read_and_rewritten(
    cluster: Cluster, rows: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, rows, cents(WithDefault), "4", '{"cents":7,"zone":"all"}')
        run(cluster, rows, cents(WithDefault), "1", '{"cents":8,"zone":"all"}')
    said = [one for one in caplog.records if one.getMessage().startswith("store has rows of another form")]
    assert [(one.store, one.parts) for one in said] == [("sums", "value")]  # type: ignore[attr-defined]


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_field_without_a_default_is_refused_by_name(cluster: Cluster, rows: Path, tmp_path: Path, disk: str) -> None:
    """Without its disk the application has nothing but the rows to tell it."""
    state = rows if disk == "kept" else tmp_path / "other"
    said = refused(cluster, state, cents(WithoutDefault))
    assert "store 'sums' has rows that the serdes of this version cannot read" in said
    assert "zone" in said
    assert "Materialized(migrate=...)" in said
    run(cluster, rows, cents(First), "4", '{"cents":7}')  # the former version goes on


def test_old_values_are_converted_when_they_are_read(cluster: Cluster, rows: Path) -> None:
    def topology() -> Topology:
        return summing(
            pydantic_serde(Euros),
            lambda total, more: Euros(euros=total.euros + more / 4),
            lambda: Euros(euros=0),
            migrate=lambda old: {"euros": old["cents"] / 4},
        )

    run(cluster, rows, topology(), "100", '{"euros":25.75}')
    run(cluster, rows, topology(), "100", '{"euros":50.75}')


def test_what_cannot_be_converted_is_named(cluster: Cluster, rows: Path) -> None:
    wrong = summing(
        pydantic_serde(Euros), lambda total, more: total, lambda: Euros(euros=0), migrate=lambda old: old["pence"]
    )
    app = cluster.app(wrong, {"state.dir": str(rows)})
    cluster.until_state(app, ClientState.RUNNING)  # the rows are taken to be converted
    cluster.send("1")
    cluster.until_state(app, ClientState.ERROR)
    assert "KeyError: 'pence'" in str(app.failure)


def test_another_kind_of_serde_is_refused(cluster: Cluster, rows: Path) -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    stream.group_by_key().count(materialized=Materialized(name="sums", key_serde="string", value_serde="long"))
    said = refused(cluster, rows, builder.build())
    assert "value: they are written as json-schema, and read as long" in said


def test_keys_keep_their_form(cluster: Cluster, rows: Path) -> None:
    said = refused(cluster, rows, cents(First, key="bytes"))
    assert "key: they are written as string, and read as bytes" in said


def test_a_warning_in_place_of_the_refusal(cluster: Cluster, rows: Path, caplog: pytest.LogCaptureFixture) -> None:
    app = cluster.app(cents(WithoutDefault), {"state.dir": str(rows), "state.on.schema.change": "warn"})
    cluster.until_state(app, ClientState.RUNNING)
    assert any(one.getMessage() == "store has rows that cannot be read" for one in caplog.records)
    cluster.send("1", key="new")
    cluster.until_out('{"cents":3}', '{"cents":1,"zone":"new"}')
    assert app.close(10)


def doubled(factor: int) -> Serde[Any]:
    """A serde of which nothing is known, whose versions cannot read each other's bytes."""
    return serde_of(
        lambda total: json.dumps({"v": factor, "cents": total.cents}).encode(),
        lambda data: First(cents={factor: json.loads(data)["cents"]}[json.loads(data)["v"]]),
        name="own",
    )


def test_rows_are_tried_where_nothing_is_known_of_a_serde(cluster: Cluster, tmp_path: Path) -> None:
    def topology(value: Any) -> Topology:
        return summing(value, lambda total, more: First(cents=total.cents + more), lambda: First(cents=0))

    state = tmp_path / "state"
    run(cluster, state, topology(doubled(1)), "3", '{"cents":3}')
    run(cluster, state, topology(doubled(1)), "3", '{"cents":6}')
    said = refused(cluster, state, cents(WithoutDefault))
    assert "row:" in said
    assert "zone" in said
