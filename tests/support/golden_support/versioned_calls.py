"""Calls of recorded traces on versioned stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["VERSIONED_CALLS"]

Args = Mapping[str, Any]


def _shown(record: Any) -> Any:
    """Java's stores do not tell the end of a validity."""
    return None if record is None else {"value": record.value, "timestamp": record.timestamp, "valid_to": None}


VERSIONED_CALLS: Mapping[str, Callable[[Any, Any, Args], Any]] = {
    "put": lambda calls, store, args: store.put(args["key"], args["value"], args["timestamp"]),
    "delete": lambda calls, store, args: _shown(store.delete(args["key"], args["timestamp"])),
    "get": lambda calls, store, args: _shown(store.get(args["key"])),
    "get_as_of": lambda calls, store, args: _shown(store.get(args["key"], args["as_of"])),
}
