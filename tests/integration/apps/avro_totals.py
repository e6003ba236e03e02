"""What each customer has ordered, in all and by minute, in Avro, with a record as key.

The same topology in Java is ``tests/golden/recorder/src/main/java/shop/Totals.java``.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from streams import Avro, AvroType, Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows

TEXT = Serdes.STRING


@dataclass
class Order:
    id: str
    customer: str
    cents: int


@dataclass
class Customer:
    name: str


@dataclass
class Total:
    orders: Annotated[int, AvroType("int")]
    cents: int
    last: str | None = None
    largest: int = 0
    """The largest order since this application adds them up, which Java did not note."""


KEYS = Avro(Customer, name="com.shop.Customer", use_latest_version="OWN_KEYS" not in os.environ)
"""Keys with the schema of Java, and so with its id: equal keys need equal bytes."""
ORDERS = Avro(Order, name="com.shop.Order")
TOTALS = Avro(Total, name="com.shop.Total")


def add(customer: Customer, order: Order, total: Total) -> Total:
    return Total(total.orders + 1, total.cents + order.cents, order.id, max(total.largest, order.cents))


def text(total: Total) -> str:
    return f"{total.orders}:{total.cents}:{total.last}"


def topology() -> StreamsBuilder:
    """The environment names the topics."""
    builder = StreamsBuilder()
    by_customer = builder.stream(os.environ["ORDERS"], Consumed(key_serde=TEXT, value_serde=ORDERS)).group_by(
        lambda id, order: Customer(order.customer), Grouped(name="by-customer", key_serde=KEYS, value_serde=ORDERS)
    )
    stored = {"key_serde": KEYS, "value_serde": TOTALS}
    totals = by_customer.aggregate(lambda: Total(0, 0), add, materialized=Materialized(name="totals", **stored))
    texts = Produced(key_serde=TEXT, value_serde=TEXT)
    totals.to_stream(lambda customer, total: customer.name).map_values(text).to(os.environ["TOTALS"], texts)
    minutes = by_customer.windowed_by(TimeWindows.of_size_and_grace(timedelta(minutes=1), timedelta(hours=1)))
    counts = minutes.aggregate(
        lambda: Total(0, 0), add, name="by-minute", materialized=Materialized(name="minutes", **stored)
    )
    counts.to_stream(lambda customer, total: f"{customer.key.name}@{customer.window.start}").map_values(text).to(
        os.environ["MINUTES"], texts
    )
    return builder
