"""Days that cannot be run: half-written files, other columns, damaged or newer run directories, a full disk."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams import StreamsBuilder
from streams.spark import Backfill, BackfillResult, History, HistoryFileError, RunDirConflict

COLUMNS = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "timestamp": pa.timestamp("ms", "UTC"),
}


def counts() -> StreamsBuilder:
    builder = StreamsBuilder(key_serde="string", value_serde="string")
    builder.stream("events").group_by_key().count(materialized="counts")
    return builder


def write(path: Path, offsets: range, **types: pa.DataType | None) -> None:
    """Writes a file; a column with another type has it, and one without a type is left out."""
    kinds = {name: kind for name, kind in {**COLUMNS, **types}.items() if kind is not None}
    rows: dict[str, Any] = {"partition": 0, "key": b"ann", "value": b"1", "timestamp": 1_760_000_000_000}
    if kinds.get("value") == pa.int64():
        rows["value"] = 1
    columns = [pa.array(offsets if name == "offset" else [rows[name]] * len(offsets), kinds[name]) for name in kinds]
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns, names=list(kinds)), path)


def backfill(path: Path, run: str, state: BackfillResult | None = None, spark: Any = None) -> Backfill:
    return Backfill(
        spark, counts, {"events": History.parquet(spark, str(path / "lake"), partitions=2)}, application_id="app",
        run_dir=path / run, initial_state=state, overlaps="skip", engine="local[1]" if spark is None else "spark",
    )  # fmt: skip


@pytest.fixture
def monday(tmp_path: Path) -> BackfillResult:
    write(tmp_path / "lake" / "1.parquet", range(10))
    return backfill(tmp_path, "monday").run()


def files(path: Path) -> dict[str, bytes]:
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (cut_off, "2.parquet' cannot be read as Parquet: .*still being written, wait until it is complete"),
        (lambda path: path.write_bytes(b""), "2.parquet' cannot be read as Parquet"),
        (lambda path: write(path, range(10, 15), value=None), "2.parquet' has no column 'value'"),
        (lambda path: write(path, range(10, 15), value=pa.int64()), "'value' of the file .* is bigint, and binary in"),
        (lambda path: write(path, range(10, 15), timestamp=pa.int64()), "'timestamp' of the file .* is bigint"),
    ],
)
def test_a_file_of_a_day_that_is_not_like_the_others_is_named(
    tmp_path: Path,
    monday: BackfillResult,
    request: pytest.FixtureRequest,
    engine: str,
    change: Callable[[Path], Any],
    message: str,
) -> None:
    """A missing column was read as nulls, and a null value deletes a row."""
    session = None if engine == "local" else request.getfixturevalue("spark")
    write(tmp_path / "lake" / "2.parquet", range(10, 15))
    change(tmp_path / "lake" / "2.parquet")
    before = files(tmp_path / "monday")
    with pytest.raises(HistoryFileError, match=message):
        backfill(tmp_path, "tuesday", monday, session).run()
    assert not (tmp_path / "tuesday").exists()
    assert files(tmp_path / "monday") == before


def test_a_file_under_a_hidden_name_is_not_there_yet(tmp_path: Path, monday: BackfillResult) -> None:
    write(tmp_path / "lake" / "2.parquet", range(10, 15))
    (tmp_path / "lake" / ".3.parquet").write_bytes(b"PAR1")
    (tmp_path / "lake" / "_4.parquet").write_bytes(b"PAR1")
    result = backfill(tmp_path, "tuesday", monday).run()
    assert [row["value"] for row in result.table("counts").to_pylist()] == [15]


def set_version(path: Path) -> None:
    run = path / "run.json"
    run.write_text(json.dumps({**json.loads(run.read_text()), "version": 99}))


def cut_state(path: Path) -> None:
    for one in (path / "stage=0" / "kind=state").iterdir():
        cut_off(one)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_version, "newer version of this library .format 99, this one reads up to 3.: use that version"),
        (lambda path: (path / "run.json").write_text("{"), "run.json' cannot be read"),
        (lambda path: (path / "stage=0" / "_DONE.json").write_text(""), "_DONE.json' cannot be read"),
        (lambda path: shutil.rmtree(path / "stage=0" / "kind=state"), "of a complete stage is missing: restore it"),
        (cut_state, r"is damaged \(200 bytes, it had \d+\): restore it, or delete '.*_DONE.json' to run the stage"),
    ],
)
def test_a_directory_that_cannot_be_continued_is_named_and_kept(
    tmp_path: Path, monday: BackfillResult, change: Callable[[Path], Any], message: str
) -> None:
    place = tmp_path / "monday"
    change(place)
    before = files(place)
    with pytest.raises(RunDirConflict, match=message):
        BackfillResult.load(None, place, counts, {"application.id": "app"})
    with pytest.raises(RunDirConflict, match=message):
        backfill(tmp_path, "monday").run()
    assert files(place) == before
    write(tmp_path / "lake" / "2.parquet", range(10, 15))
    with pytest.raises(RunDirConflict):
        backfill(tmp_path, "tuesday", BackfillResult.load(None, place, counts, {"application.id": "app"})).run()


def test_a_lost_mark_of_the_end_is_written_again(tmp_path: Path, monday: BackfillResult) -> None:
    (tmp_path / "monday" / "position.json").write_text("{")
    assert backfill(tmp_path, "monday").run().position.to_json() == monday.position.to_json()
    assert json.loads((tmp_path / "monday" / "position.json").read_text())


FULL = """
import resource, sys
from pathlib import Path
sys.path[:0] = {paths}
from streams import StreamsError
from test_bad_days import *
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
try:
    backfill(Path({path!r}), "full").run()
except StreamsError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("size", "message"), [(0, "RunDirConflict .*run.json' cannot be written: "), (2_000, "StageFailed a task of the ")]
)
def test_a_disk_that_takes_no_more_is_said_and_the_run_continues(tmp_path: Path, size: int, message: str) -> None:
    """The limit of the size of files stands for the disk."""
    write(tmp_path / "lake" / "1.parquet", range(10))
    script = FULL.format(paths=[str(Path(__file__).parent), *sys.path], size=size, path=str(tmp_path))
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=300)
    assert found.stderr == ""
    assert re.fullmatch(f"{message}.*run the backfill again: the tasks that are done are kept\n", found.stdout)
    result = backfill(tmp_path, "full").run()
    assert [row["value"] for row in result.table("counts").to_pylist()] == [10]
