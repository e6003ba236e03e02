"""The engine on RocksDB: one database per task, a column family for each store and format.

The log is on, and synced only if a setting says so: a killed process loses nothing that was written; a power loss goes
back to a consistent earlier point, and the changelog replays the rest. Commits are numbered, so that a lost log before
another one is noticed (state/rocksdb/commit_numbers.py). At a damaged block, the binding's iterators end early without
an error: their status is checked at the end of every range.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakSet

from rocksdict import Checkpoint, IngestExternalFileOptions, Options, Rdict, ReadOptions, WriteBatch, WriteOptions

from processor_api.clock import Clock, SystemClock
from processor_api.errors import DiskFullError, RetryableError, StateError
from processor_api.forks import belongs_to_this_process, never_free
from state.engine.port import OFFSETS, POSITIONS
from state.rocksdb.commit_numbers import COMMIT_END, COMMIT_PREFIX, CommitNumbers, LostCommitsError, next_commit
from state.rocksdb.errors import after_full_disk, damaged, mapped
from state.rocksdb.metadata import (
    FAMILIES_KEY,
    FORMAT_KEY,
    FORMAT_VERSION,
    check_format,
    check_lost,
    read_families,
    write_families,
)
from state.rocksdb.options import DatabaseOptions, SharedMemory
from state.rocksdb.snapshot import RocksSnapshot

log = logging.getLogger("streams.state")

OWN_ROWS, OWN_ROWS_END = b"streams.", b"streams/"
"""The engine's own rows in the family of offsets: the format, the names of families, the numbers of commits."""
REPLACED = ".replaced"
"""The end of the name of a database in whose place another was put, until it is deleted."""
STALL_WAIT_S = 0.01
STALL_DEADLINE_S = 60.0
STOPPED, SLOWED = "rocksdb.is-write-stopped", "rocksdb.actual-delayed-write-rate"


def _done() -> None:
    """Completes a checkpoint, which is complete."""


class _Owner(Protocol):
    def read_error(self, error: Exception, family: str) -> Exception:
        """Returns our error for one of the binding, with the path."""
        ...


class RocksFamily:
    """One column family."""

    def __init__(self, engine: _Owner, name: str, table: Rdict, handle: Any) -> None:
        self.name = name
        self.handle = handle
        self._engine = engine
        self._table = table
        self._cursor: Any = None
        self.bare_get: Callable[[bytes], bytes | None] = table.get
        """`get` with the errors of the binding."""
        self.get: Callable[[bytes], bytes | None] = self._getter(table.get)

    def _getter(self, get: Callable[[bytes], bytes | None]) -> Callable[[bytes], bytes | None]:
        read_error, family = self._engine.read_error, self.name

        def checked(key: bytes) -> bytes | None:
            try:
                return get(key)
            except Exception as error:
                raise read_error(error, family) from error

        return checked

    def range(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()  # no lower bound: the binding's call for it sets the upper one (rocksdict 0.3.29)
        if high is not None:
            options.set_iterate_upper_bound(high)
        rows = self._table.iter(options)
        if low is not None and high is not None and low >= high:
            return iter(())
        if reverse:
            rows.seek_to_last()
            return self._rows(rows, rows.prev, low, options)
        if low:
            rows.seek(low)
        else:
            rows.seek_to_first()
        return self._rows(rows, rows.next, None, options)

    def _rows(
        self, rows: Any, advance: Callable[[], None], low: bytes | None, options: ReadOptions
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yields rows; keeps the options alive, which own the bytes of the upper bound that the iterator points to."""
        valid, key, value = rows.valid, rows.key, rows.value
        try:
            while valid():
                found = key()
                if low is not None and found < low:
                    return
                yield found, value()
                advance()
            rows.status()
        except GeneratorExit:
            raise
        except Exception as error:
            del rows, valid, key, value, advance  # the error must not keep them, and with them the database open
            raise self._engine.read_error(error, self.name) from error

    def seek(self, key: bytes) -> tuple[bytes, bytes] | None:
        """Returns the first row from a key on; keeps its iterator until the next write, since opening one costs as much
        as the seek."""
        try:
            rows = self._cursor
            if rows is None:
                rows = self._cursor = self._table.iter(ReadOptions())
            rows.seek(key)
            if rows.valid():
                return rows.key(), rows.value()
            rows.status()
        except Exception as error:
            rows = self._cursor = None
            raise self._engine.read_error(error, self.name) from error
        return None

    def between(self, low: bytes, high: bytes) -> list[tuple[bytes, bytes]]:
        """Returns the rows with ``low <= key < high``, as of the engine's last write; quicker than a range where there
        are few. For the thread that writes."""
        found: list[tuple[bytes, bytes]] = []
        try:
            rows = self._cursor
            if rows is None:
                rows = self._cursor = self._table.iter(ReadOptions())
            rows.seek(low)
            while rows.valid():
                key = rows.key()
                if key >= high:
                    return found
                found.append((key, rows.value()))
                rows.next()
            rows.status()
        except Exception as error:
            rows = self._cursor = None
            raise self._engine.read_error(error, self.name) from error
        return found

    def iterator(self) -> Any:
        """Returns an iterator of the binding over the family as it is now."""
        return self._table.iter(ReadOptions())

    def forget_cursor(self) -> None:
        """Drops the iterator of :meth:`seek`, which shows an older state and keeps its files."""
        self._cursor = None

    def keep(self) -> None:
        """Keeps a forked child from freeing what belongs to the parent's database."""
        never_free([self._table, self.handle, self._cursor])

    def property(self, name: str) -> int:
        """One of RocksDB's properties."""
        return self._table.property_int_value(name) or 0

    def approximate_count(self) -> int:
        return self._table.property_int_value("rocksdb.estimate-num-keys") or 0

    def flush(self) -> None:
        self._table.flush(True)

    def release(self) -> None:
        """Flushes and closes the family; without that the database cannot close."""
        del self.get, self.bare_get
        self.forget_cursor()
        self.handle = None
        self._table.close()


class RocksEngine:
    """A RocksDB database in ``path``, opened with the families named and those it has already.

    :param configure: called with each of the families named and its options, which it may change.
    :raises RetryableError: another process has it open (a task that is about to be handed over).
    :raises StateError: it is damaged, of a newer format, or cannot be opened.
    """

    persistent = True

    def __init__(
        self,
        path: Path,
        families: Collection[str],
        memory: SharedMemory | None = None,
        clock: Clock | None = None,
        configure: Callable[[str, Options], None] | None = None,
    ) -> None:
        self.path = str(path)
        self._clock = clock or SystemClock()
        self._options = DatabaseOptions(memory or SharedMemory(), families, configure)
        self._families: dict[str, RocksFamily] = {}
        self._lock = threading.RLock()
        self._snapshots: WeakSet[RocksSnapshot] = WeakSet()
        self._closed = False
        self._met_full_disk = False
        """Whether the last write has."""
        self._commits = CommitNumbers(1, 1)
        self.bulk = False
        """Whether it is open for loading in bulk: rows are sorted by a thread of RocksDB when memtables are flushed."""
        options = self._options.of_families()
        shutil.rmtree(self.path + REPLACED, ignore_errors=True)
        belongs_to_this_process(self)  # before it opens files
        self._db = self._open(path, options)
        try:
            self._check_layout(families)
            self._add_families(options)
        except BaseException:
            self.close()
            raise

    def leave_to_parent(self) -> Collection[str]:
        """Keeps a forked child from closing or reading the database, for which it has no threads
        (docs/decisions/tasks-and-membership.md, "A forked child holds no resources of its parent")."""
        self._lock = threading.RLock()
        self._closed = True
        for family in self._families.values():
            family.keep()
        never_free([self, *self._snapshots])
        return (self.path,)

    def reopen(self, *, bulk: bool) -> None:
        """Opens the database again; does nothing if users have set options, which may not work with such memtables."""
        if bulk == self.bulk or self._options.are_changed:
            return
        with self._lock:
            self.close()
            self.bulk = bulk
            self._db = self._open(Path(self.path), self._options.of_families(bulk=bulk))
            self._closed = False

    def checkpoint(self, directory: Path, families: Collection[str]) -> Callable[[], None]:
        """Makes the files at once, with all families (:class:`state.engine.port.Checkpointing`)."""
        with self._lock:
            if self._closed:
                raise StateError(f"the store at {self.path} is closed")
            try:
                Checkpoint(self._db).create_checkpoint(str(directory))
            except Exception as error:
                raise mapped(error, self.path, "copy the files of") from error
        return _done

    def prepare(self, directory: Path) -> None:
        """Does nothing: a database is opened where it is to be."""

    def take_over(self, directory: Path | None) -> None:
        with self._lock:
            self.close()
            path, replaced = Path(self.path), Path(self.path + REPLACED)
            try:
                if path.exists():  # moved away as a whole: what a process that dies leaves of it would be damage
                    path.rename(replaced)
                if directory is not None:
                    directory.rename(path)
                shutil.rmtree(replaced, ignore_errors=True)
            except OSError as error:
                raise mapped(error, self.path, "replace") from error
            options = self._options.of_families()
            self._commits, self.bulk = CommitNumbers(1, 1), False
            self._db = self._open(Path(self.path), options)
            self._closed = False
            self._check_layout(options)
            self._add_families(options)

    def _open(self, path: Path, families: dict[str, Options]) -> Rdict:
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._names = self._find_families(path)
            plain = partial(self._options.plain, bulk=self.bulk)
            named = {name: families.get(name) or plain() for name in self._names or families}
            return Rdict(self.path, self._options.of_database(bulk=self.bulk), column_families=named)
        except StateError:
            raise
        except Exception as error:
            raise mapped(error, self.path, "open") from error

    def _find_families(self, path: Path) -> set[str]:
        """Returns the families that the database has.

        RocksDB would make a new database instead of one that has lost its root."""
        if (path / "CURRENT").exists():
            return set(Rdict.list_cf(self.path, self._options.plain()))
        for left in (*path.glob("*.sst"), *path.glob("*.log")):
            raise damaged(self.path, f"its file CURRENT is missing, but {left.name} exists")
        return set()

    def _check_layout(self, wanted: Collection[str]) -> None:
        """Checks the layout before anything is written or made."""
        if not self._names:
            return
        offsets = self.family(OFFSETS) if OFFSETS in self._names else None
        found = None if offsets is None else offsets.get(FORMAT_KEY)
        if offsets is None or found is None:
            # Without rows it is a database whose first start ended before its format was written.
            if any(map(self.holds, self._names)):
                raise damaged(self.path, f"its family {OFFSETS!r} does not contain the format")
            return
        check_format(found, self.path)
        check_lost(read_families(offsets.get(FAMILIES_KEY)), self._names, wanted, self.path)
        try:
            self._commits = CommitNumbers(*next_commit(offsets.range(COMMIT_PREFIX, COMMIT_END)))
        except LostCommitsError as error:
            raise damaged(self.path, str(error)) from error

    def _add_families(self, families: dict[str, Options]) -> None:
        """Makes the families that are missing, and writes the list of all of them."""
        if self._names:
            for name in families.keys() - self._names:
                self._db.create_column_family(name, families[name])
        self._names |= families.keys()
        offsets = self.family(OFFSETS)
        recorded = read_families(offsets.get(FAMILIES_KEY))
        names = write_families(recorded | self._names)
        if read_families(names) != recorded or offsets.get(FORMAT_KEY) is None:
            batch = self.batch()
            batch.put(FORMAT_KEY, FORMAT_VERSION, offsets.handle)
            batch.put(FAMILIES_KEY, names, offsets.handle)
            self.write(batch)

    def read_error(self, error: Exception, family: str) -> Exception:
        return mapped(error, self.path, "read", family)

    def family(self, name: str) -> RocksFamily:
        family = self._families.get(name)
        if family is None:
            table, handle = self._db.get_column_family(name), self._db.get_column_family_handle(name)
            family = self._families[name] = RocksFamily(self, name, table, handle)
        return family

    @property
    def lock(self) -> AbstractContextManager[Any]:
        return self._lock

    def snapshot(self, families: Collection[str]) -> RocksSnapshot:
        with self._lock:
            if self._closed:
                raise StateError(f"the store at {self.path} is closed")
            try:
                found = {name: self.family(name).iterator() for name in families if name in self._names}
            except Exception as error:
                raise mapped(error, self.path, "read") from error
            snapshot = RocksSnapshot(found, self._count, self.read_error)
            self._snapshots.add(snapshot)
            return snapshot

    def _count(self, name: str) -> int:
        return self.family(name).approximate_count()

    def property(self, family: str, name: str) -> int:
        """One of RocksDB's properties of a family; 0 if it is closed. Any thread may ask."""
        found = self._families.get(family)
        try:
            return 0 if found is None else found.property(name)
        except Exception:  # closed meanwhile: the binding has several errors for that
            return 0

    def statistics(self) -> str:
        """RocksDB's statistics of the database, as its text; empty where none are kept. Any thread may ask."""
        return self._options.statistics()

    def holds(self, name: str) -> bool:
        return name in self._names and next(self.family(name).range(), None) is not None

    def batch(self) -> WriteBatch:
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch) -> None:
        offsets = self.family(OFFSETS)
        # The number goes with the rows, in one record of the log.
        self._commits.put(batch, offsets, offsets.handle)
        self._write(batch, self._options.commit)
        self._commits.written()

    def load(self, batch: WriteBatch) -> None:
        self._write(batch, self._options.load)

    def _write(self, batch: WriteBatch, options: WriteOptions) -> None:
        state = self._db.property_int_value
        if state(STOPPED) or state(SLOWED):
            self._wait_for_compactions()
        with self._lock:
            for family in self._families.values():
                family.forget_cursor()
            try:
                self._db.write(batch, options)
            except Exception as error:
                raise self._mapped(error, "write to") from error
            self._met_full_disk = False

    def _mapped(self, error: Exception, what: str) -> StateError | RetryableError:
        sequel = after_full_disk(error, self.path, what) if self._met_full_disk else None
        found = sequel or mapped(error, self.path, what)
        self._met_full_disk = isinstance(found, DiskFullError)
        return found

    def _wait_for_compactions(self) -> None:
        """Waits until RocksDB takes writes without a stall.

        A write that waits inside of RocksDB holds the interpreter's lock. A write that RocksDB refuses instead cannot
        be tried again: the binding's batches can be written only once.
        """
        state, clock = self._db.property_int_value, self._clock
        deadline = clock.monotonic() + STALL_DEADLINE_S
        while state(STOPPED) or state(SLOWED):
            if clock.monotonic() > deadline:
                raise RetryableError(f"the store at {self.path} has not accepted a write for a minute")
            clock.wait(STALL_WAIT_S)

    def _rows_before_offsets(self) -> list[RocksFamily]:
        """Returns the families in the order in which they are flushed: rows before their offsets.

        The binding flushes one family at a time. Rows that were loaded in bulk are in no log: an offset on disk without
        its rows would lose them, while rows without their offset are only loaded again. The numbers of commits are
        beside the offsets, and say of every other family that its rows are there. The log is synced first: otherwise a
        power loss in between would leave families that are ahead of it.
        """
        last = (POSITIONS, OFFSETS)
        return sorted(
            self._families.values(), key=lambda family: last.index(family.name) if family.name in last else -1
        )

    def flush(self) -> None:
        try:
            self._db.flush_wal(True)
            for family in self._rows_before_offsets():
                family.flush()
        except Exception as error:
            raise self._mapped(error, "flush") from error

    def ingest(self, files: Mapping[str, Path]) -> None:
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        with self._lock:
            for name, path in files.items():
                self.family(name).forget_cursor()
                try:
                    self._db.get_column_family(name).ingest_external_file([str(path)], options)
                except Exception as error:
                    raise StateError(
                        f"the store at {self.path} cannot import file {path}: {error}"
                    ).may_pass() from error

    def clear(self, families: Collection[str]) -> None:
        """Deletes the rows of families, in one batch with a range for each family.

        Table files lose the rows when they are compacted.
        """
        batch = self.batch()
        for name in families:
            family = self.family(name)
            last = next(family.range(reverse=True), None)
            if last is None:
                continue
            # A range to delete has to have an end: the zero byte makes it the first key behind the last row.
            end = last[0] + b"\x00"
            # The rows of the engine itself lie in the middle of the offsets, and stay.
            for low, high in ((b"", min(end, OWN_ROWS)), (OWN_ROWS_END, end)) if name == OFFSETS else ((b"", end),):
                if low < high:
                    batch.delete_range(low, high, family.handle)
        self.write(batch)

    def close(self) -> None:
        """Closes every family and the database, also when one fails; the first error is raised after that.

        Nothing happens if the database is closed already, as after a failure to open it again. A disk without room for
        the content of memtables is not a failure: rows that were written are in the log, and loaded ones have no offset
        yet.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            snapshots = list(self._snapshots)
        for snapshot in snapshots:
            snapshot.close()
        releases = [family.release for family in self._rows_before_offsets()]
        closers: list[Callable[[], object]] = [partial(self._db.flush_wal, True), *releases, self._db.close]
        self._families.clear()
        failure: Exception | None = None
        for close in closers:
            try:
                close()
            except Exception as error:
                failure = failure or error
        if failure is None:
            return
        found = self._mapped(failure, "close")
        if not isinstance(found, DiskFullError):
            raise found from failure
        log.warning("a store is closed on a full disk; nothing is lost", extra={"error": str(found)})
