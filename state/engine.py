"""The storage port: ordered bytes in named families, written in atomic batches.

One engine serves all stores of a task, so that their rows, the changelog offsets they stand for and the input positions
go into one atomic batch. Two engines exist, `MemoryEngine` and `RocksEngine`; both pass `tests/state/test_engine.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

__all__ = ["OFFSETS", "POSITIONS", "Batch", "Engine", "Family", "store_of"]

OFFSETS = "offsets"
"""Family of changelog offsets: ``<topic>-<partition>`` to the offset of the last record applied (frozen on disk)."""

POSITIONS = "positions"
"""Family of input positions: ``<topic>-<partition>`` to the next input offset at the last commit (frozen on disk)."""


def store_of(family: str) -> str:
    """The store whose rows are in a family; empty for a family that no store has to itself."""
    return family.rpartition(".")[0]


class Batch(Protocol):
    """Writes that become visible together. ``handle`` is a family's :attr:`Family.handle`."""

    put: Callable[[bytes, bytes, Any], None]
    delete: Callable[[bytes, Any], None]
    delete_range: Callable[[bytes, bytes, Any], None]
    """``(low, high, handle)``: every row with ``low <= key < high``, those put before in the same batch included."""


class Family(Protocol):
    """One ordered byte space. Keys compare as unsigned bytes."""

    name: str
    get: Callable[[bytes], bytes | None]

    @property
    def handle(self) -> Any:
        """What batches call the family. Not to be kept: an engine may not be able to close while somebody holds it."""
        ...

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Rows with ``low <= key < high`` (``None`` is open) as they were when this was called.

        :raises StateError: if a row in the range is damaged, rather than ending early.
        """
        ...

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """The first row whose key is ``key`` or follows it, as of the engine's last write; half the cost of a range.

        For the thread that writes.

        :raises StateError: if a block on the way is damaged.
        """
        ...

    def approximate_count(self) -> int: ...


class Engine(Protocol):
    """A database. Opened by its constructor, used by one thread except for reads."""

    persistent: bool

    def family(self, name: str) -> Family: ...

    def holds(self, name: str) -> bool:
        """Whether there is a family of this name with a row in it."""
        ...

    def batch(self) -> Batch: ...

    def write(self, batch: Batch) -> None:
        """Applies the batch atomically. It survives the death of the process, not of the machine.

        :raises StateError: nothing of the batch was applied.
        """
        ...

    def load(self, batch: Batch) -> None:
        """As :meth:`write`, for restoring: it survives the process only once :meth:`flush` returned."""
        ...

    def flush(self) -> None: ...

    def clear(self, families: Collection[str]) -> None:
        """Removes every row of these families."""
        ...

    def close(self) -> None: ...
