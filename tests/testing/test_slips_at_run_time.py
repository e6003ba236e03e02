"""Mistakes in functions and topics that only records show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import StreamsError, TopologyError
from streams import (
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)

Build = Callable[[Any, Any], Any]
STORE: Materialized[Any, Any] = Materialized(name="s", value_serde="json")


def aggregations() -> dict[str, Build]:
    def windowed(windows: Any, *merger: Any) -> Build:
        return lambda stream, add: (
            stream.group_by_key().windowed_by(windows).aggregate(list, add, *merger, materialized=STORE)
        )

    return {
        "aggregate": lambda stream, add: stream.group_by_key().aggregate(list, add, materialized=STORE),
        "time windows": windowed(TimeWindows.of_size_with_no_grace(10)),
        "sliding windows": windowed(SlidingWindows.of_time_difference_with_no_grace(10)),
        "sessions": windowed(SessionWindows.of_inactivity_gap_with_no_grace(10), lambda k, one, other: one + other),
        "cogroup": lambda stream, add: stream.group_by_key().cogroup(add).aggregate(list, materialized=STORE),
        "table": lambda stream, add: (
            stream.to_table()
            .group_by(lambda k, v: (k, v))
            .aggregate(list, add, lambda k, v, a: a[:-1], materialized=STORE)
        ),
    }


def drops(build: Build, add: Any, values: list[str | None]) -> dict[str, int]:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    build(builder.stream("in"), add).to_stream().foreach(lambda key, value: None)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        for value in values:
            topic.pipe_input("ann", value, timestamp=0)
        return {one.reason: one.count for one in driver.drops()}


@pytest.mark.parametrize("build", aggregations().values(), ids=aggregations())
def test_an_aggregator_that_returns_none_without_an_aggregate_is_counted(build: Build) -> None:
    """`lambda k, v, seen: seen.append(v)` deleted a row that never was: nothing came out, and nothing said why."""
    assert drops(build, lambda k, v, seen: seen.append(v), ["tea", "milk"]) == {"aggregate-deleted-nothing": 2}


@pytest.mark.parametrize("build", aggregations().values(), ids=aggregations())
def test_a_deletion_of_an_aggregate_is_not_counted(build: Build) -> None:
    assert drops(build, lambda k, v, seen: None if v == "end" else [*seen, v], ["tea", "end", "tea"]) == {}


def test_an_aggregate_that_two_keys_share_fails_at_the_second_key() -> None:
    """The second key began with what the first had added."""
    shared: list[str] = []
    builder = StreamsBuilder(key_serde="string", value_serde="string")

    def add(key: str, value: str, seen: list[str]) -> list[str]:
        seen.append(value)
        return seen

    builder.stream("in").group_by_key().aggregate(lambda: shared, add, materialized=STORE)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        topic.pipe_input("ann", "tea")
        with pytest.raises(StreamsError, match="returned the same list for two keys, after it was changed"):
            topic.pipe_input("bob", "milk")


def test_an_object_that_nothing_changes_can_start_each_aggregate() -> None:
    none: dict[str, int] = {}
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    grouped = builder.stream("in").group_by_key()
    grouped.aggregate(lambda: none, lambda k, v, a: {**a, v: 1}, materialized=STORE)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        for key in ("ann", "bob", "eve"):
            topic.pipe_input(key, "tea")
        assert driver.get_key_value_store("s").get("eve") == {"tea": 1}


def to_itself(builder: StreamsBuilder) -> None:
    builder.stream("in").map_values(str.upper).to("in")


def by_another_topic(builder: StreamsBuilder) -> None:
    builder.stream("in").to("other")
    builder.stream("other").group_by(lambda k, v: v).reduce(lambda one, other: other).to_stream().to("in")


def by_a_function(builder: StreamsBuilder) -> None:
    builder.stream("in").to(lambda key, value, context: "in")


@pytest.mark.parametrize("build", [to_itself, by_another_topic, by_a_function])
def test_a_record_that_comes_back_again_and_again_ends_with_an_error(build: Callable[[StreamsBuilder], None]) -> None:
    """The driver went on for ever at the first record."""
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    build(builder)
    with TopologyTestDriver(builder) as driver:
        topic = driver.create_input_topic("in")
        with pytest.raises(TopologyError, match=r"10,000 records came back .* writes to topic 'in'") as caught:
            topic.pipe_input("ann", "tea")
        assert "test_slips_at_run_time.py:" in str(caught.value.made_at)


def test_a_cycle_that_a_filter_ends_is_processed_to_the_end() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    stream = builder.stream("in")
    stream.filter(lambda key, value: len(value) < 100).map_values(lambda value: value + "x").to("in")
    stream.filter(lambda key, value: len(value) >= 100).to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_value("")
        assert driver.create_output_topic("out").read_value() == "x" * 100


def test_many_records_of_one_are_not_a_cycle() -> None:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("in").flat_map_values(lambda value: [value] * 11_000).to("other")
    builder.stream("other").to("out")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("in").pipe_value("x")
        assert len(driver.create_output_topic("out").read_values()) == 11_000


def test_a_cycle_of_a_topology_without_the_dsl_is_named(caplog: pytest.LogCaptureFixture) -> None:
    topology = Topology().add_source("source", "in").add_sink("sink", "in", "source")
    with TopologyTestDriver(topology, {"default.key.serde": "string", "default.value.serde": "string"}):
        assert "sink 'sink' writes to topic 'in', from which source 'source' reads its input" in caplog.text
