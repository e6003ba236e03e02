"""Adds to each order what it needs of two tables: the product, and the supplier that the product names.

The table of products is joined with that of suppliers by a foreign key, so that a supplier who moves changes all of its
products. Each order is then joined with the row of its product as it is at that moment; orders of products that are not
known go to a topic of their own.
"""

from typing import Any

from streams import Branched, StreamsBuilder, run

Json = dict[str, Any]


def with_supplier(product: Json, supplier: Json | None) -> Json:
    """Returns a product with its supplier's name and city; both are null while the supplier is not known."""
    found = supplier or {}
    return {"product": product["name"], "supplier": found.get("name"), "city": found.get("city")}


def with_product(order: Json, product: Json | None) -> Json:
    """Returns an order with what is known of its product."""
    return {**order, "product": None} if product is None else {**order, **product}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="json")
    products = builder.table("products", materialized="products")
    suppliers = builder.table("suppliers", materialized="suppliers")
    details = products.foreign_key_left_join(
        suppliers,
        lambda product: product["supplier"],
        with_supplier,
        joined="product-suppliers",
        materialized="product-details",
    )
    orders = builder.stream("orders").left_join(details, with_product, joined="order-products")
    known = orders.split(name="orders-").branch(lambda _, order: order["product"] is not None, Branched.as_("known"))
    parts = known.default_branch(Branched.as_("unknown"))
    parts["orders-known"].to("orders-enriched")
    parts["orders-unknown"].to("orders-unknown-product")
    return builder


if __name__ == "__main__":
    run(topology)
