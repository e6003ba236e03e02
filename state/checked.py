"""Serdes of a store whose failures name the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StoreError
from processor_api.serde import Serde

__all__ = ["key_writer", "reader", "value_writer"]


def reader(serde: Serde[Any], part: str, store: str) -> Callable[[bytes], Any]:
    """``deserialize`` of a key or a value."""
    deserialize = serde.deserialize

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except Exception as error:
            raise StoreError(
                f"store {store!r}: the {serde.name} serde cannot read the {part}: {error}", store=store
            ) from error

    return read


def key_writer(serde: Serde[Any], store: str) -> Callable[[Any], bytes]:
    """``serialize`` of a key, which is never ``None``."""
    serialize = serde.serialize

    def write(key: Any) -> bytes:
        if key is None:
            raise StoreError(f"store {store!r} takes no null keys", store=store)
        try:
            return serialize(key)
        except Exception as error:
            raise StoreError(
                f"store {store!r}: the {serde.name} serde cannot write the key: {error}", store=store, key=key
            ) from error

    return write


def value_writer(serde: Serde[Any], store: str) -> Callable[[Any], bytes | None]:
    """``serialize`` of a value; ``None`` stays ``None``."""
    serialize = serde.serialize

    def write(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return serialize(value)
        except Exception as error:
            raise StoreError(
                f"store {store!r}: the {serde.name} serde cannot write the value: {error}", store=store
            ) from error

    return write
