"""The positions of stores in their inputs, and the positions that queries require."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from processor_api.texts import repr_of
from processor_api.user_code.given_values import items_of
from state.formats.offsets import read_position, write_position

_NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Position:
    """The position of a store: the offset of the last input record that it has seen, by topic and partition.

    Every record up to that offset was processed, and its effects on the store are visible. Values are never changed:
    calls that add to a position make another one.

    ::

        position = Position({"orders": {0: 41}}).with_component("orders", 1, 7)
        assert str(position) == "orders-0@41, orders-1@7"

    :param offsets: by topic and partition.
    :raises ValueError: if an offset is negative.
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {topic: MappingProxyType(found) for topic, found in _offsets_of(self.offsets).items() if found}
        for topic, found in kept.items():
            for partition, offset in found.items():
                if type(partition) is not int or type(offset) is not int or partition < 0 or offset < 0:
                    raise ValueError(
                        f"the offsets of a position must be non-negative integers by partition, got {repr_of(offset)}"
                        f" for partition {repr_of(partition)} of topic {repr_of(topic)}"
                    )
        object.__setattr__(self, "offsets", MappingProxyType(kept))

    def __hash__(self) -> int:
        return hash(frozenset((topic, *pair) for topic, found in self.offsets.items() for pair in found.items()))

    def __bool__(self) -> bool:
        """Whether there is any offset in it."""
        return bool(self.offsets)

    def __str__(self) -> str:
        parts = (
            f"{topic}-{one}@{found[one]}" for topic, found in sorted(self.offsets.items()) for one in sorted(found)
        )
        return ", ".join(parts) or "nothing"

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it has offsets of."""
        return frozenset(self.offsets)

    def partition_positions(self, topic: str) -> Mapping[int, int]:
        """Returns the offsets of a topic by partition; empty for a topic that is not in it."""
        return self.offsets.get(topic, _NOTHING) if type(topic) is str else _NOTHING

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """Returns a position with one more offset; a greater one that is there stays."""
        if type(topic) is not str or type(partition) is not int:
            raise ValueError(
                f"an offset of a position needs the name of a topic and the number of a partition, got {repr_of(topic)}"
                f" and {repr_of(partition)}"
            )
        return self.merge(Position({topic: {partition: offset}}))

    def merge(self, other: Position) -> Position:
        """Returns a position with the greater offset of each partition of both."""
        _check_position(other)
        merged = {topic: dict(found) for topic, found in self.offsets.items()}
        for topic, found in other.offsets.items():
            mine = merged.setdefault(topic, {})
            for partition, offset in found.items():
                mine[partition] = max(offset, mine.get(partition, offset))
        return Position(merged)

    @classmethod
    def merged(cls, positions: Iterable[Position]) -> Position:
        """Returns a position with the greatest offset of each partition of all."""
        found = cls()
        for one in items_of(positions, "positions"):
            found = found.merge(one)
        return found

    def to_bytes(self) -> bytes:
        """Returns the bytes that Kafka Streams writes (formats 7)."""
        return write_position(self.offsets)

    @classmethod
    def from_bytes(cls, data: bytes) -> Position:
        """Reads a position from bytes of :meth:`to_bytes`, or of Kafka Streams.

        :raises ValueError: if the data is of another version or ends too early.
        """
        given: object = data
        if not isinstance(given, (bytes, bytearray, memoryview)):
            raise ValueError(f"a position must be bytes, got {repr_of(given)}")
        return cls(read_position(data))


@dataclass(frozen=True)
class PositionBound:
    """The position that a store must have reached to answer a query.

    A partition of a store is compared only with the bound's offsets of its own partition number; inputs that the bound
    does not name are not compared.

    ::

        seen = Position({"orders": {0: 41}})
        assert not PositionBound.at(seen).reached(Position({"orders": {0: 40}}), partition=0)
    """

    position: Position = field(default_factory=Position)

    def __post_init__(self) -> None:
        _check_position(self.position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Returns a bound that any position reaches."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """Returns a bound of this position, such as that of an earlier result."""
        return cls(position)

    def reached(self, position: Position, partition: int) -> bool:
        """Returns whether a position of the store of a partition has reached the bound."""
        _check_position(position)
        if type(partition) is not int:
            raise ValueError(f"partition must be the number of a partition, got {repr_of(partition)}")
        for topic, bounds in self.position.offsets.items():
            bound = bounds.get(partition)
            if bound is not None and position.partition_positions(topic).get(partition, -1) < bound:
                return False
        return True


def _offsets_of(given: object) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = {}
    for topic, offsets in given.items() if isinstance(given, Mapping) else [(given, None)]:
        if type(topic) is not str or not isinstance(offsets, Mapping):
            raise ValueError(
                "the offsets of a position must be by topic and partition, such as {'orders': {0: 41}}, got"
                f" {repr_of(given)}"
            )
        found[topic] = dict(offsets)
    return found


def _check_position(given: object) -> None:
    if not isinstance(given, Position):
        raise TypeError(f"a position must be a Position, such as that of a result, got {repr_of(given)}")
