"""Whether what is written of a model can be read back equal.

The schema that pydantic makes of a type says what there is to look at for each value (:func:`shape_of`). Most types
need nothing; what only a few values of a type lose, such as NaN, shows in their bytes. A compiled check
(:func:`exact_check`) says whether a value has the very types that its schema declares. What such a value is written as
is read as the same value, so nothing more must be looked at. A value that does not pass may be right all the same,
such as a time in a zone that is not UTC.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import call, countOf
from typing import Any, NamedTuple

_COMMON = frozenset(("type", "metadata", "ref"))
_KNOWN: dict[str, frozenset[str]] = {
    "str": frozenset(),
    "int": frozenset(),
    "bool": frozenset(),
    "uuid": frozenset(),
    "date": frozenset(),
    "timedelta": frozenset(("microseconds_precision",)),
    "enum": frozenset(("cls", "members", "sub_type")),
    "literal": frozenset(("expected",)),
    "nullable": frozenset(("schema",)),
    "default": frozenset(("schema", "default", "default_factory", "default_factory_takes_data")),
    list.__name__: frozenset(("items_schema",)),
    "tuple": frozenset(("items_schema", "variadic_item_index")),
    "model": frozenset(("cls", "config", "custom_init", "root_model", "schema")),
    "model-fields": frozenset(("computed_fields", "fields", "model_name")),
    "model-field": frozenset(("schema", "validation_alias", "serialization_alias")),
    "dataclass": frozenset(("cls", "config", "fields", "frozen", "post_init", "slots", "schema")),
    "dataclass-args": frozenset(("collect_init_only", "computed_fields", "dataclass_name", "fields")),
    "dataclass-field": frozenset(("init", "kw_only", "name", "schema")),
    "definitions": frozenset(("definitions", "schema")),
    "definition-ref": frozenset(("schema_ref",)),
    "float": frozenset(),
    "decimal": frozenset(),
    "datetime": frozenset(("microseconds_precision",)),
    "time": frozenset(("microseconds_precision",)),
    "dict": frozenset(("keys_schema", "values_schema")),
    "set": frozenset(("items_schema",)),
    "frozenset": frozenset(("items_schema",)),
    "union": frozenset(("choices",)),
}
"""Kinds of schemas whose values come back as they were, but for what :class:`ModelShape` tells, and what may be said in
them without changing that: no limits, validators, serializers and the like."""
_MANY_FORMS = frozenset(("float", "decimal", "datetime", "time", "dict", "set", "frozenset"))
"""Kinds of schemas of which equal values have different texts."""
_SUBSCHEMAS = ("schema", "items_schema", "keys_schema", "values_schema", "fields", "definitions", "choices")
_PLAIN = frozenset(("str", "int", "bool", "float", "none"))
"""Kinds of schemas whose values JSON tells apart, so that a union of them comes back."""
_BY_NAME = frozenset(("validate_by_name", "populate_by_name"))
_is_east, _is_west = re.compile(rb'\+[0-9]{2}:[0-9]{2}"').search, re.compile(rb'-[0-9]{2}:[0-9]{2}"').search
"""Find a time in a zone other than UTC, whose offset may be cut to minutes."""
_long_integer = re.compile(rb"[0-9]{4301}").search
MOST_DIGITS = 4300
PLUS = ord("+")

Doubt = Callable[[bytes, Any], bool]
"""Returns whether a value that was written as some bytes may come back as another."""


class ModelShape(NamedTuple):
    """The ways in which values of a type may come back as others."""

    is_uncertain: bool = False
    """Whether any of them may come back as another: a field that is left out, a function of the user, ``Any``."""
    has_floats: bool = False
    """Whether there are floats, which may be NaN or infinite."""
    has_decimals: bool = False
    """Whether there are decimals, which may be so too."""
    has_times: bool = False
    """Whether there are times that may have a zone."""
    classes: tuple[type, ...] = ()
    """The classes in it; a value of a subclass loses the fields that it adds."""
    has_literals: bool = False
    """Whether there are literals, for which pydantic writes any other value too."""
    has_many_forms: bool = False
    """Whether equal values may have different bytes."""

    def doubt(self) -> Doubt:
        """Returns the function that is asked about each value that is written; it looks for no more than there is."""
        if self.is_uncertain or self.has_literals:
            return lambda data, value: True
        _, has_floats, has_decimals, has_times, classes, _, _ = self
        subclasses: list[Callable[[], Any]] = [kind.__subclasses__ for kind in classes]

        def doubt(data: bytes, value: Any) -> bool:  # each value of a topic comes by here
            if has_floats:  # NaN is written as null; not so if there are as many as fields that are None
                nulls = data.count(b"null")
                if nulls and countOf(getattr(value, "__dict__", {}).values(), None) != nulls:
                    return True
            if has_decimals and (b'N"' in data or b'y"' in data):  # "NaN" and "Infinity"
                return True
            if has_times and ((PLUS in data and _is_east(data) is not None) or _is_west(data) is not None):
                return True
            if subclasses and any(map(call, subclasses)):
                return True
            return has_long_integer(data)

        return doubt


def has_long_integer(data: bytes) -> bool:
    """Returns whether there may be an integer with more digits than Python reads."""
    return len(data) > MOST_DIGITS and _long_integer(data) is not None


def shape_of(schema: Any) -> ModelShape:
    """Returns the shape of the type that a schema of pydantic describes."""
    nodes = list(_nodes(schema))
    kinds = {node.get("type") for node in nodes}
    is_uncertain = not all(map(_is_certain, nodes))
    return ModelShape(
        is_uncertain=is_uncertain,
        has_floats="float" in kinds,
        has_decimals="decimal" in kinds,
        has_times=not kinds.isdisjoint(("datetime", "time")),
        classes=tuple(node["cls"] for node in nodes[1:] if node.get("type") in ("model", "dataclass")),
        has_literals="literal" in kinds,
        has_many_forms=is_uncertain or not kinds.isdisjoint(_MANY_FORMS),
    )


def reads_more(schema: Any) -> bool:
    """Returns whether a type reads more than its JSON schema says: other names of its fields, or whatever a function of
    the user's makes a value of."""
    return any(
        (node["type"].startswith("function-") and node["type"] != "function-after")
        or isinstance(node.get("validation_alias"), list)
        or node.get("custom_init")
        or not _BY_NAME.isdisjoint(name for name, value in node.get("config", {}).items() if value)
        for node in _nodes(schema)
    )


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yields a schema and all that are in it."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get("type"), str):
            yield schema
            found: Iterable[Any] = (schema[name] for name in _SUBSCHEMAS if name in schema)
        else:
            found = schema.values()
    else:
        found = schema if isinstance(schema, (list, tuple)) else ()
    for each in found:
        yield from _nodes(each)


def _is_certain(node: Mapping[str, Any]) -> bool:
    kind = node["type"]
    known = _KNOWN.get(kind)
    if known is None or not node.keys() <= known | _COMMON:
        return False
    if kind == "enum":
        return all(type(member.value) in (str, int) for member in node["members"])
    if kind == "literal":
        return all(type(one) in (str, int) for one in node["expected"])
    if kind == "dict":
        return bool(node.get("keys_schema", {}).get("type") == "str")
    if "items_schema" in known:
        return "items_schema" in node
    if kind == "union":
        return all(isinstance(one, Mapping) and one["type"] in _PLAIN for one in node["choices"])
    if kind == "model-field":
        alias = node.get("validation_alias")
        return alias == node.get("serialization_alias") and (alias is None or isinstance(alias, str))
    if node.get("config", {}).keys() > {"title"}:
        return False
    flags = ("custom_init", "root_model", "post_init", "collect_init_only", "computed_fields")
    return not any(node.get(flag) for flag in flags) and node.get("init", True) is True


# ---------------------------------------------------------------------- values that need no look


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
"""The conditions that such a value has to meet besides."""
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
