"""Avro by fastavro: its compiled functions read and write, with our own hung on the types that need them.

A type may have a logical type, for which fastavro calls a function while it reads. Schemas are handed to it with one of
ours (:data:`_TAG`) on each type whose values are made by us: times and decimals, objects of classes in unions, records
that keep the name of their branch. So data are read in one pass, by the schemas of their writer and their reader, and
nothing of a schema becomes source. What is written goes through :mod:`streams.registry.avro_values` before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.forms.json_values import as_json
from processor_api.texts import cut
from processor_api.user_code.given_values import is_of
from streams.registry.avro_json import AvroJson, json_schema
from streams.registry.avro_schemas import NAMED, RECORDS, AvroSchema, kind_of, short, unreadable
from streams.registry.avro_values import Forms, GenericRecord, generic, logical_of, raw_default, without_names
from streams.registry.bound import Read, SchemaFormat, Subject, Write, kept
from streams.registry.schemas import AVRO, NotInRegistry, SchemaError, SchemaReference, SchemaText, extra, json_text
from streams.schemas.avro_evolution import WIDER, problems
from streams.schemas.avro_models import AS_THEY_ARE, MISSING, PRIMITIVE, ModelSchema, RecordClass, record_class
from streams.serdes.model_forms import check_read_back
from streams.serdes.model_shape import exact_check, shape_of
from streams.serdes.pydantic_model import core_schema_of, validator_of

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

with extra("which reads and writes Avro"):
    from fastavro import parse_schema, schemaless_reader, schemaless_writer
    from fastavro._read_py import read_data
    from fastavro.io.binary_decoder import BinaryDecoder
    from fastavro.read import LOGICAL_READERS
    from fastavro.schema import SchemaParseException, UnknownType, fullname

MOST_CALLS = 5_000
"""The most calls within each other that data of a schema that holds itself may cost compiled code, which does not watch
its stack: a type and a byte are one each at most."""
MOST_SCHEMA = 1 << 20
"""The longest schema that is read, in characters; registries keep schemas in records of Kafka, which are no longer."""
MOST_EMPTY_ITEMS = 1_000
"""The items of no bytes that a record may have besides as many as its bytes."""
careful_read: Any = read_data
_TAG = "streams"
_OF_PYTHON = {kind: SchemaText(json.dumps(PRIMITIVE[kind])) for kind in (str, bytes, bool, int, float)}
"""The schemas of values that are not records, and bring none along: as Java's serde writes them."""
Make = Callable[[Any], Any]


def _made(data: Any, written: Any, wanted: Any = None) -> Any:
    """Returns what is meant by data that fastavro has read: it calls this for each type with our tag."""
    node = written if wanted is None else wanted
    if wanted is not None:
        before, now = (one.get("logical") if type(one) is dict else None for one in (written, wanted))
        if before is not None and now is not None and before.kind is now.kind:
            return before.read(data)  # a time in milliseconds is none in microseconds
        kind = kind_of(wanted)
        if kind in ("float", "double"):
            data = float(data)
        elif kind == "bytes" and type(data) is str:
            data = data.encode()
        elif kind == "string" and type(data) is bytes:
            data = data.decode()
    make = node.get("make") if type(node) is dict else None
    return data if make is None else make(data)


for _kind in (*NAMED, *WIDER, "double", "boolean", "array", "map"):
    LOGICAL_READERS[f"{_kind}-{_TAG}"] = _made


class AvroFormat(SchemaFormat):
    """The Avro of one serde, with the arguments of `Avro`."""

    kind = AVRO

    def __init__(
        self, model: Any, schema: Any = None, name: str | None = None, references: Sequence[SchemaReference] = ()
    ) -> None:
        super().__init__(model)
        self._root: RecordClass | None = None
        self._classes: Mapping[str, Any] = {}
        self._jsons: dict[SchemaText, AvroJson] = {}
        self._natural: Any = None
        """The form of the schema that is made of the model."""
        if model is not None:
            made = ModelSchema(model, name)
            self._root, self._classes = record_class(model), made.classes
            unknown = made.unknown
            if unknown is None:
                try:
                    self._natural = self._with_defaults_of_classes(made).form(named=False)
                except SchemaError as error:  # perhaps it has types of the references, which are not here
                    unknown = None if references else str(error)
            if schema is None and unknown is not None:
                raise ConfigError(unknown)
            schema = made.json if schema is None else schema
        if schema is not None:
            self.own = SchemaText(_text_of(schema), AVRO, tuple(references))

    def _with_defaults_of_classes(self, made: ModelSchema) -> AvroSchema:
        """Adds the defaults of classes to the schema that was made of them; returns it parsed, without them."""
        schema = _parsed([json.dumps(made.json)])
        forms = Forms(schema, self._classes, self._root)
        for name, fields in made.records.items():
            for parsed, (field, known) in zip(schema.named[name]["fields"], fields, strict=True):
                if known.default is MISSING:
                    continue
                try:
                    raw = forms.of(parsed["type"]).write(known.default)
                except (SchemaError, ValueError, RecursionError):  # it is written by no value of the schema
                    continue
                if isinstance(field["type"], list):  # the default of a union is of its first branch
                    branches = [forms.of(one).branch for one in parsed["type"]]
                    first = branches.index("null" if raw is None else raw[0])
                    field["type"].insert(0, field["type"].pop(first))
                field["default"] = without_names(raw, partial(str, encoding="latin-1"))
        return schema

    def record_name(self, schema: SchemaText) -> str:
        found = json.loads(schema.text)
        if not isinstance(found, dict):
            return str(found)
        return str(fullname(found) if "name" in found else found["type"])

    def unequal(self, schema: SchemaText, client: RegistryClient | None) -> str | None:
        try:
            parsed = _parsed([schema.text]) if client is None else _schema_of(schema, client)
        except SchemaError:
            if client is None:  # it has types of its references, which are asked for with the first value
                return None
            raise
        if parsed.map is not None:
            return f"{parsed.map} is a map, and its entries have no order"
        is_lost = self.model is None and bool(parsed.in_choices)
        return "the key has a union of named types, but dicts and strings have no type names" if is_lost else None

    def schema_of_value(self, value: Any) -> SchemaText | None:
        return value.schema if type(value) is GenericRecord else _OF_PYTHON.get(type(value))

    def to_json(self, value: Any, subject: Subject) -> Any:
        schema = self.own or self.schema_of_value(value)
        try:
            return as_json(value) if schema is None else self._json(schema, subject.client).shown(value)
        except (SchemaError, ValueError, TypeError):  # it was read by a schema with more
            return as_json(value)

    def from_json(self, value: Any, subject: Subject) -> Any:
        try:
            schema = self.own or subject.registered(None).schema
        except NotInRegistry:  # a text or a number, which brings its schema along
            return value
        plain = self._json(schema, subject.client).given(value)
        try:
            data = AvroFormat(None).writer(schema, subject.client, b"")(plain)
            return self.reader(schema, subject.client, 0)(data)
        except ValueError:  # the class may know more fields and forms than its schema
            return plain if self.model is None else self.of_plain(without_names(plain))

    def shown_schema(self, subject: Subject) -> str | None:
        return None if self.own is None else json.dumps(json_schema(_schema_of(self.own, subject.client)))

    def _json(self, schema: SchemaText, client: RegistryClient) -> AvroJson:
        if schema in self._jsons:
            return self._jsons[schema]
        return kept(self._jsons, schema, AvroJson(Forms(_schema_of(schema, client), self._classes, self._root)))

    def problems_of(self, former: str, own: str) -> Sequence[str] | None:
        return problems(former, own, self._filled)

    def _filled(self, name: str) -> set[str]:
        """Returns the fields that the class of a record has a value for where none is given."""
        known = self._classes.get(short(name))
        return {field.name for field in known.fields if field.is_filled} if isinstance(known, RecordClass) else set()

    # ------------------------------------------------------------------ writing

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False) -> Write:
        parsed = _schema_of(schema, client)
        form = Forms(parsed, self._classes, self._root).of(parsed.root).write
        written = parse_schema(parsed.copied(parsed.root, lambda node: {}))
        out, lossless = BytesIO, self._lossless_check(parsed)

        def write(value: Any) -> bytes:
            plain = form(value)
            stream = out()
            try:
                schemaless_writer(stream, written, plain)
            except OverflowError:  # an integer beyond 64 bits, whose place the thorough forms find
                Forms(parsed, self._classes, self._root, thorough=True).of(parsed.root).write(value)
                raise
            data = stream.getvalue()
            if lossless is not None:
                try:
                    comes_back = lossless(value)
                except Exception:  # a field that is not there, or a method of the user's
                    comes_back = False
                if not comes_back:
                    check_read_back(reader(), data, value, SchemaError, is_equal=not rounds)
            return prefix + data

        reader = cache(partial(self.reader, schema, client, 0))
        # A float of 32 bits is rounded, as is documented: what is read is not compared then.
        rounds = any(kind_of(node) == "float" for node in parsed.types)
        return write

    def _lossless_check(self, parsed: AvroSchema) -> Callable[[Any], bool] | None:
        """Returns the function that says of an object whether it surely comes back as it is; ``None`` where all do
        that the schema lets through."""
        if self.model is None or self._is_plain(parsed):
            return _never if parsed.has_empty_items else None
        core = core_schema_of(self.model)
        if parsed.has_empty_items or shape_of(core).is_uncertain or not self._is_natural(parsed):
            return _never
        if self._root is not None and self._root.has_plain_fields:
            return None
        return exact_check(core) or _never

    def _is_natural(self, parsed: AvroSchema) -> bool:
        """Returns whether a schema has the types that are made of the model."""
        return self._natural is not None and bool(parsed.form(named=False) == self._natural)

    def _is_plain(self, parsed: AvroSchema) -> bool:
        """Returns whether values need no pydantic: what Avro reads are their fields, or they themselves."""
        is_simple = isinstance(self.model, type) and self.model in AS_THEY_ARE
        return (is_simple or (self._root is not None and self._root.is_plain)) and self._is_natural(parsed)

    # ------------------------------------------------------------------ reading

    def reader(self, schema: SchemaText, client: RegistryClient, start: int) -> Read:
        parsed = _schema_of(schema, client)
        own = None if self.own is None else _schema_of(self.own, client)
        if own is not None and parsed.form(named=True) == own.form(named=True):
            own = None
        if self.reads_more and self.problems(schema.text) is None:
            own = None
        written, wanted, names = self._pair(parsed, own)
        convert, stream, depth = self._convert(own or parsed, schema), BytesIO, parsed.depth
        most = 0 if parsed.has_empty_items else MOST_CALLS // depth if parsed.is_recursive else MOST_SCHEMA << 20

        def read(data: bytes) -> Any:
            if len(data) > most:
                found = careful_read(_CarefulDecoder(data[start:]), written, names, wanted, {})
            else:
                found = schemaless_reader(stream(data[start:]), written, wanted)
            return found if convert is None else convert(found)

        return read

    def _convert(self, schema: AvroSchema, text: SchemaText) -> Make | None:
        """Returns the function that makes values of what fastavro returns for a schema; ``None`` if they are right."""
        if self.model is None:
            is_generic = self.own is None and kind_of(schema.root) in RECORDS
            return partial(GenericRecord, schema=text) if is_generic else None
        if not self._is_plain(schema):
            return self.of_plain
        if self._root is None:
            return None
        kind = self._root.kind
        return lambda found: kind(**found)

    def _maker(self, schema: AvroSchema, node: Any) -> Make | None:
        """Returns the function that makes the values of a type; ``None`` if they are right as they are read."""
        logical, kind = logical_of(node), kind_of(node)
        if logical is not None:
            return logical.read
        if kind not in NAMED or node["name"] not in schema.in_choices:
            return None
        if self.model is None:
            return generic(node)
        known = self._classes.get(short(node["name"]))
        return validator_of(known.kind) if isinstance(known, RecordClass) else known

    def _marked(self, schema: AvroSchema, given: Any, types: dict[str, Any]) -> Any:
        """Returns a type of a schema as fastavro takes it, with our tag on all whose values are made here; the named
        types are added to ``types``."""

        def mark(node: Any) -> dict[str, Any]:
            make = self._maker(schema, node)
            return {} if make is None else {"logicalType": _TAG, "make": make, "logical": logical_of(node)}

        return parse_schema(schema.copied(given, mark), types)

    def _pair(self, schema: AvroSchema, own: AvroSchema | None) -> tuple[Any, Any, dict[str, Any]]:
        """Returns the schemas of a writer and a reader, if data are read by another one, and their named types.

        fastavro calls our function by the type that was written. So that has our tag wherever one of that kind that is
        wanted has something to make.
        """
        wanted_types: dict[str, Any] = {}
        written_types: dict[str, Any] = {}
        types = {"writer": written_types, "reader": wanted_types}
        if own is None:
            return self._marked(schema, schema.root, written_types), None, types
        wanted = self._marked(own, own.root, wanted_types)
        tagged = {kind_of(node) for node in own.types if self._maker(own, node) is not None}
        tagged.update([kind for kind, wider in WIDER.items() if not tagged.isdisjoint(wider)])
        for node in (wanted, *wanted_types.values()):
            if kind_of(node) in RECORDS and self._with_defaults(own, node):
                tagged.update(RECORDS)

        def mark(node: Any) -> dict[str, Any]:
            return {"logicalType": _TAG, "logical": logical_of(node)} if kind_of(node) in tagged else {}

        return parse_schema(schema.copied(schema.root, mark), written_types), wanted, types

    def _with_defaults(self, own: AvroSchema, node: Any) -> bool:
        """Gives a record of the reader the values of its defaults; returns whether some are made for each record."""
        late: dict[str, Callable[[], Any] | None] = {}
        filled = self._filled(node["name"])
        for field, known in zip(node["fields"], own.named[node["name"]]["fields"], strict=True):
            name = field["name"]
            if "default" in known:
                make = self._default(own, known["type"], known["default"])
                field["default"] = value = make()
                if not isinstance(value, (str, bytes, int, float, type(None))):
                    late[name], field["default"] = make, _LATE
            elif name in filled:
                late[name], field["default"] = None, _LATE
        make_record = node.get("make")

        def complete(fields: dict[str, Any]) -> Any:
            for name, make in late.items():
                if fields[name] is _LATE:
                    if make is None:
                        del fields[name]
                    else:
                        fields[name] = make()
            return fields if make_record is None else make_record(fields)

        if late:
            node["make"] = complete
        return bool(late)

    def _default(self, own: AvroSchema, given: Any, default: Any) -> Callable[[], Any]:
        """Returns the function that makes a default, each time another object, as it is made of data."""
        stream = BytesIO()
        schemaless_writer(stream, parse_schema(own.copied(given, lambda node: {})), raw_default(own, given, default))
        written, data = self._marked(own, given, {}), stream.getvalue()
        return lambda: schemaless_reader(BytesIO(data), written, None)


_LATE: Any = object()
"""Stands for a default that is made for each record."""


def _never(value: Any) -> bool:
    return False


_Decoder: Any = BinaryDecoder


class _CarefulDecoder(_Decoder):  # type: ignore[misc]
    """Reads in Python, which watches its stack; counts the items of arrays, which may take no bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(BytesIO(data))
        self._left = len(data) + MOST_EMPTY_ITEMS

    def read_long(self) -> int:
        found = 0
        for shift in range(0, 70, 7):
            data: bytes = self.fo.read(1)
            if not data:
                raise EOFError
            found |= (data[0] & 0x7F) << shift
            if data[0] < 0x80:
                return (found >> 1) ^ -(found & 1)
        raise SchemaError("an integer has more than ten bytes")

    read_int = read_long

    def iter_array(self) -> Any:
        for _ in self._iter_array_or_map():
            self._left -= 1
            if self._left < 0:
                raise SchemaError("an array has more items than the data has bytes")
            yield


def _text_of(given: Any) -> str:
    if is_of(given, Path) or (is_of(given, str) and given.endswith(".avsc")):
        try:
            given = Path(given).read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"the Avro schema cannot be read: {error}") from error
    return json_text(given, "an Avro schema", (str, dict, list), "a text, a dict or a list")


def _schema_of(schema: SchemaText, client: RegistryClient) -> AvroSchema:
    return _parsed([*client.texts_behind(schema), schema.text])


def _parsed(texts: Sequence[str]) -> AvroSchema:
    """Returns the last of several schemas, which uses the types of those before it; raises `SchemaError` if it is
    none."""
    found: dict[str, Any] = {}
    root: Any = None
    try:
        if sum(map(len, texts)) > MOST_SCHEMA:
            raise ValueError(f"it has more than {MOST_SCHEMA} characters")
        for text in texts:
            root = parse_schema(json.loads(text), found)
        return AvroSchema(root, found)
    except SchemaError:
        raise
    except UnknownType as error:
        why = f"the Avro schema uses type {error.name!r}, which neither the schema nor its references define"
        raise SchemaError(why) from error
    except (SchemaParseException, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(f"{type(error).__name__}: {cut(str(error), 200)}") from error
