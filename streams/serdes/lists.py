"""Lists of one kind of item, byte for byte as Java's ``ListSerde`` writes them (formats 5)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from processor_api.forms.json_values import expected
from processor_api.serde import Serde, Serdes, WrappingSerde, json_part, part_of_json
from processor_api.user_code.given_serdes import SerdeLike, as_serde
from processor_api.user_code.open_types import V

_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL = -1
_INT = struct.Struct(">i")
_FIXED_SIZES: dict[int, int] = {
    id(Serdes.SHORT): 2,
    id(Serdes.INTEGER): 4,
    id(Serdes.FLOAT): 4,
    id(Serdes.LONG): 8,
    id(Serdes.DOUBLE): 8,
    id(Serdes.UUID): 36,
}
"""Java's fixed-size serdes; boolean and void are not among them. Keyed by identity: a custom serde is never one."""


class ListSerde(WrappingSerde[list[V | None]]):
    """Lists whose items an inner serde writes; an item may be ``None``.

    Items of a fixed-size serde (short, integer, long, float, double, uuid) are written without lengths, and the
    positions of nulls in front. Others are each preceded by their length, or -1 for null.

    Kafka Streams before 4.4.0 cannot read back a list that it wrote with an empty last item.
    """

    __slots__ = ("_fixed_size",)

    inner: Serde[V]
    """The serde of the items."""

    def __init__(self, inner: SerdeLike[V], *, fixed_size: int | None = None) -> None:
        try:
            self.inner = as_serde(inner)
        except TypeError as error:
            raise TypeError(f"a list serde needs, for its items, {error}") from None
        self._fixed_size = fixed_size or _FIXED_SIZES.get(id(self.inner))
        write = self._write_variable if self._fixed_size is None else self._write_constant
        super().__init__(write, self._read, name=f"list of {self.inner.name}")

    @property
    def form(self) -> str:
        """The name of formats 5; items of a fixed size have no lengths."""
        return "list of items " + ("with lengths" if self._fixed_size is None else f"of {self._fixed_size} bytes")

    def plain(self, data: bytes) -> Any:
        """Returns a list with what each item holds without a type of the application."""
        return self._items(data, self.inner.plain)

    def of_plain(self, plain: Any) -> list[V | None]:
        """Returns the list of the values that the items stand for."""
        _check(plain)
        return [None if item is None else self.inner.of_plain(item) for item in plain]

    def to_json(self, value: list[V | None]) -> Any:
        """Returns a list of what the inner serde returns of each item."""
        return [json_part(self.inner, item) for item in value]

    def from_json(self, given: Any) -> list[V | None]:
        """Returns the list of the items that those of a list of JSON stand for."""
        if not isinstance(given, list):
            raise expected("a list")
        return [part_of_json(self.inner, item) for item in given]

    def _around(self, inner: Serde[Any]) -> Serde[list[V | None]]:
        return ListSerde(inner, fixed_size=self._fixed_size)

    def _write_constant(self, items: Sequence[V | None]) -> bytes:
        _check(items)
        nulls = [position for position, item in enumerate(items) if item is None]
        serialize = self.inner.serialize
        head = struct.pack(f">bi{len(nulls)}ii", _CONSTANT_SIZE, len(nulls), *nulls, len(items))
        return head + b"".join([serialize(item) for item in items if item is not None])

    def _write_variable(self, items: Sequence[V | None]) -> bytes:
        _check(items)
        serialize, length = self.inner.serialize, _INT.pack
        parts = [struct.pack(">bi", _VARIABLE_SIZE, len(items))]
        for item in items:
            if item is None:
                parts.append(length(_NULL))
            else:
                data = serialize(item)
                parts += (length(len(data)), data)
        return b"".join(parts)

    def _read(self, data: bytes) -> list[V | None]:
        return self._items(data, self.inner.deserialize)

    def _items(self, data: bytes, read: Callable[[bytes], Any]) -> list[Any]:
        try:
            strategy = data[0]
            if strategy == _CONSTANT_SIZE:
                return self._read_constant(data, read)
            if strategy == _VARIABLE_SIZE:
                return _read_variable(data, read)
        except (struct.error, IndexError):
            raise ValueError(f"{self.name}: the data ends before the list does") from None
        raise ValueError(f"{self.name}: the first byte must be 0 or 1, got {strategy}")

    def _read_constant(self, data: bytes, read: Callable[[bytes], Any]) -> list[Any]:
        size = self._fixed_size
        if size is None:
            raise ValueError(
                f"{self.name}: the items were written with a fixed size, but the items of this serde do not have one"
            )
        null_count = _count(data, 1)
        nulls = set(struct.unpack_from(f">{null_count}i", data, 5))
        position = 5 + 4 * null_count
        length = _count(data, position)
        position += 4
        items: list[Any] = []
        for index in range(length):
            if index in nulls:
                items.append(None)
            else:
                items.append(read(_slice(data, position, size)))
                position += size
        return items


def _read_variable(data: bytes, read: Callable[[bytes], Any]) -> list[Any]:
    length, position = _count(data, 1), 5
    items: list[Any] = []
    for _ in range(length):
        size = _INT.unpack_from(data, position)[0]
        position += 4
        if size == _NULL:
            items.append(None)
        else:
            items.append(read(_slice(data, position, size)))
            position += size
    return items


def list_serde(inner: SerdeLike[V]) -> ListSerde[V]:
    """Returns a serde of lists whose items ``inner`` writes.

    ::

        items = list_serde("string")
        assert items.deserialize(items.serialize(["tea", None, "milk"])) == ["tea", None, "milk"]
    """
    return ListSerde(inner)


def _check(items: object) -> None:
    if not isinstance(items, (list, tuple)):
        raise TypeError(f"list: expected a list, got {type(items).__name__}")


def _count(data: bytes, position: int) -> int:
    count: int = _INT.unpack_from(data, position)[0]
    if not 0 <= count <= len(data):  # refused before it is waited for: damaged data may say two thousand million
        raise IndexError
    return count


def _slice(data: bytes, position: int, size: int) -> bytes:
    if size < 0 or position + size > len(data):
        raise IndexError
    return data[position : position + size]
