"""Days as commands: runs that go on with each other, without Spark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streams.cli.main import main
from streams.spark import BackfillResult

APP = """
from streams import Consumed, Materialized, Serdes, StreamsBuilder

builder = StreamsBuilder()
events = builder.stream("events", Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING))
counts = Materialized(name="counts", key_serde=Serdes.STRING, value_serde=Serdes.LONG)
events.group_by_key().count(materialized=counts)
"""


@pytest.fixture(autouse=True)
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "days_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.delitem(sys.modules, "days_app", raising=False)


def write(name: str, offsets: range, partition: int = 0, *, with_offsets: bool = True) -> None:
    columns: dict[str, Any] = {
        "partition": pa.array([partition] * len(offsets), pa.int32()),
        "key": pa.array([b"ann"] * len(offsets)),
        "value": pa.array([b"v"] * len(offsets)),
        "timestamp": pa.array([1_760_000_000_000 + one for one in offsets]),
    }
    if with_offsets:
        columns["offset"] = pa.array(offsets, pa.int64())
    Path("lake").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), Path("lake") / name)


def backfill(*more: str, runs: str = "runs") -> int:
    return main([
        "spark", "backfill", "days_app.py", "--runs", runs, "--history", "events=lake", "--partitions", "events=2",
        "--application-id", "app", "--engine", "local[1]", *more,
    ])  # fmt: skip


def count(number: int, runs: str = "runs") -> int:
    import days_app  # type: ignore[import-not-found]

    result = BackfillResult.load(None, Path(runs) / f"{number:04d}", days_app.builder, {"application.id": "app"})
    return sum(row["value"] for row in result.table("counts").to_pylist())


@pytest.mark.parametrize("with_offsets", [True, False])
def test_each_day_reads_what_came_since(capsys: pytest.CaptureFixture[str], *, with_offsets: bool) -> None:
    """The lake grows: late files of days that are over are read, a retry reads nothing."""
    more = () if with_offsets else ("--column", "offset=-")
    write("1.parquet", range(10), with_offsets=with_offsets)
    assert backfill(*more) == 0
    assert count(1) == 10
    write("2.parquet", range(10, 14), with_offsets=with_offsets)
    write("2-late.parquet", range(5), 1, with_offsets=with_offsets)
    assert backfill(*more) == 0
    assert count(2) == 19
    capsys.readouterr()
    assert backfill(*more) == 0
    assert "nothing new since run 2: its result is current" in capsys.readouterr().out
    assert not Path("runs/0003").exists()
    assert main(["spark", "runs", "runs"]) == 0
    shown = capsys.readouterr().out
    assert "run 1: complete" in shown
    assert ("  events-0: offset 14, latest time 2025-10-09T08:53:20.013+00:00" in shown) == with_offsets
    assert main(["spark", "runs", "runs", "--json"]) == 0
    (_, last) = map(json.loads, capsys.readouterr().out.splitlines())
    assert last["position"]["topics"]["events"]["partitions"]["1"][0] == (5 if with_offsets else None)


def test_a_corrected_day_replaces_it_and_all_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    for day, ends in enumerate(((0, 10), (10, 14), (14, 20)), 1):
        write(f"{day}.parquet", range(*ends))
        assert backfill() == 0
    assert count(3) == 20
    assert backfill("--since", "1") == 2
    assert "runs 2, 3 in " in (found := capsys.readouterr().err)
    assert "continued from it: give --replace" in found
    Path("lake/3.parquet").unlink()
    write("2.parquet", range(10, 13))  # a record of the day was wrong
    assert backfill("--since", "1", "--replace") == 0
    assert "run 3 is set aside in" in capsys.readouterr().out
    assert count(2) == 13
    assert sorted(path.name for path in Path("runs/replaced").iterdir()) == ["0002-1", "0003-1"]
    write("3.parquet", range(13, 20))
    assert backfill("--since", "last") == 0
    assert count(3) == 20


def test_a_gap_between_days_is_refused_unless_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write("1.parquet", range(10))
    assert backfill() == 0
    write("2.parquet", range(12, 14))
    assert backfill() == 1
    assert "2 offsets (10 to 11) would be left out" in capsys.readouterr().err
    assert backfill("--gaps", "allow") == 0
    assert count(2) == 12


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--since", "first"), "--since first is not a run: give last, none, or the number of a run"),
        (("--since", "7"), "has no run 7: there are none"),
        (("--engine", "dask"), "engine='dask': it must be 'spark', 'local' or 'local[N]'"),
        (("--engine", "local[0]"), "it must have one process or more"),
    ],
)
def test_what_is_wrong_is_named(capsys: pytest.CaptureFixture[str], more: tuple[str, ...], message: str) -> None:
    write("1.parquet", range(10))
    assert backfill(*more) != 0
    assert message in capsys.readouterr().err


def test_a_directory_with_other_things_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    write("1.parquet", range(10))
    assert backfill(runs="lake") == 1
    assert "holds other things than runs (1.parquet)" in capsys.readouterr().err
