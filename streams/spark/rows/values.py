"""Values of columns as the objects that serdes write: one conversion for histories and for `write_topic`.

It is the other direction of `streams.spark.rows.columns`: what is read as JSON text is written from that text, and a
struct is written as the object that it looks like. (docs/decisions/spark.md, "Structs in DataFrames are written as
objects")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from processor_api.errors import SerializationError
from processor_api.forms.json_values import parsed_json
from processor_api.record import Headers
from processor_api.serde import CurrentHeaders, Serde, Serdes
from processor_api.texts import kind_and_text, repr_of
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


def writer_of(name: str, serde: Serde[Any], current: CurrentHeaders | None = None) -> Write:
    """Returns a function from values of :func:`python_values` to bytes; null stays null.

    Serdes of one type get the value. All others make their object of it (:meth:`Serde.from_json`): a struct, a map or
    an array is the object that it looks like, and a text the JSON of one, as :mod:`streams.spark.rows.columns` writes
    it. A text that is not a JSON may be the value of a serde that does not know JSON.

    :param current: the headers that a serde gets which takes some.
    """
    write = (serde if current is None else current.handed_to(serde)).serialize
    if serde is Serdes.UUID:
        return lambda value: None if value is None else write(serde.from_json(value))
    if column_of(name, serde).kind != TEXT:
        return lambda value: None if value is None else write(value)

    writes_json, read = serde.writes_json, serde.deserialize

    def taken(value: Any) -> Any:
        if not isinstance(value, str):
            return serde.from_json(value)
        if writes_json:
            return read(value.encode())
        try:
            given = parsed_json(value)
        except ValueError:
            if serde.knows_json:
                raise
            return serde.from_text(value)
        return None if given is None else serde.from_json(given)

    def write_taken(value: Any) -> bytes | None:
        found = None if value is None else taken(value)
        return None if found is None else write(found)

    return write_taken


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
