"""Protobuf: messages of generated classes, with the source of their ``.proto`` files in a registry."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from processor_api.errors import ConfigError
from processor_api.forms.json_values import json_of
from processor_api.texts import repr_of
from streams.registry.bound import Read, SchemaFormat, Subject, Write
from streams.registry.schemas import PROTOBUF, SchemaError, SchemaReference, SchemaText, extra

with extra("but reading and writing messages needs it"):
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError
    from google.protobuf.message import DecodeError, Message

    from streams.schemas.proto_sources import source_of

if TYPE_CHECKING:
    from streams.registry.client import RegistryClient

OF_GOOGLE = "google/protobuf/"
"""Files that each registry has."""
_NO_CODE = re.compile(r'(?://[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\])*"?|\'(?:\\.|[^\'\\])*\'?|\s)+', re.DOTALL)
_BLOCK = re.compile(r"(?:\b(?:message (\w+)|group (\w+) ?= ?\w+) ?)?\{|\}")
"""The beginning of a block, with the name of the message that it is, or its end."""
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MOST_INDEXES = 100
"""The most messages within each other."""


class ProtobufFormat(SchemaFormat):
    """The messages of one generated class; raises `ConfigError` if it is none."""

    kind = PROTOBUF
    has_frame = True

    def __init__(self, model: Any) -> None:
        is_message_class = isinstance(model, type) and issubclass(model, Message)
        if not is_message_class:
            raise ConfigError(f"Protobuf needs a class that protoc has generated, got {repr_of(model)}")
        super().__init__(None)
        self._model: Any = model
        self._descriptor: Descriptor = self._model.DESCRIPTOR
        self._file: FileDescriptor = self._descriptor.file
        self._name = str(self._descriptor.full_name).removeprefix(f"{self._file.package}.")
        """The name of the message without the package."""
        self.own = SchemaText(source_of(self._file), PROTOBUF)

    def with_references(self, schema: SchemaText, client: RegistryClient, *, register: bool) -> SchemaText:
        def with_imports(file: FileDescriptor, text: str) -> SchemaText:
            references = []
            for one in file.dependencies:
                if not one.name.startswith(OF_GOOGLE):
                    inner = with_imports(one, source_of(one))
                    if register:
                        client.register(one.name, inner)
                    references.append(SchemaReference(one.name, one.name, client.lookup(one.name, inner).version or 1))
            return SchemaText(text, PROTOBUF, tuple(references))

        return with_imports(self._file, schema.text)

    def record_name(self, schema: SchemaText) -> str:
        return str(self._descriptor.full_name)

    def without_model(self) -> None:
        return None

    def unequal(self, schema: SchemaText, client: RegistryClient | None) -> str | None:
        found = _map_in(self._descriptor, "the key", frozenset())
        return None if found is None else f"{found} is a map, and its entries have no order"

    def from_json(self, value: Any, subject: Subject) -> Any:
        return ParseDict(json_of(value, _leaf_of_json), self._model())

    def to_json(self, value: Any, subject: Subject) -> Any:
        try:
            return MessageToDict(value, preserving_proto_field_name=True)
        except (TypeError, SerializeToJsonError):  # there is a message in it whose type is not known
            return str(value)

    def frame(self, schema: SchemaText) -> bytes:
        assert self.own is not None
        places = {name: place for text in (self.own.text, schema.text) for place, name in _places(text)}
        return written_index(places[self._name])

    def writer(self, schema: SchemaText, client: RegistryClient, prefix: bytes, *, is_key: bool = False) -> Write:
        model: Any = self._model

        def write(value: Any) -> bytes:
            if not isinstance(value, model):
                raise SchemaError(f"expected {model.__name__}, got {type(value).__name__}")
            found: bytes = value.SerializeToString(deterministic=True)
            return prefix + found

        return write

    def reader(self, schema: SchemaText, client: RegistryClient, start: int) -> Read:
        parse, wanted = self._model.FromString, self._name
        names = {written_index(place): name for place, name in _places(schema.text)}
        if b"\x00" in names:
            names[b"\x02\x00"] = names[b"\x00"]  # the same place, as it would stand there by the rule
        usual = next((index for index, name in names.items() if name == wanted), None)

        def read(data: bytes) -> Any:
            index = usual
            if index is None or not data.startswith(index, start):
                index = next((one for one in names if data.startswith(one, start)), None)
                if index is None:
                    what = "the message indexes at the start of the data"
                    raise SchemaError(
                        f"the schema does not have a message at {what}: {data[start : start + 8].hex() or 'none'}"
                    )
                if names[index] != wanted:
                    raise SchemaError(f"it is a message {names[index]}, not {wanted}")
            try:
                return parse(data[start + len(index) :])
            except DecodeError as error:
                raise SchemaError(f"the data is not a message {wanted}: {error}") from error

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
    return b"\x00" if index == [0] else b"".join(_varint(number << 1) for number in (len(index), *index))


def _varint(number: int) -> bytes:
    return bytes((number,)) if number < 0x80 else bytes((number & 0x7F | 0x80,)) + _varint(number >> 7)


# ---------------------------------------------------------------------- the messages of a schema


def _places(text: str) -> Iterator[tuple[list[int], str]]:
    """Yields the place and the name of each message of a file: of its source, or its descriptor in base64, which
    Confluent's serializer for Python registers."""
    if _BASE64.fullmatch(text):
        yield from _places_of(FileDescriptorProto.FromString(base64.b64decode(text)).message_type, [], "")
    else:
        yield from places_in(text)


def _places_of(messages: Any, outer: list[int], prefix: str) -> Iterator[tuple[list[int], str]]:
    for index, message in enumerate(messages):
        yield [*outer, index], prefix + message.name
        yield from _places_of(message.nested_type, [*outer, index], f"{prefix}{message.name}.")


def places_in(text: str) -> Iterator[tuple[list[int], str]]:
    """Yields the place and the name of each message of a source."""
    blocks: list[bool] = []
    """Whether each block around is a message."""
    place: list[int] = []
    names: list[str] = []
    counts = [0]
    """How many messages there were before in the file, and in each message around."""
    for found in _BLOCK.finditer(_NO_CODE.sub(" ", text)):
        if found[0] != "}":
            name = found[1] or found[2]
            blocks.append(name is not None)
            if len(place) > _MOST_INDEXES:
                raise SchemaError(f"the schema nests more than {_MOST_INDEXES} messages")
            if name is not None:
                place.append(counts[-1])
                names.append(name)
                counts[-1] += 1
                counts.append(0)
                yield list(place), ".".join(names)
        elif blocks and blocks.pop():
            for each in (place, names, counts):
                each.pop()


def _map_in(descriptor: Descriptor, place: str, within: frozenset[str]) -> str | None:
    """Returns the place of a map in a message; ``None`` if it has none."""
    for field in descriptor.fields if descriptor.full_name not in within else ():
        if (inner := field.message_type) is not None:
            where, deeper = f"{place}.{field.name}", within | {str(descriptor.full_name)}
            found = where if inner.GetOptions().map_entry else _map_in(inner, where, deeper)
            if found is not None:
                return found
    return None
