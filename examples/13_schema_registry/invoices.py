"""Avro with a schema registry: an invoice for each customer, from `orders` to `invoices`.

The registry comes from the settings: `schema.registry.url`.
"""

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated

from streams import Avro, AvroType, StreamsBuilder, run

Money = Annotated[Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2})]


@dataclass
class Item:
    sku: str
    count: Annotated[int, AvroType("int")]
    price: Money


@dataclass
class Order:
    customer: str
    items: list[Item]
    voucher: str | None = None


@dataclass
class Invoice:
    orders: int = 0
    total: Money = Decimal("0.00")
    vouchers: list[str] = field(default_factory=list)

    def plus(self, order: Order) -> "Invoice":
        total = sum((item.count * item.price for item in order.items), self.total)
        vouchers = self.vouchers if order.voucher is None else [*self.vouchers, order.voucher]
        return Invoice(self.orders + 1, total, vouchers)


ORDERS = Avro(Order, name="com.shop.Order")
INVOICES = Avro(Invoice, name="com.shop.Invoice")


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string")
    orders = builder.stream("orders", value_serde=ORDERS)
    by_customer = orders.group_by(lambda _, order: order.customer, "by-customer", value_serde=ORDERS)
    invoices = by_customer.aggregate(
        Invoice, lambda _, order, invoice: invoice.plus(order), materialized="invoices", value_serde=INVOICES
    )
    invoices.to_stream().to("invoices")
    return builder


if __name__ == "__main__":
    run(topology)
