"""The error of a query to a custom store: only its task reads it."""

from __future__ import annotations

from typing import Any

from processor_api.stores.builder import StoreBuilder
from processor_api.stores.suppliers import CustomStoreSupplier


def unreadable(store: str) -> str:
    """Returns the text of the error for another thread that reads a custom store."""
    return (
        f"store {store!r} is a store of the user's own, which only its task reads: other threads cannot, since nothing"
        " makes its calls safe for them. For queries keep the rows in a store of Stores; it may be on a storage engine"
        " of your own"
    )


def why_unreadable(builder: StoreBuilder[Any, Any]) -> str | None:
    """Returns why other threads cannot read a store; ``None`` if its kind decides.

    :param builder: of a store of any kind: a byte store with serdes is of the same kind as one on an engine.
    """
    return unreadable(builder.name) if isinstance(builder.supplier, CustomStoreSupplier) else None
