"""The struct that has the fields of a model, from the JSON Schema of its serde, and the values that fill it.

A field has the type that it has in JSON: times, decimals and bytes are text. So what was read can be written again.
(docs/decisions/spark.md, "A struct has the types of JSON")
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import pyarrow as pa

from processor_api.serde import Serde
from processor_api.texts import repr_of
from streams.schemas.json_schemas import KIND
from streams.spark.errors import SparkBridgeError

_PLAIN = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_DDL = {pa.string(): "string", pa.int64(): "bigint", pa.float64(): "double", pa.bool_(): "boolean"}
_NULL = {"type": "null"}


def struct_type(name: str, serde: Serde[Any]) -> pa.DataType:
    """Returns the type of the column of a serde of objects.

    :param name: of the column, for the error.
    :raises SparkBridgeError: if the serde has no JSON Schema, or a field in it has no single type.
    """
    schema = serde.schema
    if schema is None or schema.kind != KIND:
        raise SparkBridgeError(
            f"the serde {serde.name!r} of the column {name} has no JSON Schema, which says the fields of a struct."
            " Leave structs out, which gives text"
        )
    found = json.loads(schema.text)
    return _Types(name, serde.name, found.get("$defs", {}) if isinstance(found, dict) else {}).of(found, name, ())


class _Types:
    """Finds the types of the parts of one schema."""

    def __init__(self, column: str, serde: str, definitions: Mapping[str, Any]) -> None:
        self._column, self._serde, self._definitions = column, serde, definitions

    def of(self, schema: Any, place: str, inside: tuple[str, ...]) -> pa.DataType:
        """Returns the type of a part.

        :param place: the part, for errors.
        :param inside: the definitions around it.
        """
        if not isinstance(schema, Mapping):
            self._refuse(place, "any value")
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in inside:
                self._refuse(place, "parts of its own type")
            return self.of(self._definitions.get(name), place, (*inside, name))
        if "anyOf" in schema:
            kinds = [one for one in schema["anyOf"] if one != _NULL]
            if len(kinds) != 1:
                self._refuse(place, "several types")
            return self.of(kinds[0], place, inside)
        kind = schema.get("type")
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


def filler(kind: pa.DataType) -> Callable[[Any], Any]:
    """Returns the function from a value of JSON to one that Arrow takes for a type: NaN and infinities, which JSON has
    as text, are numbers, and maps are pairs."""
    if pa.types.is_struct(kind):
        parts = {one.name: filler(one.type) for one in kind}

        def filled(found: Any) -> Any:
            if found is None:
                return None
            if unknown := found.keys() - parts.keys():
                raise ValueError(f"the schema has no field {min(unknown)!r}")
            return {name: part(found[name]) for name, part in parts.items()}

        return filled
    if pa.types.is_map(kind):
        item = filler(kind.item_type)
        return lambda found: None if found is None else [(key, item(value)) for key, value in found.items()]
    if pa.types.is_list(kind):
        each = filler(kind.value_type)
        return lambda found: None if found is None else [each(one) for one in found]
    if pa.types.is_floating(kind):
        return lambda found: None if found is None else float(found)
    if pa.types.is_integer(kind):
        return lambda found: None if found is None else pa.scalar(found, kind).as_py()
    return lambda found: found
