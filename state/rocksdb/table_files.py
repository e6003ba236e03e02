"""Table files of RocksDB that are written outside of a database, for one to take over (`RocksEngine.ingest`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rocksdict import SstFileWriter

from state.rocksdb.errors import mapped
from state.rocksdb.options import SharedMemory


def write_table_file(path: Path, rows: Iterable[tuple[bytes, bytes]], memory: SharedMemory) -> int:
    """Writes rows, sorted by key, to a file; returns how many there are. Without any, there is no file.

    :raises StateError: if it cannot be written.
    """
    count, writer = 0, None
    try:
        for key, value in rows:
            # A file without rows is an error to RocksDB.
            if writer is None:
                writer = SstFileWriter(memory.options())
                writer.open(str(path))
            writer[key] = value
            count += 1
        if writer is not None:
            writer.finish()
    except Exception as error:
        raise mapped(error, str(path), "write") from error
    return count
