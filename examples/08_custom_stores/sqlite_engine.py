"""A storage engine on SQLite: one file for each task, one table for the rows of all its families.

It passes `streams.testing.contracts.engines.EngineContract` (tests/examples/test_sqlite_engine.py). Every range has
a connection and a transaction of its own, and shows the rows as they were when it was opened.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streams import StateError

Row = tuple[bytes, bytes]

TABLE = "CREATE TABLE IF NOT EXISTS rows (family TEXT, key BLOB, value BLOB, PRIMARY KEY (family, key)) WITHOUT ROWID"
PUT = "INSERT INTO rows VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"
FORMAT_VERSION = 1


class Batch:
    """Statements in order."""

    def __init__(self) -> None:
        self.statements: list[tuple[str, tuple[Any, ...]]] = []

    def put(self, key: bytes, value: bytes, handle: str) -> None:
        self.statements.append((PUT, (handle, key, value)))

    def delete(self, key: bytes, handle: str) -> None:
        self.statements.append(("DELETE FROM rows WHERE family = ? AND key = ?", (handle, key)))

    def delete_range(self, low: bytes, high: bytes, handle: str) -> None:
        self.statements.append(("DELETE FROM rows WHERE family = ? AND key >= ? AND key < ?", (handle, low, high)))


def select(family: str, low: bytes | None, high: bytes | None, reverse: bool) -> tuple[str, list[Any]]:
    """The statement of a range."""
    where, given = "family = ?", [family, *(bound for bound in (low, high) if bound is not None)]
    where += " AND key >= ?" if low is not None else ""
    where += " AND key < ?" if high is not None else ""
    return f"SELECT key, value FROM rows WHERE {where} ORDER BY key {'DESC' if reverse else 'ASC'}", given


class Readers:
    """Connections that show the rows as they were when they were taken; those given back serve again."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine
        self._idle: list[sqlite3.Connection] = []
        self._all: list[sqlite3.Connection] = []
        self._closed = False

    def take(self) -> sqlite3.Connection:
        if self._closed:
            raise StateError(f"the store at {self._engine.file} is closed")
        try:
            reader = self._idle.pop()
        except IndexError:
            reader = self._engine.connect()
            self._all.append(reader)
        with self._engine.explained("read"):
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM rows LIMIT 1").fetchall()  # it shows the rows of now from the first read on
        return reader

    def give_back(self, reader: sqlite3.Connection) -> None:
        if not self._closed:
            reader.rollback()
            self._idle.append(reader)

    def close(self) -> None:
        self._closed = True
        for reader in self._all:
            reader.close()


class Range(Iterator[Row]):
    """The rows of a range. Its connection is given back at the end, or when nobody holds the range any more."""

    def __init__(self, engine: SqliteEngine, statement: str, given: list[Any]) -> None:
        self._engine = engine
        self._reader: sqlite3.Connection | None = engine.readers.take()
        with engine.explained("read"):
            self._rows = self._reader.execute(statement, given)

    def __next__(self) -> Row:
        with self._engine.explained("read"):
            found: Row | None = None if self._reader is None else self._rows.fetchone()
        if found is None:
            self._give_back()
            raise StopIteration
        return found

    def _give_back(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            self._engine.readers.give_back(reader)

    __del__ = _give_back


class Family:
    """One ordered byte space."""

    def __init__(self, name: str, engine: SqliteEngine) -> None:
        self.name = self.handle = name
        self._engine = engine

    def get(self, key: bytes) -> bytes | None:
        found = self._engine.first("SELECT value FROM rows WHERE family = ? AND key = ?", (self.name, key))
        return None if found is None else found[0]

    def seek(self, key: bytes) -> Row | None:
        return self._engine.first(
            "SELECT key, value FROM rows WHERE family = ? AND key >= ? ORDER BY key LIMIT 1", (self.name, key)
        )

    def range(self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False) -> Iterator[Row]:
        if low is not None and high is not None and low >= high:
            return iter(())
        return Range(self._engine, *select(self.name, low, high, reverse))

    def approximate_count(self) -> int:
        found = self._engine.first("SELECT count(*) FROM rows WHERE family = ?", (self.name,))
        return int(found[0]) if found else 0


class SqliteEngine:
    """See the module's text.

    :raises StateError: if the file is damaged, of a newer format, or cannot be opened.
    """

    persistent = True

    def __init__(self, path: Path, families: Sequence[str], config: Mapping[str, Any] | None = None) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self.file = path / "rows.sqlite"
        self.lock = threading.RLock()
        self.readers = Readers(self)
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
        made.execute("PRAGMA synchronous = NORMAL")  # outlives the process, and goes back to a whole commit otherwise
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

    def first(self, statement: str, given: tuple[Any, ...]) -> Any:
        """The first row found; never one of a batch that is being written."""
        with self.lock, self.explained("read"):
            return self._writer.execute(statement, given).fetchone()

    # ------------------------------------------------------------------ writes

    def batch(self) -> Batch:
        return Batch()

    def write(self, batch: Batch) -> None:
        with self.lock, self.explained("write to"):
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                for statement, given in batch.statements:
                    self._writer.execute(statement, given)
                self._writer.execute("COMMIT")
            except BaseException:
                self._writer.rollback()
                raise

    load = write

    def flush(self) -> None:
        """What was loaded was written."""

    def clear(self, families: Collection[str]) -> None:
        with self.lock, self.explained("write to"):
            self._writer.executemany("DELETE FROM rows WHERE family = ?", [(name,) for name in families])

    def close(self) -> None:
        self.readers.close()
        self._writer.close()
