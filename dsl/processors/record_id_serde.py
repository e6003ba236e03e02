"""The serde of a record's key together with an id, by which records are compared (formats 14)."""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

from processor_api.forms.json_values import BASE64, bytes_of_json
from processor_api.serde import Serde, WrappingSerde
from processor_api.texts import repr_of

RecordId = str | bytes | int | tuple[str | bytes | int, ...]
"""An id of a record: equal ids mean equal records."""

LENGTH = struct.Struct(">i")
TEXT, BYTES, NUMBER = b"s", b"b", b"i"


class RecordIdSerde(WrappingSerde[Any]):
    """The serde of ``(key, id)``; an id is a ``str``, ``bytes`` or ``int``, or a tuple of these.

    :param inner: writes the key; ``None`` is the application's default serde.
    """

    __slots__ = ()

    def __init__(self, inner: Serde[Any] | None) -> None:
        self.inner = inner
        if inner is None:
            super().__init__(_no_serde, _no_serde, name="record id")
            return
        write_key, read_key = inner.serialize, inner.deserialize

        def write(given: tuple[Any, Any]) -> bytes:
            key = write_key(given[0])
            return LENGTH.pack(len(key)) + key + _write_id(given[1])

        def read(data: bytes) -> tuple[Any, Any]:
            end = LENGTH.size + LENGTH.unpack_from(data)[0]
            return read_key(data[LENGTH.size : end]), _read_id(data[end:])

        super().__init__(write, read, name=f"{inner.name} and id")

    @property
    def form(self) -> str:
        """The name of formats 14."""
        return "key and id"

    def to_json(self, value: tuple[Any, Any]) -> Any:
        """Returns a list of the key and the id."""
        assert self.inner is not None
        return [self.inner.to_json(value[0]), _id_as_json(value[1])]

    def from_json(self, given: Any) -> tuple[Any, Any]:
        assert self.inner is not None
        key, found = given
        return self.inner.from_json(key), _id_of_json(found)


def _id_as_json(value: Any) -> Any:
    """Returns an id as JSON has it; bytes that are a text are another id than that."""
    if isinstance(value, tuple):
        return [_id_as_json(part) for part in value]
    return {BASE64: b64encode(value).decode()} if isinstance(value, bytes) else value


def _id_of_json(given: Any) -> Any:
    if isinstance(given, list):
        return tuple(map(_id_of_json, given))
    return bytes_of_json(given) if isinstance(given, dict) else given


def _no_serde(anything: Any) -> Any:
    raise ValueError("the stream does not have a key serde: give stream(..., key_serde=...), or set default.key.serde")


def _write_id(given: Any) -> bytes:
    """Writes the kind and the text of an id; of a tuple, each part behind its length, which begins with no kind."""
    if type(given) is str:
        return TEXT + given.encode()
    if type(given) is tuple and given:
        return b"".join(LENGTH.pack(len(part)) + part for part in map(_write_id, given))
    if type(given) is bytes:
        return BYTES + given
    # By their exact types: a truth value is an int, and would be equal to 0 or 1 when it is read again.
    if type(given) is int:
        return NUMBER + str(given).encode()
    raise TypeError(f"the id of a record must be a str, bytes or int, or a tuple of these, got {repr_of(given)}")


def _read_id(data: bytes) -> Any:
    kind, rest = data[:1], data[1:]
    if kind == TEXT:
        return rest.decode()
    if kind == BYTES:
        return rest
    return int(rest) if kind == NUMBER else tuple(map(_read_id, _parts(data)))


def _parts(data: bytes) -> Iterator[bytes]:
    begin = 0
    while begin < len(data):
        end = begin + LENGTH.size + LENGTH.unpack_from(data, begin)[0]
        yield data[begin + LENGTH.size : end]
        begin = end
