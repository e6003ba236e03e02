"""Records that one version has left in a repartition topic, and the next one reads, or is refused."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from dsl import StreamsBuilder
from dsl.options import Consumed, Produced, Repartitioned
from order_forms import First, WithDefault, WithoutDefault
from processor_api.handlers import log_and_continue
from processor_api.topology.topology import Topology
from runtime_support.running_app import Cluster
from streams.app.states import ClientState
from streams.kafka.offset_metadata import TopicPartitionMetadata

TOPIC = "app-all-repartition"
DROPPING = {"deserialization.exception.handler": log_and_continue}


def passing(serde: Any, make: Callable[[int], Any]) -> Topology:
    """Writes each number to a repartition topic, and what comes out of that as text."""
    builder = StreamsBuilder()
    numbers = builder.stream("in", Consumed(key_serde="string", value_serde="string"))
    made = numbers.map_values(lambda value: make(int(value)))
    through = made.repartition(Repartitioned(name="all", key_serde="string", value_serde=serde))
    through.map_values(str).to("out", Produced(key_serde="string", value_serde="string"))
    return builder.build()


def first() -> Topology:
    return passing(First, lambda cents: First(cents=cents))


def with_default() -> Topology:
    return passing(WithDefault, lambda cents: WithDefault(cents=cents))


def without_default() -> Topology:
    return passing(WithoutDefault, lambda cents: WithoutDefault(cents=cents, zone="new"))


def run(cluster: Cluster, topology: Topology, value: str | None, *out: str, **settings: Any) -> None:
    app = cluster.app(topology, settings)
    cluster.until_state(app, ClientState.RUNNING)
    if value is not None:
        cluster.send(value)
    cluster.until_out(*out)
    assert app.close(10)


def refused(cluster: Cluster, topology: Topology, **settings: Any) -> str:
    app = cluster.app(topology, settings)
    said = str(cluster.failed(app))
    app.close(10)
    return said


def form(cluster: Cluster) -> str | None:
    """Returns what is committed of the form of the records that wait."""
    found = {str(place): one for place, one in cluster.broker.groups.group("app").offsets.items()}
    (text,) = [one.metadata for place, one in found.items() if TOPIC in place]
    return TopicPartitionMetadata.decode(text).form


@pytest.fixture
def left(cluster: Cluster) -> Cluster:
    """A cluster on which the first version has run, and has written a record that it did not process."""
    run(cluster, first(), "1", "cents=1")
    cluster.send('{"cents":2}', topic=TOPIC)
    return cluster


def test_what_can_be_read_is_read(left: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    before = form(left)
    with caplog.at_level(logging.INFO, "streams.restore"):
        run(left, with_default(), None, "cents=1", "cents=2 zone='all'")
        run(left, with_default(), "3", "cents=1", "cents=2 zone='all'", "cents=3 zone='all'")
    lines = [one for one in caplog.records if one.getMessage() == "records of another form wait in a repartition topic"]
    assert len(lines) == 1
    assert form(left) not in (None, before)


@pytest.mark.parametrize("settings", [{}, DROPPING])
def test_what_cannot_be_read_is_refused_and_not_dropped(left: Cluster, settings: dict[str, Any]) -> None:
    """A handler that drops unreadable records had records dropped that the version before can read."""
    for _ in range(2):
        said = refused(left, without_default(), **settings)
        assert f"repartition topic {TOPIC}-0 has records from offset" in said
        assert "zone: Field required" in said
        assert "Run the former version until it has processed them" in said
    run(left, first(), None, "cents=1", "cents=2")
    run(left, without_default(), "3", "cents=1", "cents=2", "cents=3 zone='new'")


def test_it_is_known_until_the_last_of_them_is_processed(left: Cluster) -> None:
    left.send('{"cents":3,"zone":"new"}', topic=TOPIC)
    run(left, first(), None, "cents=1", "cents=2", "cents=3")
    before = form(left)
    left.send('{"cents":4,"zone":"new"}', '{"cents":5}', topic=TOPIC)
    for _ in range(2):
        app = left.app(without_default(), dict(DROPPING))
        assert "zone: Field required" in str(left.failed(app))
        app.close(10)
    assert form(left) == before


def test_another_kind_of_serde_is_refused_before_a_record_is_read(left: Cluster) -> None:
    said = refused(left, passing("long", int), **DROPPING)
    assert "value: they are written as json-schema, and read as long" in said
    run(left, first(), None, "cents=1", "cents=2")
    run(left, passing("long", int), "3", "cents=1", "cents=2", "3")
    left.send("12345678", topic=TOPIC)  # 8 bytes are a double too
    assert "value: they are written as long, and read as double" in refused(left, passing("double", float))


def test_a_warning_in_place_of_the_refusal(left: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"state.on.schema.change": "warn", **DROPPING}
    run(left, without_default(), "3", "cents=1", "cents=3 zone='new'", **settings)
    run(left, passing("long", int), "4", "cents=1", "cents=3 zone='new'", "4", **settings)


def test_records_of_now_go_to_the_handler(left: Cluster) -> None:
    """What is not of the version before may be dropped, as anywhere."""
    app = left.app(with_default(), dict(DROPPING))
    left.until_out("cents=1", "cents=2 zone='all'")
    left.send("{", topic=TOPIC)
    left.send("4")
    left.until_out("cents=1", "cents=2 zone='all'", "cents=4 zone='all'")
    assert app.close(10)
