"""examples/03_orders_pydantic"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

import pytest

from processor_api.errors import DeserializationError
from processor_api.serde import Serdes


def test_paid_orders_are_summed_up_for_each_customer(
    script: Callable[[str], ModuleType], start: Callable[..., Any]
) -> None:
    orders = script("03_orders_pydantic/orders")
    driver = start(orders.topology())
    sent = driver.create_input_topic("orders", Serdes.STRING, orders.Order)
    turnovers = driver.create_output_topic("turnovers", Serdes.STRING, orders.Turnover)
    for number, (customer, amount, paid) in enumerate(
        [("ann", "12.50", True), ("bob", "3.10", True), ("ann", "99", False), ("ann", "0.01", True)]
    ):
        order = orders.Order(customer=customer, amount=Decimal(amount), paid=paid)
        sent.pipe_input(f"order-{number}", order, number)
    assert turnovers.read_key_values() == [
        ("ann", orders.Turnover(orders=1, amount=Decimal("12.50"))),
        ("bob", orders.Turnover(orders=1, amount=Decimal("3.10"))),
        ("ann", orders.Turnover(orders=2, amount=Decimal("12.51"))),
    ]


@pytest.mark.parametrize("bad", [b'{"amount": "1"}', b'{"customer": "ann", "amount": 0}', b"nonsense"])
def test_what_is_no_order_is_named(bad: bytes, script: Callable[[str], ModuleType], start: Callable[..., Any]) -> None:
    """By topic, partition and offset."""
    driver = start(script("03_orders_pydantic/orders").topology())
    with pytest.raises(DeserializationError) as caught:
        driver.pipe_raw("orders", b"order-1", bad, 0)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("orders", 0, 0)
