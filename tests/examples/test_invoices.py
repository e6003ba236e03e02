"""examples/13_schema_registry"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from types import ModuleType
from typing import Any

from streams import SchemaRegistry


def test_each_customer_has_an_invoice_under_javas_names(
    script: Callable[[str], ModuleType], start: Callable[..., Any]
) -> None:
    invoices = script("13_schema_registry/invoices")
    driver = start(invoices.topology(), {"schema.registry.url": "mock://invoices"})
    tea = invoices.Item("tea", 2, Decimal("1.25"))
    topic = driver.create_input_topic("orders")
    topic.pipe_input("1", invoices.Order("ann", [tea]))
    topic.pipe_input("2", invoices.Order("ann", [tea, tea], "SPRING"))
    assert driver.create_output_topic("invoices").read_key_values() == [
        ("ann", invoices.Invoice(1, Decimal("2.50"), [])),
        ("ann", invoices.Invoice(2, Decimal("7.50"), ["SPRING"])),
    ]
    client = SchemaRegistry("mock://invoices").client
    assert set(client.subjects()) == {
        "orders-value", "invoices-value", "app-by-customer-repartition-value", "app-invoices-changelog-value",
    }  # fmt: skip
    assert json.loads(client.latest("orders-value").schema.text)["name"] == "com.shop.Order"
