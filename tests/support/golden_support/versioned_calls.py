"""Calls and queries of recorded traces on versioned stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["VERSIONED_CALLS", "VERSIONED_QUERIES"]

Args = Mapping[str, Any]


def _shown(record: Any, *, with_end: bool = False) -> Any:
    """Where Java's stores do not tell the end of a validity, recordings have none."""
    if record is None:
        return None
    return {"value": record.value, "timestamp": record.timestamp, "valid_to": record.valid_to if with_end else None}


def _versions(store: Any, args: Args) -> Any:
    read = store.versions if args.get("order") == "asc" else store.backward_versions
    with read(args["key"], args.get("from"), args.get("to")) as rows:
        return [_shown(row, with_end=True) for row in rows]


VERSIONED_QUERIES: Mapping[str, Callable[[Any, Args], Any]] = {
    "VersionedKeyQuery": lambda store, args: _shown(store.get(args["key"], args.get("as_of")), with_end=True),
    "MultiVersionedKeyQuery": _versions,
}

VERSIONED_CALLS: Mapping[str, Callable[[Any, Any, Args], Any]] = {
    "put": lambda calls, store, args: store.put(args["key"], args["value"], args["timestamp"]),
    "delete": lambda calls, store, args: _shown(store.delete(args["key"], args["timestamp"])),
    "get": lambda calls, store, args: _shown(store.get(args["key"])),
    "get_as_of": lambda calls, store, args: _shown(store.get(args["key"], args["as_of"])),
    "query": lambda calls, store, args: VERSIONED_QUERIES[args["type"]](store, args),
}
