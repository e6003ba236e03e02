"""A custom store as an engine: its life, and where its offsets are.

The runtime knows engines, which take batches of rows with offsets. This one stands before one store of the user's: the
rows of a byte store go to its ``put_all``, offsets to its ``commit``, and, where it does not manage them, to a file
beside it, which is written after the commit. A store that brings everything of its own has no rows here.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from processor_api.custom_stores import ChangelogRecord
from processor_api.errors import StateError, StoreError, StreamsError
from processor_api.store_supplier import lacks
from processor_api.task_id import TopicPartition
from state.custom_context import StoreContext
from state.engine import OFFSETS, POSITIONS
from state.formats.checkpoint import read_checkpoint, write_checkpoint
from state.offsets import read_offset, write_offset

__all__ = ["CHECKPOINT", "DIRECTORY", "CustomStoreEngine"]

log = logging.getLogger("streams.state")

CHECKPOINT = ".checkpoint_"
"""What the names of files of offsets start with, in front of the store's (reference 3.9)."""
DIRECTORY = "stores"
"""Of a task, where its custom stores have their directories."""

Row = tuple[bytes, bytes]
_Operation = tuple[str, bytes, bytes | None, bytes | None]
"""Family, key, value or ``None``, and the end of a range to delete."""


class _Batch:
    """Operations in order."""

    def __init__(self) -> None:
        self.operations: list[_Operation] = []

    def put(self, key: bytes, value: bytes, handle: str) -> None:
        self.operations.append((handle, key, value, None))

    def delete(self, key: bytes, handle: str) -> None:
        self.operations.append((handle, key, None, None))

    def delete_range(self, low: bytes, high: bytes, handle: str) -> None:
        self.operations.append((handle, low, None, high))


class _Rows:
    """The rows of a byte store."""

    def __init__(self, name: str, engine: CustomStoreEngine) -> None:
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
                f"store {store.name!r} cannot be read so: {type(store).__name__} has no {call}", store=store.name
            )
        opened = getattr(store, call)() if everything else getattr(store, call)(low, high)
        return _read(opened, high)

    def seek(self, key: bytes) -> Row | None:
        return next(self.range(key), None)

    def approximate_count(self) -> int:
        store = self._engine.store
        return 0 if lacks(store, "approximate_num_entries") else int(store.approximate_num_entries())


def _read(opened: Any, high: bytes | None) -> Iterator[Row]:
    """A user's iterator, closed at its end; theirs include the upper bound."""
    try:
        for row in opened:
            if row[0] != high:
                yield row
    finally:
        close = getattr(opened, "close", None)
        if close is not None:
            close()


class _NoRows:
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


class _Offsets(_NoRows):
    """Offsets as rows, of the changelog or of inputs. They cannot be listed: whoever asks knows the partition."""

    def __init__(self, name: str, engine: CustomStoreEngine) -> None:
        super().__init__(name)
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        found = self._engine.offset(_partition(key))
        return None if found is None else write_offset(found)

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        """Of inputs, the positions that are known."""
        if self.name != POSITIONS:
            return iter(())
        inputs = self._engine.inputs
        known = ((str(one).encode(), self._engine.offset(one)) for one in inputs)
        return iter([(key, write_offset(offset)) for key, offset in known if offset is not None])


def _partition(key: bytes) -> TopicPartition:
    """Of a row's key; one of a source topic has the name of the rows in front."""
    topic, _, partition = key.decode().rpartition("/")[2].rpartition("-")
    return TopicPartition(topic, int(partition))


class CustomStoreEngine:
    """Opened with the store, which it makes; after :meth:`release` the next use makes another one.

    :param make: makes a store, not open yet.
    :param context: what each store is initialised with.
    :param family: of the rows of a byte store; ``None`` for a store that has none here.
    :param inputs: partitions whose positions the store is told.
    :param undoes: whether uncommitted writes of the store have to be undone after an unclean stop (exactly-once).
    :raises StateError: if the store cannot be opened.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        context: Callable[[], StoreContext],
        *,
        family: str | None,
        inputs: Collection[TopicPartition] = (),
        undoes: bool = False,
    ) -> None:
        self.name = name
        self.inputs = inputs
        self._make, self._make_context = make, context
        self._family = family
        self._undoes = undoes
        self._store: Any = None
        self._offsets: dict[TopicPartition, int] = {}
        self.context = context()
        self._checkpoint = self.context.state_dir.parent.parent / f"{CHECKPOINT}{name}"
        self._open()
        self.persistent = bool(self.store.persistent)

    # ------------------------------------------------------------------ the store's life

    @property
    def store(self) -> Any:
        """The open store."""
        if self._store is None:
            self.context = self._make_context()
            self._open()
        return self._store

    @property
    def registered(self) -> bool:
        """Whether the store has said how it is restored."""
        return self.store is not None and self.context.restore is not None

    @property
    def unsafe(self) -> bool:
        """Whether uncommitted writes may be in the store when it is opened again, and matter."""
        return self._is_unsafe(self.store)

    def _is_unsafe(self, store: Any) -> bool:
        return self._undoes and self._family is None and not store.manages_offsets and not store.buffers_writes

    def _open(self) -> None:
        store = self._make()
        self.context.state_dir.mkdir(parents=True, exist_ok=True)
        self._guarded("opened", lambda: store.init(self.context))
        self._store = store
        self._offsets = {} if store.manages_offsets or not store.persistent else self._read_checkpoint()

    def _guarded(self, done: str, act: Callable[[], Any]) -> None:
        """:raises StateError: if user code fails, with the name of the store."""
        try:
            act()
        except StreamsError as error:
            raise error.locate(store=self.name)  # noqa: B904 - the same error, with its place
        except Exception as error:
            raise StateError(
                f"custom store {self.name!r} could not be {done}: {type(error).__name__}: {error}", store=self.name
            ) from error

    def begin(self) -> None:
        """Records are processed from now on: what says that all in the store is committed has to go."""
        if self.unsafe and self.persistent:
            self._remove_checkpoint()

    def release(self) -> None:
        """Closes the store; what was not committed is forgotten, where the store can do that."""
        store, self._store = self._store, None
        if store is None:
            return
        clean, self.context.closed = not self.context.dirty, True
        unsafe = self._is_unsafe(store)
        self._guarded("closed", store.close)
        if unsafe and clean and self.persistent:
            self._write_checkpoint()

    def close(self) -> None:
        self.release()

    # ------------------------------------------------------------------ engine

    def family(self, name: str) -> Any:
        if name in (OFFSETS, POSITIONS):
            return _Offsets(name, self)
        return _Rows(name, self) if name == self._family else _NoRows(name)

    def holds(self, name: str) -> bool:
        return name == self._family and next(self.family(name).range(), None) is not None

    def batch(self) -> _Batch:
        return _Batch()

    def write(self, batch: _Batch) -> None:
        """Rows, then the store's commit, then the file of offsets."""
        self._take(batch)
        if self.persistent and not self.store.manages_offsets and not self.unsafe:
            self._write_checkpoint()

    def load(self, batch: _Batch) -> None:
        self._take(batch)

    def _take(self, batch: _Batch) -> None:
        store, told = self.store, dict(self._offsets)
        rows = self._sort(batch.operations, told)
        if rows:
            self._guarded("written", lambda: store.put_all(rows))
        self._guarded("committed", lambda: store.commit(told))
        self.context.dirty = False
        self._offsets = {} if store.manages_offsets else told

    def _sort(self, operations: Sequence[_Operation], told: dict[TopicPartition, int]) -> list[Any]:
        """The rows to put; offsets go into ``told``."""
        rows: list[Any] = []
        positions: dict[TopicPartition, int] = {}
        for family, key, value, until in operations:
            if family in (OFFSETS, POSITIONS):
                kept = told if family == OFFSETS else positions
                if value is None:
                    told.pop(_partition(key), None)
                else:
                    kept[_partition(key)] = read_offset(value)
            elif until is not None:
                gone = {row[0] for row in rows if key <= row[0] < until}
                gone.update(found for found, _ in self.family(family).range(key, until))
                rows += [(found, None) for found in sorted(gone)]
            else:
                rows.append((key, value))
        told.update((partition, position) for partition, position in positions.items() if partition in self.inputs)
        return rows

    def offset(self, partition: TopicPartition) -> int | None:
        store = self.store
        if store.manages_offsets:
            found: int | None = store.committed_offset(partition)
            return found
        return self._offsets.get(partition)

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        """Hands records of the changelog to the store.

        :raises StateError: if it has not said how it is restored, or fails.
        """
        restore = self.context.restore if self.store is not None else None
        if restore is None:
            raise StateError(
                f"custom store {self.name!r} cannot be restored: it has called no context.register(...) in init",
                store=self.name,
            )
        self._guarded("restored", lambda: restore(records))

    def flush(self) -> None:
        """What was loaded has its offset from now on."""
        if self.persistent and not self.store.manages_offsets:
            self._write_checkpoint()

    def clear(self, families: Collection[str]) -> None:
        """Deletes the store with its directory, and makes a new one, whatever families are named."""
        store, self._store = self._store, None
        self.context.closed = True
        if store is not None:
            try:
                store.close()
            except Exception as error:
                log.warning("store that is deleted not closed", extra={"store": self.name, "error": str(error)})
        self._remove_checkpoint()
        directory: Path = self.context.state_dir
        if directory.exists():
            shutil.rmtree(directory)
        self.context = self._make_context()
        self._open()

    # ------------------------------------------------------------------ the file of offsets

    def _read_checkpoint(self) -> dict[TopicPartition, int]:
        try:
            text = self._checkpoint.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        try:
            return {partition: offset for partition, offset in read_checkpoint(text).items() if offset >= 0}
        except StateError as error:
            log.error(
                "store is rebuilt from its changelog: its file of offsets is damaged",
                extra={"store": self.name, "file": str(self._checkpoint), "error": error.message},
            )
            return {}

    def _write_checkpoint(self) -> None:
        """All of it or nothing, and on disk when this returns."""
        text = write_checkpoint(self._offsets)
        if text is None:
            return
        aside = self._checkpoint.with_name(self._checkpoint.name + ".tmp")
        with aside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self._checkpoint)
        _sync(self._checkpoint.parent)

    def _remove_checkpoint(self) -> None:
        if self._checkpoint.exists():
            self._checkpoint.unlink()
            _sync(self._checkpoint.parent)


def _sync(directory: Path) -> None:
    if os.name == "nt":  # directories cannot be opened there
        return
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
