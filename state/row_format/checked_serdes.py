"""Serdes of a store whose failures name the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.errors import StoreError, StreamsError, UnreachableError, outage_behind
from processor_api.serde import Serde, never_null
from processor_api.texts import error_text
from processor_api.user_code.given_serdes import SerdeLike, check_serde
from state.formats.keys import after_prefix


def unwritable(store: str, serde: Serde[Any], part: str, error: Exception, key: Any = None) -> StreamsError:
    """Returns the error of a serde that could not write a key or a value; behind an outage that of the outage.

    :param part: which of them.
    """
    if (outage := outage_behind(error)) is not None:
        return _away(outage, store)
    hint = (
        f"; for such a {part} give {part}_serde= to its builder or its Materialized"
        if isinstance(error, TypeError)
        else ""
    )
    message = f"store {store!r}: the {serde.name} serde cannot write the {part}: {error_text(error)}{hint}"
    return StoreError(message, store=store, key=key)


def _away(outage: UnreachableError, store: str) -> UnreachableError:
    return UnreachableError(f"store {store!r}: {outage.message}", **{**outage.place(), "store": store})


def reader(serde: Serde[Any], part: str, store: str) -> Callable[[bytes], Any]:
    """``deserialize`` of a key or a value."""
    deserialize = never_null(serde.deserialize)

    def read(data: bytes) -> Any:
        try:
            return deserialize(data)
        except Exception as error:
            if (outage := outage_behind(error)) is not None:
                raise _away(outage, store) from error
            raise StoreError(
                f"store {store!r}: the {serde.name} serde cannot read the {part}: {error_text(error)}", store=store
            ) from error

    return read


def key_writer(serde: Serde[Any], store: str) -> Callable[[Any], bytes]:
    """``serialize`` of a key, which is never ``None``."""
    serialize = never_null(serde.serialize)

    def write(key: Any) -> bytes:
        if key is None:
            raise StoreError(f"store {store!r} does not accept null keys", store=store)
        try:
            return serialize(key)
        except Exception as error:
            raise unwritable(store, serde, "key", error, key) from error

    return write


def prefix_bounds(
    prefix: Any, write_key: Callable[[Any], bytes], prefix_serde: SerdeLike[Any] | None, store: str
) -> tuple[bytes, bytes | None]:
    """Returns where the keys with a prefix begin, and where they have ended.

    :param write_key: the store's own, for a prefix without a serde of its own.
    :raises TopologyError: if what was given as its serde is none.
    """
    if prefix_serde is not None:
        serde = check_serde(prefix_serde, "prefix_serde", f"prefix_scan of store {store!r}", store=store)
        write_key = key_writer(serde.bind(store, is_key=True).inside(), store)
    low = write_key(prefix)
    return low, after_prefix(low)


def value_writer(serde: Serde[Any], store: str) -> Callable[[Any], bytes | None]:
    """``serialize`` of a value; ``None`` stays ``None``."""
    serialize = never_null(serde.serialize)

    def write(value: Any) -> bytes | None:
        if value is None:
            return None
        try:
            return serialize(value)
        except Exception as error:
            raise unwritable(store, serde, "value", error) from error

    return write
