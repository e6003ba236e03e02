"""Orders as pydantic models: the turnover of each customer, from `orders` to `turnovers`.

The models are the schema: a value that does not fit is refused when it is read, and the type checker finds a misspelt
field in this file. Amounts are decimals, written as text, so that no cent is lost.
"""

from decimal import Decimal

from pydantic import BaseModel, Field

from streams import Grouped, Materialized, Serdes, StreamsBuilder, pydantic_serde, run


class Order(BaseModel):
    customer: str
    amount: Decimal = Field(gt=0)
    paid: bool = False


class Turnover(BaseModel):
    orders: int = 0
    amount: Decimal = Decimal(0)

    def plus(self, order: Order) -> "Turnover":
        return Turnover(orders=self.orders + 1, amount=self.amount + order.amount)


TEXT, ORDER, TURNOVER = Serdes.STRING, pydantic_serde(Order), pydantic_serde(Turnover)


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    orders = builder.stream("orders", key_serde=TEXT, value_serde=ORDER)
    paid = orders.filter(lambda _, order: order.paid)
    by_customer = paid.group_by(lambda _, order: order.customer, Grouped(key_serde=TEXT, value_serde=ORDER))
    turnovers = by_customer.aggregate(
        Turnover,
        lambda _, order, turnover: turnover.plus(order),
        materialized=Materialized(name="turnovers", key_serde=TEXT, value_serde=TURNOVER),
    )
    turnovers.to_stream().to("turnovers", key_serde=TEXT, value_serde=TURNOVER)
    return builder


if __name__ == "__main__":
    run(topology)
