"""Up to where a store has its inputs, and how far a query asks it to be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from state.formats.position import read_position, write_position

__all__ = ["Position", "PositionBound"]

_NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Position:
    """By topic and partition, the offset of the last input record that a store has seen.

    Every record up to that offset was processed, and what it did to the store shows. Values are never changed: calls
    that add to a position make another one.

    :param offsets: by topic and partition.
    :raises ValueError: if an offset is negative.
    """

    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kept = {topic: MappingProxyType(dict(found)) for topic, found in self.offsets.items() if found}
        for topic, found in kept.items():
            for partition, offset in found.items():
                if type(partition) is not int or type(offset) is not int or partition < 0 or offset < 0:
                    raise ValueError(
                        f"a position has offsets that are not negative, by partition; got {offset!r} for partition"
                        f" {partition!r} of topic {topic!r}"
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
        return frozenset(self.offsets)

    def partition_positions(self, topic: str) -> Mapping[int, int]:
        """Offsets by partition; empty for a topic that is not in it."""
        return self.offsets.get(topic, _NOTHING)

    def with_component(self, topic: str, partition: int, offset: int) -> Position:
        """With one more offset; a greater one that is there stays."""
        return self.merge(Position({topic: {partition: offset}}))

    def merge(self, other: Position) -> Position:
        """The greater offset of each partition of both."""
        merged = {topic: dict(found) for topic, found in self.offsets.items()}
        for topic, found in other.offsets.items():
            mine = merged.setdefault(topic, {})
            for partition, offset in found.items():
                mine[partition] = max(offset, mine.get(partition, offset))
        return Position(merged)

    @classmethod
    def merged(cls, positions: Iterable[Position]) -> Position:
        """The greatest offset of each partition of all."""
        found = cls()
        for one in positions:
            found = found.merge(one)
        return found

    def to_bytes(self) -> bytes:
        """As Kafka Streams writes it (reference 3.1)."""
        return write_position(self.offsets)

    @classmethod
    def from_bytes(cls, data: bytes) -> Position:
        """The reverse of :meth:`to_bytes`, also for positions that Kafka Streams wrote.

        :raises ValueError: if the data is of another version or ends too early.
        """
        return cls(read_position(data))


@dataclass(frozen=True)
class PositionBound:
    """How far a store must be at least to answer a query. A partition of a store looks at the inputs of its own number;
    those that a bound does not name do not matter."""

    position: Position = field(default_factory=Position)

    @classmethod
    def unbounded(cls) -> PositionBound:
        """Any position will do."""
        return cls()

    @classmethod
    def at(cls, position: Position) -> PositionBound:
        """At least this position, such as that of an earlier result."""
        return cls(position)

    def reached(self, position: Position, partition: int) -> bool:
        """Whether the store of a partition is that far."""
        for topic, bounds in self.position.offsets.items():
            bound = bounds.get(partition)
            if bound is not None and position.partition_positions(topic).get(partition, -1) < bound:
                return False
        return True
