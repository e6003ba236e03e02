"""JSON, compact and in UTF-8: by orjson where it is installed, else by the standard library with the same bytes.

Both write dataclasses and models of pydantic as objects, dates and times as ISO 8601, UUIDs and enums by their value,
and NaN and infinities, which JSON does not have, as null. They differ for floats with an exponent (``1e16`` and
``1e+16``). Input that JSON does not allow, such as ``NaN``, is refused by both. Integers beyond 64 bits, which orjson
refuses to write and reads as floats, are written by the standard library; msgspec, which keeps them, reads where it is
installed.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import math
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

from processor_api.serde import Serde
from processor_api.user_code.given_values import check_flags
from streams.serdes.functions import MadeSerde

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment,unused-ignore]

DIGITS_TO_ZEROS = bytes.maketrans(b"-123456789", b"0000000000")
LONG_NUMBER = b"0" * 20
"""The fewest digits that an integer beyond 64 bits has; a sign counts as one."""


def json_serde(
    *, default: Callable[[Any], Any] | None = None, sort_keys: bool = False, use_orjson: bool | None = None
) -> Serde[Any]:
    """Returns a serde of the values that JSON has: dicts, lists, texts, numbers, truth values.

    A value is written when it is put into a store, so changing it afterwards changes nothing there.

    ::

        orders = json_serde(sort_keys=True)
        assert orders.serialize({"item": "tea", "cents": 300}) == b'{"cents":300,"item":"tea"}'

    :param default: called with a value JSON does not know; returns one that it does, or raises ``TypeError``. Without
        it models of pydantic are known.
    :param sort_keys: writes the keys of objects in order. Use it for keys of records: equal ones then have equal bytes,
        and so the same partition, however they were built.
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
        raise ImportError("orjson is not installed; install streams-for-kafka[json]", name="orjson")
    write, read = _by_orjson(default, sort_keys) if use_orjson else _by_standard_library(default, sort_keys)
    again = partial(json_serde, default=default, sort_keys=sort_keys, use_orjson=given)
    return MadeSerde(write, read, name="json", made_by=again)


def _by_orjson(
    default: Callable[[Any], Any] | None, sort_keys: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    # What dumps() returns occupies 4 KiB however short it is; a slice is as long as it looks, and a store counts that.
    # The line feed is there to be cut off: bytes that are sliced whole are not copied.
    dumps, loads, option = orjson.dumps, orjson.loads, orjson.OPT_APPEND_NEWLINE
    if sort_keys:
        option |= orjson.OPT_SORT_KEYS
    write_exact, read_exact = _by_standard_library(default, sort_keys)
    known = _of_model if default is None else default

    def write(value: Any) -> bytes:
        try:
            return dumps(value, known, option)[:-1]
        except TypeError as error:
            if "64-bit" not in str(error):
                raise
            return write_exact(value)

    def read(data: bytes) -> Any:
        if len(data) >= len(LONG_NUMBER) and LONG_NUMBER in data.translate(DIGITS_TO_ZEROS):
            return read_exact(data)
        return loads(data)

    return write, _read_by_msgspec() or read


def _read_by_msgspec() -> Callable[[bytes], Any] | None:
    try:
        from msgspec.json import Decoder
    except ImportError:
        return None
    return Decoder().decode


def _by_standard_library(
    default: Callable[[Any], Any] | None, sort_keys: bool
) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    def convert(value: Any) -> Any:
        known = _plain(value)
        if known is not value:
            return known
        return (_of_model if default is None else default)(value)

    encode = json.JSONEncoder(
        default=convert, sort_keys=sort_keys, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode

    def write(value: Any) -> bytes:
        try:
            return encode(value).encode()
        except ValueError:  # NaN or an infinity, unless something else is wrong too: then it is raised again
            return encode(_without_nan(value)).encode()

    def read(data: bytes) -> Any:
        return json.loads(data.decode(), parse_constant=_refuse_constant)

    return write, read


def _of_model(value: Any) -> Any:
    """Returns what a model of pydantic is written as.

    :raises TypeError: if the value is none.
    """
    dump = getattr(type(value), "model_dump", None)
    if dump is None:
        raise TypeError(f"Type is not JSON serializable: {type(value).__name__}")
    return _without_nan(dump(value, mode="json"))


def _plain(value: Any) -> Any:
    """Returns the value that orjson would write in place of this one; the value itself if orjson knows no other."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if not field.name.startswith("_")
        }
    return value


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(each) for each in value]
    known = _plain(value)
    return value if known is value else _without_nan(known)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"json: {name} is not JSON")
