"""The error of a missing serde names the argument that gives it in that call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from processor_api.errors import ConfigError
from processor_api.topology.warnings import warnings_of
from streams import Joined, JoinWindows, Materialized, Stores, StreamJoined, StreamsBuilder, TopologyTestDriver

BOTH: dict[str, Any] = {"key_serde": "string", "value_serde": "string"}
WINDOWS = JoinWindows.of_time_difference_with_no_grace(1_000)
VERSIONED: Materialized[Any, Any] = Materialized(supplier=Stores.persistent_versioned_key_value_store("v", 1_000))
Build = Callable[[StreamsBuilder, Any], Any]


def one_or_other(one: Any, other: Any) -> Any:
    return one or other


def left_without(builder: StreamsBuilder, joined: Any) -> Any:
    left = builder.stream("left", **BOTH).map_values(len)
    return left.left_join(builder.stream("right", **BOTH), one_or_other, windows=WINDOWS, joined=joined)


def right_without(builder: StreamsBuilder, joined: Any) -> Any:
    right = builder.stream("right", **BOTH).map_values(len)
    return builder.stream("left", **BOTH).join(right, one_or_other, windows=WINDOWS, joined=joined)


def new_keys(builder: StreamsBuilder, joined: Any) -> Any:
    left = builder.stream("left", **BOTH).select_key(lambda key, value: value)
    return left.outer_join(builder.stream("right", **BOTH), one_or_other, windows=WINDOWS, joined=joined)


def with_a_table(builder: StreamsBuilder, joined: Any) -> Any:
    left = builder.stream("left", **BOTH).map(lambda key, value: (value, key))
    return left.join(builder.table("right", **BOTH), one_or_other, joined=joined)


def with_a_grace_period(builder: StreamsBuilder, joined: Any) -> Any:
    left = builder.stream("left", **BOTH).map_values(len)
    table = builder.table("right", materialized=VERSIONED, **BOTH)
    return left.join(table, one_or_other, joined=joined or Joined(grace=5))


CASES: list[tuple[Build, str, Any]] = [
    (left_without, "StreamJoined(value_serde=...)", StreamJoined(value_serde="long")),
    (right_without, "StreamJoined(other_value_serde=...)", StreamJoined(other_value_serde="long")),
    (new_keys, "StreamJoined(key_serde=...)", StreamJoined(key_serde="string")),
    (with_a_table, "Joined(key_serde=..., value_serde=...)", Joined(key_serde="string", value_serde="string")),
    (with_a_grace_period, "Joined(value_serde=...)", Joined(value_serde="long", grace=5)),
]


@pytest.mark.parametrize(("build", "argument", "joined"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_the_serdes_of_a_join_are_given_where_the_error_says(build: Build, argument: str, joined: Any) -> None:
    """It named `Materialized`, which a join of streams does not take."""
    builder = StreamsBuilder()
    build(builder, None).to("out", **BOTH)
    with pytest.raises(ConfigError) as caught:
        TopologyTestDriver(builder)
    assert argument in str(caught.value)
    assert "Materialized" not in str(caught.value)
    builder = StreamsBuilder()
    build(builder, joined).to("out", **BOTH)
    TopologyTestDriver(builder).close()


def test_the_serdes_of_a_repartition_are_arguments_of_its_call() -> None:
    builder = StreamsBuilder()
    builder.stream("in", **BOTH).map_values(len).repartition().to("out", **BOTH)
    with pytest.raises(ConfigError, match=r"give repartition\(value_serde=\.\.\.\)"):
        TopologyTestDriver(builder)


def test_an_empty_topology_is_said_to_be_empty() -> None:
    (warning,) = warnings_of(StreamsBuilder().build())
    assert warning.what == "empty"
    assert "the topology is empty" in warning.text
