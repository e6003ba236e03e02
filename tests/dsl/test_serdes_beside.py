"""Serdes stand in the call itself: no options are needed around them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from processor_api.errors import TopologyError
from streams import Consumed, Grouped, Materialized, Produced, Repartitioned, StreamsBuilder, TopologyTestDriver


class Order(BaseModel):
    item: str
    cents: int


def test_a_stream_is_read_and_written_by_serdes_in_the_call() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde="string", value_serde=Order)
    orders.map_values(lambda order: order.cents).to("cents", value_serde="long")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("orders", "string", Order).pipe_input("ann", Order(item="tea", cents=320))
        assert driver.create_output_topic("cents", "string", "long").read_key_values() == [("ann", 320)]


@pytest.mark.parametrize("call", ["table", "global_table"])
def test_a_table_is_read_by_serdes_in_the_call(call: str) -> None:
    builder = StreamsBuilder()
    rows: Any = getattr(builder, call)("rows", key_serde="string", value_serde="long", materialized="rows")
    orders = builder.stream("orders", key_serde="string", value_serde="string")
    more = {"key_selector": lambda key, value: key} if call == "global_table" else {}
    orders.join(rows, lambda item, cents: f"{item} {cents}", **more).to("priced", key_serde="string")
    with TopologyTestDriver(builder, {"default.value.serde": "string"}) as driver:
        driver.create_input_topic("rows", "string", "long").pipe_input("ann", 3)
        driver.create_input_topic("orders", "string", "string").pipe_input("ann", "tea")
        assert driver.create_output_topic("priced", "string", "string").read_key_values() == [("ann", "tea 3")]


def test_groups_and_aggregates_take_serdes_in_the_call() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde="string", value_serde=Order)
    cents = orders.group_by(lambda _, order: order.item, "by-item", key_serde="string", value_serde=Order)
    spent = cents.aggregate(lambda: 0, lambda _, order, total: total + order.cents, value_serde="long")
    spent.to_stream().to("spent")
    with TopologyTestDriver(builder) as driver:
        source = driver.create_input_topic("orders", "string", Order)
        source.pipe_input("ann", Order(item="tea", cents=3))
        source.pipe_input("bob", Order(item="tea", cents=4))
        assert driver.create_output_topic("spent", "string", "long").read_key_values() == [("tea", 3), ("tea", 7)]


def test_groups_of_tables_and_repartitions_take_serdes_in_the_call() -> None:
    builder = StreamsBuilder()
    cities = builder.table("cities", key_serde="string", value_serde="string")
    people = cities.group_by(lambda name, city: (city, name), key_serde="string", value_serde="string")
    people.aggregate(
        list, lambda _, one, all_: [*all_, one], lambda _, one, all_: all_, value_serde="json"
    ).to_stream().to("people")
    lengths = builder.stream("words", key_serde="string", value_serde="string").map(lambda _, word: (word, len(word)))
    lengths.repartition(key_serde="string", value_serde="integer").group_by_key(
        value_serde="integer"
    ).count().to_stream().to("counts")
    with TopologyTestDriver(builder) as driver:
        driver.create_input_topic("cities", "string", "string").pipe_input("ann", "Rome")
        driver.create_input_topic("words", "string", "string").pipe_input("x", "tea")
        assert driver.create_output_topic("people", "string", "json").read_key_values() == [("Rome", ["ann"])]
        assert driver.create_output_topic("counts", "string", "long").read_key_values() == [("tea", 1)]


def test_other_options_stay_beside_them() -> None:
    builder = StreamsBuilder()
    builder.stream("orders", Consumed(name="read"), value_serde="string").to("out", Produced(name="write"))
    assert {"read", "write"} <= builder.build().nodes.keys()


@pytest.mark.parametrize(
    ("call", "given"),
    [
        ("stream", lambda builder: builder.stream("a", Consumed(key_serde="string"), key_serde="long")),
        ("table", lambda builder: builder.table("a", Consumed(value_serde="string"), value_serde="long")),
        ("global_table", lambda builder: builder.global_table("a", Consumed(value_serde="string"), value_serde="long")),
        ("to", lambda builder: builder.stream("a").to("b", Produced(key_serde="string"), key_serde="string")),
        ("group_by_key", lambda b: b.stream("a").group_by_key(Grouped(key_serde="string"), key_serde="string")),
        ("group_by", lambda b: b.stream("a").group_by(max, Grouped(key_serde="string"), key_serde="string")),
        ("group_by", lambda b: b.table("a").group_by(max, Grouped(key_serde="string"), key_serde="string")),
        ("repartition", lambda b: b.stream("a").repartition(Repartitioned(value_serde="long"), value_serde="string")),
        (
            "aggregate",
            lambda b: (
                b.stream("a")
                .group_by_key()
                .aggregate(list, max, materialized=Materialized(value_serde="long"), value_serde="json")
            ),
        ),
    ],
)
def test_a_serde_in_both_places_is_refused(call: str, given: Any) -> None:
    options = "Consumed|Produced|Grouped|Repartitioned|Materialized"
    with pytest.raises(TopologyError, match=rf"^{call} has two values for (key|value)_serde, one in ({options})"):
        given(StreamsBuilder())


def test_what_is_no_serde_is_refused_by_its_name() -> None:
    with pytest.raises(TopologyError, match="value_serde"):
        StreamsBuilder().stream("a", value_serde="strange")
