"""The ``repr`` of streams, tables and groups says which node each is, and which serdes, store and windows are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dsl import (
    Branched,
    Consumed,
    EmitStrategy,
    KStream,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
)
from processor_api.serde import Serdes

GAP = SessionWindows.of_inactivity_gap_with_no_grace(5)
SECONDS = TimeWindows.of_size_with_no_grace(1000)
Orders = KStream[str, int]

CASES: dict[str, Callable[[StreamsBuilder, Orders], Any]] = {
    "KStream(orders, key=string, value=long)": lambda b, orders: orders,
    "KStream(KSTREAM-MAPVALUES-0000000001, key=string)": lambda b, orders: orders.map_values(str),
    "KStream(once, key=string, value=long)": lambda b, orders: orders.deduplicate(within=5, name="once"),
    "KStream(scored, key=string)": lambda b, orders: orders.map_values_batch(list, name="scored"),
    "BranchedKStream(by-, by-big)": lambda b, orders: orders.split(name="by-").branch(bool, named("big")),
    "KTable(KTABLE-SOURCE-0000000003)": lambda b, orders: b.table("t"),
    "KTable(t, key=string, value=string, store=names)": lambda b, orders: b.table(
        "t", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING, name="t"), materialized="names"
    ),
    "GlobalKTable(KTABLE-SOURCE-0000000002, value=long, store=g)": lambda b, orders: b.global_table(
        "t", materialized=Materialized(name="g", value_serde=Serdes.LONG)
    ),
    "KGroupedStream(orders, key=string, value=long)": lambda b, orders: orders.group_by_key(),
    "KGroupedTable(KTABLE-SELECT-0000000004)": lambda b, orders: b.table("t").group_by(lambda k, v: (v, k)),
    "KTable(KSTREAM-AGGREGATE-0000000001, key=string, value=long, store=counts)": lambda b, orders: (
        orders.group_by_key().count(materialized="counts")
    ),
    "TimeWindowedKStream(orders, key=string, value=long, TimeWindows(size_ms=1000, grace_ms=0, advance_ms=1000))": (
        lambda b, orders: orders.group_by_key().windowed_by(SECONDS)
    ),
    "TimeWindowedKStream(orders, key=string, value=long, SlidingWindows(difference_ms=5, grace_ms=7), on window"
    " close)": (
        lambda b, orders: (
            orders.group_by_key()
            .windowed_by(SlidingWindows.of_time_difference_and_grace(5, 7))
            .emit_strategy(EmitStrategy.on_window_close())
        )
    ),
    "TimeWindowedKStream(orders, key=string, value=long, UnlimitedWindows(start_ms=0))": lambda b, orders: (
        orders.group_by_key().windowed_by(UnlimitedWindows.of())
    ),
    "SessionWindowedKStream(orders, key=string, value=long, SessionWindows(gap_ms=5, grace_ms=0))": lambda b, orders: (
        orders.group_by_key().windowed_by(GAP)
    ),
    "KTable(sums, key=session-windowed string, value=long)": lambda b, orders: (
        orders.group_by_key().windowed_by(GAP).reduce(lambda one, other: one + other, name="sums")
    ),
    "CogroupedKStream(orders)": lambda b, orders: cogrouped(orders),
    "TimeWindowedCogroupedKStream(orders, TimeWindows(size_ms=1000, grace_ms=0, advance_ms=1000))": (
        lambda b, orders: cogrouped(orders).windowed_by(SECONDS)
    ),
    "SessionWindowedCogroupedKStream(orders, SessionWindows(gap_ms=5, grace_ms=0))": lambda b, orders: cogrouped(
        orders
    ).windowed_by(GAP),
}


def named(name: str) -> Any:
    return Branched.as_(name)


def cogrouped(orders: Orders) -> Any:
    return orders.group_by_key().cogroup(lambda key, cents, total: total)


@pytest.mark.parametrize("text", CASES)
def test_it_says_what_it_is(text: str) -> None:
    builder = StreamsBuilder()
    orders = builder.stream("in", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.LONG, name="orders"))
    assert repr(CASES[text](builder, orders)) == text
