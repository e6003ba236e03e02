"""Each operator over a versioned table, given updates that are not the latest of their key (semantics 38, 39)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsl import BufferConfig, KTable, Materialized, StreamsBuilder, Suppressed, TimeWindows
from dsl.value_transformer import ValueTransformerWithKey
from processor_api.errors import TopologyError
from processor_api.serde import Serdes
from processor_api.stores.factory import Stores
from streams.testing import TopologyTestDriver

S = Serdes.STRING
SETTINGS = {"default.key.serde": S, "default.value.serde": S}
HISTORY = 60
OTHER = ("other", "o", 90)
UPDATES = [("in", "x1", 100), ("in", "x2", 120), ("in", "late", 110), ("in", "too old", 10), ("in", None, 115)]

Table = KTable[str, str]
Make = Callable[[StreamsBuilder, Table], KTable[Any, Any]]


def versioned(name: str) -> Materialized[Any, Any]:
    return Materialized(supplier=Stores.persistent_versioned_key_value_store(name, HISTORY))


class Upper(ValueTransformerWithKey[str, str, str]):
    def transform(self, key: str, value: str | None) -> str | None:
        return None if value is None else value.upper()


def by_value(table: KTable[str, str]) -> KTable[str, int]:
    return table.group_by(lambda key, value: (value, value)).count()


def run(make: Make, *before: tuple[str, str, int], serde: Any = S) -> tuple[list[tuple[Any, Any, Any]], float]:
    """Returns what comes of the updates, as (key, value, timestamp), and how many records were dropped."""
    builder = StreamsBuilder()
    table: Table = builder.table("in", materialized=versioned("in"))
    make(builder, table).to_stream().to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        for topic, value, time in [*before, *UPDATES]:
            driver.create_input_topic(topic).pipe_input("k", value, timestamp=time)
        found = driver.create_output_topic("out", S, serde).read_records()
        dropped = driver.metrics()["dropped-records-total"]
    return [(record.key, record.value, record.timestamp) for record in found], dropped


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda builder, table: table, ["x1", "x2", "late", None]),
        (lambda builder, table: table.filter(lambda key, value: True), ["x1", "x2", "late", None]),
        (lambda builder, table: table.filter(lambda key, value: False), [None, None, None, None]),
        (lambda builder, table: table.filter(lambda key, value: True, materialized="p"), ["x1", "x2", "late", None]),
        (lambda builder, table: table.map_values(str.upper), ["X1", "X2", "LATE", None]),
        (lambda builder, table: table.transform_values(Upper), ["X1", "X2", "LATE", None]),
    ],
    ids=["source", "filter", "filter-none", "filter-plain", "map-values", "transform-values"],
)
def test_all_but_what_is_too_old_is_forwarded_at_its_own_time(make: Make, values: list[str | None]) -> None:
    """A filter forwards deletions of what never passed too (semantics 32)."""
    times = [100, 120, 110, 115]
    assert run(make) == ([("k", value, time) for value, time in zip(values, times, strict=True)], 1)


LATEST = [("X1", 1, 100), ("X1", 0, 120), ("X2", 1, 120)]
"""Counts of values of which only the latest one is in a group."""
OVERWRITTEN = [*LATEST, ("X2", 0, 120), ("LATE", 1, 110), ("LATE", 0, 115)]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda builder, table: by_value(table.map_values(str.upper)), LATEST),
        (lambda builder, table: by_value(table.transform_values(Upper)), LATEST),
        (lambda builder, table: by_value(table.map_values(str.upper, materialized=versioned("v"))), LATEST),
        (lambda builder, table: by_value(table.map_values(str.upper, materialized="plain")), OVERWRITTEN),
    ],
    ids=["map-values", "transform-values", "versioned-store", "plain-store"],
)
def test_a_grouping_leaves_marked_updates_out_and_does_not_count_them(make: Make, expected: list[Any]) -> None:
    """A plain store in between removes the marks, and late updates overwrite."""
    assert run(make, serde=Serdes.LONG) == (expected, 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda builder, table: table.join(builder.table("other"), "{}{}".format),
        lambda builder, table: table.left_join(builder.table("other"), "{}{}".format),
        lambda builder, table: table.outer_join(builder.table("other"), "{}{}".format),
        lambda builder, table: table.foreign_key_join(builder.table("other"), lambda value: "k", "{}{}".format),
        lambda builder, table: table.foreign_key_left_join(builder.table("other"), lambda value: "k", "{}{}".format),
    ],
    ids=["inner", "left", "outer", "foreign-key", "foreign-key-left"],
)
def test_a_join_of_tables_drops_marked_updates_and_counts_them(make: Make) -> None:
    """Two, beside the one that is too old."""
    results, dropped = run(make, OTHER)
    of_updates = [result for result in results if result[2] > OTHER[2]]
    assert (of_updates, dropped) == ([("k", "x1o", 100), ("k", "x2o", 120)], 3)


@pytest.mark.parametrize("materialized", [None, "plain", versioned("result")], ids=["none", "plain", "versioned"])
def test_a_join_is_versioned_only_if_its_store_is(materialized: Any) -> None:
    """Only then a suppression of it is refused."""
    builder = StreamsBuilder()
    table: Table = builder.table("in", materialized=versioned("in"))
    joined = table.join(builder.table("other"), "{}{}".format, materialized=materialized)
    joined.suppress(Suppressed.until_time_limit(1, BufferConfig.unbounded()))
    if isinstance(materialized, Materialized):
        with pytest.raises(TopologyError, match="suppresses a versioned table"):
            builder.build()
    else:
        builder.build()


@pytest.mark.parametrize("kind", ["aggregate", "reduce", "of a table"])
def test_a_late_record_that_ends_an_aggregate_deletes_its_latest_version(kind: str) -> None:
    """The deletion has the time of the aggregate, as any other result (semantics 13); the next record begins anew."""

    def add(so_far: str, value: str) -> str | None:
        return None if value == "end" else so_far + value

    builder, store = StreamsBuilder(), versioned("texts")
    if kind == "of a table":
        groups = builder.table("in").group_by(lambda key, value: ("k", value))
        table = groups.aggregate(str, lambda k, v, so_far: add(so_far, v), lambda k, v, a: a, materialized=store)
    elif kind == "reduce":
        table = builder.stream("in").group_by_key().reduce(add, materialized=store)
    else:
        table = builder.stream("in").group_by_key().aggregate(str, lambda k, v, a: add(a, v), materialized=store)
    table.to_stream().to("out")
    with TopologyTestDriver(builder, {**SETTINGS, "changelog.updates": "each"}) as driver:
        for key, value, time in (("k", "x", 100), ("k", "y", 120), ("k", "end", 110), ("k", "z", 130)):
            driver.create_input_topic("in").pipe_input(
                f"{key}{time}" if "table" in kind else key, value, timestamp=time
            )
        found = driver.create_output_topic("out", S, S).read_records()
        assert [(one.value, one.timestamp) for one in found] == [("x", 100), ("xy", 120), (None, 120), ("z", 130)]
        (changelog,) = [rows for topic, rows in driver.take_produced().items() if topic.endswith("texts-changelog")]
        assert [(row[1], row[2]) for row in changelog] == [(b"x", 100), (b"xy", 120), (None, 120), (b"z", 130)]


def test_an_aggregation_may_have_a_versioned_store_but_not_with_windows() -> None:
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by_key()
    grouped.count(materialized=versioned("counts")).to_stream().to("out")
    with TopologyTestDriver(builder, SETTINGS) as driver:
        for time in (100, 120, 110):
            driver.create_input_topic("in").pipe_input("k", "v", timestamp=time)
        counts = driver.get_versioned_key_value_store("counts")
        assert [counts.get("k", time) for time in (99, 119)] == [None, counts.get("k", 100)]
        found = counts.get("k")
        assert found is not None
        assert (found.value, found.timestamp) == (3, 120)
    grouped.windowed_by(TimeWindows.of_size_with_no_grace(10)).count(materialized=versioned("windows"))
    with pytest.raises(TopologyError, match="a window store cannot be built from a versioned-key-value supplier"):
        builder.build()
