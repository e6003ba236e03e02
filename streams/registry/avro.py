"""Avro by fastavro: records written and read by functions that are made once for each schema.

fastavro takes values that are not of their type, and writes another value for them: ``1.5`` as the ``int`` 1, and an
``int`` beyond 32 bits as bytes that no other library reads. So each value is checked first, by a function that is
compiled from the schema; only what it does not accept at once is looked at field by field.
"""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsIndex

from processor_api.errors import ConfigError
from processor_api.texts import MOST_VALUE, cut, repr_of
from processor_api.user_code.given_values import is_of
from streams.registry.avro_evolution import problems
from streams.registry.avro_models import from_avro, has_plain_fields, is_flat, is_record, schema_of, to_avro
from streams.registry.bound import SchemaFormat
from streams.registry.schemas import AVRO, Registered, SchemaError, SchemaReference, SchemaText
from streams.serdes.model_forms import check_read_back
from streams.serdes.model_shape import exact_check, shape_of
from streams.serdes.pydantic_model import core_schema_of

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

try:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer
    from fastavro._read_py import schemaless_reader as careful_reader
    from fastavro.schema import SchemaParseException, UnknownType
except ImportError as error:
    raise ImportError(
        "fastavro is not installed, which reads and writes Avro; install streams-for-kafka[registry]", name="fastavro"
    ) from error

DEEPEST_BYTES = 1_000
"""The longest data that may be nested as deep as they are long, and are read by compiled code, which does not watch its
stack."""
_NAMED = ("record", "error", "enum", "fixed")
_PRIMITIVE = frozenset({"null", "boolean", "string", "bytes", "int", "long", "float", "double"})
_INT, _LONG = 1 << 31, 1 << 63
_DOUBLE = 1 << 1023
_LARGEST_FLOAT = 3.4028235677973366e38
_OF_PYTHON: dict[type, SchemaText] = {
    kind: SchemaText(f'"{name}"')
    for kind, name in {str: "string", bytes: "bytes", bool: "boolean", int: "long", float: "double"}.items()
}
"""The schemas of values that are no records, and bring none along: as Java's serde writes them."""
_LOGICAL: dict[str, Any] = {
    "decimal": decimal.Decimal,
    "uuid": uuid.UUID,
    "date": datetime.date,
    "time-millis": datetime.time,
    "time-micros": datetime.time,
    "timestamp-millis": datetime.datetime,
    "timestamp-micros": datetime.datetime,
    "local-timestamp-millis": datetime.datetime,
    "local-timestamp-micros": datetime.datetime,
}
_AWARE = ("timestamp-millis", "timestamp-micros")


class GenericRecord(dict[str, Any]):
    """A record that was read without a model: a dict that knows its schema, and is written with it again."""

    __slots__ = ("schema",)

    schema: SchemaText | None

    def __init__(self, fields: Mapping[str, Any], schema: SchemaText | None = None) -> None:
        super().__init__(fields)
        self.schema = schema

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return GenericRecord, (dict(self), self.schema)


class AvroFormat(SchemaFormat):
    """The Avro of one serde.

    :param model: the class of the values; ``None`` for dicts.
    :param given: the schema: JSON, a dict or list, or the path of a file; ``None`` makes one from the model.
    :param name: the full name of the model's record.
    """

    kind = AVRO

    def __init__(
        self, model: Any, given: Any = None, name: str | None = None, references: Sequence[SchemaReference] = ()
    ) -> None:
        self.model = model
        if given is not None:
            self.own = SchemaText(_text_of(given), AVRO, tuple(references))
        elif model is not None:
            self.own = SchemaText(json.dumps(schema_of(model, name), separators=(",", ":")), AVRO, tuple(references))
        self._instances: tuple[type, ...] = (model,) if isinstance(model, type) else ()

    def record_name(self, schema: SchemaText) -> str:
        """Returns the full name of a schema's record, for subjects."""
        found = json.loads(schema.text)
        if isinstance(found, dict) and "name" in found:
            name, namespace = found["name"], found.get("namespace")
            return name if "." in name or not namespace else f"{namespace}.{name}"
        return found["type"] if isinstance(found, dict) else str(found)

    def check_key(self, schema: SchemaText) -> None:
        """Refuses schemas of keys in which equal values may have different bytes.

        :raises SchemaError: if there is a map, whose entries have no order; the text names the field.
        """
        if (place := _map_in(json.loads(schema.text), "the key")) is not None:
            raise SchemaError(
                f"{place} is a map, whose entries have no order: equal keys would have different bytes, and go to"
                " different partitions"
            )

    def schema_of_value(self, value: Any) -> SchemaText | None:
        """Returns the schema that a value brings along, the same object for all values that have it from one place;
        ``None`` if it has none."""
        if type(value) is GenericRecord:
            return value.schema
        return _OF_PYTHON.get(type(value))

    def from_json(self, value: Any) -> Any:
        """Returns the object that a value of JSON stands for."""
        if self.model is None:
            return value
        from streams.serdes.pydantic_model import validator_of

        return validator_of(self.model, from_json=True)(json.dumps(value))

    def problems(self, former: str) -> Sequence[str] | None:
        """Returns what of data with a former schema it does not read."""
        assert self.own is not None
        return problems(former, self.own.text)

    def without_model(self) -> AvroFormat:
        """Returns the format that reads data as they were written."""
        return AvroFormat(None)

    def of_plain(self, plain: Any) -> Any:
        """Returns the object that a dict, or another value of Avro, stands for."""
        convert = None if self.model is None or isinstance(plain, self._instances) else from_avro(self.model)
        return plain if convert is None else convert(plain)

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes) -> Callable[[Any], bytes]:
        """Returns the function that writes values with a schema, behind a prefix."""
        parsed, named = _parsed(schema, client)
        full_names = {name.rpartition(".")[2]: name for name in named}
        convert = None if self.model is None else to_avro(self.model, full_names)
        fits, explain = _checks(parsed, named)
        out, lossless = BytesIO, _lossless_check(self.model)

        def write(given: Any) -> bytes:
            value = given
            if convert is not None:
                value = convert(value)
            elif type(value) is GenericRecord:
                value = dict(value)  # fastavro is quicker with these
            try:
                known = fits(value)
            except (KeyError, IndexError, TypeError, RecursionError):
                known = False
            if not known:
                explain(value)
            stream = out()
            try:
                schemaless_writer(stream, parsed, value)
            except (ArithmeticError, TypeError, ValueError):  # the quick check does not look into decimals
                explain(value)
                raise
            data = stream.getvalue()
            if lossless is not None and not lossless(given):
                check_read_back(reader(), data, given, SchemaError, is_equal=not rounds)
            return prefix + data

        @cache
        def reader() -> Callable[[bytes], Any]:
            return self.reader(Registered(schema, 0), client, 0)

        rounds = '"float"' in schema.text  # to 32 bits, as is documented: what is read is not compared then
        return write

    def reader(
        self, registered: Registered, client: RegistryClient, start: int, frame: bytes | None = None
    ) -> Callable[[bytes], Any]:
        """Returns the function that reads data with the schema they were written with.

        :param start: where they begin.
        :param frame: what :meth:`frame` wrote, if it is elsewhere.
        """
        schema = registered.schema
        written, named = _parsed(schema, client)
        wanted: Any = None
        if self.own is not None:
            mine, mine_named = _parsed(self.own, client)
            if _shape(mine, mine_named) != _shape(written, named):
                wanted = mine
        model, convert = self.model, None if self.model is None else from_avro(self.model)
        with_names, stream = model is not None, BytesIO

        def read(data: bytes) -> Any:
            found = schemaless_reader(stream(data[start:]), written, wanted, with_names, True)
            return found if convert is None else convert(found)

        def read_flat(data: bytes) -> Any:
            fields: Any = schemaless_reader(stream(data[start:]), written, wanted)
            return model(**fields)

        def read_generic(data: bytes) -> Any:
            fields: Any = schemaless_reader(stream(data[start:]), written, None)
            return GenericRecord(fields, schema)

        of_generic = self.own is None and isinstance(written, dict) and written["type"] == "record"
        plain: Callable[[bytes], Any] = read_generic if of_generic else read_flat if is_flat(model) else read
        if not _is_recursive(written, named):
            return plain

        def read_deep(data: bytes) -> Any:
            if len(data) <= DEEPEST_BYTES:
                return plain(data)
            try:
                found = careful_reader(stream(data[start:]), written, wanted, with_names, True)
                return found if convert is None else convert(found)
            except RecursionError:
                raise SchemaError("the data are nested too deep") from None

        return read_deep


def _lossless_check(model: Any) -> Callable[[Any], bool] | None:
    """Returns the function that says of an object whether it surely comes back as it is; ``None`` where all do that
    the schema lets through."""
    if model is None or (isinstance(model, type) and model in (*_OF_PYTHON, *_LOGICAL.values())):
        return None
    schema = core_schema_of(model)
    is_uncertain = shape_of(schema).is_uncertain
    if is_flat(model) or (is_record(model) and not is_uncertain and has_plain_fields(model)):
        return None
    exact = None if is_uncertain else exact_check(schema)
    if exact is None:
        return lambda value: False

    def lossless(value: Any) -> bool:
        try:
            return exact(value)
        except Exception:  # a field that is not there, or a method of the user's
            return False

    return lossless


def _text_of(given: Any) -> str:
    if is_of(given, Path) or (is_of(given, str) and given.endswith(".avsc")):
        try:
            given = Path(given).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the Avro schema cannot be read: {error}") from error
    try:
        found = json.loads(given) if is_of(given, str) else given
        if not any(is_of(found, kind) for kind in (str, dict, list)):
            raise ValueError("it is a text, a dict or a list")
        return json.dumps(found, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"an Avro schema is JSON, which {repr_of(given)} is not: {error}") from None


def _parsed(schema: SchemaText, client: RegistryClient) -> tuple[Any, dict[str, Any]]:
    """Returns a schema as fastavro takes it, and its named types."""
    named: dict[str, Any] = {}
    try:
        for _, text in client.references_of(schema):
            parse_schema(json.loads(text.text), named)
        return parse_schema(json.loads(schema.text), named), named
    except UnknownType as error:
        raise SchemaError(
            f"the Avro schema uses the type {error.name!r}, which is neither in it nor in its references"
        ) from error
    except (SchemaParseException, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SchemaError(f"the Avro schema cannot be read: {type(error).__name__}: {cut(str(error), 200)}") from error


def _map_in(schema: Any, place: str) -> str | None:
    if isinstance(schema, list):
        return next((found for one in schema if (found := _map_in(one, place))), None)
    if not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "map":
        return place
    if kind == "array":
        return _map_in(schema["items"], f"{place}[]")
    if kind in ("record", "error"):
        fields = schema.get("fields", ())
        return next((found for one in fields if (found := _map_in(one["type"], f"{place}.{one['name']}"))), None)
    return _map_in(kind, place) if isinstance(kind, (dict, list)) else None


def _shape(schema: Any, named: Mapping[str, Any], seen: frozenset[str] = frozenset()) -> Any:
    """Returns what two schemas have equal if one reads the data of the other without any change."""
    if isinstance(schema, str):
        known = named.get(schema)
        return schema if known is None or schema in seen else _shape(known, named, seen)
    if isinstance(schema, list):
        return [_shape(one, named, seen) for one in schema]
    kind = schema["type"]
    logical = {name: schema[name] for name in ("logicalType", "precision", "scale") if name in schema}
    if kind in _PRIMITIVE:
        return (kind, tuple(logical.items())) if logical.get("logicalType") else kind
    if kind == "array":
        return (kind, _shape(schema["items"], named, seen))
    if kind == "map":
        return (kind, _shape(schema["values"], named, seen))
    name = schema["name"]
    if kind == "enum":
        return (kind, name, tuple(schema["symbols"]))
    if kind == "fixed":
        return (kind, name, schema["size"], tuple(logical.items()))
    fields = [(one["name"], _shape(one["type"], named, seen | {name})) for one in schema["fields"]]
    return (kind, name, tuple((field, repr(shape)) for field, shape in fields))


def _is_recursive(schema: Any, named: Mapping[str, Any], inside: frozenset[str] = frozenset()) -> bool:
    if isinstance(schema, str):
        return schema in inside or (schema in named and _is_recursive(named[schema], named, inside))
    if isinstance(schema, list):
        return any(_is_recursive(one, named, inside) for one in schema)
    kind = schema["type"]
    if kind in ("array", "map"):
        return _is_recursive(schema["items" if kind == "array" else "values"], named, inside)
    if kind in ("record", "error"):
        if schema["name"] in inside:
            return True
        return any(_is_recursive(one["type"], named, inside | {schema["name"]}) for one in schema["fields"])
    return isinstance(kind, (dict, list)) and _is_recursive(kind, named, inside)


# ---------------------------------------------------------------------- checks before a value is written


def _checks(schema: Any, named: Mapping[str, Any]) -> tuple[Callable[[Any], bool], Callable[[Any], None]]:
    """Returns a quick check, which knows only the plainest values, and a slow one, which raises an error."""
    compiled = _QuickCheck(named).compiled(schema)

    def explain(value: Any) -> None:
        try:
            complaint = _complaint(schema, value, "", named)
        except RecursionError:
            complaint = "it is nested too deep, or holds itself"
        if complaint is not None:
            raise SchemaError(complaint)

    return compiled, explain


class _QuickCheck:
    """Writes the source of a function that says whether a value is surely of a schema."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._functions: dict[str, str] = {}
        self._lines: list[str] = []
        self._names = 0

    def compiled(self, schema: Any) -> Callable[[Any], bool]:
        """Returns the function."""
        whole = self._of(schema, "v")
        known = self._functions.get(schema["name"]) if isinstance(schema, dict) and "name" in schema else None
        self._lines.append(f"check = {known}" if known else f"def check(v):\n    return {whole}")
        scope: dict[str, Any] = {
            "Decimal": decimal.Decimal,
            "UUID": uuid.UUID,
            "date": datetime.date,
            "time": datetime.time,
            "datetime": datetime.datetime,
        }
        exec("\n".join(self._lines), scope)
        found: Callable[[Any], bool] = scope["check"]
        return found

    def _name(self) -> str:
        self._names += 1
        return f"x{self._names}"

    def _of(self, schema: Any, v: str) -> str:
        if isinstance(schema, list):
            return "(" + " or ".join(self._branch(one, v) for one in schema) + ")"
        if isinstance(schema, str):
            if schema in self._named:
                return self._record_call(self._named[schema], v)
            return self._primitive(schema, v)
        logical = schema.get("logicalType")
        if logical in _LOGICAL:
            found = f"type({v}) is {_LOGICAL[logical].__name__}"
            if _LOGICAL[logical] in (datetime.time, datetime.datetime):
                found += f" and {v}.tzinfo is {'not ' if logical in _AWARE else ''}None"
            if logical.endswith("-millis"):
                found += f" and not {v}.microsecond % 1000"
            return f"({found})"
        kind = schema["type"]
        if kind in _PRIMITIVE:
            return self._primitive(kind, v)
        return self._complex(schema, kind, v)

    def _complex(self, schema: Any, kind: str, v: str) -> str:
        one = self._name()
        if kind == "array":
            return f"(type({v}) is list and all({self._of(schema['items'], one)} for {one} in {v}))"
        if kind == "map":
            values = f"all(type(k) is str and {self._of(schema['values'], one)} for k, {one} in {v}.items())"
            return f"(type({v}) is dict and {values})"
        if kind == "enum":
            return f"(type({v}) is str and {v} in {frozenset(schema['symbols'])!r})"
        if kind == "fixed":
            return f"(type({v}) is bytes and len({v}) == {schema['size']})"
        return self._record_call(schema, v)

    def _branch(self, schema: Any, v: str) -> str:
        """Returns the check of a branch of a union: a record may say its name."""
        known = self._named.get(schema) if isinstance(schema, str) else schema
        if isinstance(known, dict) and known["type"] in ("record", "error"):
            call = self._record_call(known, f"{v}[1]")
            return f"(type({v}) is tuple and {v}[0] == {known['name']!r} and {call} or {self._record_call(known, v)})"
        return self._of(schema, v)

    def _primitive(self, kind: str, v: str) -> str:
        simple = {"null": f"{v} is None", "boolean": f"type({v}) is bool", "string": f"type({v}) is str"}
        simple.update(bytes=f"type({v}) is bytes", double=f"type({v}) is float")
        if kind in simple:
            return f"({simple[kind]})"
        if kind == "float":
            return f"(type({v}) is float and -{_LARGEST_FLOAT!r} <= {v} <= {_LARGEST_FLOAT!r})"
        limit = _INT if kind == "int" else _LONG
        return f"(type({v}) is int and {-limit} <= {v} < {limit})"

    def _of_field(self, schema: Any, get: str) -> str:
        """Returns the check of a field, which is looked up once."""
        kind = schema["type"] if isinstance(schema, dict) and "logicalType" not in schema else schema
        if isinstance(kind, str) and kind in ("boolean", "string", "bytes", "double"):
            return self._primitive(kind, get)
        one = self._name()
        if isinstance(kind, str) and kind in ("int", "long"):
            limit = _INT if kind == "int" else _LONG
            return f"type({one} := {get}) is int and {-limit} <= {one} < {limit}"
        return f"(({one} := {get}) is {one} and {self._of(schema, one)})"

    def _record_call(self, schema: Any, v: str) -> str:
        if schema["type"] not in ("record", "error"):
            return self._of(schema, v)
        name = schema["name"]
        if name not in self._functions:
            self._functions[name] = function = f"r{len(self._functions)}"
            parts = [f"isinstance(v, dict) and len(v) == {len(schema['fields'])}"]
            for field in schema["fields"]:
                parts.append(self._of_field(field["type"], f"v[{field['name']!r}]"))
            self._lines.append(f"def {function}(v):\n    return {' and '.join(parts)}")
        return f"{self._functions[name]}({v})"


def _complaint(schema: Any, value: Any, place: str, named: Mapping[str, Any]) -> str | None:
    """Returns why a value is not of a schema; ``None`` if it is."""
    if isinstance(schema, list):
        return _complaint_of_union(schema, value, place, named)
    if isinstance(schema, str):
        if schema in named:
            return _complaint(named[schema], value, place, named)
        return None if _is_primitive(schema, value) else _no(schema, value, place)
    logical, kind = schema.get("logicalType"), schema["type"]
    if logical in _LOGICAL:
        return _complaint_of_logical(schema, logical, value, place)
    if kind in ("record", "error"):
        return _complaint_of_record(schema, value, place, named)
    if kind == "array":
        if not isinstance(value, (list, tuple)):
            return _no("array", value, place)
        found = (_complaint(schema["items"], one, f"{place}[{i}]", named) for i, one in enumerate(value))
        return next((one for one in found if one is not None), None)
    if kind == "map":
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            return _no("map with texts as keys", value, place)
        found = (_complaint(schema["values"], one, f"{place}[{key!r}]", named) for key, one in value.items())
        return next((one for one in found if one is not None), None)
    if kind == "enum":
        return None if value in schema["symbols"] else _no(f"symbol of {schema['name']}", value, place)
    if kind == "fixed":
        size = schema["size"]
        return None if isinstance(value, bytes) and len(value) == size else _no(f"fixed of {size} bytes", value, place)
    return _complaint(kind, value, place, named)


def _complaint_of_logical(schema: Any, logical: str, value: Any, place: str) -> str | None:
    kind = schema["type"]
    if isinstance(value, _LOGICAL[logical]) and (logical != "date" or not isinstance(value, datetime.datetime)):
        check = _complaint_of_decimal if logical == "decimal" else _complaint_of_time
        return check(schema, value, place)
    underlying = {name: one for name, one in schema.items() if name != "logicalType"}
    if logical in ("decimal", "uuid") or _complaint(underlying if kind == "fixed" else kind, value, place, {}):
        return _no(logical, value, place)
    return None


def _complaint_of_decimal(schema: Any, value: decimal.Decimal, place: str) -> str | None:
    precision, scale = schema["precision"], schema.get("scale", 0)
    if not value.is_finite():
        return _no("number", value, place)
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if -exponent > scale:
        return f"{_field(place)} has {-exponent} digits behind the point, and its type {scale}: {repr_of(value)}"
    if len(digits) + exponent + scale > precision and value:
        return f"{_field(place)} has more than {precision - scale} digits before the point: {repr_of(value)}"
    return None


def _complaint_of_time(schema: Any, value: Any, place: str) -> str | None:
    """Returns what of a date or a time the schema does not keep."""
    logical = schema["logicalType"]
    zone = getattr(value, "tzinfo", None)
    if logical in _AWARE and zone is None:
        return f"{_field(place)}: the time {value.isoformat()} has no time zone: give it one, such as datetime.UTC"
    if logical not in _AWARE and zone is not None:
        return f"{_field(place)}: the time {value.isoformat()} has a time zone, which {logical} does not keep"
    if logical.endswith("-millis") and value.microsecond % 1000:
        return (
            f"{_field(place)}: the time {value.isoformat()} has microseconds, and {logical} keeps milliseconds: cut"
            " them off, such as with .replace(microsecond=time.microsecond // 1000 * 1000)"
        )
    return None


def _complaint_of_union(schema: list[Any], value: Any, place: str, named: Mapping[str, Any]) -> str | None:
    if type(value) is tuple and len(value) == 2:
        for branch in schema:
            known = named.get(branch, branch) if isinstance(branch, str) else branch
            if isinstance(known, dict) and known.get("name") == value[0]:
                return _complaint(known, value[1], place, named)
    complaints = [_complaint(branch, value, place, named) for branch in schema]
    if None in complaints:
        return None
    others = [branch for branch in schema if branch != "null"]
    if len(others) == 1 and value is not None:
        return complaints[schema.index(others[0])]
    return _no(f"one of {', '.join(map(_kind_name, schema))}", value, place)


def _complaint_of_record(schema: Any, value: Any, place: str, named: Mapping[str, Any]) -> str | None:
    if not isinstance(value, Mapping):
        return _no(f"record {schema['name']}", value, place)
    known = {field["name"] for field in schema["fields"]}
    for name in value:
        if name not in known:
            return f"{_field(f'{place}.{name}')} is not in the schema of {schema['name']}"
    for field in schema["fields"]:
        inner = f"{place}.{field['name']}"
        if field["name"] not in value:
            if "default" in field:
                continue
            return f"{_field(inner)} is missing, and has no default"
        found = _complaint(field["type"], value[field["name"]], inner, named)
        if found is not None:
            return found
    return None


def _is_primitive(kind: str, value: Any) -> bool:
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "string":
        return isinstance(value, str)
    if kind == "bytes":
        return isinstance(value, (bytes, bytearray))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    if kind == "double":
        return isinstance(value, float) or (abs(value) < _DOUBLE and float(value) == value)
    if kind == "float":
        return abs(value) <= _LARGEST_FLOAT or value != value or value in (float("inf"), -float("inf"))
    limit = _INT if kind == "int" else _LONG
    return isinstance(value, int) and -limit <= value < limit


def _kind_name(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name") or schema.get("logicalType") or schema["type"])
    return str(schema)


def _field(place: str) -> str:
    return f"field {place.lstrip('.')}" if place else "the value"


def _no(expected: str, value: Any, place: str) -> str:
    return f"{_field(place)} is no {expected}: {cut(repr_of(value), MOST_VALUE)}"
