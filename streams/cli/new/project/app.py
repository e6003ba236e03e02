"""The revenue of each customer, from topic `orders` to `revenue-by-customer`."""

from typing import Any

from pydantic import BaseModel, PositiveInt

from streams import Materialized, StreamsBuilder, run

settings: dict[str, Any] = {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "my-application-dead-letters",
}
"""A bad record does not stop the application: it goes to the dead-letter topic."""


class Order(BaseModel):
    customer: str
    cents: PositiveInt


class Revenue(BaseModel):
    orders: int = 0
    cents: int = 0

    def plus(self, order: Order) -> "Revenue":
        return Revenue(orders=self.orders + 1, cents=self.cents + order.cents)


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde=Order)
    by_customer = builder.stream("orders").group_by(lambda _, order: order.customer)
    revenue = by_customer.aggregate(
        Revenue,
        lambda _, order, revenue: revenue.plus(order),
        materialized=Materialized(name="revenue", value_serde=Revenue),
    )
    revenue.to_stream().to("revenue-by-customer", value_serde=Revenue)
    return builder


if __name__ == "__main__":
    run(topology, settings)
