"""A storage engine on SQLite: one file for each task, one table for the rows of all its families.

It passes `streams.testing.contracts.engines.EngineContract` (tests/examples/test_sqlite_engine.py). One
connection writes. Every snapshot, and so every range, has a connection and a transaction of its own, and shows the rows
as they were when it was opened.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakSet

from streams import StateError

Row = tuple[bytes, bytes]

TABLE = "CREATE TABLE IF NOT EXISTS rows (family TEXT, key BLOB, value BLOB, PRIMARY KEY (family, key)) WITHOUT ROWID"
PUT = "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
GET = "SELECT value FROM rows WHERE family = ? AND key = ?"
SEEK = "SELECT key, value FROM rows WHERE family = ? AND key >= ? ORDER BY key LIMIT 1"
COUNT = "SELECT count(*) FROM rows WHERE family = ?"
FORMAT_VERSION = 1
FIRST_PIECE, PIECE = 16, 256
"""Rows of a range that are read at once."""


class Batch:
    """A batch of statements, in order."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, tuple[Any, ...]]] = []

    def put(self, key: bytes, value: bytes, handle: str) -> None:
        self.statements.append((PUT, (handle, key, value)))

    def delete(self, key: bytes, handle: str) -> None:
        self.statements.append(("DELETE FROM rows WHERE family = ? AND key = ?", (handle, key)))

    def delete_range(self, low: bytes, high: bytes, handle: str) -> None:
        self.statements.append(("DELETE FROM rows WHERE family = ? AND key >= ? AND key < ?", (handle, low, high)))


def select(family: str, low: bytes | None, high: bytes | None, count: int, reverse: bool) -> tuple[str, list[Any]]:
    """Returns the statement that reads a piece of a range."""
    where, given = "family = ?", [family, *(bound for bound in (low, high) if bound is not None), count]
    where += " AND key >= ?" if low is not None else ""
    where += " AND key < ?" if high is not None else ""
    return f"SELECT key, value FROM rows WHERE {where} ORDER BY key {'DESC' if reverse else 'ASC'} LIMIT ?", given


class Readers:
    """Connections that only read; those given back are used again."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def take(self) -> sqlite3.Connection:
        with self._lock:
            return self._idle.pop() if self._idle else self._connect()

    def give_back(self, reader: sqlite3.Connection) -> None:
        with self._lock:
            if self._closed:
                reader.close()
            else:
                reader.rollback()
                self._idle.append(reader)

    def close(self) -> None:
        """Closes the connections; those that are taken are closed when they are given back."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()


class Snapshot:
    """The rows as they are now, in a read transaction on a connection of its own, which SQLite serves from its
    write-ahead log.

    A long one lets that file grow. Rows are read a piece at a time, each under a lock, so that any thread may read, and
    a close waits for one piece at most.
    """

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        self._reader: sqlite3.Connection | None = None
        self._reader = engine.readers.take()
        self._reader.execute("BEGIN")
        self.all("SELECT 1 FROM rows LIMIT 1", ())  # a transaction shows the rows of its first read

    def family(self, name: str) -> SnapshotFamily:
        return SnapshotFamily(name, self)

    def all(self, statement: str, given: Sequence[Any]) -> list[Any]:
        with self._lock, self._engine.explained("read"):
            if self._reader is None:
                raise StateError(f"the snapshot of the store at {self._engine.file} is closed, or the store is")
            return self._reader.execute(statement, given).fetchall()

    def close(self) -> None:
        with self._lock:
            reader, self._reader = self._reader, None
            if reader is not None:
                self._engine.readers.give_back(reader)

    __del__ = close


class SnapshotFamily:
    """One ordered byte space as a snapshot has it."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        self.name = name
        self.handle = None  # it is not written
        self._all = snapshot.all

    def get(self, key: bytes) -> bytes | None:
        found = self._all(GET, (self.name, key))
        return found[0][0] if found else None

    def seek(self, key: bytes) -> Row | None:
        return next(iter(self._all(SEEK, (self.name, key))), None)

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        count = FIRST_PIECE
        while low is None or high is None or low < high:
            rows = self._all(*select(self.name, low, high, count, reverse))
            yield from rows
            if len(rows) < count:
                return
            count, last = PIECE, rows[-1][0]
            low, high = (low, last) if reverse else (last + b"\0", high)

    def approximate_count(self) -> int:
        return int(self._all(COUNT, (self.name,))[0][0])


class Family:
    """One ordered byte space."""

    def __init__(self, name: str, engine: SqliteEngine) -> None:
        self.name = self.handle = name
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        found = self._engine.first(GET, (self.name, key))
        return None if found is None else found[0]

    def seek(self, key: bytes) -> Row | None:
        found: Row | None = self._engine.first(SEEK, (self.name, key))
        return found

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        """Returns a range of a snapshot, which lasts as long as the range is held."""
        return self._engine.snapshot([self.name]).family(self.name).range(low, high, reverse=reverse)

    def approximate_count(self) -> int:
        return int(self._engine.first(COUNT, (self.name,))[0])


class SqliteEngine:
    """A storage engine on one SQLite file, for a task.

    :raises StateError: if the file is damaged, of a newer format, or cannot be opened.
    """

    persistent = True

    def __init__(self, path: Path, families: Sequence[str], config: Mapping[str, Any] | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.file = path / "rows.sqlite"
        self.lock = threading.RLock()
        self.readers = Readers(self.connect)
        self._snapshots: WeakSet[Snapshot] = WeakSet()
        self._closed = False
        with self.explained("open"):
            self._writer = self.connect()
            version = self._writer.execute("PRAGMA user_version").fetchone()[0]
            if version > FORMAT_VERSION:
                self._writer.close()
                raise StateError(f"the store at {self.file} has format {version}: run the newer release that wrote it")
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute(f"PRAGMA user_version = {FORMAT_VERSION}")
            self._writer.execute(TABLE)

    def connect(self) -> sqlite3.Connection:
        made = sqlite3.connect(self.file, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA synchronous = NORMAL")  # durable for the process; a power loss sets it back
        return made

    @contextmanager
    def explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StateError(f"cannot {what} the store at {self.file}: {error}") from error

    # ------------------------------------------------------------------ reads

    def family(self, name: str) -> Family:
        return Family(name, self)

    def holds(self, name: str) -> bool:
        return self.first("SELECT 1 FROM rows WHERE family = ? LIMIT 1", (name,)) is not None

    def snapshot(self, families: Collection[str]) -> Snapshot:
        """Returns a snapshot of all families, which are in one table."""
        with self.lock, self.explained("read"):
            if self._closed:
                raise StateError(f"the store at {self.file} is closed")
            taken = Snapshot(self)
            self._snapshots.add(taken)
            return taken

    def first(self, statement: str, given: tuple[Any, ...]) -> Any:
        """Returns the first row found; never one of a batch that is being written."""
        with self.lock, self.explained("read"):
            return self._writer.execute(statement, given).fetchone()

    # ------------------------------------------------------------------ writes

    def batch(self) -> Batch:
        return Batch()

    def write(self, batch: Batch) -> None:
        self._apply(batch.statements)

    load = write

    def flush(self) -> None:
        """Does nothing: what was loaded was written."""

    def clear(self, families: Collection[str]) -> None:
        self._apply([("DELETE FROM rows WHERE family = ?", (name,)) for name in families])

    def _apply(self, statements: Iterable[tuple[str, tuple[Any, ...]]]) -> None:
        with self.lock, self.explained("write to"):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for statement, given in statements:
                    self._writer.execute(statement, given)
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.rollback()
                raise

    def close(self) -> None:
        with self.lock:
            self._closed = True
            snapshots = list(self._snapshots)
            self.readers.close()
            self._writer.close()
        for snapshot in snapshots:
            snapshot.close()
