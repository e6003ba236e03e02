"""The source of a ``.proto`` file, made of the descriptor that generated classes carry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, Edition, FieldDescriptorProto, FileDescriptorProto

from processor_api.errors import ConfigError

_LAST_NUMBER = 1 << 29
_EDITION = "EDITION_2023"
_LABELS = {1: "optional ", 2: "required "}
"""The labels of proto2 for fields that are not repeated; otherwise whether one must be there is none of its label."""


def source_of(file: FileDescriptor) -> str:
    """Returns the source of a file, made of its descriptor: registries compare and check sources; raises `ConfigError`
    if the file has an edition that is not known here."""
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    return "\n".join(_FileSource(proto, file.pool).lines()) + "\n"


class _FileSource:
    """Writes the source of one file, whose types are in a pool."""

    def __init__(self, proto: Any, pool: Any) -> None:
        self._proto, self._pool = proto, pool
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
        yield from self._types(proto, proto.message_type)

    def _types(self, given: Any, messages: Any) -> Iterator[str]:
        """Yields the options of a file or a message, and the types in it."""
        yield from _option_lines(given)
        for message in messages:
            if not message.options.map_entry:
                yield from _block(f"message {message.name}", self._message(message))
        for enum in given.enum_type:
            values = (f"{one.name} = {one.number}{_in_brackets(_options(one.options))};" for one in enum.value)
            yield from _block(f"enum {enum.name}", _option_lines(enum), values, _reserved(enum, 0))
        for field in given.extension:
            yield from _block(f"extend {field.extendee}", [self._field(field)])

    def _message(self, message: Any) -> Iterator[str]:
        yield from self._types(message, message.nested_type)
        choices: dict[int, list[str]] = {}
        for field in message.field:
            if field.HasField("oneof_index") and not field.proto3_optional:
                choices.setdefault(field.oneof_index, []).append(self._field(field, in_oneof=True))
            else:
                yield self._field(field)
        for index, fields in sorted(choices.items()):
            one = message.oneof_decl[index]
            yield from _block(f"oneof {one.name}", _option_lines(one), fields)
        yield from _ranges("extensions", message.extension_range, 1)
        yield from _reserved(message, 1)

    def _field(self, field: Any, *, in_oneof: bool = False) -> str:
        if field.type == FieldDescriptorProto.TYPE_GROUP and self._syntax == "proto2":
            what = f"the field {field.name} of {self._proto.name}"
            raise ConfigError(f"{what} is a group, for which there is no source here")
        label = "optional " if field.proto3_optional else ""
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            label = "repeated "
        elif self._syntax == "proto2":
            label = _LABELS[field.label]
        kind = ("" if in_oneof else label) + _type_of(field)
        if field.type == FieldDescriptorProto.TYPE_MESSAGE:
            entry = DescriptorProto()
            self._pool.FindMessageTypeByName(field.type_name[1:]).CopyToProto(entry)
            if entry.options.map_entry:
                kind = f"map<{', '.join(map(_type_of, entry.field))}>"
        options = [*_options(field.options)]
        usual = re.sub(r"_+(.?)", lambda found: found[1].upper(), field.name)
        if field.HasField("json_name") and field.json_name != usual:
            options.insert(0, f"json_name = {_quoted(field.json_name)}")
        if field.HasField("default_value"):
            # That of bytes stands with its escapes there.
            written = {FieldDescriptorProto.TYPE_BYTES: '"{}"'.format, FieldDescriptorProto.TYPE_STRING: _quoted}
            options.insert(0, f"default = {written.get(field.type, str)(field.default_value)}")
        return f"{kind} {field.name} = {field.number}{_in_brackets(options)};"


def _block(head: str, *parts: Iterable[str]) -> Iterator[str]:
    yield f"{head} {{"
    yield from (f"  {line}" for part in parts for line in part)
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
            else:
                yield f"{name} = {_quoted(one) if isinstance(one, (str, bytes)) else str(one).lower()}"


def _option_lines(given: Any) -> Iterator[str]:
    return (f"option {one};" for one in _options(given.options))


def _in_brackets(options: Iterable[str]) -> str:
    text = ", ".join(options)
    return f" [{text}]" if text else ""


def _quoted(text: str | bytes) -> str:
    data = text.encode() if isinstance(text, str) else text
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}" for byte in data)
    return f'"{"".join(plain)}"'


def _type_of(field: Any) -> str:
    return str(field.type_name or FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower())


def _ranges(word: str, given: Any, over: int) -> Iterator[str]:
    """Yields ranges of numbers, whose ends are ``over`` behind their last numbers."""
    for one in given:
        last, options = one.end - over, _options(one.options) if word == "extensions" else ()
        yield f"{word} {one.start} to {'max' if last >= _LAST_NUMBER - 1 else last}{_in_brackets(options)};"


def _reserved(given: Any, over: int) -> Iterator[str]:
    yield from _ranges("reserved", given.reserved_range, over)
    if given.reserved_name:
        yield "reserved " + ", ".join(map(_quoted, given.reserved_name)) + ";"
