"""Keys and values as the topology recordings write them, by the name of their serde."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from processor_api.serde import Serdes
from state.formats import keys

__all__ = ["TypedValue", "plain", "typed_value"]

_WINDOWED = re.compile(r"windowed-string\(time,(\d+)\)")


class TypedValue:
    """Both directions between JSON and bytes; null is null."""

    def __init__(self, to_bytes: Callable[[Any], bytes], from_bytes: Callable[[bytes], Any]) -> None:
        self._to_bytes = to_bytes
        self._from_bytes = from_bytes

    def to_bytes(self, value: Any) -> bytes | None:
        return None if value is None else self._to_bytes(value)

    def from_bytes(self, data: bytes | None) -> Any:
        return None if data is None else self._from_bytes(data)


_SIMPLE = {
    "string": TypedValue(Serdes.STRING.serialize, Serdes.STRING.deserialize),
    "long": TypedValue(Serdes.LONG.serialize, Serdes.LONG.deserialize),
    "int": TypedValue(Serdes.INTEGER.serialize, Serdes.INTEGER.deserialize),
    "bytes": TypedValue(bytes.fromhex, bytes.hex),
}


def _windowed(size: int) -> TypedValue:
    def read(data: bytes) -> dict[str, Any]:
        key, start = keys.read_window_topic_key(data)
        return {"key": key.decode(), "start": start, "end": keys.window_end(start, size)}

    return TypedValue(lambda value: keys.window_topic_key(value["key"].encode(), value["start"]), read)


def _session() -> TypedValue:
    def read(data: bytes) -> dict[str, Any]:
        key, start, end = keys.read_session_key(data)
        return {"key": key.decode(), "start": start, "end": end}

    return TypedValue(lambda value: keys.session_key(value["key"].encode(), value["start"], value["end"]), read)


def typed_value(name: str) -> TypedValue:
    """By the recordings' name of the serde.

    :raises ValueError: if there is no such name.
    """
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "session-windowed-string":
        return _session()
    if match := _WINDOWED.fullmatch(name):
        return _windowed(int(match[1]))
    raise ValueError(
        f"the recording names a serde {name!r} that is not in tests/support/golden_support/typed_values.py"
    )


def plain(value: Any) -> Any:
    """A value read from a store, as JSON has it."""
    return value.hex() if isinstance(value, bytes) else value
