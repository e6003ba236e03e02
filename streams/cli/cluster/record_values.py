"""Converts between what a serde reads and writes, and the JSON that a person reads and types."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from processor_api.given_serdes import class_of
from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde

__all__ = ["BASE64", "as_json", "as_text", "from_json", "from_text", "iso_time", "json_reader", "time_ms"]

BASE64 = "base64"
"""The name under which bytes stand that are no text."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MS = datetime.timedelta(milliseconds=1)
_INTEGERS = {serde.name for serde in (Serdes.SHORT, Serdes.INTEGER, Serdes.LONG)}
_FLOATS = {serde.name for serde in (Serdes.FLOAT, Serdes.DOUBLE)}


# ------------------------------------------------------------------ times


def iso_time(ms: int) -> str | int:
    """Returns a time in ms as ISO 8601 in UTC; the number itself beyond the year 9999 and before 1970."""
    if ms < 0:
        return ms
    try:
        return (_EPOCH + _MS * ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        return ms


def time_ms(given: Any) -> int:
    """Returns the ms since 1970 of an ISO 8601 time, or of a number of ms; a time without a zone is in UTC.

    :raises ValueError: if it is neither, or before 1970.
    """
    ms = given if isinstance(given, int) and not isinstance(given, bool) else None
    if isinstance(given, str):
        ms = int(given) if given.isascii() and given.isdecimal() else _parsed(given)
    if ms is None or not 0 <= ms < 1 << 63:
        raise ValueError(f"{given!r} is no time: give ISO 8601, such as 2026-01-31T12:00:00Z, or ms since 1970")
    return ms


def _parsed(text: str) -> int | None:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return ((found if found.tzinfo else found.replace(tzinfo=datetime.UTC)) - _EPOCH) // _MS


# ------------------------------------------------------------------ reading


def json_reader(serde: Serde[Any]) -> Callable[[bytes], Any]:
    """Returns the function that reads bytes by a serde and makes of them what JSON can write."""
    from dsl.change import ChangeSerde
    from dsl.joins.outer_join_serdes import SideValueSerde, TimedSideKeySerde
    from dsl.processors.joins.foreign_key import AnswerSerde

    read = serde.deserialize
    names: tuple[str, ...] = ()
    if isinstance(serde, ChangeSerde):
        names = ("new", "old", "latest")
    elif isinstance(serde, AnswerSerde):
        names = ("hash", "value")
    elif isinstance(serde, TimedSideKeySerde):
        return lambda data: _timed_side(*read(data))
    elif isinstance(serde, SideValueSerde):
        return lambda data: _with_side(read(data))
    if names:
        return lambda data: {name: as_json(part) for name, part in zip(names, read(data), strict=False)}
    return lambda data: as_json(read(data))


def _timed_side(key: Any, time: int, left: bool) -> dict[str, Any]:
    return {"key": as_json(key), "time": iso_time(time), "side": "left" if left else "right"}


def _with_side(found: tuple[Any, bool]) -> dict[str, Any]:
    return {"side": "left" if found[1] else "right", "value": as_json(found[0])}


def as_json(value: Any) -> Any:
    """Returns what JSON writes for a value; what it has no type for becomes text. Bytes are text where they are UTF-8
    that can be printed, else an object with :data:`BASE64`."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, enum.Enum):
        return as_json(value.value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes_as_json(bytes(value))
    if isinstance(value, Windowed):
        return {"key": as_json(value.key), "start": iso_time(value.window.start), "end": iso_time(value.window.end)}
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [as_json(each) for each in value]
    return _object_as_json(value)


def _object_as_json(value: Any) -> Any:
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "model_dump"):
        return as_json(value.model_dump(mode="json", by_alias=True))
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def _bytes_as_json(data: bytes) -> Any:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {BASE64: base64.b64encode(data).decode()}
    return text if text.isprintable() else {BASE64: base64.b64encode(data).decode()}


def as_text(value: Any) -> str:
    """Returns a value of :func:`as_json` as text for one cell of a table; no terminal obeys anything in it."""
    if value is None:
        return "null"
    if isinstance(value, str) and value and value.isprintable():
        return value
    if isinstance(value, dict):
        if value.keys() == {BASE64}:
            return f"{BASE64}:{value[BASE64]}"
        if value.keys() == {"key", "start", "end"}:
            return f"{as_text(value['key'])} [{value['start']} .. {value['end']}]"
    from processor_api.texts import printable

    return printable(json.dumps(value, ensure_ascii=False))


# ------------------------------------------------------------------ writing


def from_json(serde: Serde[Any], value: Any) -> Any:
    """Returns the object that a serde writes, from what stands for it in JSON.

    :raises ValueError: if the serde writes no such thing; the text says what it takes.
    """
    if value is None:
        return None
    name, kind = serde.name, type(value)
    if isinstance(serde, (TimeWindowedSerde, SessionWindowedSerde)):
        return _windowed(serde, value)
    if name == "string" and serde is Serdes.STRING:
        return _checked(value, kind is str, 'a text, such as "abc"')
    if serde is Serdes.BYTES:
        return _bytes_of(value)
    if serde is Serdes.UUID:
        return uuid.UUID(_checked(value, kind is str, "the text of a UUID"))
    if name in _INTEGERS:
        return _checked(value, kind is int, "an integer, such as 3")
    if name in _FLOATS:
        return float(_checked(value, kind in (int, float), "a number, such as 1.5"))
    if serde is Serdes.BOOLEAN:
        return _checked(value, kind is bool, "true or false")
    if serde is Serdes.VOID:
        raise ValueError("must be null")
    return _other(serde, value)


def _checked(value: Any, fits: bool, what: str) -> Any:
    if not fits:
        raise ValueError(f"must be {what}, got {json.dumps(value)}")
    return value


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and value.keys() == {BASE64}:
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError(f"has wrong {BASE64}: {error}") from None
    raise ValueError(f'must be a text, or bytes as {{"{BASE64}": "..."}}, got {json.dumps(value)}')


def _windowed(serde: TimeWindowedSerde[Any] | SessionWindowedSerde[Any], value: Any) -> Windowed[Any]:
    if not isinstance(value, dict) or not {"key", "start"} <= value.keys() <= {"key", "start", "end"}:
        raise ValueError(
            f'must be a key in a window, {{"key": ..., "start": ..., "end": ...}}, got {json.dumps(value)}'
        )
    start = time_ms(value["start"])
    if "end" not in value and isinstance(serde, SessionWindowedSerde):
        raise ValueError("must have the end of the session too")
    end = time_ms(value.get("end", start))
    return Windowed(from_json(serde.inner, value["key"]), Window(start, end))


def _other(serde: Serde[Any], value: Any) -> Any:
    """Returns the object for a serde of JSON, of a model, of lists, or of the user's own."""
    from streams.serdes.lists import ListSerde

    if isinstance(serde, ListSerde):
        items = _checked(value, isinstance(value, list), "a list")
        return [from_json(serde.inner, item) for item in items]
    if class_of(serde) is None and not serde.name.startswith("pydantic "):
        try:
            serde.serialize(value)
        except Exception as error:
            first = error
        else:
            return value
    else:
        first = None
    try:  # a serde that reads JSON makes its own objects of it
        return serde.deserialize(json.dumps(value).encode())
    except Exception as error:
        raise ValueError(_one_line(first or error)) from error


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"does not fit: {type(error).__name__}: {text}"


def from_text(serde: Serde[Any], text: str) -> Any:
    """Returns what stands in JSON for a key or value that was typed by itself: text as it is for serdes of text and of
    bytes, else JSON.

    :raises ValueError: if it is no JSON where it must be.
    """
    if serde in (Serdes.STRING, Serdes.BYTES, Serdes.UUID):
        return text
    try:
        return json.loads(text)
    except ValueError:
        if isinstance(serde, (TimeWindowedSerde, SessionWindowedSerde)) or serde.name in _INTEGERS | _FLOATS:
            raise ValueError(f"must be JSON, got {text!r}") from None
        return text
