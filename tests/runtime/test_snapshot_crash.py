"""Processes are killed while they write and take snapshots: each snapshot that there is, is whole, and so is what a
database has of one."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from runtime_support.snapshotting_process import FAMILY, copy_best, offset_of, rows_at
from state.rocksdb.engine import RocksEngine

REPOSITORY = Path(__file__).resolve().parents[2]


def killed(what: str, database: Path, place: Path, lines: int, chance: random.Random) -> int:
    """Runs a process until it has said so many lines, and kills it within some steps after that; returns the last
    offset that it said."""
    path = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests" / "support")])
    words = [sys.executable, "-m", "runtime_support.snapshotting_process", what, str(database), str(place)]
    with subprocess.Popen(
        words, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        last = -1
        for _ in range(lines):
            line = process.stdout.readline()
            assert line, process.stderr.read()
            last = int(line)
        try:
            process.wait(chance.random() * 0.05)
        except subprocess.TimeoutExpired:
            process.kill()
        rest, errors = process.communicate()
    assert process.returncode == -9, errors
    return int(rest.split()[-1]) if rest.split() else last


def contents(database: Path) -> tuple[int, dict[bytes, bytes]]:
    engine = RocksEngine(database, [FAMILY])
    try:
        return offset_of(engine), dict(engine.family(FAMILY).range())
    finally:
        engine.close()


def write_and_check(root: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(kills):
        said = killed("write", root / "db", root / "place", chance.choice([1, 1, 2, 5]), chance)
        copied = copy_best(root / "place", root / f"copy-{number}")
        assert copied is not None
        offset, rows = contents(root / f"copy-{number}")
        assert offset >= said
        assert rows == rows_at(offset)
    folder = root / "place" / "app" / "tasks" / "0_0"
    assert 2 <= len(list(folder.glob("*.json"))) <= 3
    for _ in range(kills):
        killed("take", root / "new", root / "place", chance.choice([1, 3, 6]), chance)
        offset, rows = contents(root / "new")
        assert rows == rows_at(offset)


@pytest.mark.skipif(os.name == "nt", reason="processes are killed by a signal")
def test_a_killed_process_leaves_whole_snapshots_and_whole_databases(tmp_path: Path) -> None:
    write_and_check(tmp_path, 4, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 6))
def test_many_killed_processes(tmp_path: Path, seed: int) -> None:
    write_and_check(tmp_path, 20, seed)
