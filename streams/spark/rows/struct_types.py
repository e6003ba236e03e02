"""The struct that has the fields of a model, from the JSON Schema of its serde, and the values that fill it.

A field has the type that it has in JSON: times, decimals and bytes are text. So what was read can be written again.
(docs/decisions/spark.md, "A struct has the types of JSON")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from processor_api.serde import Serde, Serdes
from processor_api.texts import repr_of
from state.formats.windowed_serdes import WindowedKeySerde
from streams.spark.errors import SparkBridgeError

Fill = Callable[[Any], Any]

_PLAIN = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_DDL = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
_NULL = {"type": "null"}
_BUILT_IN = (
    (Serdes.STRING, pa.string()),
    (Serdes.UUID, pa.string()),
    (Serdes.LONG, pa.int64()),
    (Serdes.INTEGER, pa.int64()),
    (Serdes.SHORT, pa.int64()),
    (Serdes.DOUBLE, pa.float64()),
    (Serdes.FLOAT, pa.float64()),
    (Serdes.BOOLEAN, pa.bool_()),
)
"""Serdes of keys in windows that are not objects, and the types of what they return as JSON."""
_WINDOW = pa.struct([("start", pa.int64()), ("end", pa.int64())])


def struct_type(name: str, serde: Serde[Any]) -> pa.DataType:
    """Returns the type of the column of a serde of objects.

    :param name: of the column, for the error.
    :raises SparkBridgeError: if the serde has no JSON Schema, or a field in it has no single type.
    """
    if isinstance(serde, WindowedKeySerde):
        return pa.struct([("key", _type_in_window(name, serde.inner)), ("window", _WINDOW)])
    text = serde.shown_schema
    if text is None:
        raise SparkBridgeError(
            f"the column {name} cannot be a struct: its serde {serde.name!r} has no JSON Schema, which names the"
            " fields. Leave structs out, which gives text"
        )
    found = json.loads(text)
    return _Types(name, serde.name, found if isinstance(found, dict) else {}).of(found, name, ())


def _type_in_window(name: str, serde: Serde[Any]) -> pa.DataType:
    """Returns the type of the key within a window, by what the key is in JSON."""
    built_in = next((kind for known, kind in _BUILT_IN if serde is known), None)
    return struct_type(name, serde) if built_in is None else built_in


class _Types:
    """Finds the types of the parts of one schema."""

    def __init__(self, column: str, serde: str, schema: Mapping[str, Any]) -> None:
        self._column, self._serde = column, serde
        self._definitions = {
            f"#/{word}/{name}": one for word in ("definitions", "$defs") for name, one in schema.get(word, {}).items()
        }

    def of(self, schema: Any, place: str, inside: tuple[str, ...]) -> pa.DataType:
        """Returns the type of a part.

        :param place: the part, for errors.
        :param inside: the definitions around it.
        """
        if not isinstance(schema, Mapping):
            self._refuse(place, "any value")
        if "$ref" in schema:
            name = schema["$ref"]
            if name in inside:
                self._refuse(place, "parts of its own type")
            if name not in self._definitions:
                self._refuse(place, "a type that the schema does not define itself")
            return self.of(self._definitions[name], place, (*inside, name))
        if "anyOf" in schema:
            kinds = [one for one in schema["anyOf"] if one != _NULL]
            if len(kinds) != 1:
                self._refuse(place, "several types")
            return self.of(kinds[0], place, inside)
        kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [one for one in kind if one != "null"]
            kind = kinds[0] if len(kinds) == 1 else self._refuse(place, "several types")
        if kind == "object":
            return self._object(schema, place, inside)
        if kind == "array" and "prefixItems" not in schema and "items" in schema:
            return pa.list_(self.of(schema["items"], f"{place}[]", inside))
        if kind not in _PLAIN:
            self._refuse(place, "no single type")
        return _PLAIN[kind]

    def _object(self, schema: Mapping[str, Any], place: str, inside: tuple[str, ...]) -> pa.DataType:
        fields, more = schema.get("properties"), schema.get("additionalProperties", False)
        if not fields and isinstance(more, Mapping) and more:
            return pa.map_(pa.string(), self.of(more, f"{place}{{}}", inside))
        if not fields or more:
            self._refuse(place, "fields that the schema does not name")
        if len({name.lower() for name in fields}) < len(fields):
            self._refuse(place, "fields whose names differ in case only, which Spark takes for one")
        if optional := sorted(fields.keys() - set(schema.get("required", ()))):
            self._refuse(f"{place}.{optional[0]}", "a value in some records only, which null does not say")
        return pa.struct([(name, self.of(one, f"{place}.{name}", inside)) for name, one in fields.items()])

    def _refuse(self, place: str, what: str) -> NoReturn:
        raise SparkBridgeError(
            f"the column {self._column} of the serde {self._serde!r} cannot be a struct: {repr_of(place)} has {what}."
            " Leave structs out, which gives text, and parse it by from_json"
        )


def spark_name(kind: pa.DataType) -> str:
    """Returns a type of :func:`struct_type` in Spark's notation."""
    if pa.types.is_struct(kind):
        fields = (f"`{one.name.replace('`', '``')}`: {spark_name(one.type)}" for one in kind)
        return f"struct<{', '.join(fields)}>"
    if pa.types.is_map(kind):
        return f"map<string, {spark_name(kind.item_type)}>"
    return f"array<{spark_name(kind.value_type)}>" if pa.types.is_list(kind) else _DDL[kind]


def filler(kind: pa.DataType) -> Fill:
    """Returns the function from a value of JSON to one that Arrow takes for a type: NaN and infinities, which JSON has
    as text, are numbers, and maps are pairs. It raises `ValueError` for a value of another type."""
    fill = _filler(kind)
    return lambda found: None if found is None else fill(found)


def _filler(kind: pa.DataType) -> Fill:
    """Returns the function for values that are not null."""
    if pa.types.is_struct(kind):
        parts = {one.name: filler(one.type) for one in kind}
        return lambda found: _fields(_checked(found, dict, "an object"), parts)
    if pa.types.is_map(kind):
        item = filler(kind.item_type)
        return lambda found: [
            (_string(name), item(value)) for name, value in _checked(found, dict, "an object").items()
        ]
    if pa.types.is_list(kind):
        each = filler(kind.value_type)
        return lambda found: [each(one) for one in _checked(found, list, "a list")]
    return _PLAIN_FILLERS[kind]


def _checked(found: Any, wanted: type, what: str) -> Any:
    if type(found) is not wanted:
        raise ValueError(f"the schema has {what} here, got {repr_of(found, 100)}")
    return found


def _fields(found: dict[str, Any], parts: Mapping[str, Fill]) -> dict[str, Any]:
    if found.keys() != parts.keys():
        name = min(found.keys() ^ parts.keys())
        where, not_in = ("value", "schema") if name in found else ("schema", "value")
        raise ValueError(f"the {where} has a field {repr_of(name)}, and the {not_in} has none of this name")
    return {name: part(found[name]) for name, part in parts.items()}


def _string(found: Any) -> str:
    text: str = _checked(found, str, "a string")
    if not text.isascii():
        text.encode()  # half of a surrogate pair: Arrow would not say in which record
    return text


def _integer(found: Any) -> int:
    number = int(found) if type(found) is float and found.is_integer() else found
    if not -(1 << 63) <= _checked(number, int, "an integer") < 1 << 63:
        raise ValueError(f"{number} is not in the range of bigint")
    exact: int = number
    return exact


def _number(found: Any) -> float:
    if found in _NOT_FINITE or type(found) is float:
        return float(found)
    if type(found) is not int or not _is_exact(found):
        raise ValueError(f"the schema has a number here that is a double, got {repr_of(found, 100)}")
    return float(found)


def _is_exact(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_PLAIN_FILLERS: Mapping[pa.DataType, Fill] = {
    pa.string(): _string,
    pa.int64(): _integer,
    pa.float64(): _number,
    pa.bool_(): lambda found: _checked(found, bool, "a boolean"),
}
