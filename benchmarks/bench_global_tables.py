"""Global stores in a backfill: what it costs to fill them, and what each task pays to have them.

    python -m benchmarks global_tables [ROWS ...] [--tasks N] [--bytes N]

A task that fills its own copy, as it would without the files, beside one that opens what was filled once, the first of
its process or a later one; none reads a record. `lookup` is a read of a key that is there. Without Spark, in this
process: seconds of its processor time, the median of the tasks.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from processor_api.serde import Serdes
from streams import Consumed, StreamsBuilder
from streams.runtime.runner.options import RunnerOptions
from streams.runtime.runner.resources import RunnerResources
from streams.spark.backfill.global_filling import FillingJob, run_filling
from streams.spark.executor.global_tables import GlobalTables
from streams.spark.executor.rows import RowWriter, state_rows
from streams.spark.executor.shipped_topology import ship
from streams.spark.executor.task_input import rows_of_files
from streams.spark.runs.run_directory import RunDirectory

WRITTEN = 10_000
LOOKUPS = 100_000


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    texts = Consumed(key_serde=Serdes.STRING, value_serde=Serdes.STRING)
    builder.global_table("customers", texts, materialized="customers")
    builder.stream("events", texts).foreach(lambda key, value: None)
    return builder


def write_topic(directory: Path, rows: int, size: int) -> str:
    """Writes the records that fill the table, as a run has them; returns the path."""
    writer, order = RowWriter(directory), list(range(rows))
    random.Random(7).shuffle(order)
    for begin in range(0, rows, WRITTEN):
        some = [
            (b"customer-%09d" % n, b"%09d" % n + b"x" * (size - 9), n, None) for n in order[begin : begin + WRITTEN]
        ]
        writer.write("record", state_rows("customers", 0, some, range(begin, begin + len(some))))
    (kind,) = writer.finish()
    return str(directory / f"{kind}.parquet")


def spent(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(root: Path, rows: int, size: int, tasks: int) -> None:
    shipped = ship(topology, "bench", {}, dead_letters=False)
    files = {"customers": (write_topic(root / "topic", rows, size),)}
    directory = RunDirectory(root / "run")
    path = directory.global_tables_path()
    path.mkdir(parents=True)
    job = FillingJob(shipped=shipped, topics=files, attempts=str(directory.attempts_path(path)), start_ms=0)

    def fill() -> None:
        directory.complete(path, {"id": f"{rows}", "tasks": [run_filling(job, 0)]})

    filling = spent(fill)
    found = directory.done(path)
    assert found is not None
    tables = GlobalTables.of(path, found)
    lookups: list[float] = []
    rng = random.Random(1)
    keys = [f"customer-{rng.randrange(rows):09d}" for _ in range(LOOKUPS)]

    def open_tables(options: RunnerOptions) -> None:
        resources = RunnerResources(shipped.load(), shipped.config, options)
        store = resources.global_store("customers", "node")
        assert store is not None
        get, begin = store.facade.get, time.process_time()
        for key in keys:
            assert get(key) is not None
        lookups.append(time.process_time() - begin)
        resources.close()

    def task(options: Callable[[], RunnerOptions]) -> tuple[float, float]:
        """Returns what the first task of a process pays, and what the later ones do."""
        paid = []
        for _ in range(tasks):
            whole = spent(lambda: open_tables(options()))
            paid.append(whole - lookups[-1])
        return paid[0], statistics.median(paid[1:])

    def own() -> RunnerOptions:
        return RunnerOptions(global_rows={topic: rows_of_files(some) for topic, some in files.items()})

    first, later = task(own)
    look_own = min(lookups)
    lookups.clear()
    opened, reopened = task(lambda: RunnerOptions(filled_globals=tables.opening))
    where = "in memory" if all(one.in_memory for one in tables.engines.values()) else "table files"
    print(
        f"{rows:>9,} {where:>12} {filling:>9.2f} {min(first, later):>9.2f} {opened:>9.3f} {reopened:>9.3f}"
        f" {look_own / LOOKUPS * 1e6:>9.1f} {min(lookups) / LOOKUPS * 1e6:>9.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", type=int, default=[100_000, 300_000, 1_000_000])
    parser.add_argument("--tasks", type=int, default=3, help="how many tasks one after the other")
    parser.add_argument("--bytes", type=int, default=60, help="of a value")
    given = parser.parse_args()
    print("processor time in s:             filled   a task   a task   another   lookup   lookup")
    print("     rows        where        once  by itself    first            us, own   us, now")
    for rows in given.rows:
        root = Path(tempfile.mkdtemp(prefix="global-bench-"))
        try:
            measure(root, rows, given.bytes, given.tasks)
        finally:
            shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
