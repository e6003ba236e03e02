"""Keeps the revenue of each shop, in all and by the hour."""

from datetime import timedelta

from streams import Materialized, Serdes, StreamsBuilder, TimeWindows, json_serde, run

TEXT, NUMBER, JSON = Serdes.STRING, Serdes.LONG, json_serde()

HOURS = TimeWindows.of_size_and_grace(timedelta(hours=1), grace=timedelta(days=1))


def add(shop: str, order: dict[str, int], cents: int) -> int:
    """Returns the revenue with another order."""
    return cents + order["cents"]


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde=TEXT, value_serde=JSON).group_by_key()
    total = Materialized(name="revenue", key_serde=TEXT, value_serde=NUMBER)
    totals = orders.aggregate(lambda: 0, add, materialized=total)
    totals.to_stream().to("revenue-by-shop", key_serde=TEXT, value_serde=NUMBER)
    orders.windowed_by(HOURS).aggregate(
        lambda: 0, add, materialized=Materialized(name="revenue-by-hour", key_serde=TEXT, value_serde=NUMBER)
    )
    return builder


if __name__ == "__main__":
    run(topology)
