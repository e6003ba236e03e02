"""RocksDB's memory is that of the process, however many databases and families there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from processor_api.errors import StateDirectoryError
from state.rocksdb.engine import RocksEngine
from state.rocksdb.errors import mapped
from state.rocksdb.options import PROFILES, RocksSettings, SharedMemory, rocks_settings

MIB = 1 << 20


def fill(engine: RocksEngine, names: list[str], rows: int, value: bytes, start: int = 0) -> None:
    batch = engine.batch()
    for name in names:
        handle = engine.family(name).handle
        for row in range(start, start + rows):
            batch.put(b"key-%08d" % row, value, handle)
    engine.write(batch)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_few_rows_in_each_of_200_stores_are_not_flushed(profile: str, tmp_path: Path) -> None:
    """A memtable with one row took a mebibyte of the budget: with some dozens of stores each commit wrote files."""
    memory = SharedMemory(PROFILES[profile])
    names = [f"store-{number}.plain" for number in range(10)]
    databases = 20 if profile != "large-store" else 10  # whose memtables grow by more, in a larger budget
    engines = [RocksEngine(tmp_path / str(number), names, memory) for number in range(databases)]
    for start in range(0, 30, 10):
        for engine in engines:
            fill(engine, names, 10, b"value", start)
    assert 0 < memory.write_buffers_usage < memory.settings.write_buffers_bytes
    assert list(tmp_path.rglob("*.sst")) == []
    for engine in engines:
        engine.close()


def test_memtables_and_blocks_of_all_databases_stay_within_their_budgets(tmp_path: Path) -> None:
    """160 MiB are written to four databases, and read again. The budget is for what can still be written: what is being
    flushed comes on top."""
    memory = SharedMemory(PROFILES["low-memory"])
    names = ["a.plain", "b.plain"]
    engines = [RocksEngine(tmp_path / str(number), names, memory) for number in range(4)]
    most = 0
    for start in range(0, 20_000, 1000):
        for engine in engines:
            fill(engine, names, 1000, b"v" * 1000, start)
            most = max(most, memory.write_buffers_usage)
    assert most < 3 * memory.settings.write_buffers_bytes
    for engine in engines:
        for name in names:
            assert sum(1 for _ in engine.family(name).range()) == 20_000
    assert MIB < memory.block_cache_usage < 2 * memory.settings.block_cache_bytes
    for engine in engines:
        engine.close()


def test_sizes_given_win_over_the_profile() -> None:
    assert rocks_settings() == RocksSettings()
    found = rocks_settings("low-memory", block_cache_bytes=5 * MIB)
    assert (found.block_cache_bytes, found.write_buffers_bytes) == (5 * MIB, 8 * MIB)
    assert found.open_files == PROFILES["low-memory"].open_files


def test_too_many_open_files_are_told_with_what_to_do() -> None:
    error = mapped(Exception("IO error: While open a file: Too many open files"), "/here", "open")
    assert isinstance(error, StateDirectoryError)
    assert "cannot open the store at /here: " in str(error)
    assert "ulimit -n" in str(error)


def test_the_filter_of_a_large_file_stays_in_the_cache(tmp_path: Path) -> None:
    """It did not fit into a shard of the cache, and was read from disk for each get: a hundred microseconds each."""
    memory = SharedMemory(PROFILES["low-memory"])
    engine = RocksEngine(tmp_path, ["s.plain"], memory)
    rows = 600_000  # a filter of 750 kB
    family = engine.family("s.plain")
    for start in range(0, rows, 50_000):
        batch = engine.batch()
        for row in range(start, start + 50_000):
            batch.put(b"key-%08d" % (row * 7919 % rows), b"v", family.handle)  # in no order: files overlap, and merge
        engine.load(batch)
    family._table.compact_range(None, None)
    engine.flush()
    assert family.get(b"absent") is None
    read = bytes_read()
    for number in range(1000):
        assert family.get(b"key-%08d-absent" % (number * 500)) is None
    assert bytes_read() - read < 100 << 20, "1000 filters were read"
    engine.close()


def bytes_read() -> int:
    """By system calls of this process."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"])


def test_commits_are_synced_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """Loads never are: they are flushed."""
    for sync in (False, True):
        engine = RocksEngine(tmp_path / str(sync), ["s.plain"], SharedMemory(rocks_settings(sync_commits=sync)))
        assert (engine._options.commit.sync, engine._options.load.sync) == (sync, False)
        fill(engine, ["s.plain"], 10, b"value")
        engine.close()
