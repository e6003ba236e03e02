"""The storage port: ordered bytes in named families, written in atomic batches.

One engine serves all stores of a task, so that their rows, the changelog offsets they stand for and the input positions
go into one atomic batch. Two engines are built in, `MemoryEngine` and `RocksEngine`; others are registered
(`state/engine/registry.py`). All pass `streams.testing.contracts.engines`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

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

    @property
    def handle(self) -> Any:
        """The family as batches take it. Do not keep it: an engine may not be able to close while it is held."""
        ...

    def get(self, key: bytes, /) -> bytes | None:
        """Returns the row of a key; ``None`` if there is none."""
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

    def approximate_count(self) -> int:
        """Returns about how many rows there are."""
        ...


class Snapshot(Protocol):
    """Rows of some families as they were at one moment, for any thread.

    It ends with its engine, which never waits for it: every later read raises StateError, also by a range that is open.
    """

    def family(self, name: str) -> Family:
        """One of the families it was taken of; without rows if the engine has no such family. It cannot be written."""
        ...

    def close(self) -> None:
        """Releases what the snapshot holds; the end of the last reference to it and its families does the same."""
        ...


@runtime_checkable
class BulkLoading(Protocol):
    """An engine that can be opened so that it takes many rows quickly and finds them slowly."""

    bulk: bool
    """Whether it is open for loading in bulk."""

    def reopen(self, *, bulk: bool) -> None:
        """Opens it for loading in bulk, or for use. Families, their handles and snapshots taken before have ended.

        :raises StateError: if it cannot be opened again; it is closed then.
        """
        ...


@runtime_checkable
class Ingesting(Protocol):
    """An engine that can take over files of rows which were written outside of it."""

    def ingest(self, files: Mapping[str, Path]) -> None:
        """Takes over a file for each of some families, which must have no rows. The files are moved.

        The rows of one file become visible together, and survive the death of the process.

        :raises StateError: if a file cannot be taken over; those of other families may have been.
        """
        ...


@runtime_checkable
class Checkpointing(Protocol):
    """An engine whose files can be copied as of one write, and put in the place of what another one has."""

    def checkpoint(self, directory: Path, families: Collection[str]) -> Callable[[], None]:
        """Begins a directory with the files of the engine as of its last write; files that never change may be linked.

        :param directory: where there is nothing, on the file system of the engine.
        :param families: those whose rows have to be in it; others may be.
        :returns: a function that completes it, to be called on any thread while the engine is written; it raises
            OSError if that fails, and StateError if the engine was closed.
        :raises StateError: if it fails at once; a part of the files may be left there.
        """
        ...

    def prepare(self, directory: Path) -> None:
        """Reads of the files of a checkpoint what :meth:`take_over` needs; may be left out. On any thread, while the
        engine is not used.

        :raises StateError: if they are none of such an engine.
        """
        ...

    def take_over(self, directory: Path | None) -> None:
        """Puts the files of a checkpoint in the place of everything that the engine has, and opens it again.

        Families, their handles and snapshots taken before have ended. A process that dies meanwhile leaves nothing, or
        all of it.

        :param directory: is moved; ``None`` for an empty engine.
        :raises StateError: if that fails, or the files cannot be opened; the engine may be closed then.
        """
        ...


class Engine(Protocol):
    """A database. Opened by its constructor, used by one thread except for reads."""

    persistent: bool

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Returns the lock that every write holds, so that its holder finds the engine between two writes.

        Any thread may take it, for a short time; the thread that holds it may take it again.
        """
        ...

    def family(self, name: str) -> Family:
        """Returns a family that the engine was opened with, or had before."""
        ...

    def holds(self, name: str) -> bool:
        """Whether there is a family of this name with a row in it."""
        ...

    def snapshot(self, families: Collection[str]) -> Snapshot:
        """These families as they are now. For any thread.

        :raises StateError: if the engine is closed.
        """
        ...

    def batch(self) -> Batch:
        """Returns a new batch, without writes."""
        ...

    def write(self, batch: Batch) -> None:
        """Applies the batch atomically. It survives the death of the process, not of the machine.

        :raises StateError: nothing of the batch was applied.
        """
        ...

    def load(self, batch: Batch) -> None:
        """Applies a batch while restoring: it survives the process only once :meth:`flush` has returned."""
        ...

    def flush(self) -> None:
        """Makes what was loaded survive the death of the process."""
        ...

    def clear(self, families: Collection[str]) -> None:
        """Removes every row of these families."""
        ...

    def close(self) -> None:
        """Closes the engine; every later call raises StateError. It may be called again."""
        ...
