"""The families that the engine of a custom store reads from and writes to."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol

from processor_api.errors import StoreError
from processor_api.stores.suppliers import lacks
from processor_api.task_id import TopicPartition
from state.engine.port import OFFSETS, POSITIONS
from state.formats.offsets import TOPIC_ID, write_offset

Row = tuple[bytes, bytes]
Operation = tuple[str, bytes, bytes | None, bytes | None]
"""Family, key, value or ``None``, and the end of a range to delete."""


class OwnEngine(Protocol):
    """The engine of one custom store."""

    inputs: Collection[TopicPartition]

    @property
    def store(self) -> Any: ...

    def offset(self, partition: TopicPartition) -> int | None: ...

    def topic_id(self) -> bytes | None: ...


class CustomBatch:
    """Operations in order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def put(self, key: bytes, value: bytes, handle: str) -> None:
        self.operations.append((handle, key, value, None))

    def delete(self, key: bytes, handle: str) -> None:
        self.operations.append((handle, key, None, None))

    def delete_range(self, low: bytes, high: bytes, handle: str) -> None:
        self.operations.append((handle, low, None, high))

    def parted(self) -> tuple[list[Operation], list[Operation]]:
        """The operations on the id of the changelog, and the others."""
        ids = [one for one in self.operations if one[0] == OFFSETS and one[1].startswith(TOPIC_ID)]
        return ids, [one for one in self.operations if one not in ids] if ids else self.operations


class CustomRows:
    """The rows of a byte store."""

    def __init__(self, name: str, engine: OwnEngine) -> None:
        self.name = self.handle = name
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._engine.store.get(key)
        return found

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        if low is not None and high is not None and low >= high:
            return iter(())
        store, everything = self._engine.store, low is None and high is None
        call = ("reverse_all" if everything else "reverse_range") if reverse else ("all" if everything else "range")
        if lacks(store, call):
            raise StoreError(
                f"store {store.name!r} cannot be read in this order: {type(store).__name__} does not implement {call}",
                store=store.name,
            )
        opened = getattr(store, call)() if everything else getattr(store, call)(low, high)
        return _read(opened, high)

    def seek(self, key: bytes) -> Row | None:
        return next(self.range(key), None)

    def approximate_count(self) -> int:
        store = self._engine.store
        return 0 if lacks(store, "approximate_num_entries") else int(store.approximate_num_entries())


def _read(opened: Any, high: bytes | None) -> Iterator[Row]:
    """Yields the rows of a user's iterator, and closes it at its end; such ranges include the upper bound."""
    try:
        for row in opened:
            if row[0] != high:
                yield row
    finally:
        close = getattr(opened, "close", None)
        if close is not None:
            close()


class NoRows:
    """A family that the store does not have."""

    def __init__(self, name: str) -> None:
        self.name = self.handle = name

    def get(self, key: bytes) -> bytes | None:
        return None

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        return iter(())

    def seek(self, key: bytes) -> Row | None:
        return None

    def approximate_count(self) -> int:
        return 0


class CustomOffsets(NoRows):
    """Offsets as rows, of the changelog or of inputs, and the changelog's id.

    They cannot be listed: a caller asks for a partition that it knows.
    """

    def __init__(self, name: str, engine: OwnEngine) -> None:
        super().__init__(name)
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        if key.startswith(TOPIC_ID):
            return self._engine.topic_id()
        found = self._engine.offset(partition_of(key))
        return None if found is None else write_offset(found)

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        """Yields the known positions of inputs; nothing for another family."""
        if self.name != POSITIONS:
            return iter(())
        inputs = self._engine.inputs
        known = ((str(one).encode(), self._engine.offset(one)) for one in inputs)
        return iter([(key, write_offset(offset)) for key, offset in known if offset is not None])


def partition_of(key: bytes) -> TopicPartition:
    """Returns the partition that a row's key names; the key of a source topic has the name of the rows in front."""
    topic, _, partition = key.decode().rpartition("/")[2].rpartition("-")
    return TopicPartition(topic, int(partition))
