"""The Avro schema of a class, and its objects as the dicts that Avro writes, and back.

A class is a dataclass or a model of pydantic, or any other type that has an Avro type, such as ``str`` or
``list[int]``.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple, Union

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from streams.registry.schemas import SchemaError

Convert = Callable[[Any], Any]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
_PRIMITIVE: dict[Any, Any] = {
    str: "string",
    bytes: "bytes",
    bool: "boolean",
    int: "long",
    float: "double",
    type(None): "null",
    None: "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_AS_THEY_ARE = frozenset({str, bytes, bool, int, float, type(None), datetime.date, datetime.time, uuid.UUID})
_MISSING: Any = object()


class AvroType:
    """The Avro type of a field, where it is not the one that the field's Python type has by itself.

    ::

        from dataclasses import dataclass
        from decimal import Decimal
        from typing import Annotated

        from streams import AvroType

        @dataclass
        class Order:
            count: Annotated[int, AvroType("int")]
            price: Annotated[
                Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})
            ]

    :param schema: the type as JSON has it: a name, a dict or a list.
    :param aliases: names that the field had in older schemas.
    :raises ConfigError: if they are none of these.
    """

    __slots__ = ("aliases", "schema")

    def __init__(self, schema: Any = None, *, aliases: Sequence[str] = ()) -> None:
        if schema is not None and not isinstance(schema, (str, dict, list)):
            raise ConfigError(f"an Avro type is a name, a dict or a list, got {repr_of(schema)}")
        if not isinstance(aliases, (list, tuple)) or not all(map(_is_name, aliases)):
            raise ConfigError(f"aliases are a list of names of fields, got {repr_of(aliases)}")
        self.schema = schema
        self.aliases = tuple(aliases)

    def __repr__(self) -> str:
        return f"AvroType({self.schema!r}{f', aliases={self.aliases!r}' if self.aliases else ''})"


def _is_name(given: Any) -> bool:
    return isinstance(given, str) and _NAME.fullmatch(given) is not None


class _Field(NamedTuple):
    name: str
    attribute: str
    annotation: Any
    default: Any


def is_record(given: Any) -> bool:
    """Returns whether a type is a class whose objects are records: a dataclass or a model of pydantic."""
    return isinstance(given, type) and (dataclasses.is_dataclass(given) or hasattr(given, "model_fields"))


def _fields(model: type) -> Iterator[_Field]:
    if dataclasses.is_dataclass(model):
        hints = typing.get_type_hints(model, include_extras=True)
        for field in dataclasses.fields(model):
            default = field.default
            if field.default_factory is not dataclasses.MISSING:
                default = field.default_factory()
            if default is dataclasses.MISSING:
                default = _MISSING
            yield _Field(field.name, field.name, hints[field.name], default)
        return
    known: Mapping[str, Any] = model.model_fields  # type: ignore[attr-defined]
    for attribute, info in known.items():
        annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        name = info.serialization_alias or info.alias or attribute
        default = _MISSING if info.is_required() else info.get_default(call_default_factory=True, validated_data={})
        yield _Field(name, attribute, annotation, default)


def schema_of(model: Any, name: Any = None) -> Any:
    """Returns the Avro schema of a type, as JSON has it.

    :param name: the full name of the record, ``namespace.Name``; the class's own name if left out. Records in it have
        the same namespace.
    :raises ConfigError: if a field has no Avro type; it names the field.
    """
    if name is not None and not (isinstance(name, str) and _FULL_NAME.fullmatch(name)):
        raise ConfigError(f"the name of an Avro record is like com.shop.Order, not {repr_of(name)}")
    return _Schemas(model, name).of(model, getattr(model, "__name__", str(model)))


class _Schemas:
    def __init__(self, model: Any, name: str | None) -> None:
        self._model, self._name = model, name
        self._namespace = (name or "").rpartition(".")[0]
        self._known: dict[Any, str] = {}

    def of(self, given: Any, place: str) -> Any:
        given, extras = _without_annotations(given)
        for extra in extras:
            if isinstance(extra, AvroType) and extra.schema is not None:
                return extra.schema
        if given is decimal.Decimal:
            return _decimal(extras, place)
        try:
            if given in _PRIMITIVE:
                return _PRIMITIVE[given]
        except TypeError:  # not hashable
            pass
        origin, arguments = typing.get_origin(given), typing.get_args(given)
        if origin in (Union, types.UnionType):
            return self._union(arguments, place)
        if origin is Literal:
            kinds = {type(one) for one in arguments}
            if len(kinds) == 1 and kinds <= {str, int, bool}:
                return _PRIMITIVE[kinds.pop()]
        if origin in (list, set, frozenset, Sequence) or (origin is tuple and arguments[1:] == (...,)):
            return {"type": "array", "items": self.of(arguments[0], f"{place}[]")}
        if origin in (dict, Mapping) and arguments and _without_annotations(arguments[0])[0] is str:
            return {"type": "map", "values": self.of(arguments[1], f"{place}{{}}")}
        if isinstance(given, type) and issubclass(given, enum.Enum):
            return self._enum(given, place)
        if is_record(given):
            return self._record(given, place)
        raise ConfigError(
            f"{place} has the type {repr_of(given)}, which has no Avro type: give it one with"
            " Annotated[..., AvroType(...)]"
        )

    def _union(self, branches: tuple[Any, ...], place: str) -> list[Any]:
        found = [self.of(branch, place) for branch in branches]
        if "null" in found:
            found.remove("null")
            found.insert(0, "null")
        return found

    def _full_name(self, given: type) -> str:
        if given is self._model and self._name is not None:
            return self._name
        name = re.sub(r"\W", "_", given.__name__)
        return f"{self._namespace}.{name}" if self._namespace else name

    def _enum(self, given: type[enum.Enum], place: str) -> Any:
        values = [member.value for member in given]
        if values and all(type(value) is int for value in values):
            return "long"
        if not all(isinstance(value, str) for value in values):
            raise ConfigError(f"{place} is the enum {given.__name__}, whose values are neither all texts nor all ints")
        if not all(_NAME.fullmatch(value) for value in values):
            return "string"
        if given in self._known:
            return self._known[given]
        self._known[given] = name = self._full_name(given)
        return {"type": "enum", "name": name, "symbols": values}

    def _record(self, given: type, place: str) -> Any:
        if given in self._known:
            return self._known[given]
        name = self._full_name(given)
        if name in self._known.values():
            raise ConfigError(f"{place}: two classes have the name {name} in one schema")
        self._known[given] = name
        fields = [self._field(field, f"{place}.{field.name}") for field in _fields(given)]
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, field: _Field, place: str) -> dict[str, Any]:
        if not _NAME.fullmatch(field.name):
            raise ConfigError(f"{place}: a field of Avro has letters, digits and underscores in its name")
        schema = self.of(field.annotation, place)
        found: dict[str, Any] = {"name": field.name, "type": schema}
        aliases = [a for e in _without_annotations(field.annotation)[1] if isinstance(e, AvroType) for a in e.aliases]
        if aliases:
            found["aliases"] = aliases
        default = _default(field.default)
        if default is not _MISSING:
            if isinstance(schema, list):
                found["type"] = schema = _first_for(default, schema)
            if _fits_default(default, schema[0] if isinstance(schema, list) else schema):
                found["default"] = default
        return found


def _without_annotations(given: Any) -> tuple[Any, tuple[Any, ...]]:
    extras: tuple[Any, ...] = ()
    while typing.get_origin(given) is Annotated or isinstance(given, typing.NewType):
        if isinstance(given, typing.NewType):
            given = given.__supertype__
            continue
        arguments = typing.get_args(given)
        given, extras = arguments[0], arguments[1:] + extras
    # What pydantic's Field says of a dataclass is in a list of its own.
    return given, tuple(one for extra in extras for one in (extra, *getattr(extra, "metadata", ())))


def _decimal(extras: Sequence[Any], place: str) -> Any:
    """Returns the type of a decimal whose digits pydantic knows, by ``Field(max_digits=9, decimal_places=2)``."""
    digits = {name: getattr(extra, name, None) for extra in extras for name in ("max_digits", "decimal_places")}
    for extra in extras:
        digits.update({name: value for name in digits if (value := getattr(extra, name, None)) is not None})
    if digits.get("max_digits") is None or digits.get("decimal_places") is None:
        raise ConfigError(
            f"{place} is a Decimal whose digits are not known: give it Field(max_digits=9, decimal_places=2), or"
            ' Annotated[Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})]'
        )
    return {
        "type": "bytes",
        "logicalType": "decimal",
        "precision": digits["max_digits"],
        "scale": digits["decimal_places"],
    }


def _default(value: Any) -> Any:
    """Returns a default as a schema has it; nothing if it is a value that differs by the time or has no form there."""
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or type(value) in (str, bool, int, float):
        return value
    return value if value in ([], {}) else _MISSING


_KINDS: dict[type, tuple[str, ...]] = {
    str: ("string", "enum"),
    bool: ("boolean",),
    int: ("long", "int"),
    float: ("double", "float"),
    type(None): ("null",),
    list: ("array",),
    dict: ("map",),
}


def _fits_default(default: Any, schema: Any) -> bool:
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if isinstance(schema, dict) and "logicalType" in schema:
        return False
    return kind in _KINDS[type(default)]


def _first_for(default: Any, branches: list[Any]) -> list[Any]:
    """Returns a union whose first branch is that of a default, as Avro demands."""
    fitting = [branch for branch in branches if _fits_default(default, branch)]
    return branches if not fitting else [fitting[0], *(branch for branch in branches if branch is not fitting[0])]


# ---------------------------------------------------------------------- objects to dicts


def to_avro(model: Any, full_names: Mapping[str, str]) -> Convert | None:
    """Returns the function from an object of a type to what Avro writes for it; ``None`` if it is the same.

    :param full_names: the full name of each record of the schema, by its name without the namespace.
    """
    return _Converters(full_names).of(model)


class _Converters:
    def __init__(self, full_names: Mapping[str, str]) -> None:
        self._full_names = full_names
        self._records: dict[Any, list[Convert]] = {}

    def of(self, given: Any) -> Convert | None:
        given = _without_annotations(given)[0]
        if given in (decimal.Decimal, None) or (isinstance(given, type) and given in _AS_THEY_ARE):
            return None
        origin, arguments = typing.get_origin(given), typing.get_args(given)
        if origin in (Union, types.UnionType):
            return self._union(arguments)
        if given is datetime.datetime:
            return _aware
        if origin in (list, set, frozenset, tuple, Sequence):
            item = self.of(arguments[0])
            return list if item is None else lambda values: [item(one) for one in values]
        if origin in (dict, Mapping):
            inner = self.of(arguments[1])
            return dict if inner is None else lambda values: {key: inner(one) for key, one in values.items()}
        if isinstance(given, type) and issubclass(given, enum.Enum):
            return _value_of_enum
        return self._record(given) if is_record(given) else None

    def _union(self, branches: tuple[Any, ...]) -> Convert | None:
        plain = [_without_annotations(branch)[0] for branch in branches]
        others = [branch for branch in plain if branch is not type(None)]
        if len(others) == 1:
            inner = self.of(others[0])
            return None if inner is None else _or_none(inner)
        by_class = [(typing.get_origin(one) or one, self.of(one)) for one in others]
        if all(convert is None for _, convert in by_class):
            return None
        several = sum(is_record(one) for one in others) > 1
        full_names = self._full_names

        def convert(value: Any) -> Any:
            for kind, inner in by_class:
                if isinstance(value, kind):
                    found = value if inner is None else inner(value)
                    if several and is_record(kind):
                        return full_names.get(kind.__name__, kind.__name__), found
                    return found
            return value

        return convert

    def _record(self, given: type) -> Convert:
        if given in self._records:
            recursive = self._records[given]
            return lambda value: recursive[0](value)
        self._records[given] = made = []
        fields = [(field.attribute, field.name, self.of(field.annotation)) for field in _fields(given)]
        made.append(_record_writer(given, fields))
        return made[0]


def _record_writer(given: type, fields: list[tuple[str, str, Convert | None]]) -> Convert:
    is_as_it_is = all(convert is None and attribute == name for attribute, name, convert in fields)
    kind: Any = given
    may_have_more = None if dataclasses.is_dataclass(given) else attrgetter("__pydantic_extra__")
    count = len(fields)

    def write(value: Any) -> Any:
        if not isinstance(value, kind):
            raise SchemaError(f"expected {given.__name__}, got {type(value).__name__}")
        if type(value) is not kind:
            raise SchemaError(f"it would come back as {given.__name__}, not {type(value).__name__}")
        extra = None if may_have_more is None else may_have_more(value)
        if extra:
            raise SchemaError(f"{given.__name__} has fields that its schema has not: {', '.join(map(str, extra))}")
        found = {}
        for attribute, name, convert in fields:
            one = getattr(value, attribute)
            found[name] = one if convert is None else convert(one)
        return found

    def write_as_it_is(value: Any) -> Any:
        if type(value) is given:
            found = vars(value)
            if len(found) == count and (may_have_more is None or not may_have_more(value)):
                return found
        return write(value)

    return write_as_it_is if is_as_it_is and given.__dictoffset__ else write


def _or_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _value_of_enum(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else value


def _aware(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        raise SchemaError(f"the time {value.isoformat()} has no time zone: give it one, such as datetime.UTC")
    return value


# ---------------------------------------------------------------------- dicts to objects


def from_avro(model: Any) -> Convert | None:
    """Returns the function from what Avro has read to an object of a type; ``None`` if it is the same.

    Records of a union come as ``(name, fields)`` where the union has several.
    """
    if isinstance(model, type) and model in (*_AS_THEY_ARE, datetime.datetime, decimal.Decimal):
        return None
    from streams.serdes.pydantic_model import validator_of

    validate: Convert = validator_of(model)
    classes = {one.__name__: validator_of(one) for one in _records_of_unions(model)}
    if not classes:
        return validate

    def resolve(value: Any) -> Any:
        if type(value) is tuple and len(value) == 2 and isinstance(value[0], str):
            fields = resolve(value[1])
            known = classes.get(value[0].rpartition(".")[2])
            return fields if known is None else known(fields)
        if isinstance(value, dict):
            return {name: resolve(one) for name, one in value.items()}
        return [resolve(one) for one in value] if isinstance(value, list) else value

    return lambda value: validate(resolve(value))


def is_flat(model: Any) -> bool:
    """Returns whether a type is a dataclass whose fields are what Avro reads, so that they need not be looked at."""
    if not isinstance(model, type) or not dataclasses.is_dataclass(model):
        return False
    return all(field.init for field in dataclasses.fields(model)) and has_plain_fields(model)


def has_plain_fields(model: type) -> bool:
    """Returns whether a record has only fields of types that Avro reads as they were written, and no records."""
    plain = (*_AS_THEY_ARE, datetime.datetime, decimal.Decimal)
    for field in _fields(model):
        given = _without_annotations(field.annotation)[0]
        is_union = typing.get_origin(given) in (Union, types.UnionType)
        branches = typing.get_args(given) if is_union else (given,)
        if not all(_without_annotations(branch)[0] in plain for branch in branches):
            return False
    return True


def _records_of_unions(model: Any) -> list[type]:
    """Returns the classes of records that stand beside others in a union, wherever in a type."""
    found: dict[type, None] = {}
    seen: set[Any] = set()

    def walk(given: Any) -> None:
        given = _without_annotations(given)[0]
        arguments = typing.get_args(given)
        if typing.get_origin(given) in (Union, types.UnionType):
            records = [one for a in arguments if is_record(one := _without_annotations(a)[0])]
            if len(records) > 1:
                found.update(dict.fromkeys(records))
        for one in arguments:
            walk(one)
        if is_record(given) and given not in seen:
            seen.add(given)
            for field in _fields(given):
                walk(field.annotation)

    walk(model)
    return list(found)
