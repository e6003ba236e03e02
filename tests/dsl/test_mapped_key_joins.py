"""Joins of a stream with a global table whose joiner takes the key that was selected (KIP-1340)."""

from __future__ import annotations

from typing import Any

import pytest

from dsl import StreamsBuilder
from processor_api.errors import ProcessingError, TopologyError
from streams.testing.driver import TopologyTestDriver

STRINGS = {"default.key.serde": "string", "default.value.serde": "string"}


def told(key: Any, mapped_key: Any, value: Any, other: Any) -> str:
    return f"{key}>{mapped_key}: {value}+{other}"


def city(key: Any, value: str) -> str | None:
    return None if value == "nowhere" else value


def results(left: bool, joiner: Any = told) -> list[tuple[Any, Any]]:
    builder = StreamsBuilder()
    people: Any = builder.stream("people")
    join = people.left_join_with_mapped_key if left else people.join_with_mapped_key
    join(builder.global_table("cities"), joiner, key_selector=city, name="j").to("out")
    with TopologyTestDriver(builder.build(), STRINGS) as driver:
        driver.create_input_topic("cities").pipe_input("Oslo", "Norway")
        given = [("ann", "Oslo"), ("bob", "Rome"), ("cay", "nowhere"), (None, "Oslo"), ("dan", None)]
        driver.create_input_topic("people").pipe_key_values(given)
        return driver.create_output_topic("out").read_key_values()


def test_an_inner_join_has_the_records_with_a_row() -> None:
    assert results(left=False) == [("ann", "ann>Oslo: Oslo+Norway"), (None, "None>Oslo: Oslo+Norway")]


def test_a_left_join_keeps_records_without_a_row_or_a_selected_key() -> None:
    assert results(left=True) == [
        ("ann", "ann>Oslo: Oslo+Norway"),
        ("bob", "bob>Rome: Rome+None"),
        ("cay", "cay>None: nowhere+None"),
        (None, "None>Oslo: Oslo+Norway"),
    ]


def test_a_joiner_that_raises_names_the_operator() -> None:
    with pytest.raises(ProcessingError, match="ZeroDivisionError in node 'j'"):
        results(True, lambda key, mapped_key, value, other: 1 // 0)


def test_its_names_are_those_of_other_joins_with_a_global_table() -> None:
    def text(call: str, joiner: Any) -> str:
        builder = StreamsBuilder()
        getattr(builder.stream("in"), call)(builder.global_table("g"), joiner, key_selector=city).to("out")
        return builder.build().describe()

    assert text("join_with_mapped_key", told) == text("join", lambda value, other: value)


def test_only_a_global_table_has_a_mapped_key() -> None:
    builder = StreamsBuilder()
    stream: Any = builder.stream("in")
    for other in (stream, builder.table("t"), 5):
        with pytest.raises(TopologyError, match="receives a mapped key in joins with a global table only"):
            stream.join_with_mapped_key(other, told, key_selector=city)
    with pytest.raises(TopologyError, match=r"its joiner with \(key, mapped_key, value, other\)"):
        stream.join_with_mapped_key(builder.global_table("g"), lambda key, value, other: key, key_selector=city)
