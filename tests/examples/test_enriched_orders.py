"""examples/10_joins"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture(name="pipe")
def pipe_fixture(script: Callable[[str], ModuleType], start: Callable[..., Any]) -> Callable[..., Any]:
    """``pipe("orders", key, value)`` returns what came out, by topic."""
    orders = script("10_joins/enriched_orders")
    driver = start(orders.topology())

    def pipe(topic: str, key: str, value: Any) -> dict[str, list[Any]]:
        driver.create_input_topic(topic, "string", "json").pipe_input(key, value, timestamp=0)
        outputs = ("orders-enriched", "orders-unknown-product")
        return {
            output: values
            for output in outputs
            if (values := driver.create_output_topic(output, "string", "json").read_values())
        }

    return pipe


def test_an_order_has_its_product_and_its_supplier(pipe: Callable[..., Any]) -> None:
    pipe("products", "p1", {"name": "Green tea", "supplier": "s1"})
    pipe("suppliers", "s1", {"name": "Leaves Ltd", "city": "Oslo"})
    found = {"order": 7, "product": "Green tea", "supplier": "Leaves Ltd", "city": "Oslo"}
    assert pipe("orders", "p1", {"order": 7}) == {"orders-enriched": [found]}


def test_a_supplier_who_moves_changes_later_orders_only(pipe: Callable[..., Any]) -> None:
    pipe("suppliers", "s1", {"name": "Leaves Ltd", "city": "Oslo"})
    pipe("products", "p1", {"name": "Green tea", "supplier": "s1"})
    assert pipe("orders", "p1", {"order": 1})["orders-enriched"][0]["city"] == "Oslo"
    assert pipe("suppliers", "s1", {"name": "Leaves Ltd", "city": "Rome"}) == {}
    assert pipe("orders", "p1", {"order": 2})["orders-enriched"][0]["city"] == "Rome"


def test_a_product_without_a_supplier_is_known(pipe: Callable[..., Any]) -> None:
    pipe("products", "p1", {"name": "Green tea", "supplier": "s9"})
    found = {"order": 7, "product": "Green tea", "supplier": None, "city": None}
    assert pipe("orders", "p1", {"order": 7}) == {"orders-enriched": [found]}


def test_an_order_of_an_unknown_product_goes_elsewhere(pipe: Callable[..., Any]) -> None:
    assert pipe("orders", "p1", {"order": 8}) == {"orders-unknown-product": [{"order": 8, "product": None}]}
