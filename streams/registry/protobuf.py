"""Protobuf: messages of generated classes, with the source of their ``.proto`` files in a registry."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.texts import repr_of
from streams.registry.bound import SchemaFormat
from streams.registry.schemas import PROTOBUF, Registered, SchemaError, SchemaReference, SchemaText

try:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
    from google.protobuf.json_format import MessageToDict, ParseDict
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


class ProtobufFormat(SchemaFormat):
    """The messages of one generated class.

    :param model: the class.
    :raises ConfigError: if it is none.
    """

    kind = PROTOBUF

    def __init__(self, model: Any) -> None:
        if not _is_message_class(model):
            raise ConfigError(f"Protobuf takes a class that protoc has generated, got {repr_of(model)}")
        self._model: Any = model
        self._descriptor: Descriptor = self._model.DESCRIPTOR
        self._file: FileDescriptor = self._descriptor.file
        self._index = index_of(self._descriptor)
        self.own = SchemaText(source_of(self._file), PROTOBUF)

    @property
    def imports(self) -> list[FileDescriptor]:
        """The files that the class's file imports, but for Google's: they are registered before it."""
        return [one for one in self._file.dependencies if not one.name.startswith(OF_GOOGLE)]

    def with_references(self, schema: SchemaText, client: RegistryClient, *, register: bool) -> SchemaText:
        """Returns a schema with the versions of the files that it imports, each in the subject of its name.

        :param register: whether these files are registered, if they are not yet.
        """

        def reference(file: FileDescriptor) -> SchemaReference:
            inner = [reference(one) for one in file.dependencies if not one.name.startswith(OF_GOOGLE)]
            text = SchemaText(source_of(file), PROTOBUF, tuple(inner))
            if register:
                client.register(file.name, text)
            found = client.lookup(file.name, text)
            return SchemaReference(file.name, file.name, found.version or 1)

        return schema._replace(references=tuple(map(reference, self.imports)))

    def record_name(self, schema: SchemaText) -> str:
        """Returns the full name of the message, for subjects."""
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

    def from_json(self, value: Any) -> Any:
        """Returns the message that a value of JSON stands for."""
        return ParseDict(value, self._model())

    def to_json(self, value: Any) -> Any:
        """Returns a message as a dict."""
        return MessageToDict(value, preserving_proto_field_name=True)

    def frame(self, schema: SchemaText) -> bytes:
        """Returns what stands between the id and the data: the place of the message in the schema."""
        return written_index(_index_of_name(schema.text, self._relative_name) or self._index)

    @property
    def _relative_name(self) -> str:
        package = self._file.package
        return str(self._descriptor.full_name).removeprefix(f"{package}." if package else "")

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes) -> Callable[[Any], bytes]:
        """Returns the function that writes messages behind a prefix."""
        model: Any = self._model

        def write(value: Any) -> bytes:
            if not isinstance(value, model):
                raise SchemaError(f"expected {model.__name__}, got {type(value).__name__}")
            found: bytes = value.SerializeToString(deterministic=True)
            return prefix + found

        return write

    def reader(
        self, registered: Registered, client: RegistryClient, start: int, frame: bytes | None = None
    ) -> Callable[[bytes], Any]:
        """Returns the function that reads messages of the class.

        :param start: where the data begin.
        :param frame: what :meth:`frame` wrote, if it is not in front of them.
        """
        parse, text, wanted = self._model.FromString, registered.schema.text, self._relative_name
        known: dict[bytes, None] = {}

        def check(index: bytes) -> None:
            name = _name_at(text, read_index(index, 0)[0])
            if name is not None and name != wanted:
                raise SchemaError(f"it is a message {name}, and not {wanted}")
            known[index] = None

        if frame is not None:
            check(frame)

        def read(data: bytes) -> Any:
            if frame is not None:
                begin = start
            else:
                begin = start + 1 if data[start : start + 1] == b"\x00" else read_index(data, start)[1]
                if data[start:begin] not in known:
                    check(data[start:begin])
            try:
                return parse(data[begin:])
            except DecodeError as error:
                raise SchemaError(f"the data are no message {wanted}: {error}") from error

        return read


def _is_message_class(given: Any) -> bool:
    return isinstance(given, type) and issubclass(given, Message)


def index_of(descriptor: Descriptor) -> list[int]:
    """Returns the place of a message in its file: the index of its outermost message, then of each inner one."""
    inner = descriptor
    found: list[int] = []
    while (outer := inner.containing_type) is not None:
        found.insert(0, list(outer.nested_types).index(inner))
        inner = outer
    found.insert(0, list(descriptor.file.message_types_by_name.values()).index(inner))
    return found


def written_index(index: list[int]) -> bytes:
    """Returns a place as it stands in front of a message: one zero byte for the first message of a file."""
    if index == [0]:
        return b"\x00"
    return b"".join(map(_zigzag, [len(index), *index]))


def _zigzag(number: int) -> bytes:
    left, found = number << 1, bytearray()
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
    """Returns the source of a file, made of its descriptor: registries compare and check sources."""
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    syntax = proto.syntax or "proto2"
    lines = [f'syntax = "{syntax}";']
    if proto.package:
        lines.append(f"package {proto.package};")
    public = set(proto.public_dependency)
    lines += [f'import {"public " if i in public else ""}"{name}";' for i, name in enumerate(proto.dependency)]
    for name in ("java_package", "java_outer_classname"):
        if proto.options.HasField(name):
            lines.append(f'option {name} = "{getattr(proto.options, name)}";')
    if proto.options.java_multiple_files:
        lines.append("option java_multiple_files = true;")
    for message in proto.message_type:
        lines += _message_lines(message, syntax)
    for enum in proto.enum_type:
        lines += _enum_lines(enum)
    return "\n".join(lines) + "\n"


def _message_lines(message: Any, syntax: str) -> Iterator[str]:
    yield f"message {message.name} {{"
    maps = {f".{inner.name}": inner for inner in message.nested_type if inner.options.map_entry}
    for inner in message.nested_type:
        if not inner.options.map_entry:
            yield from (f"  {line}" for line in _message_lines(inner, syntax))
    for enum in message.enum_type:
        yield from (f"  {line}" for line in _enum_lines(enum))
    real = {f.oneof_index for f in message.field if f.HasField("oneof_index") and not f.proto3_optional}
    for field in message.field:
        if field.HasField("oneof_index") and field.oneof_index in real:
            continue
        yield f"  {_field_line(field, maps, syntax)}"
    for index in sorted(real):
        yield f"  oneof {message.oneof_decl[index].name} {{"
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index and not field.proto3_optional:
                yield f"    {_type_of(field)} {field.name} = {field.number};"
        yield "  }"
    for reserved in message.reserved_range:
        yield f"  reserved {reserved.start} to {reserved.end - 1};"
    if message.reserved_name:
        yield "  reserved " + ", ".join(f'"{name}"' for name in message.reserved_name) + ";"
    yield "}"


def _field_line(field: Any, maps: dict[str, Any], syntax: str) -> str:
    entry = next((maps[name] for name in maps if field.type_name.endswith(name)), None)
    if entry is not None and field.label == FieldDescriptorProto.LABEL_REPEATED:
        key, value = entry.field
        return f"map<{_type_of(key)}, {_type_of(value)}> {field.name} = {field.number};"
    label = ""
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        label = "repeated "
    elif field.label == FieldDescriptorProto.LABEL_REQUIRED:
        label = "required "
    elif field.proto3_optional or syntax == "proto2":
        label = "optional "
    options = f" [default = {_default_of(field)}]" if field.HasField("default_value") else ""
    return f"{label}{_type_of(field)} {field.name} = {field.number}{options};"


def _default_of(field: Any) -> str:
    is_text = field.type in (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
    text = str(field.default_value)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if is_text else text


def _type_of(field: Any) -> str:
    if field.type_name:
        return str(field.type_name)
    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _enum_lines(enum: Any) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    if enum.options.allow_alias:
        yield "  option allow_alias = true;"
    for value in enum.value:
        yield f"  {value.name} = {value.number};"
    yield "}"


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
    stack: list[tuple[str | None, int]] = []
    counts = {0: 0}
    place: list[int] = []
    names: list[str] = []
    for position, token in enumerate(tokens):
        if token == "{":
            before = tokens[position - 2 : position]
            is_message = len(before) == 2 and before[0] == "message" and tokens[position - 3 : position - 2] != ["="]
            stack.append((before[1] if is_message else None, len(place)))
            if is_message:
                depth = len(place)
                place.append(counts.get(depth, 0))
                counts[depth] = counts.get(depth, 0) + 1
                counts[depth + 1] = 0
                names.append(before[1])
                yield list(place), ".".join(names)
        elif token == "}" and stack:
            name, depth = stack.pop()
            if name is not None:
                del place[depth:], names[depth:]


def _name_at(text: str, index: list[int]) -> str | None:
    """Returns the name of the message at a place; ``None`` if the source cannot be read."""
    return next((name for place, name in _messages(text) if place == index), None)


def _index_of_name(text: str, name: str) -> list[int] | None:
    return next((place for place, known in _messages(text) if known == name), None)


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
