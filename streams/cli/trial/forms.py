"""Keys and values of one serde as a person types and reads them: as texts, and as JSON.

What is given always goes through the serde in both directions, so that a record that the application could not read is
refused before it runs.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from processor_api.serde import Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import printable, shown
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde
from streams.cli.trial.times import iso, time_ms

__all__ = ["DoesNotFit", "as_text", "bytes_as_json", "form_of", "from_json_bytes", "reason_of", "to_bytes", "to_json"]

MOST_SHOWN = 80
"""Characters of a key or value in the text of an error."""
BASE64 = "base64"
"""The name under which JSON has bytes that are no text."""


class DoesNotFit(Exception):
    """A key or value that its serde cannot write; the text is the reason."""


@dataclass(frozen=True)
class _Form:
    """The two ways in which the values of a serde are given."""

    of_text: Callable[[str], Any]
    of_json: Callable[[Any], Any]


def _expect(*kinds: type) -> Callable[[Any], Any]:
    names = {str: "a text", int: "an integer", float: "a number", bool: "true or false"}

    def check(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError(f"{names[kinds[0]]} is expected")
        return value

    return check


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("a number is expected") from None


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("an integer is expected") from None


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("true or false is expected")
    return text == "true"


def _uuid(text: Any) -> uuid.UUID:
    try:
        return uuid.UUID(_expect(str)(text))
    except ValueError:
        raise ValueError("a UUID is expected, such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8") from None


def from_json_bytes(value: Any) -> bytes:
    """Returns bytes that JSON has as a text, or by ``{"base64": "..."}``.

    :raises ValueError: if it is neither.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, dict) and value.keys() == {BASE64} and isinstance(value[BASE64], str):
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except binascii.Error:
            pass
    raise ValueError('a text or {"base64": "..."} is expected')


def bytes_as_json(data: bytes) -> Any:
    """Returns bytes as a text if they are one that can be printed, else as ``{"base64": "..."}``."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\x00"
    return text if text.isprintable() else {BASE64: base64.b64encode(data).decode()}


def _json_number(value: Any) -> float:
    return _number(value) if isinstance(value, str) else float(_expect(float, int)(value))


_WHOLE = _Form(_integer, _expect(int))
_FLOATING = _Form(_number, _json_number)
_SCALAR: Mapping[Serde[Any], _Form] = {
    Serdes.STRING: _Form(str, _expect(str)),
    Serdes.LONG: _WHOLE,
    Serdes.INTEGER: _WHOLE,
    Serdes.SHORT: _WHOLE,
    Serdes.DOUBLE: _FLOATING,
    Serdes.FLOAT: _FLOATING,
    Serdes.BOOLEAN: _Form(_boolean, _expect(bool)),
    Serdes.UUID: _Form(_uuid, _uuid),
    Serdes.BYTES: _Form(str.encode, from_json_bytes),
}


def form_of(serde: Serde[Any]) -> str:
    """Returns what a person gives for a serde: the name of one of `Serdes`, ``model``, ``windowed`` or ``custom``."""
    if serde in _SCALAR:
        return serde.name
    if isinstance(serde, (TimeWindowedSerde, SessionWindowedSerde)):
        return "windowed"
    if hasattr(serde, "json_schema"):
        return "model"
    return "json" if serde.name == "json" else "custom"


def to_bytes(serde: Serde[Any], given: Any, *, is_text: bool) -> bytes:
    """Returns the bytes of a key or value.

    :param given: a text that was typed, or a value of JSON; not ``None``.
    :raises DoesNotFit: if the serde does not write it.
    """
    try:
        return _written(serde, given, is_text)
    except Exception as error:  # the serde may be the user's
        raise DoesNotFit(f"{_quoted(given)} does not fit the serde {serde.name!r}: {reason_of(error)}") from error


def _written(serde: Serde[Any], given: Any, is_text: bool) -> bytes:
    scalar = _SCALAR.get(serde)
    if scalar is not None:
        return serde.serialize(scalar.of_text(given) if is_text else scalar.of_json(given))
    form = form_of(serde)
    if form == "custom":
        return _by_custom(serde, given, is_text)
    value = _parsed(given) if is_text else given
    if form == "windowed":
        return serde.serialize(_windowed(serde, value))
    if form == "model":
        value = serde.deserialize(json.dumps(value).encode())
    return serde.serialize(value)


def _by_custom(serde: Serde[Any], given: Any, is_text: bool) -> bytes:
    """Takes a value as the serde's bytes in UTF-8, or as the value itself, or as JSON: which it is only the serde
    knows."""
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    tries: list[Callable[[], Any]] = [lambda: serde.deserialize(text.encode())]
    tries.insert(len(tries) if is_text else 0, lambda: given)
    if is_text:
        tries.append(lambda: _parsed(text))
    first: Exception | None = None
    for each in tries:
        try:
            data = serde.serialize(each())
            serde.deserialize(data)
            return data
        except Exception as error:
            first = first or error
    assert first is not None
    raise first


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _windowed(serde: Serde[Any], value: Any) -> Windowed[Any]:
    if not isinstance(value, dict) or value.keys() != {"key", "start", "end"}:
        raise ValueError('an object {"key": ..., "start": TIME, "end": TIME} is expected')
    inner: Serde[Any] = serde.inner  # type: ignore[attr-defined]
    key = inner.deserialize(_written(inner, value["key"], is_text=False))
    return Windowed(key, Window(time_ms(value["start"]), time_ms(value["end"])))


def reason_of(error: BaseException) -> str:
    """Returns why a serde refused something, on one line; pydantic's complaints field by field."""
    complaints = getattr(error, "errors", None)
    if callable(complaints):
        try:
            found = [(".".join(map(str, each["loc"])), each["msg"]) for each in complaints()]
            return shown("; ".join(f"{place}: {message}" if place else message for place, message in found))
        except (TypeError, KeyError):
            pass
    text = " ".join(str(error).split())
    return shown(text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}")


def _quoted(given: Any) -> str:
    text = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)
    return repr(text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "...")


# ---------------------------------------------------------------------- results


def to_json(serde: Serde[Any], data: bytes) -> Any:
    """Returns bytes that the serde wrote as a value of JSON, which :func:`to_bytes` takes; bytes that it cannot read as
    they are."""
    form = form_of(serde)
    try:
        if form in ("json", "model"):
            return json.loads(data)
        return plain(serde.deserialize(data))
    except Exception:  # the serde may be the user's, and so may be the bytes
        return bytes_as_json(data)


def plain(value: Any) -> Any:
    """Returns any value as one that JSON has."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, (bytes, bytearray)):
        return bytes_as_json(bytes(value))
    if isinstance(value, Windowed):
        start, end = value.window
        return {"key": plain(value.key), "start": iso(start), "end": iso(end)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    return _object(value)


def _object(value: Any) -> Any:
    for method in ("model_dump", "_asdict"):
        if hasattr(value, method):
            return plain(getattr(value, method)())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return str(value)


def as_text(value: Any) -> str:
    """Returns a value of JSON as a cell of a table: a text without quotes where it is clear, all else as JSON."""
    if isinstance(value, str):
        clear = value and value.isprintable() and value != "null" and value.strip() == value
        return value if clear else printable(json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict) and value.keys() == {"key", "start", "end"}:
        window = f"{value['start']}/{value['end']}".replace(".000Z", "Z")
        return f"{as_text(value['key'])} @ {window}"
    return printable(json.dumps(value, ensure_ascii=False))
