"""A process is killed while it writes commits: what is reopened is exactly what its offset says.

The writer's rows are a function of the commit's number, so that the contents after any commit can be computed.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine

REPOSITORY = Path(__file__).resolve().parents[2]
OFFSET = struct.Struct(">q")
FAMILIES = ["one.plain", "two.plain"]

OPERATIONS = '''
import random
def operations(number):
    """Of one commit: (family, key, value or None)."""
    chance = random.Random(number)
    for _ in range(40):
        value = None if chance.random() < 0.3 else b"%d-" % number * chance.randrange(1, 60)
        yield chance.randrange(2), b"%04d" % chance.randrange(300), value
'''

WRITER = (
    OPERATIONS
    + """
import itertools, struct, sys
from pathlib import Path
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
from state.rocksdb.options import RocksSettings, SharedMemory

OFFSET = struct.Struct(">q")
memory = SharedMemory(RocksSettings(write_buffer_bytes=1 << 16, log_bytes=1 << 18))
engine = RocksEngine(Path(sys.argv[1]), ["one.plain", "two.plain"], memory)
handles = [engine.family(name).handle for name in ("one.plain", "two.plain")]
found = engine.family(OFFSETS).get(b"log-0")
for number in itertools.count(0 if found is None else OFFSET.unpack(found)[0] + 1):
    batch = engine.batch()
    for family, key, value in operations(number):
        if value is None:
            batch.delete(key, handles[family])
        else:
            batch.put(key, value, handles[family])
    batch.put(b"log-0", OFFSET.pack(number), engine.family(OFFSETS).handle)
    engine.write(batch)
    print(number, flush=True)
"""
)

_space: dict[str, object] = {}
exec(OPERATIONS, _space)
operations = _space["operations"]


def killed_after(path: Path, commits: int) -> int:
    """Starts a writer, kills it some time after its n-th commit; returns the last commit it is known to have made."""
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        told = -1
        for _ in range(commits):
            told = int(writer.stdout.readline())
        writer.kill()
        for line in writer.stdout:
            if line.endswith("\n"):
                told = int(line)
    return told


def check(path: Path, model: list[dict[bytes, bytes]], applied: int, told: int) -> int:
    """Brings the model, in which the commits up to ``applied`` are, up to the offset found, and compares."""
    engine = RocksEngine(path, FAMILIES)
    found = engine.family(OFFSETS).get(b"log-0")
    offset = -1 if found is None else OFFSET.unpack(found)[0]
    assert offset >= told, "a commit that had returned is lost"
    for number in range(applied + 1, offset + 1):
        for family, key, value in operations(number):  # type: ignore[operator]
            if value is None:
                model[family].pop(key, None)
            else:
                model[family][key] = value
    for name, rows in zip(FAMILIES, model, strict=True):
        assert list(engine.family(name).range()) == sorted(rows.items())
    engine.close()
    return offset


def kill_often(path: Path, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    model: list[dict[bytes, bytes]] = [{}, {}]
    offset = -1
    for _ in range(kills):
        told = killed_after(path, chance.choice([0, 1, 2, 5, 20, 100, 400]))
        offset = check(path, model, offset, told)
    assert offset > 0


def test_a_killed_writer_leaves_whole_commits(tmp_path: Path) -> None:
    kill_often(tmp_path / "db", 6, seed=1)


def cut_logs(path: Path, chance: random.Random) -> None:
    """As a power loss does, which takes what was written last: the newest log, or it and the end of the one before."""
    logs = sorted(path.glob("*.log"))
    if len(logs) > 1 and chance.random() < 0.3:
        logs.pop().unlink()
    size = logs[-1].stat().st_size
    os.truncate(logs[-1], chance.randrange(size + 1))


def test_a_log_cut_anywhere_leaves_whole_commits(tmp_path: Path) -> None:
    """Copies of a database, taken while tables are written and logs change, some of whose logs are then cut."""
    chance, path, seen = random.Random(5), tmp_path / "db", set()
    for number in range(4):
        killed_after(path, chance.choice([50, 300, 700]))
        for part in range(8):
            copy = tmp_path / f"copy-{number}-{part}"
            shutil.copytree(path, copy)
            cut_logs(copy, chance)
            seen.add(check(copy, [{}, {}], -1, -1))
            shutil.rmtree(copy)
    assert len(seen) > 8


@pytest.mark.slow
def test_hundreds_of_kills(tmp_path: Path) -> None:
    kill_often(tmp_path / "db", 300, seed=2)
