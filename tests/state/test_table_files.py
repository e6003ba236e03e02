"""Table files that were written outside of a database, and an engine that takes them over."""

from __future__ import annotations

from pathlib import Path

import pytest

from processor_api.errors import StateError
from state.engine.memory import MemoryEngine
from state.engine.port import Ingesting
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import SharedMemory
from state.rocksdb.table_files import write_table_file

ROWS = [(b"%05d" % number, b"v" * (number % 7)) for number in range(1_000)]


def test_an_engine_takes_over_files_and_has_their_rows_for_good(tmp_path: Path) -> None:
    """The files are moved into the database; rows that are written later lie over theirs."""
    memory = SharedMemory()
    assert write_table_file(tmp_path / "0.sst", ROWS, memory) == len(ROWS)
    assert write_table_file(tmp_path / "1.sst", [(b"", b"")], memory) == 1
    engine = RocksEngine(tmp_path / "db", ["s.rows", "s.more", "t.rows"], memory)
    engine.ingest({"s.rows": tmp_path / "0.sst", "s.more": tmp_path / "1.sst"})
    assert list(engine.family("s.rows").range()) == ROWS
    assert not list(tmp_path.glob("*.sst"))
    batch = engine.batch()
    batch.put(b"00001", b"new", engine.family("s.rows").handle)
    batch.delete(b"00002", engine.family("s.rows").handle)
    engine.write(batch)
    engine.close()
    again = RocksEngine(tmp_path / "db", ["s.rows"], memory)
    rows = again.family("s.rows")
    assert [rows.get(b"0000%d" % number) for number in range(4)] == [b"", b"new", None, b"vvv"]
    assert list(again.family("s.more").range()) == [(b"", b"")]
    assert not again.holds("t.rows")
    again.close()


def test_files_are_taken_over_after_rows_were_cleared(tmp_path: Path) -> None:
    """What was deleted by ranges before does not hide the rows of the file."""
    memory = SharedMemory()
    write_table_file(tmp_path / "0.sst", ROWS, memory)
    engine = RocksEngine(tmp_path / "db", ["s.rows"], memory)
    batch = engine.batch()
    for key, _ in ROWS:
        batch.put(key, b"old", engine.family("s.rows").handle)
    engine.write(batch)
    engine.clear(["s.rows"])
    engine.ingest({"s.rows": tmp_path / "0.sst"})
    assert list(engine.family("s.rows").range()) == ROWS
    engine.close()


def test_without_rows_there_is_no_file(tmp_path: Path) -> None:
    assert write_table_file(tmp_path / "0.sst", [], SharedMemory()) == 0
    assert not (tmp_path / "0.sst").exists()


def test_rows_that_are_not_sorted_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StateError):
        write_table_file(tmp_path / "0.sst", [(b"b", b""), (b"a", b"")], SharedMemory())


def test_a_file_that_is_none_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    engine = RocksEngine(tmp_path / "db", ["s.rows"])
    (tmp_path / "0.sst").write_bytes(b"no table file")
    for path in (tmp_path / "0.sst", tmp_path / "missing.sst"):
        with pytest.raises(StateError, match="cannot import file"):
            engine.ingest({"s.rows": path})
    assert not engine.holds("s.rows")
    batch = engine.batch()
    batch.put(b"k", b"v", engine.family("s.rows").handle)
    engine.write(batch)
    assert engine.family("s.rows").get(b"k") == b"v"
    engine.close()


def test_an_engine_in_memory_takes_no_files() -> None:
    assert not isinstance(MemoryEngine(), Ingesting)
