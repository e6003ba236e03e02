"""Serdes of the store where records without a partner wait: keys by time, values with their side (formats 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from processor_api.serde import Serde
from state.formats.outer_join import (
    outer_join_key,
    outer_join_value,
    read_outer_join_key,
    read_outer_join_value,
)


class TimedSide(NamedTuple):
    """The key of a record that waits."""

    key: Any
    timestamp: int
    left: bool


class TimedSideKeySerde(Serde[Any]):
    """The serde of ``(key, timestamp, left)``.

    :param inner: writes the key; ``None`` is the application's default serde.
    """

    __slots__ = ("inner",)

    def __init__(self, inner: Serde[Any] | None) -> None:
        self.inner = inner
        if inner is None:
            super().__init__(_no_serde, _no_serde, name="key of a join")
        else:
            super().__init__(_key_writer(inner.serialize), _key_reader(inner.deserialize), name=f"timed {inner.name}")

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        """Returns the serde with the default one in place of an inner serde of ``None``."""
        return TimedSideKeySerde(default if self.inner is None else self.inner.with_default(default))

    @property
    def is_complete(self) -> bool:
        """Whether the inner serde is known."""
        return self.inner is not None and self.inner.is_complete

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde with its inner serde bound to the topic."""
        return self if self.inner is None else TimedSideKeySerde(self.inner.bind(topic, is_key=is_key))


class SideValueSerde(Serde[Any]):
    """The serde of ``(value, left)``.

    :param left: writes the values of left records; ``None`` is the application's default serde. So ``right``.
    """

    __slots__ = ("left", "right")

    def __init__(self, left: Serde[Any] | None, right: Serde[Any] | None) -> None:
        self.left, self.right = left, right
        if left is None or right is None:
            super().__init__(_no_serde, _no_serde, name="value of a join")
        else:
            super().__init__(
                _value_writer(left.serialize, right.serialize),
                _value_reader(left.deserialize, right.deserialize),
                name=f"{left.name} or {right.name}",
            )

    def with_default(self, default: Serde[Any]) -> Serde[Any]:
        """Returns the serde with the default one in place of each inner serde of ``None``."""
        return SideValueSerde(
            *(default if inner is None else inner.with_default(default) for inner in (self.left, self.right))
        )

    @property
    def is_complete(self) -> bool:
        """Whether both inner serdes are known."""
        return all(inner is not None and inner.is_complete for inner in (self.left, self.right))

    def bind(self, topic: str, *, is_key: bool) -> Serde[Any]:
        """Returns the serde with its inner serdes bound to the topic."""
        return SideValueSerde(
            *(None if inner is None else inner.bind(topic, is_key=is_key) for inner in (self.left, self.right))
        )


def _no_serde(anything: Any) -> Any:
    raise ValueError("the streams of the join have no serdes; set them with StreamJoined, or default ones")


def _key_writer(serialize: Callable[[Any], bytes]) -> Callable[[tuple[Any, int, bool]], bytes]:
    def write(key: tuple[Any, int, bool]) -> bytes:
        return outer_join_key(serialize(key[0]), key[1], key[2])

    return write


def _key_reader(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], TimedSide]:
    def read(data: bytes) -> TimedSide:
        key, timestamp, left = read_outer_join_key(data)
        return TimedSide(deserialize(key), timestamp, left)

    return read


def _value_writer(left: Callable[[Any], bytes], right: Callable[[Any], bytes]) -> Callable[[tuple[Any, bool]], bytes]:
    def write(value: tuple[Any, bool]) -> bytes:
        return outer_join_value((left if value[1] else right)(value[0]), value[1])

    return write


def _value_reader(left: Callable[[bytes], Any], right: Callable[[bytes], Any]) -> Callable[[bytes], tuple[Any, bool]]:
    def read(data: bytes) -> tuple[Any, bool]:
        value, is_left = read_outer_join_value(data)
        return (left if is_left else right)(value), is_left

    return read
