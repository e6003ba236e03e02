"""Kafka's wire types. A named tuple declares a message; its codec for each version follows from the annotations.

* ``Int8`` ... ``Int64``, ``UInt16`` and ``bool`` are big-endian numbers;
* ``Uuid`` is the 16 bytes of an id;
* ``str``, ``bytes`` and ``tuple[T, ...]`` carry their length, and may be ``| None``;
* a named tuple inside another one is a structure, which begins with a byte that says whether it is there if it may be
  ``None``;
* ``Since(n)`` is for fields that versions before ``n`` do not have, ``Tag(n)`` for tagged fields; both have a default,
  which is what is read where they are absent;
* ``AtMost(n)`` is for arrays that may have more elements than `MOST_ELEMENTS`.

In a flexible version lengths are varints of one more than the length, and structures end with their tagged fields
(KIP-482). Before it, lengths are two bytes for texts and four for bytes and arrays, and there are no tagged fields.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from processor_api.errors import StreamsError
from processor_api.texts import repr_of

T = TypeVar("T")

MOST_ELEMENTS = 1_000
"""Most elements of an array, unless its declaration says another number, and most tagged fields of a structure."""

_MOST_VARINT_BITS = 35
_CHECK_EVERY = 1 << 10


class MalformedMessage(StreamsError):
    """Bytes that are not the message they should be."""


@dataclass(frozen=True)
class _Fixed:
    format: str


@dataclass(frozen=True)
class Since:
    """Marks a field that exists from this version on."""

    version: int


@dataclass(frozen=True)
class Tag:
    """Marks a tagged field, which is written only when it differs from its default, and skipped by readers that do not
    know it."""

    number: int


@dataclass(frozen=True)
class AtMost:
    """Marks an array with how many elements it may have; one that announces more is not read."""

    elements: int


Int8 = Annotated[int, _Fixed("b")]
Int16 = Annotated[int, _Fixed("h")]
Int32 = Annotated[int, _Fixed("i")]
Int64 = Annotated[int, _Fixed("q")]
UInt16 = Annotated[int, _Fixed("H")]
Uuid = Annotated[bytes, _Fixed("16s")]


class Reader:
    """Takes bytes off the front of a message.

    :param check: called now and then, since a message from outside may take long to read; ends it by raising.
    """

    __slots__ = ("_at", "_check", "_data", "_taken")

    def __init__(self, data: bytes, check: Callable[[], object] | None = None) -> None:
        self._data = data
        self._at = 0
        self._check = check
        self._taken = 0

    @property
    def left(self) -> int:
        """Returns how many bytes were not taken yet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        """Takes this many bytes.

        :raises MalformedMessage: if there are fewer."""
        self._taken += 1
        if self._check is not None and not self._taken % _CHECK_EVERY:
            self._check()
        if not 0 <= count <= self.left:
            raise MalformedMessage(f"it needs {count} more bytes, but has {self.left}")
        found = self._data[self._at : self._at + count]
        self._at += count
        return found

    def varint(self) -> int:
        """Takes an unsigned number of at most five bytes, seven bits each, the lowest first."""
        value = 0
        for shift in range(0, _MOST_VARINT_BITS, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedMessage("it has a length of more than five bytes")

    def count(self, most: int, found: int) -> int:
        """Returns a number of elements, if it can be one.

        :raises MalformedMessage: if these are more elements than there may be, or than there are bytes."""
        if found > min(most, self.left):  # an element has at least a byte: refused before anything is read
            raise MalformedMessage(f"it announces {found} elements, but its {self.left} bytes can hold at most {most}")
        return found

    def part(self, count: int) -> Reader:
        """Returns a reader of the next bytes alone."""
        return Reader(self.take(count), self._check)

    def skip_tags(self) -> None:
        for _ in range(self.count(MOST_ELEMENTS, self.varint())):
            self.varint()
            self.take(self.varint())


def write_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


@dataclass(frozen=True, slots=True)
class Codec(Generic[T]):
    """Writes values to the end of a buffer and reads them back."""

    write: Callable[[bytearray, T], None]
    read: Callable[[Reader], T]


_codecs: dict[tuple[type, int, bool], Codec[Any]] = {}


def codec_of(message: type[T], version: int, *, flexible: bool) -> Codec[T]:
    """Returns the codec of a declared message in one of its versions.

    :raises TypeError: if the declaration has a field of no wire type.
    """
    asked = message, version, flexible
    if asked not in _codecs:
        _codecs[asked] = _structure(message, version, flexible)
    return _codecs[asked]


def _structure(message: type[Any], version: int, flexible: bool) -> Codec[Any]:
    hints = get_type_hints(message, include_extras=True)
    plain: list[tuple[str, Codec[Any]]] = []
    tagged: dict[int, tuple[str, Codec[Any], Any]] = {}
    defaults = message._field_defaults
    for name in message._fields:
        kind, marks = _unmarked(hints[name])
        since = marks.get(Since)
        tag = marks.get(Tag)
        if (since is not None or tag is not None) and name not in defaults:
            raise TypeError(f"{message.__name__}.{name} may be absent, so it needs a default")
        if since is not None and version < since.version:
            continue
        codec = _value(kind, marks, version, flexible)
        if tag is None:
            plain.append((name, codec))
        elif flexible:
            tagged[tag.number] = name, codec, defaults[name]

    def write(out: bytearray, value: Any) -> None:
        for name, codec in plain:
            codec.write(out, getattr(value, name))
        if flexible:
            _write_tags(out, value, tagged)

    def read(reader: Reader) -> Any:
        found = {name: codec.read(reader) for name, codec in plain}
        if flexible:
            _read_tags(reader, tagged, found)
        return message(**found)

    return Codec(write, read)


def _write_tags(out: bytearray, value: Any, tagged: Mapping[int, tuple[str, Codec[Any], Any]]) -> None:
    present = [tag for tag, (name, _, default) in sorted(tagged.items()) if getattr(value, name) != default]
    write_varint(out, len(present))
    for tag in present:
        name, codec, _ = tagged[tag]
        content = bytearray()
        codec.write(content, getattr(value, name))
        write_varint(out, tag)
        write_varint(out, len(content))
        out += content


def _read_tags(reader: Reader, tagged: Mapping[int, tuple[str, Codec[Any], Any]], found: dict[str, Any]) -> None:
    for _ in range(reader.count(MOST_ELEMENTS, reader.varint())):
        tag = reader.varint()
        content = reader.part(reader.varint())
        if tag in tagged:
            name, codec, _ = tagged[tag]
            found[name] = codec.read(content)


def _unmarked(hint: Any) -> tuple[Any, dict[type, Any]]:
    if get_origin(hint) is Annotated:
        kind, *marks = get_args(hint)
        return kind, {type(mark): mark for mark in marks}
    return hint, {}


def _value(kind: Any, marks: Mapping[type, Any], version: int, flexible: bool) -> Codec[Any]:
    if kind in (int, bytes) and _Fixed in marks:
        return _fixed(marks[_Fixed].format)
    if kind is bool:
        return _fixed("?")
    nullable = False
    if get_origin(kind) in (Union, UnionType):
        choices = [one for one in get_args(kind) if one is not NoneType]
        if len(choices) == 1:
            nullable, kind = True, choices[0]
    if kind is str:
        return _text(_length("h", flexible, nullable))
    if kind is bytes:
        return _bytes(_length("i", flexible, nullable))
    if get_origin(kind) is tuple:
        element, marked = _unmarked(get_args(kind)[0])
        most = marks[AtMost].elements if AtMost in marks else MOST_ELEMENTS
        return _array(_length("i", flexible, nullable), _value(element, marked, version, flexible), most)
    if hasattr(kind, "_field_defaults"):
        content = _structure(kind, version, flexible)
        return _optional(content) if nullable else content
    raise TypeError(f"{repr_of(kind)} is not a wire type")


def _fixed(code: str) -> Codec[Any]:
    packed = struct.Struct(">" + code)

    def write(out: bytearray, value: Any) -> None:
        out += packed.pack(value)

    return Codec(write, lambda reader: packed.unpack(reader.take(packed.size))[0])


def _optional(content: Codec[Any]) -> Codec[Any]:
    """Returns the codec of a structure that may be absent; a negative byte in front says that it is."""
    mark = _fixed("b")

    def write(out: bytearray, value: Any) -> None:
        mark.write(out, -1 if value is None else 1)
        if value is not None:
            content.write(out, value)

    return Codec(write, lambda reader: content.read(reader) if mark.read(reader) >= 0 else None)


def _length(code: str, flexible: bool, nullable: bool) -> Codec[int]:
    """Returns the codec of a length; -1 stands for null, which is refused where a value is required."""
    fixed = _fixed(code)

    def write(out: bytearray, length: int) -> None:
        if length < 0 and not nullable:
            raise TypeError("a required value is None")
        if flexible:
            write_varint(out, length + 1)
        else:
            fixed.write(out, length)

    def read(reader: Reader) -> int:
        length: int = reader.varint() - 1 if flexible else fixed.read(reader)
        if length < 0 and not nullable:
            raise MalformedMessage("a required value is null")
        return length

    return Codec(write, read)


def _bytes(length: Codec[int]) -> Codec[bytes | None]:
    def write(out: bytearray, value: bytes | None) -> None:
        length.write(out, -1 if value is None else len(value))
        out += value or b""

    def read(reader: Reader) -> bytes | None:
        count = length.read(reader)
        return None if count < 0 else reader.take(count)

    return Codec(write, read)


def _text(length: Codec[int]) -> Codec[str | None]:
    content = _bytes(length)

    def write(out: bytearray, value: str | None) -> None:
        content.write(out, None if value is None else value.encode())

    def read(reader: Reader) -> str | None:
        found = content.read(reader)
        try:
            return None if found is None else found.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("it has a text that is not UTF-8") from None

    return Codec(write, read)


def _array(length: Codec[int], element: Codec[Any], most: int) -> Codec[tuple[Any, ...] | None]:
    def write(out: bytearray, values: tuple[Any, ...] | None) -> None:
        length.write(out, -1 if values is None else len(values))
        for value in values or ():
            element.write(out, value)

    def read(reader: Reader) -> tuple[Any, ...] | None:
        count = reader.count(most, length.read(reader))
        return None if count < 0 else tuple(element.read(reader) for _ in range(count))

    return Codec(write, read)


# ---------------------------------------------------------------------- batches of records

_BATCH_FRONT = struct.Struct(">qi")
_BATCH_HEADER = struct.Struct(">qiibihiqqqhii")
_BATCH_FORMAT = 2
_CONTROL, _TRANSACTIONAL = 0x20, 0x10


class BatchHeader(NamedTuple):
    """Describes a batch of a log by its header.

    A client for records, such as librdkafka, shows neither the markers at the ends of transactions nor how many records
    a batch once had, so that an offset without a record may be anything. Here a marker is a batch of its own, and of a
    batch that a compaction has thinned out, the offsets stay and the count goes down.
    """

    first: int
    """Its first offset; of a batch that was compacted, that of a record which may be gone."""
    last: int
    records: int
    """The number of records that it has now."""
    is_control: bool
    """Whether it is a marker, such as the end of a transaction."""
    is_transactional: bool


def batch_headers(records: bytes) -> Iterator[BatchHeader]:
    """Yields the headers of batches; the last one may be cut off behind its header.

    :raises MalformedMessage: if there is a batch of the formats before Kafka 0.11, which have no such header.
    """
    at = 0
    while len(records) - at >= _BATCH_HEADER.size:
        first, size, _, magic, _, attributes, delta, _, _, _, _, _, count = _BATCH_HEADER.unpack_from(records, at)
        if magic != _BATCH_FORMAT or size < _BATCH_HEADER.size - _BATCH_FRONT.size:
            raise MalformedMessage(f"the batch at offset {first} has format {magic}, but only format 2 is supported")
        yield BatchHeader(first, first + delta, count, bool(attributes & _CONTROL), bool(attributes & _TRANSACTIONAL))
        at += _BATCH_FRONT.size + size
