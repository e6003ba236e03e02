"""Joins of two tables that are made of one table, against a recomputation and against Kafka Streams' results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import Grouped, KTable, Materialized, StreamsBuilder
from processor_api.serde import Serdes
from streams.testing import TopologyTestDriver

S = Serdes.STRING
KEEP = {"dsl.java.defects": "keep"}
Table = KTable[str, str]
Rows = dict[str, str]

OTHERS: dict[str, tuple[Callable[[Table], Table], Callable[[Rows], Rows]]] = {
    "itself": (lambda table: table, dict),
    "mapped": (
        lambda table: table.map_values(str.upper),
        lambda rows: {key: value.upper() for key, value in rows.items()},
    ),
    "filtered": (
        lambda table: table.filter(lambda key, value: value != "b"),
        lambda rows: {key: value for key, value in rows.items() if value != "b"},
    ),
    "stored": (
        lambda table: table.map_values(str.upper, materialized=Materialized(name="m", caching=False)),
        lambda rows: {key: value.upper() for key, value in rows.items()},
    ),
    "joined": (
        lambda table: table.join(table.map_values(str.upper), lambda one, other: one + other),
        lambda rows: {key: value + value.upper() for key, value in rows.items()},
    ),
    "renewed": (lambda table: table.to_stream().to_table(materialized=Materialized(name="m", caching=False)), dict),
}
"""The other table, and its rows by those of the first."""
KINDS = ["join", "left_join", "outer_join"]
Given = list[tuple[str, str | None]]
changes = st.lists(st.tuples(st.sampled_from("xy"), st.none() | st.sampled_from("abc")), min_size=1, max_size=15)


def plus(one: str | None, other: str | None) -> str:
    return f"{one}+{other}"


def run(
    name: str, kind: str, given: Given, config: dict[str, Any], *, turned: bool = False
) -> tuple[list[tuple[str, str | None]], Rows]:
    """Returns what the join sends on, and how often each of its values is counted in the end."""
    builder = StreamsBuilder()
    table: Table = builder.table("in", materialized=Materialized(name="t", key_serde=S, value_serde=S))
    other = OTHERS[name][0](table)
    one, two = (other, table) if turned else (table, other)
    joined: KTable[str, Any] = getattr(one, kind)(two, plus)
    joined.to_stream().to("joined")
    groups = joined.group_by(lambda key, value: (value, value), Grouped(key_serde=S, value_serde=S))
    groups.count().to_stream().map_values(str).to("counts")
    settings = {"default.key.serde": S, "default.value.serde": S, **config}
    with TopologyTestDriver(builder, settings) as driver:
        for time, (key, value) in enumerate(given):
            driver.create_input_topic("in").pipe_input(key, value, timestamp=time)
        sent = driver.create_output_topic("joined").read_key_values()
        counts = dict(driver.create_output_topic("counts").read_key_values())
    return sent, {value: count for value, count in counts.items() if count not in (None, "0")}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OTHERS)
@given(given=changes)
@settings(max_examples=10)
def test_the_last_results_are_those_of_the_last_rows(name: str, kind: str, turned: bool, given: Given) -> None:
    """An inner join kept deleted rows for ever, and a count of its values counted some twice and some not at all."""
    rows = dict(given)
    first = {key: value for key, value in rows.items() if value is not None}
    other = OTHERS[name][1](first)
    one, two = (other, first) if turned else (first, other)
    keys = {"join": one.keys() & two.keys(), "left_join": one.keys(), "outer_join": one.keys() | two.keys()}[kind]
    wanted = {key: plus(one.get(key), two.get(key)) for key in keys}
    for cache in (0, 1 << 20):
        sent, counts = run(name, kind, given, {"statestore.cache.max.bytes": cache}, turned=turned)
        assert {key: value for key, value in dict(sent).items() if value is not None} == wanted
        assert counts == {value: str(count) for value, count in Counter(wanted.values()).items()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["itself", "mapped", "filtered", "stored"])
@given(given=changes)
@settings(max_examples=10)
def test_new_results_are_those_of_kafka_streams(name: str, kind: str, given: Given) -> None:
    """In the same order and number; only deletions come in addition."""
    config = {"statestore.cache.max.bytes": 0}
    cured, kept = (run(name, kind, given, {**config, **more})[0] for more in ({}, KEEP))
    assert [one for one in cured if one[1] is not None] == [one for one in kept if one[1] is not None]
    assert len(cured) >= len(kept)


def test_the_defect_can_be_kept() -> None:
    given: Given = [("x", "a"), ("x", None)]
    assert run("itself", "join", given, {})[0][-1] == ("x", None)
    assert run("itself", "join", given, KEEP)[0] == [("x", "a+a")] * 2
