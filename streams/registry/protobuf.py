"""Protobuf: messages of generated classes, with the source of their ``.proto`` files in a registry."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.forms.json_values import json_of
from processor_api.texts import repr_of
from streams.registry.bound import SchemaFormat, Subject
from streams.registry.schemas import PROTOBUF, Registered, SchemaError, SchemaReference, SchemaText

try:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import Edition, FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
    from google.protobuf.message import DecodeError, Message
except ImportError as error:
    raise ImportError(
        "protobuf is not installed, which reads and writes its messages; install streams-for-kafka[registry]",
        name="protobuf",
    ) from error

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

OF_GOOGLE = "google/protobuf/"
"""Files that each registry has."""
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|[A-Za-z_][\w.]*|[{};=]', re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MOST_INDEXES = 100
"""The most messages within each other."""
_LAST_NUMBER = 1 << 29
_EDITION = "EDITION_2023"


class ProtobufFormat(SchemaFormat):
    """The messages of one generated class.

    :param model: the class.
    :raises ConfigError: if it is none.
    """

    kind = PROTOBUF
    has_frame = True

    def __init__(self, model: Any) -> None:
        is_message_class = isinstance(model, type) and issubclass(model, Message)
        if not is_message_class:
            raise ConfigError(f"Protobuf takes a class that protoc has generated, got {repr_of(model)}")
        self._model: Any = model
        self._descriptor: Descriptor = self._model.DESCRIPTOR
        self._file: FileDescriptor = self._descriptor.file
        package = self._file.package
        self._name = str(self._descriptor.full_name).removeprefix(f"{package}." if package else "")
        """The name of the message without the package."""
        self.own = SchemaText(source_of(self._file), PROTOBUF)

    def with_references(self, schema: SchemaText, client: RegistryClient, *, register: bool) -> SchemaText:
        """Returns a schema with the versions of the files that it imports, each in the subject of its name."""

        def references(file: FileDescriptor) -> tuple[SchemaReference, ...]:
            return tuple(reference(one) for one in file.dependencies if not one.name.startswith(OF_GOOGLE))

        def reference(file: FileDescriptor) -> SchemaReference:
            text = SchemaText(source_of(file), PROTOBUF, references(file))
            if register:
                client.register(file.name, text)
            found = client.lookup(file.name, text)
            return SchemaReference(file.name, file.name, found.version or 1)

        return schema._replace(references=references(self._file))

    def record_name(self, schema: SchemaText) -> str:
        return str(self._descriptor.full_name)

    def check_key(self, schema: SchemaText) -> None:
        """Refuses messages of keys with maps, whose entries have no order.

        :raises SchemaError: if there is one; the text names the field.
        """
        found = _map_in(self._descriptor, "the key", frozenset())
        if found is not None:
            raise SchemaError(
                f"{found} is a map, whose entries have no order: equal keys would have different bytes, and go to"
                " different partitions"
            )

    def from_json(self, value: Any, subject: Subject) -> Any:
        return ParseDict(json_of(value, _leaf_of_json), self._model())

    def to_json(self, value: Any, subject: Subject) -> Any:
        """Returns a message as a dict; one with a message in it whose type is not known as its text."""
        try:
            return MessageToDict(value, preserving_proto_field_name=True)
        except (TypeError, SerializeToJsonError):
            return str(value)

    def frame(self, schema: SchemaText) -> bytes:
        """Returns what stands between the id and the data: the place of the message in the schema."""
        assert self.own is not None
        places = {name: place for text in (self.own.text, schema.text) for place, name in _messages(text)}
        return written_index(places[self._name])

    def writer(
        self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False
    ) -> Callable[[Any], bytes]:
        model: Any = self._model

        def write(value: Any) -> bytes:
            if not isinstance(value, model):
                raise SchemaError(f"expected {model.__name__}, got {type(value).__name__}")
            found: bytes = value.SerializeToString(deterministic=True)
            return prefix + found

        return write

    def reader(self, registered: Registered, client: RegistryClient, start: int) -> Callable[[bytes], Any]:
        """Returns the function that reads messages of the class.

        :param start: where the place of the message begins, and the data after it.
        """
        parse, wanted = self._model.FromString, self._name
        names = {tuple(place): name for place, name in _messages(registered.schema.text)}
        usual = next((written_index(list(place)) for place, name in names.items() if name == wanted), None)

        def begin_of(data: bytes) -> int:
            index, begin = read_index(data, start)
            name = names.get(tuple(index))
            if name is None:
                raise SchemaError(f"the schema has no message at the place {index}")
            if name != wanted:
                raise SchemaError(f"it is a message {name}, and not {wanted}")
            return begin

        def read(data: bytes) -> Any:
            if usual is not None and data.startswith(usual, start):
                begin = start + len(usual)
            else:
                begin = begin_of(data)
            try:
                return parse(data[begin:])
            except DecodeError as error:
                raise SchemaError(f"the data are no message {wanted}: {error}") from error

        return read


def _leaf_of_json(value: Any) -> Any:
    """Returns bytes, decimals and times of Python as the JSON of Protobuf has them."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value)


def written_index(index: list[int]) -> bytes:
    """Returns a place as it stands in front of a message: one zero byte for the first message of a file."""
    if index == [0]:
        return b"\x00"
    found = bytearray()
    for number in (len(index), *index):
        left = number << 1
        while left > 0x7F:
            found.append(left & 0x7F | 0x80)
            left >>= 7
        found.append(left)
    return bytes(found)


def read_index(data: bytes, start: int) -> tuple[list[int], int]:
    """Returns the place of a message, and where its data begin.

    :raises SchemaError: if there is none.
    """

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while at < len(data) and shift < 35:
            byte = data[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                return value >> 1, at
        raise SchemaError("the data have no place of a message (message indexes) behind the id")

    count, at = number(start)
    if count > _MOST_INDEXES:
        raise SchemaError(f"the place of a message has {count} parts")
    found = []
    for _ in range(count):
        value, at = number(at)
        found.append(value)
    return found or [0], at


# ---------------------------------------------------------------------- .proto files


def source_of(file: FileDescriptor) -> str:
    """Returns the source of a file, made of its descriptor: registries compare and check sources.

    :raises ConfigError: if the file has an edition that is not known here.
    """
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return "\n".join(_FileSource(proto).lines()) + "\n"


class _FileSource:
    """Writes the source of one file."""

    def __init__(self, proto: Any) -> None:
        self._proto = proto
        self._syntax: str = proto.syntax or "proto2"
        if self._syntax == "editions" and (name := Edition.Name(proto.edition)) != _EDITION:
            raise ConfigError(f"the file {proto.name} has the edition {name}, and {_EDITION} is the last that is known")

    def lines(self) -> Iterator[str]:
        proto = self._proto
        yield 'edition = "2023";' if self._syntax == "editions" else f'syntax = "{self._syntax}";'
        if proto.package:
            yield f"package {proto.package};"
        kinds = {**dict.fromkeys(proto.public_dependency, "public "), **dict.fromkeys(proto.weak_dependency, "weak ")}
        yield from (f'import {kinds.get(number, "")}"{name}";' for number, name in enumerate(proto.dependency))
        yield from _option_lines(proto.options)
        scope = f".{proto.package}" if proto.package else ""
        yield from self._types(proto.message_type, proto.enum_type, proto.extension, scope)

    def _types(self, messages: Any, enums: Any, extensions: Any, scope: str) -> Iterator[str]:
        """Yields what a file or a message declares."""
        for message in messages:
            if not message.options.map_entry:
                yield from _block(f"message {message.name}", self._message(message, f"{scope}.{message.name}"))
        for enum in enums:
            yield from _block(f"enum {enum.name}", _enum_lines(enum))
        for field in extensions:
            yield from _block(f"extend {field.extendee}", self._field(field, {}))

    def _message(self, message: Any, scope: str) -> Iterator[str]:
        yield from _option_lines(message.options)
        inner = {f"{scope}.{one.name}": one for one in message.nested_type}
        yield from self._types(message.nested_type, message.enum_type, message.extension, scope)
        choices: dict[int, list[Iterator[str]]] = {}
        for field in message.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                choices.setdefault(field.oneof_index, []).append(self._field(field, inner, in_oneof=True))
            else:
                yield from self._field(field, inner)
        for index, fields in sorted(choices.items()):
            one = message.oneof_decl[index]
            yield from _block(f"oneof {one.name}", _option_lines(one.options), *fields)
        for extension in message.extension_range:
            yield f"extensions {_range(extension, 1)}{_in_brackets(_options(extension.options))};"
        yield from _reserved(message, 1)

    def _field(self, field: Any, inner: Mapping[str, Any], *, in_oneof: bool = False) -> Iterator[str]:
        options = [*_options(field.options)]
        if field.HasField("json_name") and field.json_name != _camel_case(field.name):
            options.insert(0, f"json_name = {_quoted(field.json_name)}")
        if field.HasField("default_value"):
            options.insert(0, f"default = {_default_of(field)}")
        if field.type == FieldDescriptorProto.TYPE_GROUP and self._syntax == "proto2":
            raise ConfigError(
                f"the field {field.name} of {self._proto.name} is a group, for which there is no source here"
            )
        kind = ("" if in_oneof else self._label(field)) + _type_of(field)
        nested = inner.get(field.type_name)
        if nested is not None and nested.options.map_entry:
            kind = f"map<{', '.join(map(_type_of, nested.field))}>"
        yield f"{kind} {field.name} = {field.number}{_in_brackets(options)};"

    def _label(self, field: Any) -> str:
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return "repeated "
        if self._syntax == "editions":  # whether a field must be there is one of its features
            return ""
        if field.label == FieldDescriptorProto.LABEL_REQUIRED:
            return "required "
        return "optional " if field.proto3_optional or self._syntax == "proto2" else ""


def _block(head: str, *parts: Iterable[str]) -> Iterator[str]:
    yield f"{head} {{"
    for part in parts:
        yield from (f"  {line}" for line in part)
    yield "}"


def _options(options: Any, prefix: str = "") -> Iterator[str]:
    """Yields the options that are set, each as its name and its value."""
    for field, value in options.ListFields():
        name = prefix + (f"({field.full_name})" if field.is_extension else str(field.name))
        for one in value if field.is_repeated else [value]:
            if field.message_type is not None:
                yield from _options(one, f"{name}.")
            elif field.enum_type is not None:
                yield f"{name} = {field.enum_type.values_by_number[one].name}"
            elif isinstance(one, (str, bytes)):
                yield f"{name} = {_quoted(one)}"
            else:
                yield f"{name} = {str(one).lower()}"


def _option_lines(options: Any) -> Iterator[str]:
    yield from (f"option {one};" for one in _options(options))


def _in_brackets(options: Iterable[str]) -> str:
    text = ", ".join(options)
    return f" [{text}]" if text else ""


def _quoted(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(plain)}"'


def _default_of(field: Any) -> str:
    if field.type == FieldDescriptorProto.TYPE_BYTES:  # it stands with its escapes there
        return f'"{field.default_value}"'
    is_text = field.type == FieldDescriptorProto.TYPE_STRING
    return _quoted(field.default_value) if is_text else str(field.default_value)


def _camel_case(name: str) -> str:
    """Returns the name that a field has in JSON unless it is given another."""
    return re.sub(r"_+(.?)", lambda found: found[1].upper(), name)


def _type_of(field: Any) -> str:
    if field.type_name:
        return str(field.type_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _range(given: Any, over: int) -> str:
    """Returns a range of numbers.

    :param over: how far its end is behind its last number.
    """
    last = given.end - over
    return f"{given.start} to {'max' if last >= _LAST_NUMBER - 1 else last}"


def _reserved(given: Any, over: int) -> Iterator[str]:
    for reserved in given.reserved_range:
        yield f"reserved {_range(reserved, over)};"
    if given.reserved_name:
        yield "reserved " + ", ".join(map(_quoted, given.reserved_name)) + ";"


def _enum_lines(enum: Any) -> Iterator[str]:
    yield from _option_lines(enum.options)
    for value in enum.value:
        yield f"{value.name} = {value.number}{_in_brackets(_options(value.options))};"
    yield from _reserved(enum, 0)


def _messages(text: str) -> Iterator[tuple[list[int], str]]:
    """Yields the place and the name of each message of a file: of its source, or its descriptor in base64, which
    Confluent's serializer for Python registers."""
    if _BASE64.fullmatch(text):
        yield from _messages_of(FileDescriptorProto.FromString(base64.b64decode(text)).message_type, [], "")
    else:
        yield from _messages_in(text)


def _messages_of(messages: Any, outer: list[int], prefix: str) -> Iterator[tuple[list[int], str]]:
    for index, message in enumerate(messages):
        yield [*outer, index], prefix + message.name
        yield from _messages_of(message.nested_type, [*outer, index], f"{prefix}{message.name}.")


def _messages_in(text: str) -> Iterator[tuple[list[int], str]]:
    """Yields the place and the name of each message of a source."""
    tokens = [one for one in _TOKEN.findall(text) if not one.startswith(("//", "/*", '"', "'"))]
    blocks: list[bool] = []
    """Whether each block around is a message."""
    place: list[int] = []
    names: list[str] = []
    counts = [0]
    """How many messages there were before in the file, and in each message around."""
    for position, token in enumerate(tokens):
        if token == "{":
            first, second, third = ("", "", "", *tokens[max(position - 3, 0) : position])[-3:]
            is_group = first == "group" and third == "="
            blocks.append(is_group or (second == "message" and first != "="))
            if len(place) > _MOST_INDEXES:
                raise SchemaError(f"the schema has more than {_MOST_INDEXES} messages within each other")
            if blocks[-1]:
                place.append(counts[-1])
                names.append(second if is_group else third)
                counts[-1] += 1
                counts.append(0)
                yield list(place), ".".join(names)
        elif token == "}" and blocks and blocks.pop():
            for each in (place, names, counts):
                each.pop()


def _map_in(descriptor: Descriptor, place: str, seen: frozenset[str]) -> str | None:
    if descriptor.full_name in seen:
        return None
    for field in descriptor.fields:
        inner = field.message_type
        if inner is None:
            continue
        where = f"{place}.{field.name}"
        if inner.GetOptions().map_entry:
            return where
        found = _map_in(inner, where, seen | {str(descriptor.full_name)})
        if found is not None:
            return found
    return None
