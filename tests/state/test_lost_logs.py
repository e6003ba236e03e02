"""A log that is lost while a later one is there is damage: rows of different moments were shown, and nothing was said.

Rows are a function of the commit's number, so that the contents after any commit can be computed.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from processor_api.errors import DamagedStateError
from state.engine.port import OFFSETS, POSITIONS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

OFFSET = struct.Struct(">q")
FAMILIES = ["one.plain", "two.plain"]
BLOCK = 32768
SEEDS = 30


def operations(number: int) -> list[tuple[int, bytes, bytes]]:
    """Of one commit: family, key, value."""
    chance = random.Random(number)
    return [
        (chance.randrange(len(FAMILIES)), b"%03d" % chance.randrange(200), b"%d-" % number + bytes(90))
        for _ in range(5)
    ]


class Writer:
    """An engine whose commits are counted in a row of its own."""

    def __init__(self, path: Path, memory: SharedMemory | None = None) -> None:
        self.path = path
        self.engine = RocksEngine(path, FAMILIES, memory)
        self.commits = committed(self.engine)

    def commit(self, times: int = 1) -> None:
        for _ in range(times):
            self.commits += 1
            batch = self.engine.batch()
            for family, key, value in operations(self.commits):
                batch.put(key, value, self.engine.family(FAMILIES[family]).handle)
            batch.put(b"log-0", OFFSET.pack(self.commits), self.engine.family(OFFSETS).handle)
            self.engine.write(batch)

    def load(self, rows: int) -> None:
        """Of a restore, without the log."""
        batch = self.engine.batch()
        for number in range(rows):
            batch.put(b"loaded-%06d" % number, bytes(100), self.engine.family(FAMILIES[0]).handle)
        self.engine.load(batch)

    def copied(self, to: Path) -> Path:
        """What a process that is killed now leaves; or files of different moments, where tables are made meanwhile."""
        to.mkdir()
        for name in sorted(os.listdir(self.path)):
            with suppress(FileNotFoundError):
                shutil.copy(self.path / name, to)
        return to


def committed(engine: RocksEngine) -> int:
    row = engine.family(OFFSETS).get(b"log-0")
    return 0 if row is None else OFFSET.unpack(row)[0]


def contents(path: Path) -> tuple[int, list[dict[bytes, bytes]]]:
    """The last commit, and the rows of the families but for what was loaded."""
    engine = RocksEngine(path, FAMILIES)
    try:
        rows = [{k: v for k, v in engine.family(n).range() if not k.startswith(b"loaded")} for n in FAMILIES]
        return committed(engine), rows
    finally:
        engine.close()


def model(commits: int) -> list[dict[bytes, bytes]]:
    rows: list[dict[bytes, bytes]] = [{}, {}]
    for number in range(1, commits + 1):
        for family, key, value in operations(number):
            rows[family][key] = value
    return rows


def logs(path: Path) -> list[Path]:
    return sorted(path.glob("*.log"))


def record_ends(data: bytes) -> list[int]:
    """Where whole records of a log of RocksDB end: blocks of 32 KiB, pieces with a head of 7 bytes."""
    at, ends = 0, []
    while at + 7 <= len(data):
        if BLOCK - at % BLOCK < 7:
            at += BLOCK - at % BLOCK
            continue
        size, kind = struct.unpack_from("<HB", data, at + 4)
        if kind == 0:
            break
        at += 7 + size
        if kind in (1, 4):
            ends.append(at)
    return ends


def emptied(log: Path) -> None:
    os.truncate(log, 0)


def gone(log: Path) -> None:
    log.unlink()


def zeroed(log: Path) -> None:
    log.write_bytes(bytes(log.stat().st_size))


def zeroed_tail(log: Path) -> None:
    data = log.read_bytes()
    start = record_ends(data)[2]
    log.write_bytes(data[:start] + bytes(len(data) - start))


def cut_at_a_record(log: Path) -> None:
    os.truncate(log, record_ends(log.read_bytes())[-3])


def cut_in_a_record(log: Path) -> None:
    os.truncate(log, record_ends(log.read_bytes())[-3] - 5)


SHAPES = [emptied, gone, zeroed, zeroed_tail, cut_at_a_record, cut_in_a_record]


def flushed_one(writer: Writer) -> None:
    """The log stays, since other families have rows in it that are in no table file."""
    writer.engine.family(FAMILIES[0]).flush()


def flushed_after_more(writer: Writer) -> None:
    writer.engine.flush()
    writer.commit(700)
    flushed_one(writer)


def loaded_in_bulk(writer: Writer) -> None:
    writer.engine.reopen(bulk=True)
    writer.load(5000)
    writer.engine.flush()
    writer.engine.reopen(bulk=False)
    writer.commit(20)
    flushed_one(writer)


def opened_again(writer: Writer) -> None:
    writer.engine.close()
    writer.engine = RocksEngine(writer.path, FAMILIES)
    writer.commit(20)
    flushed_one(writer)


HISTORIES = [flushed_one, flushed_after_more, loaded_in_bulk, opened_again]


@pytest.fixture(params=HISTORIES, ids=lambda history: history.__name__)
def killed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A database with two logs that are both needed."""
    writer = Writer(tmp_path / "db")
    writer.commit(20)
    request.param(writer)
    writer.commit(30)
    copy = writer.copied(tmp_path / "copy")
    writer.engine.close()
    assert len(logs(copy)) == 2
    return copy


def test_two_whole_logs_are_read(killed: Path) -> None:
    last, rows = contents(killed)
    assert rows == model(last)
    assert last >= 50


@pytest.mark.parametrize("change", SHAPES, ids=lambda change: change.__name__)
def test_an_older_log_that_was_lost_is_damage(change: Callable[[Path], None], killed: Path) -> None:
    change(logs(killed)[0])
    if change is cut_in_a_record:  # RocksDB sees it, and reads nothing that comes after
        try:
            last, rows = contents(killed)
        except DamagedStateError:
            return
        assert rows == model(last)
        return
    for _ in range(2):  # RocksDB has made tables of what it read
        with pytest.raises(DamagedStateError, match=r"commits? \d+.* missing.*a log|does not contain the format"):
            contents(killed)


@pytest.mark.parametrize("change", SHAPES, ids=lambda change: change.__name__)
def test_the_newest_log_may_lose_its_end(change: Callable[[Path], None], killed: Path) -> None:
    """As a power loss leaves it."""
    whole = contents_of_copy(killed)
    change(logs(killed)[-1])
    last, rows = contents(killed)
    assert rows == model(last)
    assert last < whole


def contents_of_copy(path: Path) -> int:
    copy = path.with_name("whole")
    shutil.copytree(path, copy)
    return contents(copy)[0]


def test_a_gap_inside_of_a_log_is_damage(tmp_path: Path) -> None:
    """Pages of zeros with records behind them: RocksDB goes on with the next block that begins with a record."""
    writer = Writer(tmp_path / "db")
    writer.commit(500)
    copy = writer.copied(tmp_path / "copy")
    writer.engine.close()
    (log,) = logs(copy)
    data = bytearray(log.read_bytes())
    ends = record_ends(bytes(data))
    assert len(data) > 3 * BLOCK
    for block in range(1, len(data) // BLOCK):
        starts = [end for end in ends if end // BLOCK == block]
        data[block * BLOCK : starts[-1]] = bytes(starts[-1] - block * BLOCK)
        break
    log.write_bytes(data)
    try:
        last, rows = contents(copy)
    except DamagedStateError:
        return
    assert rows == model(last)


def test_what_opens_is_what_its_offset_says(tmp_path: Path) -> None:
    """At random: commits, flushes of some families, restarts, loads; then logs that are damaged in any way."""
    memory = SharedMemory(RocksSettings(write_buffer_bytes=1 << 16, log_bytes=1 << 17))
    seen = set()
    for seed in range(SEEDS):
        chance = random.Random(seed)
        path = tmp_path / f"db-{seed}"
        writer = Writer(path, memory)
        for step in count():
            what = chance.random()
            if what < 0.2:
                writer.engine.family(chance.choice(FAMILIES)).flush()
                writer.commit()  # else its rows are newer than what any log has
            elif what < 0.25:
                writer.engine.flush()
            elif what < 0.3:
                writer.engine.close()
                writer = Writer(path, memory)
            else:
                writer.commit(chance.choice([1, 3, 10, 300]))
            if step > 8 and len(logs(path)) >= 2 and what >= 0.3:
                break
        copy = writer.copied(tmp_path / f"copy-{seed}")
        writer.engine.close()
        chance.choice(SHAPES[:4])(log) if (log := chance.choice(logs(copy))).stat().st_size > 2000 else gone(log)
        try:
            last, rows = contents(copy)
        except DamagedStateError:
            seen.add("damage")
        else:
            seen.add("whole")
            assert rows == model(last), f"seed {seed}"
        shutil.rmtree(path)
    assert seen == {"damage", "whole"}


def test_numbers_of_commits_do_not_pile_up(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "db", SharedMemory(RocksSettings(write_buffer_bytes=1 << 16, log_bytes=1 << 17)))
    writer.commit(5000)
    writer.engine.flush()
    writer.commit(600)
    assert len(list(writer.engine.family(OFFSETS).range(b"streams.commit.", b"streams.commit/"))) < 2000
    writer.engine.close()


def test_a_database_of_an_earlier_release_is_taken_over(tmp_path: Path) -> None:
    """It has commits without numbers."""
    writer = Writer(tmp_path / "db")
    writer.commit(10)
    offsets = writer.engine.family(OFFSETS)
    batch = writer.engine.batch()
    for key, _ in list(offsets.range(b"streams.commit.", b"streams.commit/")):
        batch.delete(key, offsets.handle)
    writer.engine.load(batch)
    writer.engine.close()
    again = Writer(tmp_path / "db")
    again.commit(10)
    again.engine.close()
    assert contents(tmp_path / "db") == (20, model(20))


def test_offsets_are_flushed_after_the_rows_and_positions(tmp_path: Path) -> None:
    """The numbers of commits are beside them: they must not say more than the rest has."""
    engine = RocksEngine(tmp_path / "db", FAMILIES)
    for name in (OFFSETS, *FAMILIES, POSITIONS):
        engine.family(name)
    assert [family.name for family in engine._rows_before_offsets()][-2:] == [POSITIONS, OFFSETS]
    engine.close()
