"""Adds to each order the name of its customer, from a table."""

from streams import StreamsBuilder

builder = StreamsBuilder(key_serde="string", value_serde="string")
customers = builder.table("customers")
builder.stream("orders").join(customers, lambda order, name: f"{name} buys {order}").to("bills")
