"""Changes, which operators of tables send to each other: the new value and the one it replaces.

A change is a plain tuple ``(new, old)``, the cheapest thing Python can make (0.03 µs, a named tuple 0.2 µs). ``None``
in either place means that there is no value; ``old`` is ``None`` too where no operator asked for old values
(semantics 30). An out-of-order update of a versioned table has a third item, ``False`` for "not the latest"; without
it a change is the latest (semantics 38).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from processor_api.serde import Serde, WrappingSerde, json_part, part_of_json
from state.formats.values import read_varint, write_varint

Change = tuple[Any, Any] | tuple[Any, Any, bool]

_OLD, _NEW, _BOTH = b"\x00", b"\x01", b"\x02"
_WITH_LATEST = 3


class ChangeSerde(WrappingSerde[Change]):
    """The serde of changes on the repartition topic of a grouped table (formats 4, KIP-904).

    :param inner: writes the values; ``None`` is the application's default serde.
    """

    __slots__ = ()

    def __init__(self, inner: Serde[Any] | None) -> None:
        self.inner = inner
        if inner is None:
            super().__init__(_no_serde, _no_serde, name="change")
        else:
            super().__init__(_writer(inner.serialize), _reader(inner.deserialize), name=f"change of {inner.name}")

    @property
    def form(self) -> str:
        """The name of formats 4."""
        return "change"

    def to_json(self, value: Change) -> Any:
        """Returns an object with the new and the old value, and whether it is the latest where it may not be."""
        assert self.inner is not None
        new, old, *latest = value
        shown = {"new": json_part(self.inner, new), "old": json_part(self.inner, old)}
        return {**shown, "latest": latest[0]} if latest else shown

    def from_json(self, given: Any) -> Change:
        assert self.inner is not None
        new, old = (part_of_json(self.inner, given[name]) for name in ("new", "old"))
        return (new, old, given["latest"]) if "latest" in given else (new, old)


def _no_serde(anything: Any) -> Any:
    raise ValueError(
        "the values of the grouped table do not have a serde: give Grouped(value_serde=...), or set default.value.serde"
    )


def _writer(serialize: Callable[[Any], bytes]) -> Callable[[Change], bytes]:
    def write(change: Change) -> bytes:
        new, old = change[0], change[1]
        if old is None:
            if new is None:
                raise ValueError("a change must have a new or an old value")
            return serialize(new) + _NEW
        if new is None:
            return serialize(old) + _OLD
        data = serialize(new)
        return write_varint(len(data)) + data + serialize(old) + _BOTH

    return write


def _reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Change]:
    def read(data: bytes) -> Change:
        kind, end = data[-1], len(data) - 1
        latest = True
        if kind >= _WITH_LATEST:
            kind, end = kind - _WITH_LATEST, end - 1
            if end < 0 or data[end] > 1 or kind > _BOTH[0]:
                raise _damaged(data)
            latest = data[end] == 1
        new = old = None
        if kind == _OLD[0]:
            old = deserialize(data[:end])
        elif kind == _NEW[0]:
            new = deserialize(data[:end])
        else:
            length, start = _length(data)
            if start + length > end:
                raise _damaged(data)
            new, old = deserialize(data[start : start + length]), deserialize(data[start + length : end])
        return (new, old) if latest else (new, old, False)

    return read


def _length(data: bytes) -> tuple[int, int]:
    """The length of the new value and where it starts."""
    try:
        length, start = read_varint(data)
    except ValueError:
        raise _damaged(data) from None
    if length < 0:
        raise _damaged(data)
    return length, start


def _damaged(data: bytes) -> ValueError:
    return ValueError(f"not a change of a table: {data!r}")
