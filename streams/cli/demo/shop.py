"""Counts orders, sums them up by minute, and bills them: a count, a window and a join."""

from datetime import timedelta

from streams import StreamsBuilder, TimeWindows

builder = StreamsBuilder(key_serde="string", value_serde="long")
orders = builder.stream("orders")
names = builder.table("customers", value_serde="string")
minutes = TimeWindows.of_size_with_no_grace(timedelta(minutes=1))

each = orders.group_by_key()
each.count().to_stream().to("orders-by-customer")
each.windowed_by(minutes).reduce(lambda one, other: one + other).to_stream().to("cents-by-minute")
bills = orders.join(names, lambda cents, name: f"{name} pays {cents}")
bills.to("bills", value_serde="string")
