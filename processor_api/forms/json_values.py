"""Values as JSON has them, for people and other programs: what :meth:`Serde.to_json` and :meth:`Serde.from_json` share.

The types of JSON are those of Python: dicts with texts as names, lists, texts, integers, finite floats, truth values
and ``None``.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from processor_api.texts import repr_of

BASE64 = "base64"
"""The name under which JSON has bytes that are not text."""
NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
"""The texts in JSON of numbers that JSON does not have, by those of Python."""
_BLANKS = {ord(char): " " for char in "\n\r\t"}
"""Characters that JSON escapes and that texts of several lines have."""

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
        return value if math.isfinite(value) else NOT_FINITE[str(float(value))]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_as_json(bytes(value))
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): as_json(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, (set, frozenset)):  # which has another order in each process
        return [as_json(each) for each in sorted(value, key=repr)]
    if isinstance(value, (list, tuple)):
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


# ---------------------------------------------------------------------- what is given


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


def expected(what: str) -> ValueError:
    """Returns the error about something else than what is expected."""
    return ValueError(f"{what} is expected")


def bytes_of_json(value: Any) -> bytes:
    """Returns bytes that JSON has as a text, or by ``{"base64": "..."}``.

    :raises ValueError: if it is neither.
    """
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if isinstance(value, dict) and value.keys() == {BASE64} and isinstance(value[BASE64], str):
        try:
            return base64.b64decode(value[BASE64], validate=True)
        except ValueError:
            pass
    raise expected('a text or {"base64": "..."}')


def number_of_json(value: Any) -> float:
    """Returns a number; a text may be one too, since JSON has no other form of an infinity.

    :raises ValueError: if it is none.
    """
    if isinstance(value, str):
        value = number_of_text(float, "a number")(value)
    if type(value) not in (int, float, Decimal):
        raise expected("a number")
    return float(value)


def number_of_text(kind: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    """Returns the function from a text to a number, in the digits of ASCII alone."""

    def read(text: str) -> Any:
        try:
            if text.isascii() and "_" not in text:
                return kind(text)
        except ValueError:
            pass
        raise expected(what)

    return read


def json_of(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Returns a value of JSON, or one of Python that JSON has without a loss: maps as objects, and decimals as numbers.

    :param other: called with what JSON has no type for; ``None`` takes decimals and times, and refuses bytes.
    :raises ValueError: for a decimal that no JSON number of readers keeps, and for bytes.
    """
    if isinstance(value, dict):
        return {_name(key): json_of(part, other) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_of(part, other) for part in value]
    if value is None or isinstance(value, (str, int, float)):
        return value
    if other is not None:
        return other(value)
    if isinstance(value, Decimal):
        return exact_number(value)
    if isinstance(value, (bytes, bytearray)):
        raise ValueError("JSON does not have bytes: write them as text, for example by base64(column)")
    return value


def _name(key: Any) -> str:
    """Returns the name of a part of an object, which in a map may be of any type."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (datetime.datetime, datetime.date)):
        return key.isoformat()
    if isinstance(key, (str, int, float, Decimal)):
        return str(key)
    raise ValueError(f"keys of JSON objects must be strings, got {repr_of(key)}: cast the keys of the map to string")


def exact_number(value: Decimal) -> int | float:
    """Returns a decimal as a number that is equal.

    :raises ValueError: if it has more digits than a float.
    """
    if value == value.to_integral_value():
        return int(value)
    found = float(value)
    if not math.isfinite(found) or Decimal(repr(found)) != value:
        raise ValueError(
            f"the decimal {value} has more digits than JSON numbers preserve: cast the column to string, or to double"
            " if that is exact enough"
        )
    return found
