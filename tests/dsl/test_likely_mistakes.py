"""Likely mistakes in a topology are warned of when it is built, with the line that made the node."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from dsl import (
    Branched,
    BufferConfig,
    Grouped,
    JoinWindows,
    KTable,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from processor_api.topology.warnings import TopologyWarning, warnings_of
from streams.serdes import json_serde

Build = Callable[[StreamsBuilder], Any]
TIME = TimeWindows.of_size_with_no_grace(10)
SLIDING = SlidingWindows.of_time_difference_with_no_grace(10)
SESSIONS = SessionWindows.of_inactivity_gap_with_no_grace(10)
BETWEEN = JoinWindows.of_time_difference_with_no_grace(10)


def found(build: Build, settings: dict[str, str] | None = None) -> list[TopologyWarning]:
    builder = StreamsBuilder(key_serde="string", value_serde=json_serde())
    result = build(builder)
    if isinstance(result, KTable):
        result = result.to_stream()
    if result is not None:
        result.to("out")
    return list(warnings_of(builder.build(settings)))


def nothing(_: object) -> None:
    """Throws a result away."""


RETURNS_NONE: dict[str, tuple[Build, str]] = {
    "aggregate": (
        lambda b: b.stream("in").group_by_key().aggregate(list, lambda k, v, a: a.append(v)),
        "aggregator",
    ),
    "time windows": (
        lambda b: b.stream("in").group_by_key().windowed_by(TIME).aggregate(dict, lambda k, v, a: a.update({v: 1})),
        "aggregator",
    ),
    "sliding windows": (
        lambda b: b.stream("in").group_by_key().windowed_by(SLIDING).aggregate(set, lambda k, v, a: a.add(v)),
        "aggregator",
    ),
    "merger": (
        lambda b: (
            b.stream("in")
            .group_by_key()
            .windowed_by(SESSIONS)
            .aggregate(list, lambda k, v, a: [*a, v], lambda k, a, other: a.extend(other))
        ),
        "merger",
    ),
    "cogroup": (
        lambda b: b.stream("in").group_by_key().cogroup(lambda k, v, a: a.append(v)).aggregate(list),
        "aggregator",
    ),
    "cogroup in windows": (
        lambda b: b.stream("in").group_by_key().cogroup(lambda k, v, a: a.append(v)).windowed_by(TIME).aggregate(list),
        "aggregator",
    ),
    "table": (
        lambda b: (
            b.table("in").group_by(lambda k, v: (k, v)).aggregate(list, lambda k, v, a: a.append(v), lambda k, v, a: a)
        ),
        "adder",
    ),
    "reduce": (lambda b: b.stream("in").group_by_key().reduce(lambda one, other: one.update(other)), "reducer"),
    "reduce by a method": (lambda b: b.stream("in").group_by_key().reduce(dict.update), "reducer"),
    "reduce in windows": (
        lambda b: b.stream("in").group_by_key().windowed_by(SESSIONS).reduce(lambda one, other: one.update(other)),
        "reducer",
    ),
    "mapper": (lambda b: b.stream("in").map_values(lambda v: v.update(seen=True)), "mapper"),
    "mapper with the key": (
        lambda b: b.stream("in").map_values_with_key(lambda k, v: v.setdefault("keys", []).append(k)),
        "mapper",
    ),
    "mapper behind a mapper": (
        lambda b: (
            b.stream("in", value_serde="string").map_values(lambda v: {"v": v}).map_values(lambda v: v.update(n=1))
        ),
        "mapper",
    ),
    "mapper of a table": (lambda b: b.table("in").map_values(lambda v: v.update(seen=True)), "mapper"),
    "mapper behind a new key": (
        lambda b: b.stream("in").select_key(lambda k, v: v["id"]).map_values(lambda v: v.update(n=1)),
        "mapper",
    ),
    "joiner": (lambda b: b.stream("in").join(b.table("t"), lambda one, other: one.update(other)), "joiner"),
    "joiner of tables": (lambda b: b.table("in").join(b.table("t"), lambda one, other: other.update(one)), "joiner"),
    "joiner of streams": (
        lambda b: b.stream("in").join(b.stream("t"), lambda one, other: other.update(one), windows=BETWEEN),
        "joiner",
    ),
    "predicate": (lambda b: b.stream("in").filter(lambda k, v: print(v)), "predicate"),
}


@pytest.mark.parametrize(("build", "argument"), RETURNS_NONE.values(), ids=RETURNS_NONE)
def test_a_function_that_returns_the_none_of_a_change_is_named(build: Build, argument: str) -> None:
    """An aggregator such as `lambda k, v, a: a.append(v)` gave no result and no reason."""
    (warning,) = found(build)
    assert warning.what == "returns-none"
    assert f"the {argument}, " in warning.text
    assert "which is always None, so" in warning.text
    assert f"{__name__.rpartition('.')[2]}.py:" in str(warning)


def extended(key: str, value: str, items: list[str]) -> list[str]:
    items.append(value)
    return items


class Total:
    """Is not changed in place: `add` returns another one."""

    def add(self, value: Any) -> Total:
        return Total()


RIGHT: dict[str, Build] = {
    "returns the list": lambda b: b.stream("in").group_by_key().aggregate(list, extended),
    "or": lambda b: b.stream("in").group_by_key().aggregate(list, lambda k, v, a: a.append(v) or a),
    "of another class": lambda b: b.stream("in").group_by_key().aggregate(Total, lambda k, v, a: a.add(v)),
    "of another class, by a call": lambda b: (
        b.stream("in").group_by_key().aggregate(lambda: Total(), lambda k, v, a: a.add(v))
    ),
    "of a class that is not known": lambda b: (
        b.stream("in").map_values(lambda v: Total().add(v) if v else v).map_values(lambda v: v.add(1))
    ),
    "windowed reduce": lambda b: b.stream("in").group_by_key().windowed_by(TIME).reduce(lambda one, other: one | other),
    "null is meant": lambda b: b.stream("in").map_values(lambda v: None),
    "named table": lambda b: nothing(b.stream("in").group_by_key().count(materialized="counts")),
    "named cogroup": lambda b: nothing(
        b.stream("in").group_by_key().cogroup(extended).aggregate(list, materialized="items")
    ),
    "peek": lambda b: nothing(b.stream("in").peek(lambda k, v: v.clear())),
    "table to look up": lambda b: nothing(b.table("in")),
    "dropped branch": lambda b: nothing(b.stream("in").split().branch(lambda k, v: v).no_default_branch()),
}


@pytest.mark.parametrize("build", RIGHT.values(), ids=RIGHT)
def test_what_is_right_has_no_warning(build: Build) -> None:
    assert found(build) == []


UNUSED: dict[str, tuple[Build, str]] = {
    "filter": (lambda b: nothing(b.stream("in").filter(lambda k, v: v)), "filter()"),
    "map": (lambda b: nothing(b.stream("in").map_values(str)), "map_values()"),
    "join": (lambda b: nothing(b.stream("in").join(b.table("t"), lambda one, other: one)), "join()"),
    "table": (lambda b: nothing(b.table("in").filter(lambda k, v: v)), "filter()"),
    "to_stream": (lambda b: nothing(b.table("in").to_stream()), "to_stream()"),
}


@pytest.mark.parametrize(("build", "call"), UNUSED.values(), ids=UNUSED)
def test_a_result_that_is_thrown_away_is_named(build: Build, call: str) -> None:
    (warning,) = found(build)
    assert warning.what == "unused-result"
    assert f"nothing uses the result of {call}" in warning.text


def test_lambdas_of_a_loop_share_its_variable() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        for name in "abc":
            stream.filter(lambda key, value: value == name).to(name)  # noqa: B023 - the mistake

    (warning,) = found(build)
    assert warning.what == "loop-variable"
    assert "variable 'name'" in warning.text


def test_branches_of_a_loop_share_its_variable() -> None:
    def build(builder: StreamsBuilder) -> None:
        split = builder.stream("in").split()
        for name in "abc":
            split.branch(lambda k, v: v == name, Branched(consumer=lambda s: s.to("x")))  # noqa: B023 - the mistake
        split.no_default_branch()

    assert [warning.what for warning in found(build)] == ["loop-variable"]


def test_lambdas_that_bind_the_variable_of_a_loop_are_right() -> None:
    def build(builder: StreamsBuilder) -> None:
        stream = builder.stream("in")
        for name in "abc":
            stream.filter(lambda key, value, name=name: value == name).to(name)

        def one(name: str) -> None:
            stream.filter(lambda key, value: value == name).to(f"other-{name}")

        for name in "abc":
            one(name)

    assert found(build) == []


def by_value(key: Any, value: Any, context: Any) -> str:
    return str(value)


def suppressed(builder: StreamsBuilder) -> Any:
    calm = builder.table("in").suppress(Suppressed.until_time_limit(10, BufferConfig.unbounded()))
    return calm.group_by(lambda k, v: (v, v)).count()


def joined_count(builder: StreamsBuilder) -> Any:
    uncached: Materialized[Any, Any] = Materialized(name="counts", caching=False)
    counts = builder.stream("in").group_by_key().count(materialized=uncached)
    joined = counts.join(builder.table("t"), lambda count, other: count)
    return joined.group_by(lambda k, count: (str(count), count), Grouped(value_serde="long")).count()


@pytest.mark.parametrize("build", [suppressed, joined_count])
def test_groups_that_kafka_streams_computes_wrongly(build: Build) -> None:
    (warning,) = found(build, {"dsl.java.defects": "keep"})
    assert warning.what == "java-defect"
    assert "as in Kafka Streams" in warning.text
    assert found(build) == []  # Here they are right.


@pytest.mark.parametrize(
    ("build", "topics"),
    [
        (lambda b: b.stream("a").to("a"), "topic 'a'"),
        (lambda b: (b.stream("a").to("b"), b.stream("b").filter(lambda k, v: v).to("a"), None)[-1], "by way of 'b'"),
        (lambda b: b.stream("a").to(by_value, topics=["a", "b"]), "topic 'a'"),
    ],
)
def test_a_sink_that_writes_to_its_own_input_is_named(build: Build, topics: str) -> None:
    (warning,) = found(build)
    assert warning.what == "cycle"
    assert topics in warning.text
    assert f"{__name__.rpartition('.')[2]}.py:" in warning.text


def test_topics_between_parts_of_a_topology_are_not_a_cycle() -> None:
    def build(builder: StreamsBuilder) -> None:
        builder.stream("a").to("b")
        builder.stream("b").group_by(lambda k, v: v).count().to_stream().to("c")
        builder.stream("c").to("d")

    assert found(build) == []


def test_a_warning_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("in")
    with caplog.at_level(logging.WARNING, "streams.topology"):
        topology = builder.build()
        warnings_of(topology)
    (line,) = caplog.records
    assert "sink 'KSTREAM-SINK-0000000001' writes to topic 'in'" in line.getMessage()


def test_an_initial_value_instead_of_a_function_is_refused_with_the_right_form() -> None:
    grouped = StreamsBuilder().stream("in").group_by_key()
    with pytest.raises(Exception, match="got \\[\\]: give list, which makes a new one for each key"):
        grouped.aggregate([], extended)  # type: ignore[arg-type]
    with pytest.raises(Exception, match="such as lambda: 0"):
        grouped.aggregate(0, lambda k, v, a: a + 1)  # type: ignore[arg-type]
