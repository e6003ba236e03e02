"""A custom store as an engine: its lifecycle, and where its offsets are.

The runtime knows engines, which take batches of rows with offsets. This engine stands before one custom store. The rows
of a byte store go to its ``put_all``, and the offsets to its ``commit``. If the store does not manage its offsets, they
also go to a file beside it, which is written after the commit. The id of its changelog is always in a file beside it.
Only byte stores have rows here.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from processor_api.errors import DiskFullError, StateError, StoreError, StreamsError
from processor_api.stores.custom import ChangelogRecord
from processor_api.task_id import TopicPartition
from processor_api.texts import kind_and_text, plain_str
from state.custom.context import StoreContext
from state.custom.families import CustomBatch, CustomOffsets, CustomRows, NoRows, Operation, partition_of
from state.directory.errors import FULL, HINTS, explained, left_there
from state.directory.own_files import read_own_if_any, remove_own, sync_directory, write_own
from state.engine.port import OFFSETS, POSITIONS
from state.formats.offsets import read_checkpoint, read_offset, write_checkpoint
from state.read_views.view import unreadable

# The file with the offsets of a custom store that does not keep them by itself (formats 13).

CHECKPOINT = ".checkpoint_"
"""The file's name starts with this; the store's name follows."""
TOPIC_ID_FILE = ".topic-id_"
"""The same of the file with the id of the changelog."""


class OffsetsFile:
    """The file with the offsets of one custom store, in the directory of its task.

    :raises StateDirectoryError: from all calls, if the directory cannot be written.
    """

    def __init__(self, directory: Path, store: str) -> None:
        self._path = directory / f"{CHECKPOINT}{store}"
        self._store = store
        self._held: dict[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """Returns the offsets in the file; none if there is no file or it is damaged, which is logged."""
        try:
            with explained(self._path.parent):
                data = read_own_if_any(self._path)
            if data is None:
                return {}
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            text = ""
        try:
            return {partition: offset for partition, offset in read_checkpoint(text).items() if offset >= 0}
        except StateError as error:
            log.error(
                "store is rebuilt from its changelog: its file of offsets is damaged",
                extra={"store": self._store, "file": str(self._path), "error": error.message},
            )
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replaces the offsets in the file: all or nothing, and on disk when this returns."""
        text = write_checkpoint(offsets)
        if text is None or offsets == self._held:
            return
        _replace(self._path, text)
        self._held = dict(offsets)

    def remove(self) -> None:
        self._held = None
        with explained(self._path.parent):
            if self._path.exists():
                remove_own(self._path)
                sync_directory(self._path.parent)


class TopicIdFile:
    """The id of the changelog whose offsets a custom store has, in the directory of a task.

    :param directory: ``None`` for a store that does not outlive the process: nothing is written.
    :raises StateDirectoryError: from all calls, if the directory cannot be read or written.
    """

    def __init__(self, directory: Path | None, store: str) -> None:
        self._path = None if directory is None else directory / f"{TOPIC_ID_FILE}{store}"
        self._held: bytes | None = None

    def read(self) -> bytes | None:
        """The id; ``None`` if none was written."""
        if self._held is None and self._path is not None:
            with explained(self._path.parent):
                self._held = read_own_if_any(self._path)
        return self._held

    def write(self, topic_id: bytes | None) -> None:
        """Replaces the id; ``None`` removes it."""
        if self._path is not None:
            with explained(self._path.parent):
                if topic_id is None:
                    remove_own(self._path)
                else:
                    _replace(self._path, topic_id.decode())
        self._held = topic_id


def _replace(path: Path, text: str) -> None:
    with explained(path.parent):
        write_own(path, text)
        sync_directory(path.parent)


log = logging.getLogger("streams.state")

CLOSED = "closed"
DIRECTORY = "stores"
"""The folder in a task's directory where its custom stores have their directories."""


class CustomStoreEngine:
    """The engine of one custom store, which it makes when it is opened.

    After :meth:`release` the next use makes another store.

    :param make: makes a store, not open yet.
    :param context: what each store is initialised with.
    :param family: of the rows of a byte store; ``None`` for a store that has none here.
    :param inputs: partitions whose positions the store gets with each commit.
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
        directory = self.context.state_dir.parent.parent
        self._file = OffsetsFile(directory, name)
        self._open()
        self.persistent = bool(self.store.persistent)
        self._ids = TopicIdFile(directory if self.persistent else None, name)

    # ------------------------------------------------------------------ the store's life

    @property
    def store(self) -> Any:
        """The open store."""
        if self._store is None:
            self.context = self._make_context()
            self._open()
        return self._store

    @property
    def has_rows(self) -> bool:
        """Whether the store is a byte store, whose rows go through this engine."""
        return self._family is not None

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
        self._offsets = {} if store.manages_offsets or not store.persistent else self._file.read()

    def _guarded(self, done: str, act: Callable[[], Any]) -> None:
        """Calls user code.

        :raises DiskFullError: if it fails because the disk is full: it may be called again when there is room.
        :raises StateError: if it fails, with the name of the store.
        """
        try:
            act()
        except StreamsError as error:
            raise error.locate(store=self.name)  # noqa: B904 - the same error, with its place
        except Exception as error:
            raise self._failed(done, error) from error

    def _failed(self, done: str, error: Exception) -> StateError:
        what = f"custom store {self.name!r} could not be {done}: "
        if isinstance(error, OSError) and error.errno in FULL and done != CLOSED:
            left = left_there(self.context.state_dir)
            return DiskFullError(f"{what}{HINTS[error.errno]}{left} ({kind_and_text(error)})", store=self.name)
        return StateError(f"{what}{kind_and_text(error)}", store=self.name).may_pass()

    def begin(self) -> None:
        """Notes that records are processed from now on, and removes the mark that all in the store is committed."""
        if self.unsafe and self.persistent:
            self._file.remove()

    def release(self) -> None:
        """Closes the store; what was not committed is forgotten, where the store can do that."""
        store, self._store = self._store, None
        if store is None:
            return
        clean, self.context.changes.closed = not self.context.changes.dirty, True
        unsafe = self._is_unsafe(store)
        self._guarded(CLOSED, store.close)
        if unsafe and clean and self.persistent:
            self._file.write(self._offsets)

    def close(self) -> None:
        self.release()

    # ------------------------------------------------------------------ engine

    def family(self, name: str) -> Any:
        if name in (OFFSETS, POSITIONS):
            return CustomOffsets(name, self)
        return CustomRows(name, self) if name == self._family else NoRows(name)

    def holds(self, name: str) -> bool:
        return name == self._family and next(self.family(name).range(), None) is not None

    @property
    def lock(self) -> NoReturn:
        """Always fails: only the store itself knows when it is being written.

        :raises StoreError: always, as :meth:`snapshot` does.
        """
        raise StoreError(unreadable(self.name), store=self.name)

    def snapshot(self, families: Collection[str]) -> NoReturn:
        """Always fails: a custom store promises no snapshot, and nothing to other threads.

        :raises StoreError: always.
        """
        raise StoreError(unreadable(self.name), store=self.name)

    def batch(self) -> CustomBatch:
        return CustomBatch()

    def write(self, batch: CustomBatch) -> None:
        """Writes the rows, calls the store's commit, then writes the files of offsets and of the changelog's id."""
        ids, others = batch.parted()
        if others or not ids:
            self._write_offsets(others)
        for _, _, value, _ in ids:
            self._ids.write(value)

    def _write_offsets(self, operations: Sequence[Operation]) -> None:
        self._take(operations)
        if self.persistent and not self.store.manages_offsets and not self.unsafe:
            self._file.write(self._offsets)

    def load(self, batch: CustomBatch) -> None:
        self._take(batch.operations)

    def _take(self, operations: Sequence[Operation]) -> None:
        store, offsets = self.store, dict(self._offsets)
        rows = self._sort(operations, offsets)
        if rows:
            self._guarded("written", lambda: store.put_all(rows))
        self._guarded("committed", lambda: store.commit(offsets))
        self.context.changes.dirty = False
        self._offsets = {} if store.manages_offsets else offsets

    def _sort(self, operations: Sequence[Operation], offsets: dict[TopicPartition, int]) -> list[Any]:
        """Returns the rows to put, and writes the offsets into ``offsets``."""
        rows: list[Any] = []
        positions: dict[TopicPartition, int] = {}
        for family, key, value, until in operations:
            if family in (OFFSETS, POSITIONS):
                kept = offsets if family == OFFSETS else positions
                if value is None:
                    offsets.pop(partition_of(key), None)
                else:
                    kept[partition_of(key)] = read_offset(value)
            elif until is not None:
                gone = {row[0] for row in rows if key <= row[0] < until}
                gone.update(found for found, _ in self.family(family).range(key, until))
                rows += [(found, None) for found in sorted(gone)]
            else:
                rows.append((key, value))
        offsets.update((partition, position) for partition, position in positions.items() if partition in self.inputs)
        return rows

    def offset(self, partition: TopicPartition) -> int | None:
        store = self.store
        if store.manages_offsets:
            found: int | None = store.committed_offset(partition)
            return found
        return self._offsets.get(partition)

    def topic_id(self) -> bytes | None:
        """The id of the changelog that the store's offset is of."""
        return self._ids.read()

    def restore(self, records: Sequence[ChangelogRecord]) -> None:
        """Hands records of the changelog to the store.

        :raises StateError: if it has not said how it is restored, or fails.
        """
        restore = self.context.restore if self.store is not None else None
        if restore is None:
            raise StateError(
                f"custom store {self.name!r} cannot be restored: call context.register(...) in init",
                store=self.name,
            )
        self._guarded("restored", lambda: restore(records))

    def flush(self) -> None:
        """Writes the offset of the rows that were loaded: without it, the next start would load them again."""
        if self.persistent and not self.store.manages_offsets:
            self._file.write(self._offsets)

    def clear(self, families: Collection[str]) -> None:
        """Deletes the store with its directory, and makes a new one, whatever families are named."""
        store, self._store = self._store, None
        self.context.changes.closed = True
        if store is not None:
            try:
                store.close()
            except Exception as error:
                log.warning("deleted store could not be closed", extra={"store": self.name, "error": plain_str(error)})
        self._file.remove()
        directory: Path = self.context.state_dir
        if directory.exists():
            shutil.rmtree(directory)
        self.context = self._make_context()
        self._open()
