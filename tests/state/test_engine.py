"""What every engine does: one suite over both, and what only one on disk can be asked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processor_api.errors import DamagedStateError, RetryableError, StateError
from state.engine.memory import MemoryEngine
from state.engine.port import OFFSETS, POSITIONS
from state.engine.spilling import SpillingEngine
from state.rocksdb.engine import RocksEngine
from state.rocksdb.metadata import FORMAT_KEY
from streams.runtime.engines.shared_engine import SharedMemoryEngine
from streams.testing.contracts.engine_kit import FAMILIES, EngineKit, Rows

REPOSITORY = Path(__file__).resolve().parents[2]

WRITER = """
import os, sys
from pathlib import Path
from state.rocksdb.engine import RocksEngine
engine = RocksEngine(Path(sys.argv[1]), ["rows"])
print("open", flush=True)
sys.stdin.read()
os._exit(0)
"""


ENGINES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda path: MemoryEngine(),
    "memory, shared": lambda path: SharedMemoryEngine(),
    "rocksdb": lambda path: RocksEngine(path, FAMILIES),
    "spilling": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES)),
    "spilling, each write to disk": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES), most_bytes=0),
    "spilling, few rows in memory": lambda path: SpillingEngine(lambda: RocksEngine(path, FAMILIES), most_bytes=600),
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    opened = ENGINES[request.param](tmp_path / "db")
    yield opened
    opened.close()


write = EngineKit.put


def contents(engine: Any, family: str = "rows") -> Rows:
    return [row for row in engine.family(family).range() if not row[0].startswith(b"streams.")]


# ---------------------------------------------------------------------- every engine


def test_a_row_that_was_put_is_found(engine: Any) -> None:
    """Also one with an empty key, an empty value, or every byte in it."""
    rows: dict[bytes, bytes | None] = {b"": b"no key", b"no value": b"", bytes(range(256)): bytes(range(256))}
    write(engine, rows)
    assert {key: engine.family("rows").get(key) for key in rows} == rows
    assert engine.family("rows").get(b"absent") is None


def test_a_batch_shows_only_when_it_is_written(engine: Any) -> None:
    family, batch = engine.family("rows"), engine.batch()
    batch.put(b"a", b"1", family.handle)
    assert family.get(b"a") is None
    engine.write(batch)
    assert family.get(b"a") == b"1"


def test_the_last_operation_of_a_batch_on_a_key_counts(engine: Any) -> None:
    family, batch = engine.family("rows"), engine.batch()
    batch.put(b"a", b"1", family.handle)
    batch.delete(b"a", family.handle)
    batch.put(b"b", b"1", family.handle)
    batch.put(b"b", b"2", family.handle)
    batch.delete(b"c", family.handle)
    batch.put(b"c", b"3", family.handle)
    engine.write(batch)
    assert contents(engine) == [(b"b", b"2"), (b"c", b"3")]


def test_a_seek_finds_the_first_row_from_a_key_on(engine: Any) -> None:
    """As of the last write, also when it has looked before."""
    family = engine.family("rows")
    assert family.seek(b"") is None
    write(engine, {b"b": b"1", b"d": b"2"})
    assert [family.seek(key) for key in (b"", b"b", b"b\0", b"d", b"d\0")] == [
        (b"b", b"1"),
        (b"b", b"1"),
        (b"d", b"2"),
        (b"d", b"2"),
        None,
    ]
    write(engine, {b"c": b"3", b"b": None})
    assert (family.seek(b"a"), family.seek(b"d")) == ((b"c", b"3"), (b"d", b"2"))
    engine.clear(["rows"])
    assert family.seek(b"") is None


def test_an_engine_tells_which_families_have_rows(engine: Any) -> None:
    assert not engine.holds("rows")
    assert not engine.holds("never named")
    write(engine, {b"a": b"1"})
    assert engine.holds("rows")
    assert not engine.holds("other")
    write(engine, {b"a": None})
    assert not engine.holds("rows")


def test_a_range_is_deleted_in_its_turn(engine: Any) -> None:
    """With what was put before in the same batch, and without what is put after."""
    write(engine, dict.fromkeys((b"", b"a", b"b", b"b\x00", b"c", b"\xff\xff"), b"0"))
    family, batch = engine.family("rows"), engine.batch()
    batch.put(b"a2", b"1", family.handle)
    batch.put(b"c2", b"1", family.handle)
    batch.delete_range(b"a", b"c", family.handle)
    batch.put(b"b", b"2", family.handle)
    engine.write(batch)
    rows = [(b"", b"0"), (b"b", b"2"), (b"c", b"0"), (b"c2", b"1"), (b"\xff\xff", b"0")]
    assert contents(engine) == rows
    assert [family.get(key) for key in (b"a", b"a2", b"b", b"b\0")] == [None, None, b"2", None]
    assert list(family.range(reverse=True)) == rows[::-1]


def test_long_ranges_show_rows_as_they_were(engine: Any) -> None:
    """Through writes of every sort, wherever the reader stands, in both directions."""
    before = {b"%04d" % i: b"old" for i in range(1000)}
    write(engine, dict(before))
    family = engine.family("rows")
    opened = [family.range(b"0100", b"0900", reverse=reverse) for reverse in (False, True) for _ in range(3)]
    expected = [row for row in sorted(before.items()) if b"0100" <= row[0] < b"0900"]
    seen = [[next(rows) for _ in range(count)] for rows, count in zip(opened, (0, 1, 250) * 2, strict=True)]
    batch = engine.batch()
    batch.put(b"0500", b"new", family.handle)
    batch.put(b"0500a", b"new", family.handle)
    batch.delete_range(b"0200", b"0300", family.handle)
    batch.delete(b"0850", family.handle)
    engine.write(batch)
    engine.clear(["rows"])
    for i, (start, rows) in enumerate(zip(seen, opened, strict=True)):
        assert start + list(rows) == (expected if i < 3 else expected[::-1])
    assert list(family.range()) == []


def test_families_do_not_mix(engine: Any) -> None:
    batch = engine.batch()
    for name in (*FAMILIES, OFFSETS, POSITIONS):
        batch.put(b"key", name.encode(), engine.family(name).handle)
    engine.write(batch)
    write(engine, {b"key": None}, "other")
    assert [engine.family(name).get(b"key") for name in FAMILIES] == [b"rows", None]
    assert [engine.family(name).get(b"key") for name in (OFFSETS, POSITIONS)] == [b"offsets", b"positions"]


def test_rows_go_on_changing_after_a_range_read(engine: Any) -> None:
    """The index that a range builds is kept up by puts, replacements and deletions, of absent keys too."""
    write(engine, {b"b": b"1", b"d": b"1"})
    assert contents(engine) == [(b"b", b"1"), (b"d", b"1")]
    write(engine, {b"a": b"2", b"b": b"2", b"d": None, b"absent": None})
    assert contents(engine) == [(b"a", b"2"), (b"b", b"2")]
    write(engine, {b"d": b"3", b"a": None})
    assert list(engine.family("rows").range(reverse=True)) == [(b"d", b"3"), (b"b", b"2")]


def test_clear_empties_the_families_it_is_given(engine: Any) -> None:
    """They take new rows afterwards; a family that was never used may be cleared."""
    for name in FAMILIES:
        write(engine, {b"a": b"1", b"b": b"1"}, name)
    assert len(contents(engine)) == 2
    engine.clear(["rows"])
    assert (contents(engine), len(contents(engine, "other"))) == ([], 2)
    assert engine.family("rows").get(b"a") is None
    write(engine, {b"c": b"1"})
    assert contents(engine) == [(b"c", b"1")]
    engine.clear([OFFSETS])


def test_loaded_rows_are_found(engine: Any) -> None:
    batch = engine.batch()
    batch.put(b"a", b"1", engine.family("rows").handle)
    engine.load(batch)
    engine.flush()
    assert contents(engine) == [(b"a", b"1")]


def test_the_count_is_about_right(engine: Any) -> None:
    write(engine, {b"%03d" % number: b"x" for number in range(500)})
    assert 400 <= engine.family("rows").approximate_count() <= 600


# ---------------------------------------------------------------------- on disk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "db"


@pytest.mark.parametrize("how", ["write", "load"])
def test_rows_are_there_after_a_restart(path: Path, how: str) -> None:
    """Families that the application does not name any more stay too."""
    first = RocksEngine(path, [*FAMILIES, "old"])
    for name in ("rows", "old", OFFSETS):
        batch = first.batch()
        batch.put(b"a", name.encode(), first.family(name).handle)
        getattr(first, how)(batch)
    first.flush()
    first.close()
    second = RocksEngine(path, ["new", "rows"])
    assert [second.family(name).get(b"a") for name in ("rows", "old", OFFSETS)] == [b"rows", b"old", b"offsets"]
    assert contents(second, "new") == []
    second.close()


LOADER = """
import os, signal, sys
from pathlib import Path
from state.engine.port import OFFSETS
from state.rocksdb.engine import RocksEngine
engine = RocksEngine(Path(sys.argv[1]), ["rows"])
def batch(number):
    made = engine.batch()
    made.put(b"row-%d" % number, b"x", engine.family("rows").handle)
    made.put(b"offset", b"%d" % number, engine.family(OFFSETS).handle)
    return made
engine.load(batch(1))
engine.flush()
if sys.argv[2] == "then-write":
    engine.write(batch(2))
if sys.argv[2] == "then-load":
    engine.load(batch(2))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("then", ["nothing", "then-write", "then-load"])
def test_loaded_rows_survive_a_kill_once_they_are_flushed(path: Path, then: str) -> None:
    """Only an empty family was flushed: a process killed after a restore kept the offset of later rows, and lost the
    restored ones."""
    died = subprocess.run([sys.executable, "-c", LOADER, str(path), then], cwd=REPOSITORY, capture_output=True)
    assert died.returncode == -9, died.stderr
    engine = RocksEngine(path, FAMILIES)
    last = 2 if then == "then-write" else 1
    assert [key for key, _ in contents(engine)] == [b"row-%d" % number for number in range(1, last + 1)]
    assert engine.family(OFFSETS).get(b"offset") == b"%d" % last
    engine.close()


def test_a_newer_format_is_refused(path: Path) -> None:
    """And left as it is; nothing stays open."""
    engine = RocksEngine(path, FAMILIES)
    assert engine.family(OFFSETS).get(FORMAT_KEY) == b"1"
    write(engine, {FORMAT_KEY: b"2"}, OFFSETS)
    engine.close()
    for _ in range(2):
        expected = (
            "has format 2, but this release reads 1: run the newer release, or stop .*`streams state rebuild --task"
        )
        with pytest.raises(StateError, match=expected):
            RocksEngine(path, FAMILIES)


def test_a_store_that_another_process_has_open_may_come_free(path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(RetryableError, match=r"the store at .*db is open in another process"):
            RocksEngine(path, FAMILIES)
        other.kill()
    RocksEngine(path, FAMILIES).close()


def test_a_store_opened_twice_by_one_process_is_refused(path: Path) -> None:
    first = RocksEngine(path, FAMILIES)
    with pytest.raises(RetryableError, match=r"the store at .*db is open"):
        RocksEngine(path, FAMILIES)
    first.close()
    RocksEngine(path, FAMILIES).close()


def _damage(path: Path, pattern: str, damage: Callable[[bytearray], None]) -> None:
    files = sorted(path.glob(pattern))
    assert files, list(path.iterdir())
    for file in files:
        if file.stat().st_size < 10_000 and file.suffix == ".sst":
            continue  # the offsets' file
        data = bytearray(file.read_bytes())
        damage(data)
        file.write_bytes(data)


def _flip_blocks(data: bytearray) -> None:
    """Flips the data blocks in the front half; what describes the file stands at its end."""
    for at in range(0, len(data) // 2, 50):
        data[at] ^= 0xFF


def _filled(path: Path) -> None:
    engine = RocksEngine(path, FAMILIES)
    write(engine, {b"%06d" % number: os.urandom(100) for number in range(2000)})
    engine.flush()
    engine.close()


def test_a_damaged_block_is_an_error_and_not_an_empty_store(path: Path) -> None:
    """In ranges of both directions and in single reads."""
    _filled(path)
    _damage(path, "*.sst", _flip_blocks)
    engine = RocksEngine(path, FAMILIES)
    family = engine.family("rows")
    for read in (
        lambda: list(family.range()),
        lambda: list(family.range(reverse=True)),
        lambda: list(family.range(b"000100", b"000200")),
        lambda: family.get(b"000010"),
    ):
        with pytest.raises(StateError, match=r"the database at .* is damaged: .* run `streams state rebuild --task"):
            read()
    engine.close()


@pytest.mark.parametrize("pattern", ["CURRENT", "*.sst"])
def test_a_store_cut_short_is_an_error_at_the_opening(path: Path, pattern: str) -> None:
    _filled(path)
    _damage(path, pattern, lambda data: data.__delitem__(slice(len(data) // 3, None)))
    with pytest.raises(
        DamagedStateError, match=r"is damaged: Corruption: .* run `streams state rebuild --task"
    ) as caught:
        RocksEngine(path, FAMILIES)
    assert str(caught.value).startswith(f"the database at {path} is damaged: ")


def test_a_list_of_files_cut_short_is_an_error_or_an_earlier_point(path: Path) -> None:
    """RocksDB takes a cut list of files for one that was never finished. No offset shows without its row."""
    engine = RocksEngine(path, FAMILIES)
    for number in range(6):
        batch = engine.batch()
        batch.put(b"row", b"%d" % number, engine.family("rows").handle)
        batch.put(b"offset", b"%d" % number, engine.family(OFFSETS).handle)
        engine.write(batch)
        engine.flush()
    engine.close()
    size = next(path.glob("MANIFEST-*")).stat().st_size
    opened = 0
    for cut in range(0, size, max(1, size // 40)):
        copy = path.with_name(f"cut-{cut}")
        shutil.copytree(path, copy)
        _damage(copy, "MANIFEST-*", lambda data, cut=cut: data.__delitem__(slice(cut, None)))  # type: ignore[misc]
        try:
            engine = RocksEngine(copy, FAMILIES)
        except StateError:
            continue
        opened += 1
        assert (engine.family("rows").get(b"row") or b"") >= (engine.family(OFFSETS).get(b"offset") or b""), cut
        engine.close()
        shutil.rmtree(copy)
    assert opened > 0


def test_a_missing_file_is_an_error(path: Path) -> None:
    _filled(path)
    for file in path.glob("*.sst"):
        file.unlink()
    with pytest.raises(StateError, match=str(path)):
        RocksEngine(path, FAMILIES)


def test_a_file_in_place_of_the_directory_is_an_error(path: Path) -> None:
    path.write_text("in the way")
    with pytest.raises(StateError, match="cannot open the store at"):
        RocksEngine(path, FAMILIES)


# ---------------------------------------------------------------------- on other file systems

ON_A_FILE_SYSTEM = """
import sys
from pathlib import Path
from processor_api.errors import StreamsError
from state.rocksdb.engine import RocksEngine
try:
    engine = RocksEngine(Path(sys.argv[1]) / "db", ["rows"])
    handle = engine.family("rows").handle
    for number in range(2000):
        batch = engine.batch()
        for key in range(100):
            batch.put(b"%08d" % (number * 100 + key), bytes(1000), handle)
        engine.write(batch)
except StreamsError as error:
    print(type(error).__name__, error)
"""


def _on(tmp_path: Path, mount: str, prepare: str = "", script: str = ON_A_FILE_SYSTEM) -> str:
    probe = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*probe, "true"], capture_output=True).returncode != 0:
        pytest.skip("needs user and mount namespaces")
    words = f'mount -t tmpfs -o {mount} none "$1" && {prepare} exec "$2" -c "$3" "$1"'
    found = subprocess.run(
        [*probe, "sh", "-c", words, "sh", str(tmp_path), sys.executable, script],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """Before anything could be written, and in the middle of it."""
    for size in ("64k", "4m"):
        told = _on(tmp_path, f"size={size}")
        assert told.startswith("DiskFullError cannot "), (size, told)
        assert "the disk is full; free some space there (" in told


CLOSED_AT_ONCE = """
    subprocess.run(["mount", "-o", "remount,size=64m", sys.argv[1]], check=True)
    del handle, batch  # each keeps the database open
    engine.close()
    closed = RocksEngine(Path(engine.path), ["rows"])
    print(sum(1 for _ in closed.family("rows").range()) % 100, "of a batch")
"""


def test_a_database_is_closed_in_the_seconds_in_which_rocksdb_looks_for_room(tmp_path: Path) -> None:
    """It refuses its log with words that say nothing of the disk."""
    script = ON_A_FILE_SYSTEM.replace("import sys", "import subprocess, sys") + CLOSED_AT_ONCE
    assert _on(tmp_path, "size=3m", script=script).splitlines()[1:] == ["0 of a batch"]


def test_a_read_only_disk_is_told(tmp_path: Path) -> None:
    told = _on(tmp_path, "size=4m", 'mount -o remount,ro "$1" &&')
    assert told.startswith("StateDirectoryError cannot open the store at ")
    assert "the file system is read-only; mount it writable" in told
