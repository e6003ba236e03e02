"""A day of a backfill that continues with the state of the day before, of which it changes a small part.

    python -m benchmarks chained [ROWS] [--touched N] [--partitions N] [--engine local[2]] [--days N]

The first day counts ROWS keys once each. Every other day counts N of them, drawn at random, and begins with the state
of the day before. Prints for each day the seconds, those of processor time of all processes, and the bytes that it
wrote: of the files in the run directory, those that no earlier run has.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_backfill import LAKE, own_processes
from benchmarks.histories import counted
from streams.spark import Backfill, BackfillResult, History
from streams.spark.executor.murmur2 import partitions_of_keys

BEGIN_MS = 1_700_000_000_000
DAY_MS = 86_400_000
ROW_GROUP = 100_000


class Days:
    """Writes the histories of days, a file for each partition of a day, with offsets that rise over all days."""

    def __init__(self, root: Path, keys: int, partitions: int) -> None:
        self._root = root
        self._names = pa.array([b"k%09d" % number for number in range(keys)], pa.binary())
        self._places = partitions_of_keys(self._names, partitions)
        self._ends = np.zeros(partitions, dtype=np.int64)

    def write(self, day: int, chosen: np.ndarray) -> Path:
        """Writes a day with one record of each of some keys."""
        path = self._root / f"day-{day}"
        path.mkdir()
        for partition in range(len(self._ends)):
            own = chosen[self._places[chosen] == partition]
            offsets = self._ends[partition] + np.arange(len(own))
            self._ends[partition] += len(own)
            times = BEGIN_MS + day * DAY_MS + np.arange(len(own))
            columns = [np.full(len(own), partition), offsets, times, self._names.take(pa.array(own))]
            rows = pa.table([*columns, pa.array([b"x" * 60] * len(own), pa.binary())], schema=LAKE)
            pq.write_table(rows, path / f"{partition:03d}.parquet", row_group_size=ROW_GROUP)
        return path


def written(path: Path) -> tuple[int, int]:
    """Returns the bytes of the files of a run that no earlier one has, and of all its files."""
    sizes = [one.stat() for one in path.rglob("*") if one.is_file()]
    return sum(one.st_size for one in sizes if one.st_nlink == 1), sum(one.st_size for one in sizes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=5_000_000)
    parser.add_argument("--touched", type=int, default=10_000, help="keys that a day changes")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--engine", default="local[2]")
    parser.add_argument("--days", type=int, default=4, help="the number of days, with the first")
    given = parser.parse_args()
    chance = np.random.default_rng(7)
    with tempfile.TemporaryDirectory(prefix="chained-bench-") as folder:
        root = Path(folder)
        days = Days(root, given.rows, given.partitions)
        last: BackfillResult | None = None
        for day in range(given.days):
            chosen = chance.permutation(given.rows)[: given.rows if day == 0 else given.touched]
            history = History.parquet(None, str(days.write(day, chosen)))
            run_dir = root / f"run-{day}"
            backfill = Backfill(
                None, counted, {"in": history}, application_id="bench", run_dir=run_dir, initial_state=last,
                partitions={"in": given.partitions, "out": given.partitions}, outputs="none", engine=given.engine,
            )  # fmt: skip
            before, begin = own_processes(), time.perf_counter()
            last = backfill.run()
            wall, after = time.perf_counter() - begin, own_processes()
            used = sum(one[1] for one in after.values()) - sum(one[1] for one in before.values())
            new, whole = written(run_dir)
            counts = last.stages[0].counts
            print(
                f"day {day}: {len(chosen):>10,} records, {counts['bench-counts-changelog']:,} rows of state:"
                f" {wall:6.2f} s, {used:6.2f} CPU s, {new / 2**20:8.1f} MiB written of {whole / 2**20:8.1f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
