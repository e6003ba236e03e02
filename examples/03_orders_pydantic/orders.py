"""Orders as pydantic models: the turnover of each customer, from `orders` to `turnovers`.

The models are the schema: a value that does not fit is refused when it is read, and the type checker finds a misspelt
field in this file. Amounts are decimals, written as text, so that no cent is lost.
"""

from decimal import Decimal

from pydantic import BaseModel, Field

from streams import Materialized, StreamsBuilder, run


class Order(BaseModel):
    customer: str
    amount: Decimal = Field(gt=0)
    paid: bool = False


class Turnover(BaseModel):
    orders: int = 0
    amount: Decimal = Decimal(0)

    def plus(self, order: Order) -> "Turnover":
        return Turnover(orders=self.orders + 1, amount=self.amount + order.amount)


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde=Order)
    paid = builder.stream("orders").filter(lambda _, order: order.paid)
    by_customer = paid.group_by(lambda _, order: order.customer)
    turnovers = by_customer.aggregate(
        Turnover,
        lambda _, order, turnover: turnover.plus(order),
        materialized=Materialized(name="turnovers", value_serde=Turnover),
    )
    turnovers.to_stream().to("turnovers", value_serde=Turnover)
    return builder


if __name__ == "__main__":
    run(topology)
