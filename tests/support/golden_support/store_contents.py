"""What a store holds at the end of a run, in the form of the recordings. One reader for each recorded kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from golden_support.typed_values import plain
from processor_api.record import NO_TIMESTAMP

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


def _key_value_with_headers(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {
            "entries": [
                {
                    "key": plain(key),
                    "value": plain(found.value),
                    "timestamp": found.timestamp,
                    "headers": [[name, None if data is None else data.hex()] for name, data in found.headers],
                }
                for key, found in rows
            ]
        }


def _window(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {"entries": [{**_windowed(key), "value": plain(value)} for key, value in rows]}


def _timestamped_window(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {
            "entries": [
                {**_windowed(key), "value": plain(found.value), "timestamp": found.timestamp} for key, found in rows
            ]
        }


def _window_of_join(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The store keeps values alone. Java shows it as one of values with headers, and with no timestamp, or in memory
    with the start of the window as one."""
    with store.all() as rows:
        return {
            "entries": [
                {
                    **_windowed(key),
                    "value": plain(value),
                    "timestamp": NO_TIMESTAMP if store.persistent else key.window.start,
                    "headers": [],
                }
                for key, value in rows
            ]
        }


def _outer_join(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {
            "entries": [
                {
                    "timestamp": key.timestamp,
                    "side": "left" if key.left else "right",
                    "key": plain(key.key),
                    "value": plain(value),
                }
                for key, (value, _) in rows
            ]
        }


def _window_with_headers(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        return {
            "entries": [
                {
                    **_windowed(key),
                    "value": plain(found.value),
                    "timestamp": found.timestamp,
                    "headers": [[name, None if data is None else data.hex()] for name, data in found.headers],
                }
                for key, found in rows
            ]
        }


def _session(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.fetch_keys(None, None) as rows:
        return {"entries": [{**_windowed(key), "value": plain(value)} for key, value in rows]}


def _session_with_headers(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.fetch_keys(None, None) as rows:
        return {
            "entries": [
                {
                    **_windowed(key),
                    "value": plain(found.aggregation),
                    "headers": [[name, None if data is None else data.hex()] for name, data in found.headers],
                }
                for key, found in rows
            ]
        }


def _headers_window(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    with store.all() as rows:
        with_headers = any(hasattr(value, "headers") for _, value in rows)
    return (_window_with_headers if with_headers else _window_of_join)(store, recorded)


def _windowed(key: Any) -> dict[str, Any]:
    return {"key": plain(key.key), "start": key.window.start, "end": key.window.end}


def _versioned(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """A versioned store cannot be listed in Java: the recording looks keys up at times. It does not tell
    when a version ends."""
    return {"entries": [_version(store, entry["key"], entry["as_of"]) for entry in recorded["entries"]]}


def _version(store: Any, key: Any, as_of: int | None) -> dict[str, Any]:
    found = store.get(key) if as_of is None else store.get(key, as_of)
    value, timestamp = (None, None) if found is None else (found.value, found.timestamp)
    return {"key": key, "as_of": as_of, "value": plain(value), "timestamp": timestamp, "valid_to": None}


def _buffer(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    return {"records": store.num_records(), "bytes": store.buffer_size(), "min_timestamp": store.min_timestamp()}


def _grace_buffer(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Java's smallest time is a bound: that up to which records have left. Here it is that of the next record."""
    found = _buffer(store, recorded)
    bound = recorded["min_timestamp"]
    if bound is not None and found["min_timestamp"] is not None and bound <= found["min_timestamp"]:
        found["min_timestamp"] = bound
    return found


def _unread(store: Any, recorded: Mapping[str, Any]) -> dict[str, Any]:
    return {}


READERS: Mapping[str, Reader] = {
    "headers-kv": _key_value_with_headers,
    "headers-session": _session_with_headers,
    "headers-window": _headers_window,
    "join-grace-buffer": _grace_buffer,
    "kv": _key_value,
    "outer-join": _outer_join,
    "session": _session,
    "timestamped-kv": _timestamped_key_value,
    "suppress-buffer": _buffer,
    "unread": _unread,
    "window": _window,
    "timestamped-window": _timestamped_window,
    "versioned": _versioned,
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
