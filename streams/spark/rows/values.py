"""Values of columns as the objects that serdes write: one conversion for histories and for `write_topic`.

It is the other direction of `streams.spark.rows.columns`: what is read as JSON text is written from that text, and a
struct is written as the object that it looks like. (docs/decisions/spark.md, "Rows are the objects that they look
like")
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from processor_api.errors import SerializationError
from processor_api.record import Headers
from processor_api.serde import CurrentHeaders, Serde
from processor_api.texts import kind_and_text, repr_of
from streams.serdes.functions import MadeSerde
from streams.serdes.pydantic_model import ModelSerde
from streams.spark.rows.columns import TEXT, column_of

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


def writer_of(name: str, serde: Serde[Any]) -> Write:
    """Returns a function from values of :func:`python_values` to bytes; null stays null.

    Serdes of one type get the value. Of the serdes of objects, a model validates it, and JSON gets what JSON has; text
    is the JSON of the object for both. A serde of one's own gets the value, and if it refuses that, what it reads from
    its JSON.
    """
    if column_of(name, serde).kind != TEXT:
        return lambda value: None if value is None else serde.serialize(value)
    if isinstance(serde, ModelSerde):
        found = _of_model(serde)
    elif isinstance(serde, MadeSerde) and serde.name == "json":
        found = _of_json(serde)
    else:
        found = _of_other(serde)
    return lambda value: None if value is None else found(value)


def _of_model(serde: ModelSerde[Any]) -> Write:
    write, read, validate = serde.serialize, serde.deserialize, serde.validate
    return lambda value: write(read(value.encode()) if isinstance(value, str) else validate(value))


def _of_json(serde: Serde[Any]) -> Write:
    write, read = serde.serialize, serde.deserialize
    return lambda value: write(read(value.encode()) if isinstance(value, str) else _as_json(value))


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
    write = writer_of(name, current.handed_to(serde))
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
