"""The latest record of each key, as a task reads a changelog: in memory up to a limit, then in RocksDB.

All records of a key are in one partition, so that a task sees the latest one, and no shuffle is needed.
"""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from processor_api.clock import SystemClock
from processor_api.record import HeaderList
from processor_api.stores.suppliers import ROCKSDB
from state.engine.port import Engine
from state.formats.values import read_headers, write_headers

MEMORY_BYTES = 64 << 20
"""How much a task holds in memory before it writes to disk, by default."""
ROW_OVERHEAD_BYTES = 300
"""Memory of a row besides the bytes in it: objects for key, value, times and their tuple, and its place in the
dictionary."""
CHUNK = 10_000
CACHE_BYTES = 8 << 20
"""The database is written once and read once, in order."""

_FRONT = struct.Struct(">qqi")
"""Timestamp, offset, and the size of the headers."""

Row = tuple[bytes, bytes, int, int, HeaderList | None]
"""Key, value, timestamp in ms, offset, headers."""


class TaskFolder:
    """A folder of one task on the executor's disk, removed at the end; a context manager."""

    def __init__(self) -> None:
        given = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        self._parent = given if given and os.path.isdir(given) else None
        self._path: Path | None = None

    @property
    def path(self) -> Path:
        """Returns the folder, which is made when it is asked for first."""
        if self._path is None:
            self._path = Path(tempfile.mkdtemp(prefix="streams-table-", dir=self._parent))
        return self._path

    def open_engine(self, families: Sequence[str]) -> Engine:
        """Returns a RocksDB database in the folder, with little memory of its own."""
        from streams.runtime.engines.opener import Engines  # many tasks never open one

        return Engines(SystemClock(), memory={"block_cache_bytes": CACHE_BYTES}).open(ROCKSDB, self.path, families)

    def __enter__(self) -> TaskFolder:
        return self

    def __exit__(self, *_: object) -> None:
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)


class LatestByKey:
    """Keeps the latest record of each key; a null value removes its key.

    :param folder: where rows go that are too many for the memory.
    """

    _FAMILY = "rows.latest"

    def __init__(self, folder: TaskFolder, memory_bytes: int = MEMORY_BYTES) -> None:
        self._folder = folder
        self._limit = memory_bytes
        self._rows: dict[bytes, tuple[Any, ...]] = {}
        self._most = 0
        """At least the memory that the rows take: rows that were replaced still count."""
        self._engine: Engine | None = None
        self.has_repeats = False
        """Whether two records with one key were seen: the log was not compacted behind the second of them."""

    @property
    def spilled(self) -> bool:
        """Whether rows are on disk."""
        return self._engine is not None

    def add(
        self,
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        timestamps: Sequence[int],
        offsets: Sequence[int],
        headers: Sequence[HeaderList | None] | None,
    ) -> None:
        """Takes records in the order of their offsets."""
        columns: tuple[Any, ...] = (values, timestamps, offsets)
        before = len(self._rows)
        self._rows.update(zip(keys, zip(*columns, *(() if headers is None else (headers,)), strict=True), strict=True))
        self.has_repeats = self.has_repeats or len(self._rows) - before < len(keys)
        self._most += ROW_OVERHEAD_BYTES * len(keys) + sum(map(len, keys)) + sum(map(len, filter(None, values)))
        if headers is not None:
            self._most += sum(_size_of(each) for each in headers if each)
        if self._most > self._limit:
            self._shrink()

    def _shrink(self) -> None:
        """Counts the memory exactly; writes the rows to disk if they take more than half of the limit."""
        if self._engine is None:
            self._rows = {key: row for key, row in self._rows.items() if row[0] is not None}
        self._most = sum(
            ROW_OVERHEAD_BYTES + len(key) + len(row[0] or b"") + (_size_of(row[3]) if len(row) > 3 and row[3] else 0)
            for key, row in self._rows.items()
        )
        if self._most > self._limit // 2:
            self._spill()

    def _spill(self) -> None:
        if self._engine is None:
            self._engine = self._folder.open_engine([self._FAMILY])
        batch, handle = self._engine.batch(), self._engine.family(self._FAMILY).handle
        put, delete, pack = batch.put, batch.delete, _FRONT.pack
        for key, row in self._rows.items():
            if row[0] is None:
                delete(key, handle)
            else:
                headers = write_headers(row[3]) if len(row) > 3 and row[3] else b""
                put(key, pack(row[1], row[2], len(headers)) + headers + row[0], handle)
        self._engine.load(batch)
        self._rows = {}
        self._most = 0

    def chunks(self) -> Iterator[list[Row]]:
        """Yields the rows, `CHUNK` at a time: in the order in which keys came first, or of the keys once they are on
        disk. No more rows may be added."""
        if self._engine is None:
            rows: Iterable[Row] = (
                (key, row[0], row[1], row[2], row[3] if len(row) > 3 else None)
                for key, row in self._rows.items()
                if row[0] is not None
            )
        else:
            self._spill()
            rows = map(_read, self._engine.family(self._FAMILY).range())
        rows = iter(rows)
        while chunk := list(islice(rows, CHUNK)):
            yield chunk

    def holds(self, key: bytes) -> bool:
        """Whether there is a record of a key; it may be a deletion that is still in memory."""
        if key in self._rows:
            return True
        return self._engine is not None and self._engine.family(self._FAMILY).get(key) is not None

    def close(self) -> None:
        """Closes the database; the folder removes it."""
        if self._engine is not None:
            self._engine.close()


def _size_of(headers: HeaderList) -> int:
    return sum(ROW_OVERHEAD_BYTES + len(name) + len(value or b"") for name, value in headers)


def _read(stored: tuple[bytes, bytes]) -> Row:
    key, row = stored
    timestamp, offset, size = _FRONT.unpack_from(row)
    end = _FRONT.size + size
    return key, row[end:], timestamp, offset, read_headers(row[_FRONT.size : end]) if size else None
