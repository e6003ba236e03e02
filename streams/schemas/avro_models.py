"""The Avro schema of a class: a dataclass or a model of pydantic, or any other type that has an Avro type, such as
``str`` or ``list[int]``."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, Union

from processor_api.errors import ConfigError
from processor_api.texts import repr_of

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(rf"{_NAME.pattern}(\.{_NAME.pattern})*")
PRIMITIVE: dict[Any, Any] = {
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
AS_THEY_ARE = frozenset(kind for kind in (*PRIMITIVE, decimal.Decimal) if kind is not None)
"""Types whose values Avro reads as they were written."""
MISSING: Any = dataclasses.MISSING
_UNIONS = (Union, types.UnionType)


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
            raise ConfigError(f"an Avro type must be a name, a dict or a list, got {repr_of(schema)}")
        if not isinstance(aliases, (list, tuple)) or not all(map(_is_name, aliases)):
            raise ConfigError(f"aliases must be a list of names of fields, got {repr_of(aliases)}")
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
    """Its value where none is given; nothing if that differs, as of a function."""
    is_filled: bool
    """Whether the class has a value where none is given."""
    aliases: tuple[str, ...] = ()
    """The names under which pydantic reads it."""


class RecordClass(NamedTuple):
    """A class whose objects are records."""

    kind: Any
    fields: tuple[_Field, ...]

    @property
    def is_plain(self) -> bool:
        """Whether its objects are made of their fields as Avro reads them, without pydantic or the user's functions."""
        params = getattr(self.kind, "__dataclass_params__", None)
        if params is None or not params.init or hasattr(self.kind, "__post_init__"):
            return False
        return all(field.init for field in dataclasses.fields(self.kind)) and self.has_plain_fields

    def has_fields(self, names: list[str]) -> bool:
        """Returns whether the attributes of its objects are all in their dicts, under these names in this order."""
        has_others = getattr(self.kind, "model_config", {}).get("extra") == "allow"
        own = [(field.attribute, field.name) for field in self.fields if field.name in names]
        return bool(self.kind.__dictoffset__) and not has_others and own == [(name, name) for name in names]

    @property
    def has_plain_fields(self) -> bool:
        """Whether its fields are all of types that Avro reads as they were written, and no records."""
        return all(_is_plain(field.annotation) for field in self.fields)


def _is_plain(given: Any) -> bool:
    plain = _without_annotations(given)[0]
    if typing.get_origin(plain) in _UNIONS:
        return all(map(_is_plain, typing.get_args(plain)))
    return plain is None or (isinstance(plain, type) and plain in AS_THEY_ARE)


def record_class(kind: Any) -> RecordClass | None:
    """Returns what is known of a class; ``None`` if its objects are not records."""
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        hints, fields = typing.get_type_hints(kind, include_extras=True), dataclasses.fields(kind)
        given = [(one.name, hints[one.name], _default(one.default, one.default_factory)) for one in fields]
        return RecordClass(kind, tuple(_Field(name, name, hint, *default) for name, hint, default in given))
    known: Mapping[str, Any] | None = getattr(kind, "model_fields", None)
    return None if known is None else RecordClass(kind, tuple(map(_of_model, known, known.values())))


def _of_model(attribute: str, info: Any) -> _Field:
    return _Field(
        info.serialization_alias or info.alias or attribute,
        attribute,
        Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation,
        *((MISSING, False) if info.is_required() else _default(info.default, info.default_factory or MISSING)),
        tuple(one for one in getattr(info.validation_alias, "choices", ()) if isinstance(one, str)),
    )


def _default(value: Any, factory: Any) -> tuple[Any, bool]:
    """Returns the default of a field, if it is the same in each process, and whether there is any: what a function
    returns need not be the same."""
    if factory is MISSING:
        return value, value is not MISSING
    empty: dict[Any, Any] = {list: [], dict: {}, set: [], frozenset: [], tuple: []}
    return empty[factory] if isinstance(factory, type) and factory in empty else MISSING, True


class ModelSchema:
    """The schema of a type, without defaults, and its classes; raises `ConfigError` if the name is none.

    :param name: the full name of its record, ``namespace.Name``; the class's own name if left out. Records in it have
        the same namespace.
    """

    def __init__(self, model: Any, name: Any = None) -> None:
        if name is not None and not (isinstance(name, str) and _FULL_NAME.fullmatch(name)):
            raise ConfigError(f"the name of an Avro record must be like com.shop.Order, got {repr_of(name)}")
        self._model, self._name = model, name
        self._namespace = (name or "").rpartition(".")[0]
        self._known: dict[Any, str] = {}
        self.classes: dict[str, Any] = {}
        """Records and enums, by the names of their types without the namespace."""
        self.records: dict[str, list[tuple[dict[str, Any], _Field]]] = {}
        """The fields of each record, as they stand in the schema, with what the class says of them."""
        self.unknown: str | None = None
        """The reason why a type in it has no Avro type, in words; the schema is none then."""
        self.json = self._of(model, getattr(model, "__name__", str(model)))

    def _of(self, given: Any, place: str, outer: tuple[Any, ...] = ()) -> Any:
        """Returns the schema of a type; ``outer`` is what is annotated around it: the digits of a field are those of
        each decimal in it."""
        given, extras = _without_annotations(given)
        for extra in extras:
            if isinstance(extra, AvroType) and extra.schema is not None:
                return extra.schema
        if given is decimal.Decimal:
            return self._decimal((*outer, *extras), place)
        try:
            if given in PRIMITIVE:
                return PRIMITIVE[given]
        except TypeError:  # not hashable
            pass
        origin, arguments = typing.get_origin(given), typing.get_args(given)
        if origin in _UNIONS:
            found = [self._of(branch, place, (*outer, *extras)) for branch in arguments]
            return sorted(found, key=lambda branch: branch != "null")
        if origin is Literal:
            kinds = {type(one) for one in arguments}
            if len(kinds) == 1 and kinds <= {str, int, bool}:
                return PRIMITIVE[kinds.pop()]
        if origin in (list, set, frozenset, Sequence) or (origin is tuple and arguments[1:] == (...,)):
            return {"type": "array", "items": self._of(arguments[0], f"{place}[]")}
        if origin in (dict, Mapping) and arguments and _without_annotations(arguments[0])[0] is str:
            return {"type": "map", "values": self._of(arguments[1], f"{place}{{}}")}
        if isinstance(given, type) and issubclass(given, enum.Enum):
            return self._enum(given, place)
        if (record := record_class(given)) is not None:
            return self._record(record, place)
        how = "give it one with Annotated[..., AvroType(...)]"
        return self._nothing(f"{place} has type {repr_of(given)}, which does not have an Avro type: {how}")

    def _nothing(self, why: str) -> str:
        self.unknown = self.unknown or why
        return "null"

    def _named(self, given: Any, place: str) -> str:
        """Returns the full name of a new class."""
        name = re.sub(r"\W", "_", given.__name__)
        full = f"{self._namespace}.{name}" if self._namespace else name
        if given is self._model and self._name is not None:
            full, name = self._name, self._name.rpartition(".")[2]
        if full in self._known.values():
            self._nothing(f"{place}: two classes have the name {full} in one schema")
        self._known[given], self.classes[name] = full, given
        return full

    def _enum(self, given: type[enum.Enum], place: str) -> Any:
        values = [member.value for member in given]
        if values and all(type(value) is int for value in values):
            return "long"
        if not all(isinstance(value, str) for value in values):
            return self._nothing(
                f"{place}: the values of the enum {given.__name__} must be all strings or all integers"
            )
        if not all(_NAME.fullmatch(value) for value in values):
            return "string"
        if given in self._known:
            return self._known[given]
        return {"type": "enum", "name": self._named(given, place), "symbols": values}

    def _record(self, record: RecordClass, place: str) -> Any:
        if record.kind in self._known:
            return self._known[record.kind]
        name = self._named(record.kind, place)
        self.classes[name.rpartition(".")[2]] = record
        fields = [self._field(field, f"{place}.{field.name}") for field in record.fields]
        self.records[name] = list(zip(fields, record.fields, strict=True))
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, field: _Field, place: str) -> dict[str, Any]:
        if not _NAME.fullmatch(field.name):
            self._nothing(f"{place}: the name of an Avro field must consist of letters, digits and underscores")
        found: dict[str, Any] = {"name": field.name, "type": self._of(field.annotation, place)}
        extras = _without_annotations(field.annotation)[1]
        aliases = [alias for extra in extras if isinstance(extra, AvroType) for alias in extra.aliases]
        aliases += [alias for alias in field.aliases if alias not in (field.name, *aliases) and _NAME.fullmatch(alias)]
        return {**found, "aliases": aliases} if aliases else found

    def _decimal(self, extras: Sequence[Any], place: str) -> Any:
        """Returns the type of a decimal whose digits pydantic knows, by ``Field(max_digits=9, decimal_places=2)``."""
        words = {"max_digits": "precision", "decimal_places": "scale"}
        said = ((words[name], getattr(extra, name, None)) for extra in extras for name in words)
        digits = {word: value for word, value in said if value is not None}
        if len(digits) == len(words):
            return {"type": "bytes", "logicalType": "decimal", **digits}
        return self._nothing(
            f"{place} is a Decimal without a number of digits: give it Field(max_digits=9, decimal_places=2), or"
            ' Annotated[Decimal, AvroType({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})]'
        )


def _without_annotations(given: Any) -> tuple[Any, tuple[Any, ...]]:
    extras: tuple[Any, ...] = ()
    while typing.get_origin(given) is Annotated or isinstance(given, typing.NewType):
        if isinstance(given, typing.NewType):
            given = given.__supertype__
        else:
            given, extras = given.__origin__, given.__metadata__ + extras
    # What pydantic's Field says of a dataclass is in a list of its own.
    return given, tuple(one for extra in extras for one in (extra, *getattr(extra, "metadata", ())))
