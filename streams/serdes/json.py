"""JSON, compact and in UTF-8: by orjson where it is installed, else by the standard library.

What JSON has (objects with texts as names, arrays, texts, finite numbers, truth values, null) comes back equal. A few
other types have one form in it, which is what comes back (semantics 189). All else is refused when it is written, with
its place in the value. Which libraries are installed changes nothing of this: orjson writes what needs no second look,
and everything else goes through :func:`_plain`. Reading takes integers of any size, and refuses halves of surrogate
pairs and numbers beyond 64-bit floats, as orjson and msgspec do.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import re
import uuid
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from processor_api.forms.json_values import json_of, parsed_json
from processor_api.serde import Serde
from processor_api.texts import repr_of
from processor_api.user_code.durations import whole_number
from processor_api.user_code.given_values import check_flags, exact_text
from streams.serdes.functions import MadeSerde
from streams.serdes.model_forms import one_form

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment,unused-ignore]

DIGITS_TO_ZEROS = bytes.maketrans(b"-123456789", b"0000000000")
LONG_NUMBER = b"0" * 20
"""The fewest digits that an integer beyond 64 bits has; a sign counts as one."""
MOST_DEPTH = 254
"""Objects and arrays within each other; the limit of orjson."""
NULL = b"null"
PLAIN = frozenset((str, int, bool, type(None)))
"""Types whose values are in JSON as they are."""
_LONG_FLOAT = re.compile(rb"[0-9]e[-+0-9]|0\.0000")
"""Where versions of orjson, and the standard library, have different texts of one float."""
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_HINTS = {
    "Decimal": "; write str(number), which keeps its digits, or let a model with a field of that type be the serde",
    "set": "; write sorted(...), because a set has another order in each process",
    "frozenset": "; write sorted(...), because a set has another order in each process",
    "bytes": "; the serde of bytes is 'bytes'; within JSON, write them as a string such as base64",
    "timedelta": "; write its seconds, or let a model with a field of that type be the serde",
}

Form = Callable[[Any], Any]
"""Returns what JSON has instead of a value of another type, or raises ``TypeError``."""


class _Refused(Exception):
    """A value that is not written, and its place.

    :param what: the sentence, without the place.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self._what = what
        self._place = ""

    def within(self, name: object) -> None:
        """Notes that the value stands in an object under a name, or in an array at an index."""
        self._place = f"[{repr_of(name)}]{self._place}"

    def __str__(self) -> str:
        return f"{self._what} (at {self._place})" if self._place else self._what


class NotJson(_Refused, TypeError):
    """A value of a type that JSON has no form for."""


class NotFinite(_Refused, ValueError):
    """NaN or an infinity."""


def json_serde(
    *, default: Callable[[Any], Any] | None = None, sort_keys: bool = False, use_orjson: bool | None = None
) -> Serde[Any]:
    """Returns a serde of the values that JSON has: dicts, lists, texts, finite numbers, truth values.

    A value is written when it is put into a store, so changing it afterwards changes nothing there. Dataclasses, models
    of pydantic, tuples, dates and times, UUIDs and enums are written as JSON has them, and come back so; anything else,
    NaN and infinities among it, is refused when it is written (semantics 189).

    ::

        orders = json_serde(sort_keys=True)
        assert orders.serialize({"item": "tea", "cents": 300}) == b'{"cents":300,"item":"tea"}'

    :param default: called with a value JSON does not know; returns one that it does, or raises ``TypeError``. Without
        it models of pydantic, and integers of other libraries, are known.
    :param sort_keys: writes each value in one way only: names of objects in order, times in UTC. Keys of records are
        written so anyway: equal ones have equal bytes, and so the same partition, however they were built.
    :param use_orjson: ``None`` uses it where it is installed.
    :raises ImportError: if orjson is demanded and not installed.
    """
    check_flags(sort_keys=sort_keys)
    if use_orjson is not None:
        check_flags(use_orjson=use_orjson)
    given = use_orjson
    if use_orjson is None:
        use_orjson = orjson is not None
    if use_orjson and orjson is None:
        raise ImportError("orjson is not installed: pip install 'streams-for-kafka[json]'", name="orjson")
    write, read = _by_orjson(default, sort_keys) if use_orjson else _by_standard_library(default, sort_keys)
    again = partial(json_serde, default=default, use_orjson=given)
    kind = _Json if sort_keys else _JsonOfValues
    return kind(write, read, name="json", made_by=partial(again, sort_keys=sort_keys))


class _Json(MadeSerde[Any]):
    """A serde of JSON that writes equal values with equal bytes."""

    __slots__ = ()

    writes_json = True

    def from_json(self, given: Any) -> Any:
        return json_of(given)

    def from_text(self, text: str) -> Any:
        """Returns the value of JSON, otherwise the text: keys are mostly strings, and typed without quotes."""
        try:
            return parsed_json(text)
        except ValueError:
            return text


class _JsonOfValues(_Json):
    """A serde of JSON that may write equal values with different bytes."""

    __slots__ = ()

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde itself for values; for keys, one that writes equal ones with equal bytes."""
        made_by: Any = self._made_by
        return made_by(sort_keys=True) if is_key else self


def _by_orjson(
    default: Callable[[Any], Any] | None, sort_keys: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    # What dumps() returns occupies 4 KiB however short it is; a copy is as long as it looks, and a store counts that.
    # The line feed is there to be cut off: bytes that lose nothing are not copied.
    dumps, loads, option = orjson.dumps, orjson.loads, orjson.OPT_APPEND_NEWLINE
    # Its own forms of these cut offsets of time zones, and keep what no field of a dataclass is.
    option |= orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
    if sort_keys:
        option |= orjson.OPT_SORT_KEYS
    form = _form_by(default, sort_keys)
    write_exact, read_exact = _by_standard_library(default, sort_keys)

    def write(value: Any) -> bytes:
        try:
            data = dumps(value, form, option)
            if not data.rpartition(NULL)[1]:  # of all searches the quickest in short data
                return data.rstrip()
        except TypeError:
            data = None
        if data is None:  # perhaps it only does not know it, such as an integer beyond 64 bits
            return write_exact(value)
        if type(value) is dict:
            nulls = data.count(NULL)
            for each in value.values():
                if each is None:
                    nulls -= 1
            if not nulls:
                return data.rstrip()
        return data.rstrip() if loads(data) == value else write_exact(value)  # one null may be a NaN

    def write_sorted(value: Any) -> bytes:
        if type(value) is str or (type(value) is dict and PLAIN.issuperset(map(type, value.values()))):
            try:
                return dumps(value, form, option).rstrip()
            except TypeError:
                pass
        data = write(value)
        return write_exact(value) if _LONG_FLOAT.search(data) else data

    def read(data: bytes) -> Any:
        if len(data) >= len(LONG_NUMBER) and LONG_NUMBER in data.translate(DIGITS_TO_ZEROS):
            return read_exact(data)
        return loads(data)

    return write_sorted if sort_keys else write, _read_by_msgspec() or read


def _read_by_msgspec() -> Callable[[bytes], Any] | None:
    try:
        from msgspec.json import Decoder
    except ImportError:
        return None
    return Decoder().decode


def _by_standard_library(
    default: Callable[[Any], Any] | None, sort_keys: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    form = _form_by(default, sort_keys)
    encode = json.JSONEncoder(
        sort_keys=sort_keys, ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
    ).encode

    def write(value: Any) -> bytes:
        return encode(value if _is_plain(value, MOST_DEPTH) else _plain(value, form, MOST_DEPTH)).encode()

    return write, _read_by_standard_library


def _read_by_standard_library(data: bytes) -> Any:
    value = _decode(data.decode())
    if b"\\u" in data and _SURROGATE.search(data):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("json: a string has half of a surrogate pair") from None
    return value


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"json: {repr_of(text)} exceeds the largest number")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"json: {name} is not JSON")


_decode = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant).decode


def _form_by(default: Callable[[Any], Any] | None, sort_keys: bool) -> Form:
    other = partial(_other_form, sort_keys) if default is None else default
    forms: dict[type, Form]
    forms = {**_FORMS, datetime.datetime: _datetime_of_key, datetime.time: _time_of_key} if sort_keys else _FORMS

    def form(value: Any) -> Any:
        kind = type(value)
        found = forms.get(kind)
        if found is None:
            found = next((forms[base] for base in kind.__mro__ if base in forms), None)
            if found is None:
                return _fields_of(value) if hasattr(kind, "__dataclass_fields__") else other(value)
        return found(value)

    return form


def _datetime_of_key(value: datetime.datetime) -> str:
    """Returns the one text of a time with a zone: equal ones of different zones are one key."""
    return (value if value.tzinfo is None else value.astimezone(datetime.UTC)).isoformat()


def _time_of_key(value: datetime.time) -> str:
    if value.tzinfo is not None:
        raise NotJson("you cannot use a time of day with a zone in a key: equal times do not have the same text")
    return value.isoformat()


_FORMS: dict[type, Form] = {
    enum.Enum: lambda value: value.value,
    datetime.datetime: datetime.datetime.isoformat,
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    uuid.UUID: str,
    float: float.__float__,  # of a class of its own, such as numpy's
    tuple: list,  # a named one
}
"""The forms in JSON of types of the standard library."""


@lru_cache(maxsize=1024)
def _fields_written(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if not field.name.startswith("_"))


def _fields_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in _fields_written(value.__class__)}


def _other_form(is_key: bool, value: Any) -> Any:
    """Returns what a model of pydantic, or an integer of another library, is written as.

    :raises NotJson: if the value is neither.
    """
    number = whole_number(value)
    if number is not None:
        return number
    dump = getattr(type(value), "model_dump", None)
    if dump is not None:
        written = dump(value, mode="json", warnings="error")
        return one_form(value, written) if is_key else written
    name = type(value).__name__
    raise NotJson(f"Type is not JSON serializable: {name}{_HINTS.get(name, '')}")


def _is_plain(value: Any, depth: int) -> bool:
    """Returns whether :func:`_plain` would return an equal value; it takes half of the time."""
    kind = type(value)
    if kind is dict:
        for name in value:
            if type(name) is not str:
                return False
        value = value.values()
    elif kind is not list:
        return kind in PLAIN or (kind is float and math.isfinite(value))
    for each in value:
        kind = type(each)
        if kind in PLAIN or (kind is float and math.isfinite(each)):
            continue
        if (kind is not dict and kind is not list) or depth <= 1 or not _is_plain(each, depth - 1):
            return False
    return True


def _plain(value: Any, form: Form, depth: int) -> Any:
    """Returns a value of JSON as the plain types of Python, with the forms of what it has of other types.

    :param depth: how many objects and arrays there may be within each other.
    :raises NotJson: if JSON has no form for something in it.
    :raises ValueError: if a number is not finite, or there are too many levels.
    """
    kind = type(value)
    if kind in PLAIN:
        return value
    if kind is float:
        if math.isfinite(value):
            return value
        raise NotFinite(f"json: {repr_of(value)} is not JSON; write None or a string instead")
    if isinstance(value, (dict, list)) or kind is tuple:
        return _plain_container(value, form, depth)
    if isinstance(value, enum.Enum) or not isinstance(value, (str, int)):
        if depth <= -MOST_DEPTH:
            raise NotJson(f"the form of a {kind.__name__} is endless")
        known = form(value)
        return _plain(known, form, depth if isinstance(known, (dict, list, tuple)) else depth - 1)
    return exact_text(value) if isinstance(value, str) else int.__index__(value)


def _plain_container(value: Any, form: Form, depth: int) -> Any:
    if depth <= 0:
        raise ValueError(f"json: more than {MOST_DEPTH} nested objects and arrays")
    items: list[Any] = []
    name = None
    try:
        if isinstance(value, dict):
            found = {}
            for name, each in dict.items(value):
                written = name if type(name) is str else _name(name)
                found[written] = each if type(each) in PLAIN else _plain(each, form, depth - 1)
            return found
        for each in value:
            items.append(each if type(each) in PLAIN else _plain(each, form, depth - 1))
    except _Refused as error:
        error.within(len(items) if name is None else name)
        raise
    return items


def _name(name: Any) -> str:
    if isinstance(name, str):
        return name.value if isinstance(name, enum.Enum) else exact_text(name)
    raise NotJson(f"Dict key must be str, because names in a JSON object are strings, got {repr_of(name)}")
