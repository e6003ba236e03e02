"""Checkpoints of an engine: its files as of the last write, which another engine takes in the place of its own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from processor_api.errors import StateError
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import SharedMemory

FAMILIES = ["s.rows", "t.rows"]


def put(engine: RocksEngine, family: str, **rows: str) -> None:
    batch = engine.batch()
    for key, value in rows.items():
        batch.put(key.encode(), value.encode(), engine.family(family).handle)
    engine.write(batch)


def rows(engine: RocksEngine, family: str) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in engine.family(family).range()}


@pytest.fixture(name="memory")
def memory_fixture() -> SharedMemory:
    return SharedMemory()


def test_a_checkpoint_has_the_last_write_and_nothing_behind_it(tmp_path: Path, memory: SharedMemory) -> None:
    """What is written, deleted and cleared later does not reach it, though it shares table files."""
    engine = RocksEngine(tmp_path / "db", FAMILIES, memory)
    put(engine, "s.rows", a="1", b="1")
    engine.flush()
    put(engine, "s.rows", b="2")
    put(engine, OFFSETS, place="2")
    engine.checkpoint(tmp_path / "copy", FAMILIES)
    put(engine, "s.rows", b="3", c="3")
    engine.clear(["t.rows"])
    engine.flush()
    assert rows(engine, "s.rows") == {"a": "1", "b": "3", "c": "3"}
    engine.close()
    copy = RocksEngine(tmp_path / "copy", FAMILIES, memory)
    assert rows(copy, "s.rows") == {"a": "1", "b": "2"}
    assert copy.family(OFFSETS).get(b"place") == b"2"
    copy.close()


def test_table_files_are_linked(tmp_path: Path, memory: SharedMemory) -> None:
    engine = RocksEngine(tmp_path / "db", FAMILIES, memory)
    put(engine, "s.rows", a="1")
    engine.checkpoint(tmp_path / "copy", FAMILIES)
    tables = list((tmp_path / "copy").glob("*.sst"))
    assert tables
    assert all(os.stat(table).st_nlink == 2 for table in tables)
    engine.close()


def test_an_engine_takes_over_a_checkpoint_and_goes_on(tmp_path: Path, memory: SharedMemory) -> None:
    """It has these rows alone, takes more, and has all of them when it is opened again; older readers have ended."""
    source = RocksEngine(tmp_path / "source", FAMILIES, memory)
    for number in range(50):
        put(source, "s.rows", **{f"key{number}": str(number)})
    source.checkpoint(tmp_path / "copy", FAMILIES)
    source.close()
    engine = RocksEngine(tmp_path / "db", ["s.rows", "new.rows"], memory)
    put(engine, "s.rows", own="1")
    before = engine.snapshot(["s.rows"])
    engine.take_over(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    with pytest.raises(StateError):
        before.family("s.rows").get(b"own")
    assert rows(engine, "s.rows") == {f"key{number}": str(number) for number in range(50)}
    assert rows(engine, "new.rows") == {}
    put(engine, "s.rows", key0="new")
    put(engine, "new.rows", a="1")
    engine.close()
    again = RocksEngine(tmp_path / "db", FAMILIES, memory)
    assert len(rows(again, "s.rows")) == 50
    assert (rows(again, "s.rows")["key0"], rows(again, "new.rows")) == ("new", {"a": "1"})
    again.close()


def test_files_that_are_no_database_leave_an_engine_that_can_be_emptied(tmp_path: Path, memory: SharedMemory) -> None:
    engine = RocksEngine(tmp_path / "db", FAMILIES, memory)
    put(engine, "s.rows", a="1")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "000001.sst").write_bytes(b"no table")
    with pytest.raises(StateError):
        engine.take_over(tmp_path / "copy")
    engine.take_over(None)
    assert rows(engine, "s.rows") == {}
    put(engine, "s.rows", b="1")
    assert rows(engine, "s.rows") == {"b": "1"}
    engine.close()


def test_a_checkpoint_of_another_layout_is_refused(tmp_path: Path, memory: SharedMemory) -> None:
    source = RocksEngine(tmp_path / "source", FAMILIES, memory)
    put(source, OFFSETS, **{"streams.format": "2"})
    source.checkpoint(tmp_path / "copy", FAMILIES)
    source.close()
    engine = RocksEngine(tmp_path / "db", FAMILIES, memory)
    with pytest.raises(StateError, match="has format 2, but this release reads 1"):
        engine.take_over(tmp_path / "copy")
    engine.take_over(None)
    assert rows(engine, "s.rows") == {}
    engine.close()


def test_a_closed_engine_and_a_place_that_is_taken(tmp_path: Path, memory: SharedMemory) -> None:
    engine = RocksEngine(tmp_path / "db", FAMILIES, memory)
    (tmp_path / "copy").mkdir()
    with pytest.raises(StateError, match="cannot copy the files of"):
        engine.checkpoint(tmp_path / "copy", FAMILIES)
    put(engine, "s.rows", a="1")
    engine.close()
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(StateError, match="is closed"):
        engine.checkpoint(tmp_path / "copy", FAMILIES)
