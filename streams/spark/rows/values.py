"""Values of columns as the objects that serdes write: one conversion for histories and for `write_topic`.

It is the other direction of `streams.spark.rows.columns`: what is read as JSON text is written from that text, and a
struct is written as the object that it looks like. (docs/decisions/spark.md, "Rows are the objects that they look
like")
"""

from __future__ import annotations

import base64
import json
import math
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from processor_api.errors import SerializationError
from processor_api.record import Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes
from processor_api.stores.windowed import Window, Windowed
from processor_api.texts import kind_and_text, repr_of
from state.formats.windowed_serdes import WindowedKeySerde
from streams.registry.bound import BoundSerde
from streams.registry.schemas import AVRO
from streams.serdes.functions import MadeSerde
from streams.serdes.lists import ListSerde
from streams.serdes.pydantic_model import ModelSerde
from streams.serdes.values import parsed_json
from streams.spark.rows.columns import NOT_FINITE, TEXT, column_of

Write = Callable[[Any], bytes | None]
Convert = Callable[[Any], Any]


def python_values(column: pa.Array) -> list[Any]:
    """Returns the values of a column: structs and maps as dicts, arrays as lists, times in UTC."""
    convert = _conversion(column.type)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _conversion(kind: pa.DataType) -> Convert | None:
    """Returns what is left to do after ``to_pylist``; ``None`` if that is nothing."""
    if pa.types.is_timestamp(kind):
        return _in_utc if kind.tz is not None else None
    if pa.types.is_map(kind):
        key, value = _nullable(kind.key_type), _nullable(kind.item_type)
        return lambda pairs: {key(one): value(other) for one, other in pairs}
    if pa.types.is_struct(kind):
        parts = {one.name: _nullable(one.type) for one in kind}
        return lambda row: {name: parts[name](value) for name, value in row.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = _nullable(kind.value_type)
        return lambda items: [item(one) for one in items]
    return None


def _nullable(kind: pa.DataType) -> Convert:
    convert = _conversion(kind)
    if convert is None:
        return lambda value: value
    return lambda value: None if value is None else convert(value)


def _in_utc(time: datetime) -> datetime:
    """Returns the same moment in UTC: the zone of the session only changes how Spark shows times."""
    return time.astimezone(UTC)


# ----------------------------------------------------------------------------------------------- writing


def writer_of(name: str, serde: Serde[Any], current: CurrentHeaders | None = None) -> Write:
    """Returns a function from values of :func:`python_values` to bytes; null stays null.

    Serdes of one type get the value. Of the serdes of objects, a model validates it, JSON gets what JSON has, and those
    of lists and windows get what their inner serde takes; text is the JSON of the object for all of them. A serde of
    one's own gets the value, and if it refuses that, what it reads from its JSON.

    :param current: the headers that a serde gets which takes some.
    """
    handed = serde if current is None else current.handed_to(serde)
    write, taken = handed.serialize, _taken_by(serde)
    if taken is None:
        found = write if column_of(name, serde).kind != TEXT else _of_other(handed)
        return lambda value: None if value is None else found(value)
    return lambda value: None if value is None else write(taken(value))


def _taken_by(serde: Serde[Any]) -> Convert | None:
    """Returns the function from a value of a column to the object that a serde takes; ``None`` if they are one, or only
    the serde knows."""
    if _is_json(serde):
        return lambda value: serde.deserialize(value.encode()) if isinstance(value, str) else _as_json(value)
    if isinstance(serde, ModelSerde):
        return lambda value: serde.deserialize(value.encode()) if isinstance(value, str) else serde.validate(value)
    if (given := _given_to(serde)) is not None:
        return lambda value: given(parsed_json(value) if isinstance(value, str) else value)
    if serde is Serdes.UUID:
        return lambda value: uuid.UUID(value) if isinstance(value, str) else value
    if isinstance(serde, ListSerde):
        item = _part_taken_by(serde.inner)
        return lambda value: [None if one is None else item(one) for one in _items(value)]
    if isinstance(serde, WindowedKeySerde) and serde.inner is not None:
        key = _part_taken_by(serde.inner)
        return lambda value: _windowed(key, value)
    return None


def _part_taken_by(serde: Serde[Any]) -> Convert:
    """Returns the function from a value within a list, or a key in a window, to what its serde takes: a text there is a
    text, and no JSON."""
    if _is_json(serde):
        return _as_json
    if isinstance(serde, ModelSerde):
        return serde.validate
    if (given := _given_to(serde)) is not None:
        return given
    if serde in (Serdes.DOUBLE, Serdes.FLOAT):
        return lambda value: float(value) if value in NOT_FINITE.values() else value
    return _taken_by(serde) or (lambda value: value)


def _given_to(serde: Serde[Any]) -> Convert | None:
    """Returns the function from a value to the object that the serde of a registry takes; ``None`` for other serdes."""
    from_json = getattr(serde, "from_json", None)
    if from_json is None:
        return None
    has_bytes = isinstance(serde, BoundSerde) and serde.subject.format.kind == AVRO
    return lambda value: from_json(_as_given(value, has_bytes))


def _is_json(serde: Serde[Any]) -> bool:
    return serde is Serdes.JSON or (isinstance(serde, MadeSerde) and serde.name == "json")


def _items(value: Any) -> list[Any]:
    found = parsed_json(value) if isinstance(value, str) else value
    if not isinstance(found, list):
        raise ValueError("an array, or the JSON of one, is expected")
    return found


def _windowed(key: Convert, value: Any) -> Windowed[Any]:
    row = parsed_json(value) if isinstance(value, str) else value
    try:
        window = row["window"]
        return Windowed(key(row["key"]), Window(window["start"], window["end"]))
    except (TypeError, KeyError):
        expected = '{"key": ..., "window": {"start": ms, "end": ms}}'
        raise ValueError(f"a key in a window is a struct, or the JSON, {expected}") from None


def _of_other(serde: Serde[Any]) -> Write:
    def write(value: Any) -> bytes | None:
        try:
            return serde.serialize(value)
        except Exception:
            if not isinstance(value, (str, dict, list)):
                raise
            text = value if isinstance(value, str) else json.dumps(_as_json(value))
            return serde.serialize(serde.deserialize(text.encode()))

    return write


def _as_json(value: Any) -> Any:
    """Returns a value with parts that JSON has, as Spark's ``to_json`` writes them where it is exact.

    :raises ValueError: for a decimal that no JSON number of readers keeps, and for bytes.
    """
    if isinstance(value, dict):
        return {_as_name(key): _as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_json(part) for part in value]
    if isinstance(value, Decimal):
        return _as_number(value)
    if isinstance(value, (bytes, bytearray)):
        raise ValueError("JSON has no bytes: write them as text, such as by base64(column)")
    return value


def _as_given(value: Any, has_bytes: bool) -> Any:
    """Returns a value of a column as ``from_json`` of a registry serde reads it: exact decimals, times as ISO 8601.

    :param has_bytes: whether it reads ``{"base64": "..."}`` as bytes.
    :raises ValueError: for bytes where it does not.
    """
    if isinstance(value, dict):
        return {_as_name(key): _as_given(part, has_bytes) for key, part in value.items()}
    if isinstance(value, list):
        return [_as_given(part, has_bytes) for part in value]
    if isinstance(value, (bytes, bytearray)) and has_bytes:
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, (datetime, date)):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        try:
            return _as_number(value)
        except ValueError:
            return str(value)
    return _as_json(value)


def _as_name(key: Any) -> str:
    """Returns the name of a part of an object, which in a map may be of any type."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, (datetime, date)):
        return key.isoformat()
    if isinstance(key, (str, int, float, Decimal)):
        return str(key)
    raise ValueError(f"JSON has no objects with keys such as {repr_of(key)}: cast the keys of the map to string")


def _as_number(value: Decimal) -> int | float:
    if value == value.to_integral_value():
        return int(value)
    found = float(value)
    if not math.isfinite(found) or Decimal(repr(found)) != value:
        raise ValueError(
            f"the decimal {value} has more digits than readers of JSON numbers keep: cast the column to string, or to"
            " double if that is exact enough"
        )
    return found


def pairs_of(column: Any) -> list[Headers]:
    """Returns the headers of rows, from their column in Arrow."""
    return [Headers((one["key"], one["value"]) for one in given or ()) for given in column.to_pylist()]


def written_with_headers(
    name: str, serde: Serde[Any], values: Sequence[Any], headers: Sequence[Headers], what: str, topic: str
) -> list[bytes | None]:
    """Returns :func:`written` of values whose serde reads the headers of their rows, and adds some to them."""
    current, found = CurrentHeaders(), list[bytes | None]()
    write = writer_of(name, serde, current)
    for value, own in zip(values, headers, strict=True):
        current.now = own
        found += written(write, [value], what, serde, topic)
    return found


def written(write: Write, values: Sequence[Any], what: str, serde: Serde[Any], topic: str) -> list[bytes | None]:
    """Returns the bytes of values.

    :param what: the part of the record, and what has it, for the error.
    :raises SerializationError: with the value that cannot be written.
    """
    found: list[bytes | None] = []
    try:
        for value in values:
            found.append(write(value))
    except Exception as error:
        raise SerializationError(
            f"the {what} {repr_of(values[len(found)], 200)} cannot be written by the serde {serde.name!r}:"
            f" {kind_and_text(error)}; give another serde, or convert the column",
            topic=topic,
        ) from error
    return found
