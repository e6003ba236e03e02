"""One of each kind of stateful operator over orders and payments of customers; texts throughout.

Results that are determined record by record go to one topic, rows of tables to another, under keys that begin with the
operator's name.
"""

import os
import time
from pathlib import Path
from typing import Any

from streams import (
    BufferConfig,
    Consumed,
    Grouped,
    JoinWindows,
    KStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    Stores,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)

TEXT = Serdes.STRING
READ: Consumed[str, str] = Consumed(key_serde=TEXT, value_serde=TEXT)
WRITTEN: Produced[str, str] = Produced(key_serde=TEXT, value_serde=TEXT)
GROUPED: Grouped[str, str] = Grouped(key_serde=TEXT, value_serde=TEXT)
WITHIN_MS = 25
GRACE_MS = 30
HISTORY_MS = 86_400_000
WAIT = "wait:"
"""An order with this value, and a name, is where a worker waits until a file of that name is there."""


def wait(_: str, order: str) -> None:
    if order.startswith(WAIT) and "GATES" in os.environ:
        gate = Path(os.environ["GATES"]) / order.removeprefix(WAIT)
        Path(f"{gate}-{os.getpid()}").touch()
        while not gate.exists():
            time.sleep(0.02)


def kept(name: str) -> Materialized[Any, Any]:
    return Materialized(name=name, key_serde=TEXT, value_serde=TEXT)


def region_of(order: str) -> str | None:
    """``number:region``; what is no order has none."""
    _, _, region = order.partition(":")
    return region or None


def add_order(_: str, order: str, counts: str) -> str:
    orders, payments = counts.split("/")
    return f"{int(orders) + 1}/{payments}"


def add_payment(_: str, payment: str, counts: str) -> str:
    orders, payments = counts.split("/")
    return f"{orders}/{int(payments) + 1}"


def add_operators(
    orders: KStream[str, str], payments: KStream[str, str], rates: KTable[str, str], regions: KTable[str, str]
) -> tuple[dict[str, KStream[str, str]], dict[str, KTable[Any, Any]]]:
    """Streams of results, and tables, by the names of operators."""
    groups, paid = orders.group_by_key(GROUPED), payments.group_by_key(GROUPED)
    windows = TimeWindows.of_size_and_grace(40, GRACE_MS)
    near = JoinWindows.of_time_difference_and_grace(20, GRACE_MS)
    counts = groups.windowed_by(windows).count(materialized=Materialized(name="tumbling", key_serde=TEXT))
    closed = counts.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()).with_name("closed"))
    streams = {
        "paid": orders.outer_join(payments, "{}+{}".format, windows=near, joined="paid"),
        "rated": orders.left_join(rates, "{}*{}".format, joined="rated"),
        "once": orders.deduplicate(within=WITHIN_MS, name="once", materialized="once"),
        "batch": orders.map_values_batch(lambda values: [value.upper() for value in values], name="batch"),
        "final": closed.to_stream(lambda w, v: f"{w.key}@{w.window.start}").map_values(str),
    }
    tables: dict[str, KTable[Any, Any]] = {
        "hops": groups.windowed_by(windows.advance_by(20)).count(
            materialized=Materialized(name="hops", key_serde=TEXT)
        ),
        "sessions": groups.windowed_by(SessionWindows.of_inactivity_gap_and_grace(15, GRACE_MS)).count(
            materialized=Materialized(name="sessions", key_serde=TEXT)
        ),
        "both": groups.cogroup(add_order)
        .cogroup(paid, add_payment)
        .aggregate(lambda: "0/0", materialized=kept("both")),
        "regions": orders.to_table(materialized=kept("latest")).foreign_key_left_join(
            regions, region_of, "{}@{}".format, joined="regions", materialized=kept("in-regions")
        ),
    }
    return streams, tables


def told(key: Any) -> str:
    window = getattr(key, "window", None)
    return str(key) if window is None else f"{key.key}@{window.start}-{window.end}"


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    orders = builder.stream(os.environ["ORDERS"], READ).peek(wait)
    payments = builder.stream(os.environ["PAYMENTS"], READ)
    versions = Materialized(supplier=Stores.persistent_versioned_key_value_store("rates", HISTORY_MS))
    rates = builder.table(os.environ["RATES"], READ, materialized=versions)
    regions = builder.table(os.environ["REGIONS"], READ, materialized=kept("names"))
    streams, tables = add_operators(orders, payments, rates, regions)
    for name, stream in streams.items():
        named = stream.select_key(lambda key, value, name=name: f"{name} {key}")
        named.to(os.environ["EVENTS"], WRITTEN)
    for name, table in tables.items():
        rows = table.to_stream(lambda key, value, name=name: f"{name} {told(key)}")
        rows.map_values(lambda value: None if value is None else str(value)).to(os.environ["TABLES"], WRITTEN)
    return builder
