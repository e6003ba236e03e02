"""Keys and values of one serde as a person writes and reads them: as texts, and as JSON.

What is given always goes through the serde in both directions, so that a record that the application could not read is
refused.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from processor_api.errors import outage_behind
from processor_api.serde import Headers, Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import error_text, printable, shown
from processor_api.times import iso, time_ms
from state.formats.windowed_serdes import SessionWindowedSerde, TimeWindowedSerde

MOST_SHOWN = 80
"""Characters of a key or value in the text of an error."""
BASE64 = "base64"
_BLANKS = {ord(char): " " for char in "\n\r\t"}
"""Characters that JSON escapes and that texts of several lines have."""
"""The name under which JSON has bytes that are no text."""
_WINDOWED = (TimeWindowedSerde, SessionWindowedSerde)


# ---------------------------------------------------------------------- what is given


class DoesNotFit(ValueError):
    """A key or value that its serde cannot write; the text is the reason."""


class Fitted(NamedTuple):
    """A key or value that was given, as its serde takes it."""

    value: Any
    """The object that the serde writes."""
    data: bytes | None
    """Its bytes; ``None`` for null."""


class _Form(NamedTuple):
    """The two ways in which the values of a serde are given."""

    of_text: Callable[[str], Any]
    of_json: Callable[[Any], Any]


def _refusal(expected: str) -> ValueError:
    return ValueError(f"{expected} is expected")


def _expect(expected: str, kind: type) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if type(value) is not kind:
            raise _refusal(expected)
        return value

    return check


def _number_of(kind: Callable[[str], Any], expected: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            if text.isascii() and "_" not in text:
                return kind(text)
        except ValueError:
            pass
        raise _refusal(expected)

    return read


_integer = _number_of(int, "an integer")
_number = _number_of(float, "a number")


def _json_number(value: Any) -> float:
    """Takes texts too: JSON has no other form of an infinity."""
    if isinstance(value, str):
        return float(_number(value))
    if type(value) not in (int, float):
        raise _refusal("a number")
    return float(value)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise _refusal("true or false")
    return text == "true"


def _uuid(text: Any) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except (ValueError, AttributeError, TypeError):
        raise _refusal("a UUID such as 6ba7b810-9dad-11d1-80b4-00c04fd430c8") from None


def bytes_of_json(value: Any) -> bytes:
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
        except ValueError:
            pass
    raise _refusal('a text or {"base64": "..."}')


def _nothing(value: Any) -> Any:
    raise _refusal("null")


_WHOLE = _Form(_integer, _expect("an integer", int))
_FLOATING = _Form(_number, _json_number)
_SCALAR: Mapping[Serde[Any], _Form] = {
    Serdes.STRING: _Form(str, _expect("a text", str)),
    Serdes.LONG: _WHOLE,
    Serdes.INTEGER: _WHOLE,
    Serdes.SHORT: _WHOLE,
    Serdes.DOUBLE: _FLOATING,
    Serdes.FLOAT: _FLOATING,
    Serdes.BOOLEAN: _Form(_boolean, _expect("true or false", bool)),
    Serdes.UUID: _Form(_uuid, _uuid),
    Serdes.BYTES: _Form(str.encode, bytes_of_json),
    Serdes.VOID: _Form(_nothing, _nothing),
}
_OF_TEXT = ("string", "bytes", "custom")
"""Forms in which the text ``null`` may be a value."""


def form_of(serde: Serde[Any]) -> str:
    """Returns what a person gives for a serde: the name of one of `Serdes`, ``list``, ``model``, ``windowed`` or
    ``custom``."""
    from streams.serdes.lists import ListSerde

    if serde in _SCALAR or serde is Serdes.JSON:
        return serde.name
    if isinstance(serde, _WINDOWED):
        return "windowed"
    if isinstance(serde, ListSerde):
        return "list"
    return "model" if hasattr(serde, "json_schema") else "custom"


def fitted(serde: Serde[Any], given: Any, *, is_text: bool, headers: Headers | None = None) -> Fitted:
    """Returns a key or value as its serde takes and writes it.

    :param given: a text that was typed, or a value of JSON. ``None`` is null, and so is the typed text ``null`` where
        the values of the serde are no texts.
    :param headers: those of the record, to which the serde may add some.
    :raises DoesNotFit: if the serde does not write it.
    :raises UnreachableError: if a service that the serde needs is away.
    """
    if given is None or (is_text and given == "null" and form_of(serde) not in _OF_TEXT):
        return Fitted(None, None)
    try:
        return _fitted(serde, given, is_text, Headers() if headers is None else headers)
    except Exception as error:  # the serde may be the user's
        if (outage := outage_behind(error)) is not None:
            raise outage from error.__cause__
        why = f"does not fit the serde {serde.name!r}: {_reason(error)}"
        raise DoesNotFit(f"{_quoted(given, is_text)} {why}") from error


def _fitted(serde: Serde[Any], given: Any, is_text: bool, headers: Headers) -> Fitted:
    form = form_of(serde)
    from_json = getattr(serde, "from_json", None)
    if from_json is not None:
        found = from_json(parsed_json(given) if is_text else given)
        return Fitted(found, serde.with_headers(headers).serialize(found))
    if form == "custom":
        return _by_custom(serde, given, is_text, headers)
    value = _object(serde, form, given, is_text)
    return Fitted(value, serde.with_headers(headers).serialize(value))


def _object(serde: Serde[Any], form: str, given: Any, is_text: bool) -> Any:
    scalar = _SCALAR.get(serde)
    if scalar is not None:
        return scalar.of_text(given) if is_text else scalar.of_json(given)
    value = parsed_json(given) if is_text else given
    if form == "windowed":
        return _windowed(serde, value)
    if form == "list":
        inner: Serde[Any] = serde.inner  # type: ignore[attr-defined]
        return [fitted(inner, each, is_text=False).value for each in _expect("a list", list)(value)]
    return serde.deserialize(json.dumps(value).encode()) if form == "model" else value


def _by_custom(serde: Serde[Any], given: Any, is_text: bool, headers: Headers) -> Fitted:
    """Takes a value as the serde's bytes in UTF-8, or as the value itself, or as JSON: which it is only the serde
    knows."""
    as_bytes = [given] if isinstance(given, str) else []
    if not is_text:
        as_bytes.append(json.dumps(given, ensure_ascii=False))
    own = Headers()
    bound = serde.with_headers(own)
    tries: list[Callable[[], Any]] = [lambda text=text: bound.deserialize(text.encode()) for text in as_bytes]  # type: ignore[misc]
    tries.insert(len(tries) if is_text else 0, lambda: given)
    if is_text:
        tries.append(lambda: parsed_json(given))
    first: Exception | None = None
    for each in tries:
        try:
            own[:] = headers
            value = each()
            own[:] = headers
            data = bound.serialize(value)
            written = list(own)
            bound.deserialize(data)
            headers[:] = written
            return Fitted(value, data)
        except Exception as error:
            first = first or error
    assert first is not None
    raise first


def parsed_json(text: str) -> Any:
    """Returns the value of a text of JSON.

    :raises ValueError: if it is none; the text is a sentence.
    """
    try:
        return json.loads(text, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from None


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _windowed(serde: Serde[Any], given: Any) -> Windowed[Any]:
    needed, known = {"key", "start"}, {"key", "start", "end"}
    if isinstance(serde, SessionWindowedSerde):
        needed = known
    if not isinstance(given, dict) or not needed <= given.keys() <= known:
        raise _refusal('an object {"key": ..., "start": TIME, "end": TIME}')
    inner: Serde[Any] = serde.inner  # type: ignore[attr-defined]
    start = time_ms(given["start"])
    end = time_ms(given.get("end", start))
    if end < start:
        raise ValueError(f"the window ends at {iso(end)}, before it starts")
    if isinstance(serde, TimeWindowedSerde):
        ends = serde.end_of(start)  # a size of 0 says that it is unknown
        if "end" in given and end != ends > start:
            raise ValueError(f"the window that starts at {iso(start)} ends at {iso(ends)}, and not at {iso(end)}")
        end = ends
    return Windowed(fitted(inner, given["key"], is_text=False).value, Window(start, end))


def _quoted(given: Any, is_text: bool) -> str:
    text = given if is_text else json.dumps(given, ensure_ascii=False, default=str)
    text = text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."
    return repr(text) if is_text else shown(text)


def _reason(error: BaseException) -> str:
    """Returns why a serde refused something, on one line."""
    title = getattr(error, "title", "")
    text = " ".join(error_text(error).removeprefix(f"no valid {title}: ").split())
    return shown(text if isinstance(error, ValueError) and text else f"{type(error).__name__}: {text}")


# ---------------------------------------------------------------------- what is shown


def as_json(value: Any) -> Any:
    """Returns any object as JSON has it; what JSON has no type for becomes text."""
    if value is None or type(value) in (str, bool, int):
        return value
    if isinstance(value, enum.Enum):
        return as_json(value.value)
    if isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_as_json(bytes(value))
    if isinstance(value, Windowed):
        return {"key": as_json(value.key), "start": iso(value.window.start), "end": iso(value.window.end)}
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
        return as_json(value.model_dump(by_alias=True))
    if dataclasses.is_dataclass(value):
        return {field.name: as_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return str(value)


def bytes_as_json(data: bytes) -> Any:
    """Returns bytes as a text if they are one that can be printed on one or more lines, else as
    ``{"base64": "..."}``."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\x00"
    is_text = text.isprintable() or text.translate(_BLANKS).isprintable()
    return text if is_text else {BASE64: base64.b64encode(data).decode()}


def as_text(value: Any) -> str:
    """Returns a value of JSON as a cell of a table: a text without quotes where it is clear, all else as JSON. No
    terminal obeys anything in it."""
    if isinstance(value, str):
        clear = value and value.isprintable() and value != "null" and value.strip() == value
        return value if clear else printable(json.dumps(value, ensure_ascii=False))
    if isinstance(value, dict) and value.keys() == {"key", "start", "end"}:
        window = f"{value['start']}/{value['end']}".replace(".000Z", "Z")
        return f"{as_text(value['key'])} @ {window}"
    return printable(json.dumps(value, ensure_ascii=False))
