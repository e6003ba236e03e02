"""Runs that begin with the state of another one and write only the rows that they change."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_support.kept_state import COUNTS, changed_counts, day
from streams.spark import BackfillResult, RunDirConflict, read_state
from streams.spark.executor.earlier_task import CHANGES_MOST, Based, EarlierTask
from streams.spark.handover.finished_run import FinishedRun
from streams.spark.rows.state_files import StateFiles

DEADLINE_S = 120
DAYS: Sequence[Mapping[str, int]] = (
    {f"k{number}": 1 for number in range(40)},
    {"k1": 2, "new": 1},
    {"k1": 1, "k2": 3, "gone": 0},
    {"k3": 1},
)
"""The number of records of each key, by day."""


def run(root: Path, number: int, last: BackfillResult | None, **more: Any) -> BackfillResult:
    found: BackfillResult = day(root, number, DAYS[number], last, **more).run()
    return found


def days(root: Path, count: int = len(DAYS)) -> list[BackfillResult]:
    found: list[BackfillResult] = []
    for number in range(count):
        found.append(run(root, number, found[-1] if found else None))
    return found


def totals(*counted: Mapping[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in counted:
        for key, count in one.items():
            found[key] = found.get(key, 0) + count
    return {key: count for key, count in found.items() if count}


def table(result: BackfillResult) -> dict[str, int]:
    rows = result.table(COUNTS).to_pylist()
    found = {row["key"]: row["value"] for row in rows}
    assert len(found) == len(rows)
    return found


def inodes(path: Path, kind: str) -> set[int]:
    return {one.stat().st_ino for one in path.glob(f"stage=0/kind={kind}*/*") if one.is_file()}


def test_a_day_writes_the_rows_that_it_changes_and_links_the_others(tmp_path: Path) -> None:
    first, second, third, fourth = days(tmp_path)
    assert [table(one) for one in (first, second, third, fourth)] == [totals(*DAYS[: n + 1]) for n in range(4)]
    assert inodes(tmp_path / "run-1", "base") == inodes(tmp_path / "run-0", "state")
    assert inodes(tmp_path / "run-3", "base") == inodes(tmp_path / "run-0", "state")
    assert inodes(tmp_path / "run-2", "changes") < inodes(tmp_path / "run-3", "changes")
    assert [one.stages[0].counts[f"shop-{COUNTS}-changelog"] for one in (first, fourth)] == [40, 41]
    changed = FinishedRun(fourth.run_dir).tasks
    rows = {row.key: row for task in changed for row in task.state(f"shop-{COUNTS}-changelog")}
    assert {str(key, "utf-8"): int.from_bytes(row.value or b"") for key, row in rows.items() if key} == table(fourth)


def test_spark_reads_a_base_with_its_changes(spark: Any, tmp_path: Path) -> None:
    last = days(tmp_path)[-1]
    settings = {"application.id": "shop"}
    found = BackfillResult.load(spark, last.run_dir, changed_counts, settings)
    assert {row.key: row.value for row in found.table(COUNTS).collect()} == table(last)
    state = read_state(spark, last.run_dir, changed_counts, COUNTS)
    assert {row.key: row.value for row in state.collect()} == table(last)


def test_a_sum_of_rows_that_is_adjusted_is_that_of_all_rows(tmp_path: Path) -> None:
    """The same as that of one run over all days, which adds up all rows."""
    last = days(tmp_path / "days")[-1]
    whole = day(tmp_path / "whole", 0, totals(*DAYS), None).run()
    sums = [[dict(task["checksums"]) for task in one.stages[0].tasks] for one in (last, whole)]
    assert sums[0] == sums[1]


def test_an_earlier_run_can_be_deleted(tmp_path: Path) -> None:
    results = days(tmp_path, 3)
    for number in range(2):
        shutil.rmtree(tmp_path / f"run-{number}")
    assert table(results[-1]) == totals(*DAYS[:3])
    assert table(run(tmp_path, 3, results[-1])) == totals(*DAYS)


def test_a_day_in_the_place_of_another_one_has_nothing_of_that(tmp_path: Path) -> None:
    results = days(tmp_path)
    corrected = day(tmp_path, 1, {"k9": 5}, results[0], path=tmp_path / "corrected-1").run()
    after = day(tmp_path, 2, DAYS[2], corrected, path=tmp_path / "corrected-2").run()
    assert table(after) == totals(DAYS[0], {"k9": 5}, DAYS[2])
    assert table(results[-1]) == totals(*DAYS)


def test_a_day_that_changes_most_rows_makes_a_new_base(tmp_path: Path) -> None:
    results = days(tmp_path, 3)
    many = dict.fromkeys(DAYS[0], 1)
    found = day(tmp_path, 3, many, results[-1]).run()
    assert table(found) == totals(*DAYS[:3], many)
    assert list(tmp_path.glob("run-2/stage=0/kind=changes-*"))
    assert not list(tmp_path.glob("run-3/stage=0/kind=changes-*"))
    assert inodes(tmp_path / "run-3", "base").isdisjoint(inodes(tmp_path / "run-2", "base"))


def test_another_topology_begins_with_the_rows(tmp_path: Path) -> None:
    results = days(tmp_path, 2)
    options = {"topology": "spark_support.kept_state:with_an_output"}
    other = run(tmp_path, 2, results[-1], **options)
    assert list(tmp_path.glob("run-2/stage=0/kind=state/*"))
    assert not list(tmp_path.glob("run-2/stage=0/kind=base/*"))
    assert table(run(tmp_path, 3, other, **options)) == totals(*DAYS)
    assert inodes(tmp_path / "run-3", "base") == inodes(tmp_path / "run-2", "state")


def test_few_rows_stay_in_memory_and_are_written_each_time(tmp_path: Path) -> None:
    first = run(tmp_path, 0, None, state_bytes=64 << 20)
    second = run(tmp_path, 1, first, state_bytes=64 << 20)
    assert table(second) == totals(*DAYS[:2])
    assert {one.name for one in tmp_path.glob("run-1/stage=0/kind=*")} == {"kind=state"}


def cut_one(pattern: str) -> Callable[[Path], None]:
    def cut(path: Path) -> None:
        one = next(path.glob(f"stage=0/{pattern}"))
        data = one.read_bytes()[:-3]
        one.unlink()  # other runs have further names of the file
        one.write_bytes(data)

    return cut


def without(pattern: str) -> Callable[[Path], None]:
    return lambda path: next(path.glob(f"stage=0/{pattern}")).unlink()


@pytest.mark.parametrize("change", [cut_one, without])
@pytest.mark.parametrize(
    "pattern", ["kind=base/*", "kind=changes-000/*", "kind=stores/*/*.sst", "kind=changelogs/*/CURRENT"]
)
def test_damage_to_any_file_is_named(
    change: Callable[[str], Callable[[Path], None]], pattern: str, tmp_path: Path
) -> None:
    result = days(tmp_path, 3)[-1]
    change(pattern)(Path(result.run_dir))
    with pytest.raises(RunDirConflict, match=r"of a complete stage is (missing|damaged)"):
        BackfillResult.load(None, result.run_dir, changed_counts, {"application.id": "shop"})


def test_a_process_that_is_killed_is_resumed_with_the_tasks_that_were_done(root: Path, tmp_path: Path) -> None:
    last = days(tmp_path, 2)[-1]
    assert last.run_dir == str(tmp_path / "run-1")
    words = [sys.executable, "-m", "spark_support.kept_state", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'tests' / 'support'}", "KILLED_AT": "k2"}
    done = subprocess.run(
        words, cwd=root, env=environment, timeout=DEADLINE_S, check=False, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL, done.stderr[-2000:]
    attempts = list((tmp_path / "run-2" / "stage=0" / "_attempts").glob("*/*.json"))
    assert attempts, "no task was done before the kill"
    result = run(tmp_path, 2, last)
    assert table(result) == totals(*DAYS[:3])
    run_text = (tmp_path / "run-2" / "run.json").read_text()
    assert table(run(tmp_path, 2, last)) == table(result)
    assert (tmp_path / "run-2" / "run.json").read_text() == run_text
    assert table(run(tmp_path, 3, result)) == totals(*DAYS)


def test_a_directory_of_the_format_before_is_continued(tmp_path: Path) -> None:
    """That of a run with an initial state says version 2, and has all rows."""
    first = run(tmp_path, 0, None, state_bytes=64 << 20)
    second = run(tmp_path, 1, first, state_bytes=64 << 20)
    path = tmp_path / "run-1" / "run.json"
    text = json.loads(path.read_text())
    assert (text["version"], json.loads((tmp_path / "run-0" / "run.json").read_text())["version"]) == (3, 2)
    path.write_text(json.dumps({**text, "version": 2}))
    assert table(run(tmp_path, 2, second)) == totals(*DAYS[:3])
    assert table(run(tmp_path, 1, first)) == totals(*DAYS[:2])
    assert json.loads(path.read_text())["version"] == 3


def test_a_base_takes_changes_of_less_than_half_of_its_rows_in_a_number_of_files() -> None:
    def takes(changed: int, files: int) -> bool:
        names = tuple(map(str, range(files)))
        task = EarlierTask(StateFiles((), ("base",), names), {}, {"log": 90}, {"log": Based(100, 40, 500)}, {})
        return task.takes({"log": changed})

    assert takes(10, CHANGES_MOST - 1)
    assert not takes(11, 1)
    assert not takes(1, CHANGES_MOST)
