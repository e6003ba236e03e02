"""Versions of an application whose values have another form: rows are read, converted, or refused by field."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, NotRequired

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from dsl import StreamsBuilder
from dsl.joins.join_windows import JoinWindows
from dsl.joins.options import StreamJoined
from dsl.options import Consumed, Materialized, Produced
from order_forms import First, WithDefault, WithoutDefault
from processor_api.serde import Serde
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.serdes import pydantic_serde, serde_of
from waiting import wait_until


class WithNote(TypedDict):
    cents: int
    zone: NotRequired[str]
    note: str


class OtherNote(BaseModel):
    cents: int
    zone: str = "none"
    note: int = 0


class WithTextNote(BaseModel):
    cents: int
    note: str = ""


class Euros(BaseModel):
    euros: float


def summing(value: Any, add: Any, first: Any, **how: Any) -> Topology:
    """Sums what comes, in a store of a model, and writes the sum as JSON."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    kept = Materialized(name="sums", key_serde=how.pop("key", "string"), value_serde=value, **how)
    sums = stream.group_by_key().aggregate(first, lambda key, one, total: add(total, int(one)), materialized=kept)
    sums.to_stream().map_values(text).to("out")
    return builder.build()


def text(total: Any) -> str:
    return json.dumps(total) if isinstance(total, dict) else str(total.model_dump_json())


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


def run(cluster: Cluster, state: Path, topology: Topology, given: str, expected: str, key: str = "k") -> None:
    app = cluster.app(topology, {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send(given, key=key)
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


def test_a_worker_that_comes_back_reads_what_others_have_written(
    cluster: Cluster, rows: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its own note of the schemas, or none, said nothing of the rows that it restored from the changelog."""
    other, empty = tmp_path / "other", tmp_path / "empty"
    run(cluster, other, cents(OtherNote), "2", '{"cents":5,"zone":"none","note":0}')
    said = refused(cluster, rows, cents(WithTextNote))  # which reads the form that this disk knows of
    assert "the value under the key 'k' cannot be read" in said
    assert "note" in said
    assert "note" in refused(cluster, empty, cents(WithTextNote))
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, rows, cents(OtherNote), "2", '{"cents":7,"zone":"none","note":0}')
    assert all_read(caplog) == []  # the version that the others have run


def test_a_disk_that_was_lost_costs_no_reading(
    cluster: Cluster, rows: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All of the changelog was written by the schema of now: the offsets say so."""
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, tmp_path / "empty", cents(First), "2", '{"cents":5}')
        assert all_read(caplog) == []
        run(cluster, tmp_path / "again", cents(WithDefault), "2", '{"cents":7,"zone":"all"}')
        assert all_read(caplog) == [("sums", 1, 1)]
        run(cluster, tmp_path / "third", cents(WithDefault), "2", '{"cents":9,"zone":"all"}')
    assert len(all_read(caplog)) == 1


def test_a_version_that_was_warned_leaves_rows_that_the_former_one_reads_first(cluster: Cluster, rows: Path) -> None:
    settings = {"state.dir": str(rows), "state.on.schema.change": "warn"}
    app = cluster.app(euros(), settings)
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send("4", key="new")
    cluster.until_out('{"cents":3}', '{"euros":1.0}')
    assert app.close(10)
    assert "the value under the key 'new' cannot be read" in refused(cluster, rows, cents(First))


@pytest.mark.parametrize("disk", ["kept", "lost"])
def test_a_field_without_a_default_is_refused_by_name(cluster: Cluster, rows: Path, tmp_path: Path, disk: str) -> None:
    """Without its disk the application has nothing but the rows to tell it."""
    state = rows if disk == "kept" else tmp_path / "other"
    said = refused(cluster, state, cents(WithoutDefault))
    assert "store 'sums' has rows that the serdes of this version cannot read or find" in said
    assert "zone" in said
    assert "Materialized(migrate=...)" in said
    run(cluster, rows, cents(First), "4", '{"cents":7}')  # the former version goes on


def euros(**how: Any) -> Topology:
    def add(total: Euros, more: int) -> Euros:
        return Euros(euros=total.euros + more / 4)

    return summing(pydantic_serde(Euros), add, lambda: Euros(euros=0), **how)


def converted(old: Any) -> Any:
    return {"euros": old["cents"] / 4}


def test_old_values_are_converted_when_they_are_read(cluster: Cluster, rows: Path) -> None:
    run(cluster, rows, euros(migrate=converted), "100", '{"euros":25.75}')
    run(cluster, rows, euros(migrate=converted), "100", '{"euros":50.75}')


def test_a_function_that_is_needed_is_missed(cluster: Cluster, rows: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The form of the last version is that of the new one, which cannot read what the last one could convert."""
    run(cluster, rows, euros(migrate=converted), "8", '{"euros":2.0}', key="other")
    said = refused(cluster, rows, euros())
    assert "store 'sums' has rows that the serdes of this version cannot read or find" in said
    assert "the value under the key 'k'" in said
    run(cluster, rows, euros(migrate=converted), "1", '{"euros":1.0}')  # which rewrites it
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, rows, euros(), "1", '{"euros":1.25}')
        assert all_read(caplog) == [("sums", 2, 0)]
        run(cluster, rows, euros(), "1", '{"euros":1.5}')
    assert all_read(caplog) == [("sums", 2, 0)]  # once


def all_read(caplog: pytest.LogCaptureFixture) -> list[tuple[str, int, int]]:
    found: list[Any] = [one for one in caplog.records if one.getMessage() == "all rows of a store can be read"]
    return [(one.store, one.rows, one.of_older_forms) for one in found]


def test_rows_of_a_version_before_the_last_one(cluster: Cluster, rows: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Only the schema of the last version was compared: a version was started that could not read older rows."""
    run(cluster, rows, cents(WithDefault), "4", '{"cents":4,"zone":"all"}', key="other")
    said = refused(cluster, rows, cents(WithoutDefault))
    assert "store 'sums' has rows that the serdes of this version cannot read or find" in said
    assert "the value under the key 'k'" in said
    assert "zone" in said
    run(cluster, rows, cents(WithDefault), "4", '{"cents":7,"zone":"all"}')  # which rewrites it
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, rows, cents(WithoutDefault), "1", '{"cents":8,"zone":"all"}')
    assert all_read(caplog) == [("sums", 2, 0)]


def test_rows_of_older_forms_that_are_read_stay_known(
    cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A form is forgotten only when no row has it: what one version reads of it, the next one may not."""
    state = tmp_path / "state"
    noted = summing(
        pydantic_serde(WithNote),
        lambda total, more: {**total, "cents": more},
        lambda: {"cents": 0, "zone": "all", "note": "none"},
    )
    run(cluster, state, noted, "3", '{"cents": 3, "zone": "all", "note": "none"}')
    run(cluster, state, cents(WithDefault), "4", '{"cents":4,"zone":"all"}', key="other")
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(cluster, state, cents(WithoutDefault), "5", '{"cents":5,"zone":"new"}', key="third")
        run(cluster, state, cents(WithoutDefault), "5", '{"cents":10,"zone":"new"}', key="third")
    assert all_read(caplog) == [("sums", 2, 1)]  # once, and the row of the first version is still there
    said = refused(cluster, state, summing(pydantic_serde(OtherNote), lambda total, more: total, lambda: None))
    assert "the value under the key 'k'" in said
    assert "note" in said


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
    """Each start says it, as long as there may be such rows."""
    for _ in range(2):
        caplog.clear()
        app = cluster.app(cents(WithoutDefault), {"state.dir": str(rows), "state.on.schema.change": "warn"})
        cluster.until_state(app, ClientState.RUNNING)
        assert any(one.getMessage() == "store has rows that cannot be read" for one in caplog.records)
        assert app.close(10)
    app = cluster.app(cents(WithoutDefault), {"state.dir": str(rows), "state.on.schema.change": "warn"})
    cluster.until_state(app, ClientState.RUNNING)
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


def joining(model: Any) -> Topology:
    """Joins records that have no partner: each waits in a store, under a key with its time and side."""
    builder = StreamsBuilder()
    left = builder.stream("in", Consumed(key_serde="string", value_serde=model))
    right = builder.stream("right", Consumed(key_serde="string", value_serde="string"))
    windows = JoinWindows.of_time_difference_with_no_grace(10)
    joined = left.outer_join(right, lambda one, other: text(one), windows=windows, joined=StreamJoined(store_name="j"))
    joined.to("out", Produced(value_serde="string"))
    return builder.build()


def test_what_waits_without_a_partner_is_compared(cluster: Cluster, tmp_path: Path) -> None:
    """The schemas of what other serdes wrap were not kept."""
    cluster.broker.create_topic("right", 1)
    state = tmp_path / "state"
    app = cluster.app(joining(First), {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send('{"cents":1}')
    wait_until("it is committed", lambda: cluster.committed() == 1)
    assert app.close(10)
    said = refused(cluster, state, joining(WithoutDefault))
    assert "zone' is new and does not have a default" in said
    app = cluster.app(joining(WithDefault), {"state.dir": str(state)})
    cluster.until_state(app, ClientState.RUNNING)
    cluster.send('{"cents":2}', timestamp=1000)
    cluster.until_out('{"cents":1,"zone":"all"}')
    assert app.close(10)
