"""Clearing families costs the same however many rows they have: it was a batch with a deletion for each."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

FAMILIES = ["one.plain", "two.plain"]
ROWS = 50_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    engine = RocksEngine(tmp_path / "db", FAMILIES, SharedMemory(RocksSettings(write_buffer_bytes=1 << 20)))
    for start in range(0, ROWS, 10_000):
        batch = engine.batch()
        for number in range(start, start + 10_000):
            for name in FAMILIES:
                batch.put(b"%08d" % number, bytes(50), engine.family(name).handle)
        batch.put(b"\xff" * 40, b"last", engine.family(FAMILIES[0]).handle)
        batch.put(b"", b"first", engine.family(FAMILIES[0]).handle)
        engine.load(batch)
    engine.close()
    return tmp_path / "db"


@pytest.mark.parametrize("in_files", [True, False])
def test_a_cleared_family_is_empty_and_takes_rows_again(path: Path, in_files: bool) -> None:
    engine = RocksEngine(path, FAMILIES)
    one = engine.family(FAMILIES[0])
    if not in_files:
        batch = engine.batch()
        batch.put(b"00000001", b"in memory", one.handle)
        batch.put(b"\xff" * 41, b"beyond", one.handle)
        engine.write(batch)
    before = one.range()
    first = next(before)
    snapshot = engine.snapshot(FAMILIES)
    engine.clear([FAMILIES[0]])
    assert first[0] == b""
    assert sum(1 for _ in before) == ROWS + 1 + (not in_files)  # an open range shows what was there
    assert sum(1 for _ in snapshot.family(FAMILIES[0]).range()) == ROWS + 2 + (not in_files)
    snapshot.close()
    assert not engine.holds(FAMILIES[0])
    assert engine.holds(FAMILIES[1])
    assert one.get(b"00000001") is None
    batch = engine.batch()
    batch.put(b"00000001", b"new", one.handle)
    engine.write(batch)
    del before
    engine.close()
    engine = RocksEngine(path, FAMILIES)
    assert list(engine.family(FAMILIES[0]).range()) == [(b"00000001", b"new")]
    assert sum(1 for _ in engine.family(FAMILIES[1]).range()) == ROWS
    engine.close()


def test_a_clear_is_a_small_write(path: Path) -> None:
    engine = RocksEngine(path, FAMILIES)
    size = sum(one.stat().st_size for one in path.glob("*.log"))
    engine.clear(FAMILIES)
    assert sum(one.stat().st_size for one in path.glob("*.log")) - size < 1000
    engine.clear(FAMILIES)  # empty ones
    assert not any(map(engine.holds, FAMILIES))
    engine.close()


def test_cleared_offsets_leave_what_the_engine_keeps_beside_them(path: Path) -> None:
    engine = RocksEngine(path, FAMILIES)
    offsets = engine.family(OFFSETS)
    batch = engine.batch()
    for key in (b"a-0", b"streams-0", b"z-0"):
        batch.put(key, b"offset", offsets.handle)
    engine.write(batch)
    engine.clear([OFFSETS])
    assert [key for key, _ in offsets.range() if not key.startswith(b"streams.")] == []
    engine.clear([OFFSETS])
    engine.close()
    RocksEngine(path, FAMILIES).close()


def test_a_clear_survives_the_process(path: Path, tmp_path: Path) -> None:
    """With what is written after it, also where the process is killed at once."""
    engine = RocksEngine(path, FAMILIES)
    engine.clear(FAMILIES)
    batch = engine.batch()
    batch.put(b"k", b"v", engine.family(FAMILIES[1]).handle)
    batch.put(b"topic-0", b"offset", engine.family(OFFSETS).handle)
    engine.write(batch)
    shutil.copytree(path, tmp_path / "copy")
    engine.close()
    again = RocksEngine(tmp_path / "copy", FAMILIES)
    assert [list(again.family(name).range()) for name in FAMILIES] == [[], [(b"k", b"v")]]
    assert again.family(OFFSETS).get(b"topic-0") == b"offset"
    again.close()
