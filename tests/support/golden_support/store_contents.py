"""What a store holds at the end of a run, in the form of the recordings. One reader for each recorded kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.typed_values import plain

__all__ = ["READERS", "read_store"]

Reader = Callable[[Any, Mapping[str, Any]], dict[str, Any]]


def _key_value(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {"entries": [{"key": plain(key), "value": plain(value)} for key, value in rows]}


def _timestamped_key_value(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {
            "entries": [
                {"key": plain(key), "value": plain(found.value), "timestamp": found.timestamp} for key, found in rows
            ]
        }


def _unread(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    return {}


READERS: Mapping[str, Reader] = {
    "kv": _key_value,
    "timestamped-kv": _timestamped_key_value,
    "unread": _unread,
}
"""By the kind that a recording gives a store."""


def read_store(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The store's contents; ``recorded`` tells the kind, and what to look up where a kind cannot be listed.

    :raises ValueError: if stores of this kind cannot be read yet.
    """
    kind = recorded["kind"]
    if kind not in READERS:
        raise ValueError(f"stores of kind {kind!r} have no reader in tests/support/golden_support/store_contents.py")
    return {"kind": kind, **READERS[kind](store, recorded)}
