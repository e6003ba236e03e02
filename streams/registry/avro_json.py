"""The JSON of values of Avro that people see and give, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.forms.json_values import BASE64, NOT_FINITE, as_json, bytes_as_json, bytes_of_json
from streams.registry.avro_schemas import RECORDS, AvroSchema, kind_of, short
from streams.registry.avro_values import Form, Forms, logical_of

_JSON = {
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "number"),
    **dict.fromkeys(("enum", "string"), "string"),
    **dict.fromkeys(("boolean", "null")),
}
_IN_JSON = {kind: {"type": one or kind} for kind, one in _JSON.items()}


def json_schema(schema: AvroSchema) -> dict[str, Any]:
    """Returns the JSON Schema of the JSON of the values of a schema, see `AvroJson`. Bytes are any value in it, and so
    are unions of several types: both have several forms."""
    records: dict[str, Any] = {}

    def of(given: Any) -> Any:
        node = schema.meant(given)
        kind = kind_of(node)
        if kind == "union":
            return {"anyOf": list(map(of, node))}
        if logical_of(node) is not None:
            return {"type": "string"}
        if kind == "array":
            return {"type": "array", "items": of(node["items"])}
        if kind == "map":
            return {"type": "object", "additionalProperties": of(node["values"])}
        if kind not in RECORDS:
            return _IN_JSON.get(kind, {})
        name = node["name"]
        if name not in records:
            records[name] = None  # it may contain itself
            fields = {field["name"]: of(field["type"]) for field in node["fields"]}
            records[name] = {"type": "object", "properties": fields, "required": list(fields)}
        return {"$ref": f"#/$defs/{name}"}

    return {**of(schema.root), "$defs": records}


class AvroJson:
    """The JSON of the values of one schema, which says where a text is bytes, a time or a decimal.

    A value of a union stands as it is where it would be read as the same; otherwise it is ``{"name of its type":
    value}``, as in Avro's own JSON.
    """

    def __init__(self, forms: Forms) -> None:
        self._schema: AvroSchema = forms.schema
        self._write: Callable[[Any], Any] = forms.of(self._schema.root).write
        self._forms = Forms(self._schema, {})
        self._known: dict[int, Form] = {}
        """The forms of unions and their branches, by the identity of their nodes."""

    def shown(self, value: Any) -> Any:
        """Returns a value as JSON has it; raises `Misfit` if it is none of the schema."""
        return self._shown(self._schema.root, self._write(value))

    def given(self, value: Any) -> Any:
        """Returns the value without a model that JSON stands for; bytes, decimals and times may be those of Python.
        What stands for nothing is returned as it is, and refused when it is written."""
        return self._given(self._schema.root, value)

    def _shown(self, given: Any, raw: Any) -> Any:
        """Returns the JSON of what fastavro takes for a value of a type."""
        node = self._schema.meant(given)
        if isinstance(node, list):
            return None if raw is None else self._chosen(node, *raw)
        kind, logical = kind_of(node), logical_of(node)
        if logical is not None:
            return as_json(logical.read(raw))
        if kind in ("bytes", "fixed"):
            return bytes_as_json(raw)
        if kind == "array":
            return [self._shown(node["items"], one) for one in raw]
        if kind == "map":
            return {name: self._shown(node["values"], one) for name, one in raw.items()}
        if kind in RECORDS:
            return {field["name"]: self._shown(field["type"], raw[field["name"]]) for field in node["fields"]}
        return as_json(raw)

    def _chosen(self, union: list[Any], name: str, raw: Any) -> Any:
        """Returns the JSON of the value of a branch, with the name of that unless it is found without."""
        shown = self._shown(next(one for one in union if self._form(one).branch == name), raw)
        try:
            is_clear = self._form(union).write(self._given(union, shown)) == (name, raw)
        except ValueError:
            is_clear = False
        return shown if is_clear else {name: shown}

    def _form(self, node: Any) -> Form:
        if id(node) not in self._known:
            self._known[id(node)] = self._forms.of(node)
        return self._known[id(node)]

    def _given(self, given: Any, value: Any) -> Any:
        node = self._schema.meant(given)
        if isinstance(node, list):
            return self._choice(node, value)
        kind, logical = kind_of(node), logical_of(node)
        if logical is not None and isinstance(value, (str, int, float)):
            kind_of_value: Any = logical.kind
            return getattr(kind_of_value, "fromisoformat", kind_of_value)(str(value))
        if kind in ("bytes", "fixed") and (isinstance(value, str) or (isinstance(value, dict) and BASE64 in value)):
            return bytes_of_json(value)
        if kind in ("float", "double") and value in NOT_FINITE.values():
            return float(value)
        if kind == "array" and isinstance(value, list):
            return [self._given(node["items"], one) for one in value]
        if kind == "map" and isinstance(value, dict):
            return {name: self._given(node["values"], one) for name, one in value.items()}
        if kind in RECORDS and isinstance(value, dict):
            types = {field["name"]: field["type"] for field in node["fields"]}
            return {name: self._given(types[name], part) if name in types else part for name, part in value.items()}
        return value

    def _choice(self, union: list[Any], value: Any) -> Any:
        """Returns the value of the branch that JSON names, or else of the first that takes it."""
        names = {name: one for one in union for name in (short(self._form(one).branch), self._form(one).branch)}
        named = (
            [(names[name], one) for name, one in value.items() if name in names]
            if isinstance(value, dict) and len(value) == 1
            else []
        )
        for branch, one in (*named, *((branch, value) for branch in union)):
            try:
                found, form = self._given(branch, one), self._form(branch)
                form.write(found)
            except (ValueError, TypeError):
                continue
            return found if found is None else (form.branch, found)
        return value
