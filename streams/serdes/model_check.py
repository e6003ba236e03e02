"""Compiled checks of models: whether a value has the very types that its schema declares.

What such a value is written as is read as the same value, so nothing more has to be looked at. A value that does not
pass may be right all the same, such as a time in a zone that is not UTC: it is looked at in another way.
"""

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from collections.abc import Callable, Mapping
from typing import Any

_TYPES: dict[str, type] = {
    "str": str,
    "int": int,
    "bool": bool,
    "float": float,
    "none": type(None),
    "uuid": uuid.UUID,
    "date": datetime.date,
    "timedelta": datetime.timedelta,
    "decimal": decimal.Decimal,
    "datetime": datetime.datetime,
    "time": datetime.time,
}
"""The types of Python of which the values of a kind of schema are."""
_MORE = {
    "float": "isfinite({})",
    "decimal": "{}.is_finite()",
    "datetime": "not {}.utcoffset()",  # without a zone, or at the offset of UTC
    "time": "{}.tzinfo is None",
}
"""What else has to hold of such a value."""
_CONTAINERS: dict[str, type] = {each.__name__: each for each in (list, tuple, set, frozenset)}


class _NoCheck(Exception):
    """There is a kind of schema in it for which there is no check."""


def exact_check(schema: Any) -> Callable[[Any], bool] | None:
    """Returns a function that returns whether a value is surely of a schema of pydantic.

    It may raise anything that the value's own methods raise, and ``KeyError`` or ``AttributeError`` if a field is
    missing.

    :param schema: one whose values come back as they were; that it is one is not checked.
    :return: ``None`` if the schema has kinds of types that are not known here.
    """
    try:
        return _Source().compiled(schema)
    except _NoCheck:
        return None


class _Source:
    """Writes the source of a check; an expression for each schema, a function for each class."""

    def __init__(self) -> None:
        self._scope: dict[str, Any] = {"isfinite": math.isfinite}
        self._lines: list[str] = []
        self._functions: dict[int, str] = {}
        self._definitions: dict[str, Mapping[str, Any]] = {}
        self._names = 0

    def compiled(self, schema: Any) -> Callable[[Any], bool]:
        self._lines.append(f"check = {self._function(schema)}")
        exec("\n".join(self._lines), self._scope)
        check: Callable[[Any], bool] = self._scope["check"]
        return check

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _known(self, value: object) -> str:
        """Returns the name that a value has in the source."""
        name = self._name()
        self._scope[name] = value
        return name

    def _function(self, schema: Mapping[str, Any]) -> str:
        """Returns the name of the function that checks values of a schema."""
        while schema["type"] in ("definitions", "definition-ref", "default"):
            schema = self._meant(schema)
        name = self._functions.get(id(schema))
        if name is None:
            name = self._functions[id(schema)] = self._name()  # before the body, which may call it
            fields = self._fields(schema)
            if fields is None:
                self._lines.append(f"def {name}(v): return {self._of(schema, 'v')}")
            else:
                kind = self._known(schema["cls"])
                has_dict = schema["type"] == "model"  # to get its attributes one by one takes longer
                where = "d[{!r}]" if has_dict else "v.{}"
                checks = [self._of(each, where.format(field)) for field, each in fields.items()]
                start = f"def {name}(v):\n if type(v) is not {kind}: return False\n" + " d = v.__dict__\n" * has_dict
                self._lines.append(f"{start} return {' and '.join(checks) or True}")
        return name

    def _meant(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the schema behind one that only leads to another."""
        if schema["type"] == "definition-ref":
            return self._definitions[schema["schema_ref"]]
        for each in schema.get("definitions", ()):
            self._definitions[each["ref"]] = each
        meant: Mapping[str, Any] = schema["schema"]
        return meant

    @staticmethod
    def _fields(schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the schemas of the fields of a class by their names; ``None`` for other schemas."""
        inner = schema.get("schema", {})
        if schema["type"] == "model" and inner["type"] == "model-fields":
            return {name: field["schema"] for name, field in inner["fields"].items()}
        if schema["type"] == "dataclass" and inner["type"] == "dataclass-args":
            return {field["name"]: field["schema"] for field in inner["fields"]}
        return None

    def _of(self, schema: Mapping[str, Any], v: str) -> str:
        """Returns the expression that is true if a value is of a schema.

        :param v: the expression of the value.
        """
        kind = schema["type"]
        if kind in ("definitions", "definition-ref", "default"):
            return self._of(self._meant(schema), v)
        if kind in ("model", "dataclass"):
            if self._fields(schema) is None:
                raise _NoCheck
            return f"{self._function(schema)}({v})"
        first, again = (v, v) if v.isidentifier() else (f"({(name := self._name())} := {v})", name)
        if kind in _TYPES:
            more = _MORE.get(kind)
            alone = f"type({v if more is None else first}) is {self._known(_TYPES[kind])}"
            return alone if more is None else f"({alone} and {more.format(again)})"
        if kind == "enum":
            return f"type({v}) is {self._known(schema['cls'])}"
        if kind == "nullable":
            return f"({first} is None or {self._of(schema['schema'], again)})"
        if kind == "literal":
            expected = frozenset(schema["expected"])
            kinds = frozenset(map(type, expected))
            return f"(type({first}) in {self._known(kinds)} and {again} in {self._known(expected)})"
        if kind == "union":
            checks = [self._of(one, first if at == 0 else again) for at, one in enumerate(schema["choices"])]
            return f"({' or '.join(checks)})"
        return f"({self._container(schema, first, again)})"

    def _container(self, schema: Mapping[str, Any], first: str, again: str) -> str:
        kind = schema["type"]
        if kind == "dict" and "values_schema" in schema:
            names = self._each(schema["keys_schema"], again)
            return f"type({first}) is dict and {names} and {self._each(schema['values_schema'], f'{again}.values()')}"
        items = schema.get("items_schema")
        if kind == "tuple" and isinstance(items, list):
            if schema.get("variadic_item_index") is None:
                checks = [f" and {self._of(one, f'{again}[{at}]')}" for at, one in enumerate(items)]
                return f"type({first}) is tuple and len({again}) == {len(items)}{''.join(checks)}"
            items = items[0] if len(items) == 1 else None
        if kind not in _CONTAINERS or items is None:
            raise _NoCheck
        return f"type({first}) is {self._known(_CONTAINERS[kind])} and {self._each(items, again)}"

    def _each(self, schema: Mapping[str, Any], values: str) -> str:
        """Returns the expression that is true if all values of an iterable are of a schema."""
        kind = schema["type"]
        if kind in _TYPES and kind not in _MORE:
            return f"{self._known(frozenset((_TYPES[kind],)))}.issuperset(map(type, {values}))"
        return f"all(map({self._function(schema)}, {values}))"
