"""Models as JSON: whether what is written can be read back equal, and the one form that equal models have.

The schema that pydantic makes of a type says what there is to look at for each value (:func:`shape_of`). Most types
need nothing; what only a few values of a type lose, such as NaN, shows in their bytes.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import call, countOf
from typing import Any, NamedTuple

from processor_api.texts import repr_of

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


# ---------------------------------------------------------------------- what comes back


def difference(found: Any, given: Any, place: str = "it") -> str | None:
    """Returns in words where what was read differs from what was written; ``None`` if it does not.

    NaN is NaN here, times are equal that are the same instant, and objects whose class does not compare them are equal.
    """
    parts = _parts_of(found, given)
    if parts is not None:
        return next((each for part in parts if (each := difference(part[1], part[2], place + part[0]))), None)
    return None if _is_same(found, given) else f"{place} would come back as {repr_of(found)}, not {repr_of(given)}"


def _parts_of(found: Any, given: Any) -> list[tuple[str, Any, Any]] | None:
    """Returns the parts of two objects of one shape, with their places; ``None`` if they are no such two."""
    names = fields_of(given)
    if names is not None:
        others = fields_of(found) if type(found) is type(given) else None
        if others is None or names.keys() != others.keys():
            return None
        return [(f".{name}", others[name], value) for name, value in names.items()]
    if isinstance(given, dict) and isinstance(found, dict) and given.keys() == found.keys():
        return [(f"[{repr_of(name)}]", found[name], value) for name, value in given.items()]
    for kind in (list, tuple):
        if isinstance(given, kind) and isinstance(found, kind) and len(given) == len(found):
            return [(f"[{index}]", *pair) for index, pair in enumerate(zip(found, given, strict=True))]
    return None


def _is_same(found: Any, given: Any) -> bool:
    if fields_of(given) is not None:
        return False
    if isinstance(given, datetime.datetime) and isinstance(found, datetime.datetime):
        return _instant(found) == _instant(given)
    kind: Any = type(given)
    if kind.__eq__ is object.__eq__:
        return type(found) is kind
    return bool(found == given) or (found != found and given != given)


def _instant(time: datetime.datetime) -> datetime.datetime:
    """Returns a time in UTC: Python compares times of two zones as never equal where one of them is repeated."""
    return time if time.utcoffset() is None else time.astimezone(datetime.UTC)


def fields_of(value: Any) -> dict[str, Any] | None:
    """Returns the fields of a model of pydantic, extra ones too, or of a dataclass, by name; ``None`` for anything
    else."""
    kind = type(value)
    if hasattr(kind, "model_fields"):
        extra = getattr(value, "__pydantic_extra__", None) or {}
        return {**{name: vars(value)[name] for name in kind.model_fields if name in vars(value)}, **extra}
    if dataclasses.is_dataclass(kind):
        return {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(kind)
            if field.compare and hasattr(value, field.name)
        }
    return None


# ---------------------------------------------------------------------- one form


def one_form(value: Any, written: Any) -> Any:
    """Returns the form that equal values have in common, in place of one of several.

    Objects have the names of their dicts in order, and sets their items; times are in UTC, and decimals have no zeros
    at their end. What a serializer of the user wrote stays as it is.

    :param value: a model, or what is in it.
    :param written: what pydantic writes it as: dicts, lists, texts and numbers.
    """
    if isinstance(written, dict):
        return _one_object(value, written)
    if isinstance(written, list) and isinstance(value, (list, tuple, set, frozenset)) and len(value) == len(written):
        items = [one_form(*pair) for pair in zip(value, written, strict=True)]
        return items if isinstance(value, (list, tuple)) else sorted(items, key=json.dumps)
    if isinstance(written, str):
        return _one_text(value, written)
    return written


def _one_object(value: Any, written: dict[str, Any]) -> dict[str, Any]:
    if isinstance(value, dict) and len(value) == len(written):
        items = {name: one_form(one, each) for one, (name, each) in zip(value.values(), written.items(), strict=True)}
        return dict(sorted(items.items()))
    fields = fields_of(value)
    if fields is None:
        return {name: one_form(each, each) for name, each in sorted(written.items())}
    names = {name: name for name in fields}
    declared = getattr(type(value), "model_fields", None) or getattr(type(value), "__pydantic_fields__", {})
    for name, field in declared.items():
        names[getattr(field, "serialization_alias", None) or name] = name
    known = {name: one_form(fields.get(names[name], each), each) for name, each in written.items() if name in names}
    extra = getattr(value, "__pydantic_extra__", None) or {}
    later = {name: known.pop(name) for name in sorted(extra) if name in known}
    rest = {name: one_form(each, each) for name, each in written.items() if name not in names}
    return {**known, **later, **rest}


def _one_text(value: Any, written: str) -> str:
    if isinstance(value, datetime.datetime) and value.utcoffset() is not None:
        if written == _text_of_time(value):
            return _text_of_time(value.astimezone(datetime.UTC))
    elif isinstance(value, datetime.time) and value.utcoffset() is not None:
        raise TypeError("a time of day with a zone cannot be in a key: equal ones have no common text")
    elif isinstance(value, decimal.Decimal) and written == str(value):
        digits = max(len(value.as_tuple().digits), 1)
        return str(value.normalize(decimal.Context(prec=digits)))
    return written


def _text_of_time(value: datetime.datetime) -> str:
    text = value.isoformat()
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
